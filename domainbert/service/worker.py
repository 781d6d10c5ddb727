"""Worker: runs one task for the requests of a service, in batches."""

from __future__ import annotations

import copy
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from threading import Condition
from typing import Any

import torch

from domainbert.scoring.driver import AnyTask, score_items
from domainbert.scoring.task import Plan, make_plan, together
from domainbert.tables.rows import Row, cell_of

Record = Mapping[str, object]
OutputRows = list[dict[str, Any]]
WAIT_SECONDS = 0.010  # for more requests, from the arrival of the first
# About twice the tokens of a CPU's batch, so that little of a batch is padding.
BATCH_CHARACTERS = 32_768
LONG_CHARACTERS = 4096  # a request of more characters is long
# Each slot is half of the cores: a short request takes one, a long request takes both.
SLOTS = 2


@dataclass
class _Request:
    """The items of a request, and where their results will be."""

    items: list[object]
    characters: int
    arrived_at: float = field(default_factory=time.monotonic)
    results: Future[list[object]] = field(default_factory=Future)

    @property
    def slots(self) -> int:
        return SLOTS if self.characters > LONG_CHARACTERS else 1


class Worker:
    """Runs one task for requests from many threads.

    Short requests that arrive together are one batch. Two batches of short requests run at a time,
    which keeps the cores busy while one of them is read or written. A long request waits until it
    has all cores, and no later request overtakes it.

    Args:
        task: the task.
        show_queue: called with the number of requests that wait, whenever it changes.
    """

    def __init__(
        self,
        task: AnyTask,
        show_queue: Callable[[int], None],
    ) -> None:
        self.task = task
        self._show_queue = show_queue
        self._cores = torch.get_num_threads()
        self._queue: deque[_Request] = deque()
        self._used_slots = 0
        self._changed = Condition()
        self._threads = ThreadPoolExecutor(max_workers=SLOTS)

    def score(
        self,
        records: Sequence[Record],
        seconds: float,
    ) -> OutputRows:
        """The output rows of records, as from `score_frame`, with None for NaN and infinity.

        Raises:
            TableError: a required column is missing.
            TimeoutError: not done within `seconds`.
        """
        n_characters = sum(map(count_characters, records))

        def run(items: Iterable[object]) -> Iterator[object]:
            request = _Request(list(items), n_characters)
            return iter(self._results(request, seconds))

        # The driver runs the task as always, except that the queue runs its items.
        task: Any = copy.copy(self.task)
        task.run = run
        plan = self.plan(records)
        items = together(_rows(records), plan)
        rows = chain.from_iterable(score_items(task, plan, items))
        return [_as_json(row, plan.schema.names) for row in rows]

    def plan(self, records: Sequence[Record]) -> Plan:
        """The columns of records, and which of them the task reads."""
        names = dict.fromkeys(name for record in records for name in record)
        return make_plan(self.task, list(names), source="the request")

    def _results(self, request: _Request, seconds: float) -> list[object]:
        """Queue a request and wait for its results."""
        with self._changed:
            self._queue.append(request)
            self._show_queue(len(self._queue))
        self._threads.submit(self._work)
        try:
            return request.results.result(timeout=seconds)
        finally:
            request.results.cancel()

    def _work(self) -> None:
        """Run the next batch, if an earlier call has not run it; called for each request."""
        self._wait_for_company()
        with self._changed:
            # The first request of the queue needs its slots.
            self._changed.wait_for(
                lambda: (
                    not self._queue
                    or self._used_slots + self._queue[0].slots <= SLOTS
                )
            )
            if not self._queue:
                return
            batch = self._next_batch()
            slots = batch[0].slots
            self._used_slots += slots
            cores = self._cores * slots // self._used_slots
            torch.set_num_threads(max(1, cores))  # of this thread
        try:
            self._run(
                [r for r in batch if r.results.set_running_or_notify_cancel()]
            )
        finally:
            with self._changed:
                self._used_slots -= slots
                self._changed.notify_all()

    def _wait_for_company(self) -> None:
        """Wait a moment for more requests, unless the queue already fills a batch."""
        queue = list(self._queue)
        if not queue or _is_full(queue):
            return
        deadline = queue[0].arrived_at + WAIT_SECONDS
        time.sleep(max(0.0, deadline - time.monotonic()))

    def _next_batch(self) -> list[_Request]:
        """Take the first request off the queue, and after a short one more short ones."""
        batch = [self._queue.popleft()]
        while self._queue and batch[0].slots == self._queue[0].slots == 1:
            if _is_full(batch):
                break
            batch.append(self._queue.popleft())
        self._show_queue(len(self._queue))
        return batch

    def _run(self, batch: list[_Request]) -> None:
        """Run the task on a batch; after a failure each request is rerun singly."""
        items = [item for request in batch for item in request.items]
        try:
            results = iter(self.task.run(items))
            for request in batch:
                request.results.set_result(
                    [next(results) for _ in request.items]
                )
        # A tokenizer that panics raises no Exception, and must not end the thread.
        except BaseException as error:  # noqa: BLE001
            unanswered = [
                request for request in batch if not request.results.done()
            ]
            if len(batch) > 1:
                for request in unanswered:
                    self._run([request])
                return
            if not isinstance(error, Exception):
                error = RuntimeError("a library panicked")
            for request in unanswered:
                request.results.set_exception(error)


def _is_full(batch: Sequence[_Request]) -> bool:
    n_characters = sum(request.characters for request in batch)
    return n_characters >= BATCH_CHARACTERS


def count_characters(record: Record) -> int:
    """Characters of the texts in a record, including those in lists."""
    total = 0
    for value in record.values():
        texts = value if isinstance(value, list) else [value]
        total += sum(len(text) for text in texts if isinstance(text, str))
    return total


def _rows(records: Sequence[Record]) -> Iterator[Row]:
    """Records as rows of a table."""
    for number, record in enumerate(records):
        cells = {name: cell_of(value) for name, value in record.items()}
        yield Row(number, cells, f"record {number}")


def _as_json(row: Record, columns: Sequence[str]) -> dict[str, object]:
    """A row with None for NaN and infinity, which JSON does not have."""
    cells = {name: row.get(name) for name in columns}
    for name, value in cells.items():
        if isinstance(value, float) and not math.isfinite(value):
            cells[name] = None
    return cells
