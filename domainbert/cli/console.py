"""What the command lines share: the application, messages and exit codes."""

import functools
import io
import os
import re
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

import typer
from rich.table import Column, Table

from domainbert import __version__
from domainbert.errors import UserError
from domainbert.progress import STOP_SIGNALS, Terminal, stderr

# An argument in a message: `resume=True`, `encoding='cp1252'`, `named={'text': 'NAME'}`.
_ARGUMENT = re.compile(r"`\w++=[^`]++`")
_OPTIONS = {  # whose names are not those of the arguments
    "named={'chart_time': ": "time=",
    "named={'note_id': ": "note=",
    "named={'patient_id': ": "patient=",
    "named={'stay_id': ": "stay=",
    "named={'text': ": "text=",
    "form=": "format=",
    "labels=": "label=",
    "named=": "column=",
    "note_id=": "note=",
    "patient_id=": "patient=",
    "stay_id=": "stay=",
}

P = ParamSpec("P")
R = TypeVar("R")

# Exit codes; usage errors exit 2, and signals 128 + their number.
FAILED = 1
BUG = 70

stdout = Terminal(highlight=False)


class _Application(typer.Typer):
    """Commands that print ? for what the encoding of the terminal or file does not have."""

    def __call__(self, *args: object, **options: object) -> object:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        return super().__call__(*args, **options)


def command_line(name: str, about: str) -> typer.Typer:
    """A typer application called `name` with --version and `about` as its help."""
    app = _Application(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.callback(help=about, invoke_without_command=True)
    def main(
        *,
        version: Annotated[
            bool, typer.Option("--version", help="Print and exit.")
        ] = False,
    ) -> None:
        if version:
            stdout.print(f"{name} {__version__}")
            raise typer.Exit

    return app


def say(message: str, style: str = "") -> None:
    """Print one line to stderr, with options where the message names arguments of Python."""
    line = _ARGUMENT.sub(_as_options, message.replace("\n", " "))
    stderr.print(line, soft_wrap=True, style=style)


def _as_options(match: re.Match[str]) -> str:
    """The options that mean an argument, such as --encoding cp1252."""
    argument = match[0].strip("`")
    for theirs, ours in _OPTIONS.items():
        argument = argument.replace(theirs, ours)
    name, _, literal = argument.partition("=")
    option = f"--{name.replace('_', '-')}"
    values = re.findall(r"'([^']*)'", literal.replace("': '", "="))
    words = [f"{option} {shlex.quote(value)}" for value in values]
    return " ".join(words) or option


def print_table(
    rows: Iterable[Sequence[object]],
    head: Sequence[str],
    *,
    title: str = "",
) -> None:
    """Print a table to stdout."""
    columns = [Column(name, overflow="fold") for name in head]
    table = Table(*columns, title=title or None, title_justify="left")
    for row in rows:
        table.add_row(*(str(cell).replace("\n", " ") for cell in row))
    stdout.print(table)


def one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn what ends a command into one line on stderr and an exit code.

    A `UserError` or an `OSError` exits 1. Any other exception is a bug and exits 70 with its
    traceback, but without messages, which may quote a note. Ctrl-C, SIGTERM and SIGHUP close and
    clean up, and exit 128 + their number.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with _signals_interrupt():
                return command(*args, **kwargs)
        except (UserError, OSError) as error:
            say(f"error: {_reason(error)}", style="red")
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt as stop:
            stderr.print("stopped")
            raise typer.Exit(
                128 + next(iter(stop.args), signal.SIGINT)
            ) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:  # noqa: BLE001 - reported without its message
            _print_bug(error)
            raise typer.Exit(BUG) from None

    return wrapped


def _reason(error: Exception) -> str:
    """The message of an error; for a file, its name and the fault without its number."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise as Ctrl-C does, where they have their default effect."""
    owner = os.getpid()

    def stop(number: int, _: object) -> None:
        if os.getpid() == owner:
            signal.signal(number, signal.SIG_IGN)
            raise KeyboardInterrupt(number)
        # A forked worker ends without cleaning up for its parent.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    numbers = []
    if threading.current_thread() is threading.main_thread():
        numbers = [
            n for n in STOP_SIGNALS if signal.getsignal(n) == signal.SIG_DFL
        ]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _print_bug(error: Exception) -> None:
    """Print where an unexpected error arose, without its message, which may hold data."""
    for line in _frames(error):
        stderr.print(line, end="", soft_wrap=True)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    say(
        f"error: internal error, {type(error).__name__} at "
        f"{Path(frame.filename).name}:{frame.lineno}; please report these lines, "
        "which hold no data",
        style="red",
    )


def _frames(error: BaseException) -> Iterator[str]:
    """The traceback of an exception and of its causes, without messages and values."""
    cause = error.__cause__ or error.__context__
    if cause:
        yield from _frames(cause)
        yield "which led to\n"
    yield f"{type(error).__name__}\n"
    yield from traceback.format_tb(error.__traceback__)
