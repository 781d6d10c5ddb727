"""Meter: what a run does (windows, tokens, seconds by stage), counted where it happens."""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

OTHER = "other"


@dataclass
class Meter:
    """Counts of one run.

    Attributes:
        windows: that went through a network.
        tokens: of them, special ones included and padding not.
        cells: tokens and padding.
        cache_hits: windows whose scores were known.
        seconds: by stage; a stage within another one counts for itself alone, so that they add
            up to the time of the run.
    """

    windows: int = 0
    tokens: int = 0
    cells: int = 0
    cache_hits: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    _stage: str = OTHER
    _since: float = field(default_factory=time.perf_counter)

    def switch(self, stage: str) -> str:
        """Count the time until now for the stage that ends here, and return its name."""
        now, before = time.perf_counter(), self._stage
        self.seconds[before] = self.seconds.get(before, 0.0) + now - self._since
        self._stage, self._since = stage, now
        return before


# A thread that was not started for this run sees no meter, and counts nothing.
_current: ContextVar[Meter | None] = ContextVar("meter", default=None)


@contextmanager
def metered() -> Iterator[Meter]:
    """Count what happens in the block, in this thread."""
    meter = Meter()
    token = _current.set(meter)
    try:
        yield meter
    finally:
        _current.reset(token)
        meter.switch(OTHER)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Time the block as a stage of the run, if there is one."""
    meter = _current.get()
    if meter is None:
        yield
        return
    before = meter.switch(name)
    try:
        yield
    finally:
        meter.switch(before)


def timed(items: Iterable[T], name: str) -> Iterator[T]:
    """The same items; waiting for the next one is a stage of the run."""
    iterator, done = iter(items), object()
    while True:
        with stage(name):
            item: Any = next(iterator, done)
        if item is done:
            return
        yield item


def count_batch(*, windows: int, tokens: int, cells: int) -> None:
    """Count a batch that goes through a network."""
    if (meter := _current.get()) is not None:
        meter.windows += windows
        meter.tokens += tokens
        meter.cells += cells


def count_hits(number: int) -> None:
    """Count windows whose scores were in a cache."""
    if (meter := _current.get()) is not None:
        meter.cache_hits += number
