"""Progress bars on stderr for long computations, and the signals that stop these."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

if TYPE_CHECKING:
    from rich.text import Text

Item = TypeVar("Item")
ESTIMATE_SECONDS = 300  # steps may come in bursts
# Requests to stop besides Ctrl-C; Windows has no SIGHUP.
STOP_SIGNALS = {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}


class Terminal(Console):
    """Prints text as it is, also in tables: no markup and no control sequences."""

    def render_str(self, text: str, **options: Any) -> Text:
        """A text without what is not printable."""
        printable = "".join(
            char if char.isprintable() or char in "\n\t" else " "
            for char in text
        )
        return super().render_str(
            printable,
            **options | {"markup": False, "emoji": False},
        )


# Bars and messages share one console, so that a message does not tear a bar apart.
stderr = Terminal(stderr=True, highlight=False)


@contextmanager
def progress(
    description: str,
    *,
    total: int | None = None,
) -> Iterator[Callable[..., None]]:
    """A progress bar on stderr, moved by `advance(n, total)`; hidden without a terminal."""
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    with Progress(
        *Progress.get_default_columns(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=stderr,
        disable=not sys.stderr.isatty(),
        speed_estimate_period=ESTIMATE_SECONDS,
    ) as bar:
        task = bar.add_task(description, total=total)
        yield lambda n, total=total: bar.update(
            task,
            advance=n,
            total=total,
        )


def counted(
    items: Iterable[Item],
    *,
    what: str,
    total: int | None = None,
) -> Iterator[Item]:
    """The same items, counted by a progress bar."""
    with progress(what, total=total) as advance:
        for item in items:
            yield item
            advance(1)
