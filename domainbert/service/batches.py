"""Micro-batches: the items of requests that come at the same time are scored together."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from domainbert.scoring import Task
from domainbert.scoring.driver import score_items
from domainbert.scoring.plan import grouped, make_plan
from domainbert.tables import Row, id_text, is_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

WAIT_SECONDS = 0.010  # for company
BATCH_CHARACTERS = 16_384  # about the tokens that fill a CPU's batch


@dataclass
class _Job:
    """The items of one request, which wait for their results."""

    items: list[Any]
    characters: int
    since: float = field(default_factory=time.monotonic)
    done: Future[list[Any]] = field(default_factory=Future)


class Worker:
    """A thread that runs one task for all requests.

    Args:
        task: to run.
        seen: called with (items, seconds) after each batch.
    """

    def __init__(self, task: Task, *, seen: Any = lambda items, seconds: None) -> None:
        self.task, self._seen = task, seen
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True, name=f"batch-{task.name}")
        self._thread.start()

    def close(self) -> None:
        """Finish what waits, then end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def score(
        self, records: Sequence[Mapping[str, Any]], *, seconds: float = 60.0
    ) -> list[dict[str, Any]]:
        """The output rows of records, as `score_frame` makes them of a table's rows.

        Raises:
            TableError: a column that is needed is not there.
            TimeoutError: not done within `seconds`.
        """
        names = list(dict.fromkeys(name for record in records for name in record))
        shared = _Shared(self, until=time.monotonic() + seconds)
        plan = make_plan(shared, names, source="the request")
        rows = [
            Row(n, {name: _cell(value) for name, value in record.items()}, f"record {n}")
            for n, record in enumerate(records)
        ]
        first: dict[str | None, int] = {}
        keys = [plan.key(row) for row in rows]
        order = [n if k is None else first.setdefault(k, n) for n, k in enumerate(keys)]
        rows = [rows[n] for n in sorted(range(len(rows)), key=order.__getitem__)]
        shared.characters = sum(map(characters, records))
        made = score_items(shared, plan, list(grouped(rows, plan)))
        return [
            {name: row.get(name) for name in plan.schema.names} for item in made for row in item
        ]

    def run(self, items: list[Any], *, characters: int, until: float) -> list[Any]:
        """The results of items, computed along with those of other requests."""
        job = _Job(items, characters)
        self._jobs.put(job)
        try:
            return job.done.result(timeout=max(0.0, until - time.monotonic()))
        except TimeoutError:
            job.done.cancel()
            raise

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
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
        started = time.monotonic()
        try:
            results = iter(self.task.run([item for job in jobs for item in job.items]))
            for job in jobs:
                job.done.set_result([next(results) for _ in job.items])
        except Exception as error:  # noqa: BLE001  (it is the request's, not the worker's)
            left = [job for job in jobs if not job.done.done()]
            if len(jobs) == 1:
                left[0].done.set_exception(error)
            else:  # one request's fault is not the others'
                for job in left:
                    self._run([job])
            return
        self._seen(sum(len(job.items) for job in jobs), time.monotonic() - started)


class _Shared(Task):
    """A task for one request, whose items run along with those of others."""

    name = "shared"

    def __init__(self, worker: Worker, *, until: float) -> None:
        self._worker, self._until, self._task = worker, until, worker.task
        self.columns, self.group = self._task.columns, self._task.group
        self.characters = 0

    @property
    def output(self) -> pa.Schema:
        return self._task.output

    def read(self, rows: Sequence[Row]) -> Any:
        return self._task.read(rows)

    def run(self, items: Iterable[Any]) -> Iterator[Any]:
        given = list(items)
        if not given:
            return iter(())
        return iter(self._worker.run(given, characters=self.characters, until=self._until))

    def rows(self, item: Any, result: Any) -> Sequence[Mapping[str, object]]:
        return self._task.rows(item, result)

    def facts(self) -> Mapping[str, object]:
        return self._task.facts()


def characters(record: Mapping[str, Any]) -> int:
    """Characters of the texts in a record, those in lists included."""
    values = (v if isinstance(v, list) else [v] for v in record.values())
    return sum(len(text) for texts in values for text in texts if isinstance(text, str))


def _cell(value: Any) -> Any:
    """A value of JSON as a cell: numbers become text, lists and objects stay."""
    if isinstance(value, str):
        return value or None
    if is_missing(value):
        return None
    return value if isinstance(value, list | dict) else id_text(value)
