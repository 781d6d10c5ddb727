"""What the command lines share: messages and bars on stderr, one-line errors, exit codes."""

from __future__ import annotations

import functools
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import typer
from rich.console import Console

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

P = ParamSpec("P")
R = TypeVar("R")

stderr = Console(stderr=True, highlight=False)
stdout = Console(highlight=False)


def say(message: str) -> None:
    """One line for the person at the terminal."""
    stderr.print(message, markup=False, soft_wrap=True)


def one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """End a command that fails with one line that says why, and exit code 1.

    What the user can mend is a `UserError` or an OSError (a file that is not there). Anything else
    is a bug and keeps its traceback.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (UserError, OSError) as error:
            stderr.print(f"error: {_reason(error)}", markup=False, soft_wrap=True, style="red")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            stderr.print("stopped")
            raise typer.Exit(130) from None

    return wrapped


def _reason(error: Exception) -> str:
    """What it says; of a file that the system refuses, its name and why, without its number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)


@contextmanager
def progress(what: str, *, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A bar on stderr that is moved by `advance(n, total)`; nothing where stderr is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    quiet = not sys.stderr.isatty()
    with Progress(*columns, TimeElapsedColumn(), console=stderr, disable=quiet) as bar:
        task = bar.add_task(what, total=total)
        yield lambda n, total=total: bar.update(task, advance=n, total=total)


def counted(items: Iterable[R], *, what: str, total: int | None = None) -> Iterator[R]:
    """The same items, with a bar that counts them."""
    with progress(what, total=total) as advance:
        for item in items:
            yield item
            advance(1)
