"""What the command lines share: the application, messages and exit codes."""

from __future__ import annotations

import functools
import os
import signal
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
from domainbert.progress import Terminal, stderr

P = ParamSpec("P")
R = TypeVar("R")

FAILED, BUG = 1, 70  # exit codes; usage errors exit 2, signals 128 + their number


stdout = Terminal(highlight=False)


def command_line(name: str, about: str) -> typer.Typer:
    """A typer application called `name` with --version and `about` as its help."""
    app = typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
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


def say(message: str) -> None:
    """Print one line to stderr."""
    stderr.print(message.replace("\n", " "), soft_wrap=True)


def print_table(
    rows: Iterable[Sequence[object]], head: Sequence[str], *, title: str = ""
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
            file, why = (
                getattr(error, "filename", None),
                getattr(error, "strerror", None),
            )
            _print_error(
                f"{file}: {why.lower()}" if file is not None and why else str(error)
            )
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt as stop:
            stderr.print("stopped")
            raise typer.Exit(128 + next(iter(stop.args), signal.SIGINT)) from None
        except Exception as error:
            if isinstance(error, typer.Exit | typer.Abort | _USAGE_ERROR):
                raise
            _print_bug(error)
            raise typer.Exit(BUG) from None

    return wrapped


_USAGE_ERROR = typer.BadParameter.__mro__[
    2
]  # typer has no public name for click's base class


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise as Ctrl-C does, where they have their default effect."""
    owner = os.getpid()

    def stop(number: int, _: object) -> None:
        if os.getpid() == owner:
            signal.signal(number, signal.SIG_IGN)
            raise KeyboardInterrupt(number)
        signal.signal(
            number, signal.SIG_DFL
        )  # a forked worker ends without cleaning up for us
        os.kill(os.getpid(), number)

    in_main = threading.current_thread() is threading.main_thread()
    hangup = getattr(signal, "SIGHUP", signal.SIGTERM)  # Windows has none
    both = {signal.SIGTERM, hangup} if in_main else ()
    numbers = [number for number in both if signal.getsignal(number) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _print_error(reason: str) -> None:
    stderr.print(f"error: {reason}".replace("\n", " "), soft_wrap=True, style="red")


def _print_bug(error: Exception) -> None:
    for line in _frames(error):
        stderr.print(line, end="", soft_wrap=True)
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
    _print_error(
        f"internal error, {place}; please report these lines, which hold no data"
    )


def _frames(error: BaseException) -> Iterator[str]:
    """The traceback of an exception and of its causes, without messages and values."""
    before = error.__cause__ or error.__context__
    if before is not None:
        yield from _frames(before)
        yield "which led to\n"
    yield f"{type(error).__name__}\n"
    yield from traceback.format_tb(error.__traceback__)
