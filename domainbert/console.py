"""What the command lines share: the application, messages, progress bars and exit codes."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console

from domainbert import __version__
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

P = ParamSpec("P")
R = TypeVar("R")

FAILED, BUG = 1, 70  # exit codes; usage errors exit 2, signals 128 + their number
DEBUG = "DOMAINBERT_DEBUG"

stderr = Console(stderr=True, highlight=False)
stdout = Console(highlight=False)


def command_line(name: str, about: str) -> typer.Typer:
    """A typer application with --version and --debug.

    Args:
        name: of the command.
        about: one line of help.
    """
    app = typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=about
    )

    def show_version(asked: bool) -> None:  # noqa: FBT001  (typer passes it by position)
        if asked:
            stdout.print(f"{name} {__version__}")
            raise typer.Exit

    show = typer.Option("--version", callback=show_version, is_eager=True, help="Print and exit.")
    explain = typer.Option("--debug", help=f"Show where an internal error happened ({DEBUG}=1).")

    def main(*, version: bool = False, debug: bool = False) -> None:
        del version
        if debug:
            os.environ[DEBUG] = "1"

    main.__annotations__ = {"version": Annotated[bool, show], "debug": Annotated[bool, explain]}
    app.callback(help=about)(main)
    return app


def say(message: str) -> None:
    """Print one line to stderr."""
    stderr.print(message, markup=False, soft_wrap=True)


def one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn what ends a command into one line on stderr and an exit code.

    A `UserError` or an `OSError` exits 1. Any other exception is a bug: it exits 70, and its line
    has the type and place only, because a message may quote a note; `--debug` adds the traceback,
    also without messages. Ctrl-C, SIGTERM and SIGHUP end the command in the same way: what it has
    opened is closed and its temporaries are removed; the exit code is 128 + the signal's number.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with _signals_interrupt():
                return command(*args, **kwargs)
        except (UserError, OSError) as error:
            _print_error(_reason(error))
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt as stop:
            stderr.print("stopped")
            number = stop.args[0] if isinstance(stop, _Stopped) else signal.SIGINT
            raise typer.Exit(128 + number) from None
        except Exception as error:
            if isinstance(error, typer.Exit | typer.Abort | _USAGE_ERROR):
                raise
            _print_bug(error)
            raise typer.Exit(BUG) from None

    return wrapped


_USAGE_ERROR = typer.BadParameter.__mro__[2]  # typer has no public name for click's base class


class _Stopped(KeyboardInterrupt):
    """A signal that ends the process, handled as Ctrl-C is; its argument is the number."""


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise, once each, where they have their default effect."""
    owner = os.getpid()

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN if os.getpid() == owner else signal.SIG_DFL)
        if os.getpid() != owner:  # a forked worker ends as it would have without us
            os.kill(os.getpid(), number)
            return
        raise _Stopped(number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    numbers = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _print_error(reason: str) -> None:
    line = f"error: {reason}".replace("\n", " ")
    stderr.print(line, markup=False, soft_wrap=True, style="red")


def _reason(error: Exception) -> str:
    """The message; for a file that the system refuses, its name and why."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)


def _print_bug(error: Exception) -> None:
    if os.environ.get(DEBUG, "0") not in ("", "0"):
        for line in _frames(error):
            stderr.print(line, end="", markup=False, soft_wrap=True)
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    _print_error(
        f"internal error, {type(error).__name__} at {place}; run it again with --debug before the "
        "command's name and report what it prints, which holds no data"
    )


def _frames(error: BaseException) -> Iterator[str]:
    """The traceback of an exception and of its causes, without messages and values."""
    before = error.__cause__ or error.__context__
    if before is not None:
        yield from _frames(before)
        yield "which led to\n"
    yield f"{type(error).__name__}\n"
    yield from traceback.format_tb(error.__traceback__)


@contextmanager
def progress(what: str, *, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A progress bar on stderr, moved by `advance(n, total)`; hidden without a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    quiet = not sys.stderr.isatty()
    with Progress(*columns, TimeElapsedColumn(), console=stderr, disable=quiet) as bar:
        task = bar.add_task(what, total=total)
        yield lambda n, total=total: bar.update(task, advance=n, total=total)


def counted(items: Iterable[R], *, what: str, total: int | None = None) -> Iterator[R]:
    """The same items, counted by a progress bar."""
    with progress(what, total=total) as advance:
        for item in items:
            yield item
            advance(1)
