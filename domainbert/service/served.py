"""The models that a service offers, and the threads that run each of their tasks."""

from __future__ import annotations

import copy
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING, Any

from domainbert.encoders.loading import unknown_name
from domainbert.errors import UserError
from domainbert.models.storage import read_task_config, shipped_models

if TYPE_CHECKING:
    from domainbert.models.model import Model
    from domainbert.scoring.driver import AnyTask

TOLERANCE = 1e-5
WAIT_SECONDS = 0.010  # for other requests, from the arrival of the first
BATCH_CHARACTERS = (
    32_768  # about twice the tokens of a CPU's batch, so that little is padded
)
LONG_CHARACTERS = 4096  # a request of more is long


@dataclass(frozen=True)
class Served:
    """A loaded model and what it does.

    Attributes:
        model: its manifest has the example for the self-test, a record for the first task.
        tasks: last part of the address -> task, such as "readmission" for `/v1/readmission`.
        routes: (service, this) -> None; adds the package's own routes and forms.
    """

    model: Model
    tasks: Mapping[str, AnyTask]
    routes: Callable[[Any, Served], None] = lambda *_: None

    @property
    def name(self) -> str:
        """The last part of the name that was asked for."""
        return Path(self.model.name).name

    def self_test(self, score: Callable[..., Any]) -> str:
        """What is wrong with the answer to the example, or ""."""
        if not (example := self.model.manifest.get("example")):
            return ""
        row = score(next(iter(self.tasks)), [example["record"]])[0]
        known = example["row"].items()
        wrong = [c for c, v in known if not abs((row.get(c) or 0) - v) <= TOLERANCE]
        return f"{self.name}: {wrong[0]} of its card's example differs" if wrong else ""


@dataclass(frozen=True)
class Announced:
    """What an entry point gives: models for a task (as in their `config.json`) and their loader.

    `load` takes the name and `cache`, a file of window scores; `package` ships such models.
    """

    task: str
    package: str
    load: Callable[..., Served]

    def does(self, name: str) -> bool:
        """Whether a shipped model, or the one in a folder, is for this task."""
        folder = shipped_models(self.package).get(name, Path(name).expanduser())
        config = (
            read_task_config(folder) if (folder / "config.json").is_file() else None
        )
        return config is not None and config.task == self.task


def announced() -> list[Announced]:
    """All that the installed packages announce."""
    points = entry_points(group="domainbert.tasks")
    return [point.load() for point in sorted(points, key=lambda point: point.name)]


def find_kind(name: str, kinds: Iterable[Announced]) -> tuple[Announced, str]:
    """The kind of a model and its name: shipped, a folder, or `TASK=NAME`; else a `UserError`."""
    kinds, (task, equals, rest) = list(kinds), name.partition("=")
    for kind in kinds:
        if equals and task == kind.task:
            return kind, rest
        if kind.does(name):
            return kind, name
    shipped = sorted({n for kind in kinds for n in shipped_models(kind.package)})
    tasks = (
        ", ".join(sorted({kind.task for kind in kinds}))
        or "none announced: install again"
    )
    raise UserError(
        f"{unknown_name(name, shipped, kind='model')} Or write TASK=NAME ({tasks})."
    )


@dataclass
class _Job:
    items: list[Any]
    characters: int
    since: float = field(default_factory=time.monotonic)
    done: Future[list[Any]] = field(default_factory=Future)


class Worker:
    """Threads that run one task: the items of requests that come together are one batch.

    Two batches of short requests run side by side, the second on half of the cores; a long request
    waits until no other of its task runs. `seen` gets the number of items of each request.
    """

    def __init__(self, task: AnyTask, seen: Callable[[int], None]) -> None:
        import torch

        self.task, self._seen, self._cores = task, seen, torch.get_num_threads()
        self._use_cores = torch.set_num_threads  # of the calling thread
        self._waiting: deque[_Job] = deque()
        self._turn, self._busy = Condition(), 0  # halves of the cores in use
        self._threads = ThreadPoolExecutor(max_workers=2)

    def score(
        self, records: Sequence[Mapping[str, Any]], seconds: float
    ) -> list[dict[str, Any]]:
        """The output rows of records, as `score_frame` makes them; a number that is none is None.

        Raises:
            TableError: a column that is needed is not there.
            TimeoutError: not done within `seconds`.
        """
        from domainbert.scoring.driver import score_items
        from domainbert.scoring.task import make_plan, together
        from domainbert.tables.rows import Row, cell_of

        def run(items: Iterable[Any]) -> Iterator[Any]:
            job = _Job(list(items), sum(map(characters, records)))
            with (
                self._turn
            ):  # the next request stays the same while its cores are counted
                self._waiting.append(job)
            self._threads.submit(self._work)
            try:
                return iter(job.done.result(timeout=seconds))
            finally:
                job.done.cancel()

        task: Any = copy.copy(self.task)
        task.run = run
        plan = make_plan(
            task, list({n: 0 for r in records for n in r}), source="the request"
        )
        cells = [
            {name: cell_of(value) for name, value in record.items()}
            for record in records
        ]
        rows = [
            Row(number, each, f"record {number}") for number, each in enumerate(cells)
        ]
        made = [
            row
            for item in score_items(task, plan, together(rows, plan))
            for row in item
        ]
        return [
            {name: _finite(row.get(name)) for name in plan.schema.names} for row in made
        ]

    def _work(self) -> None:
        """Run what waits, up to a batch; what is left over has a call of its own."""
        waiting, jobs, left = list(self._waiting), list[_Job](), BATCH_CHARACTERS
        if waiting and sum(job.characters for job in waiting) < left:
            time.sleep(max(0.0, waiting[0].since + WAIT_SECONDS - time.monotonic()))
        with self._turn:
            halves = self._turn.wait_for(self._halves)
            while (
                self._waiting
                and left > 0
                and (not jobs or halves == self._halves() == 1)
            ):
                jobs.append(self._waiting.popleft())
                left -= jobs[-1].characters
            self._busy += halves
            self._use_cores(max(1, self._cores * halves // self._busy))
        if wanted := [job for job in jobs if job.done.set_running_or_notify_cancel()]:
            self._run(wanted)
        with self._turn:
            self._busy -= halves
            self._turn.notify_all()

    def _halves(self) -> int:
        """The halves of the cores that the next request is to have; 0 while they are in use."""
        halves = 1 + (
            bool(self._waiting) and self._waiting[0].characters > LONG_CHARACTERS
        )
        return halves if self._busy + halves <= 2 else 0

    def _run(self, jobs: list[_Job]) -> None:
        try:
            results = iter(self.task.run([item for job in jobs for item in job.items]))
            for job in jobs:
                job.done.set_result([next(results) for _ in job.items])
                self._seen(len(job.items))
        except BaseException as error:  # noqa: BLE001  (a panic of a tokenizer is one)
            why = (
                error
                if isinstance(error, Exception)
                else RuntimeError("a library panicked")
            )
            for job in [
                job for job in jobs if not job.done.done()
            ]:  # one's fault is its own
                if len(jobs) > 1:
                    self._run([job])
                else:
                    job.done.set_exception(why)


def characters(record: Mapping[str, Any]) -> int:
    """Characters of the texts in a record, those in lists included."""
    values = (v if isinstance(v, list) else [v] for v in record.values())
    return sum(len(text) for texts in values for text in texts if isinstance(text, str))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
