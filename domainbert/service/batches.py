"""Micro-batches: the items of requests that come at the same time are scored together."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from domainbert.scoring.driver import score_items
from domainbert.scoring.plan import grouped, make_plan
from domainbert.tables import Row, id_text, is_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from domainbert.scoring import Task

WAIT_SECONDS = 0.010  # for company
BATCH_CHARACTERS = 16_384  # about the tokens of a CPU's batch


@dataclass
class _Job:
    items: list[Any]
    characters: int
    since: float = field(default_factory=time.monotonic)
    done: Future[list[Any]] = field(default_factory=Future)


class _Shared:
    """A task whose `run` goes through a worker."""

    def __init__(self, task: Task, run: Callable[[Iterable[Any]], Iterator[Any]]) -> None:
        self._task, self.run = task, run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)


class Worker:
    """A thread that runs one task for all requests; `seen` gets the items of each, counted."""

    def __init__(self, task: Task, seen: Callable[[int], None]) -> None:
        self.task, self._seen = task, seen
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish what waits, then end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def score(self, records: Sequence[Mapping[str, Any]], seconds: float) -> list[dict[str, Any]]:
        """The output rows of records, as `score_frame` makes them; a number that is none is None.

        Raises:
            TableError: a column that is needed is not there.
            TimeoutError: not done within `seconds`.
        """
        until, size = time.monotonic() + seconds, sum(map(characters, records))
        shared: Any = _Shared(self.task, lambda items: self._run_shared(list(items), size, until))
        plan = make_plan(shared, list({n: 0 for r in records for n in r}), source="the request")
        cells = [{name: _cell(value) for name, value in record.items()} for record in records]
        rows = [Row(number, each, f"record {number}") for number, each in enumerate(cells)]
        first: dict[str, int] = {}  # rows of a group go to its first one
        keys = [plan.key(row) for row in rows]
        place = [n if key is None else first.setdefault(key, n) for n, key in enumerate(keys)]
        rows.sort(key=lambda row: place[row.number])
        made = score_items(shared, plan, list(grouped(rows, plan)))
        names = plan.schema.names
        return [{name: _finite(row.get(name)) for name in names} for item in made for row in item]

    def _run_shared(self, items: list[Any], size: int, until: float) -> Iterator[Any]:
        job = _Job(items, size)
        self._jobs.put(job)
        try:
            return iter(job.done.result(timeout=max(0.0, until - time.monotonic())))
        except TimeoutError:
            job.done.cancel()
            raise

    def _work(self) -> None:
        while job := self._jobs.get():
            jobs, size, end = [job], job.characters, job.since + WAIT_SECONDS
            while size < BATCH_CHARACTERS:
                try:
                    more = self._jobs.get(timeout=max(0.0, end - time.monotonic()))
                except Empty:
                    break
                if more is None:
                    self._jobs.put(None)
                    break
                jobs.append(more)
                size += more.characters
            self._run([job for job in jobs if job.done.set_running_or_notify_cancel()])

    def _run(self, jobs: list[_Job]) -> None:
        try:
            results = iter(self.task.run([item for job in jobs for item in job.items]))
            for job in jobs:
                job.done.set_result([next(results) for _ in job.items])
                self._seen(len(job.items))
        except Exception as error:  # noqa: BLE001  (it is the request's, not the worker's)
            left = [job for job in jobs if not job.done.done()]
            for job in left:  # one request's fault is not the others'
                if len(jobs) > 1:
                    self._run([job])
                else:
                    job.done.set_exception(error)


def characters(record: Mapping[str, Any]) -> int:
    """Characters of the texts in a record, those in lists included."""
    values = (v if isinstance(v, list) else [v] for v in record.values())
    return sum(len(text) for texts in values for text in texts if isinstance(text, str))


def _cell(value: Any) -> Any:
    if isinstance(value, str | list | dict):
        return value or None
    return None if is_missing(value) else id_text(value)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
