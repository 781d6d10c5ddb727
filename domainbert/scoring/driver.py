"""The driver: scores tables with any task, with a status and a reason for every row."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from domainbert import __version__
from domainbert.errors import UserError
from domainbert.progress import STOP_SIGNALS
from domainbert.scoring.store import RunStore
from domainbert.scoring.task import (
    Fault,
    OutputRow,
    Plan,
    Survey,
    Task,
    gathered,
    grouped,
    make_plan,
    survey,
    together,
)
from domainbert.streams import chunked, read_ahead
from domainbert.tables import (
    ReadOptions,
    Row,
    TableError,
    iter_rows,
    table_columns,
    to_frame,
)
from domainbert.tables.rows import FIRST_LINES, frame_rows, spooled

if TYPE_CHECKING:
    import pandas as pd


AnyTask = Task[Any, Any]
# The rows of an item, and its output.
_Scored = tuple[Sequence[Row], list[OutputRow]]

LEAST_CHARACTERS = 250  # that an item counts as


@dataclass
class Counts:
    """The numbers of a run.

    Attributes:
        rows: input rows.
        remarks: input rows by what was noticed while they were read, such as undecodable bytes.
        done: input rows that an earlier run has scored.
        made: output rows of this run.
        written: output rows of the table.
        items: number of items of the table, by status.
    """

    rows: int = 0
    remarks: Counter[str] = field(default_factory=Counter)
    done: int = 0
    made: int = 0
    written: int = 0
    items: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        """One line for the person at the terminal."""
        line = f"{self.rows:,} rows in"
        if self.done:
            line += f" ({self.done:,} done earlier)"
        for remark, n in self.remarks.items():
            line += f", {n} with {remark}"
        line += f", {self.written:,} rows out: "
        statuses = ", ".join(
            f"{n:,} {status}" for status, n in sorted(self.items.items())
        )
        return line + (statuses or "nothing was scored")

    def summary(self) -> dict[str, object]:
        """The numbers of the table, with the version and the time; see docs/scale.md."""
        return {
            "version": __version__,
            "finished": time.time(),
            "rows": self.rows,
            "rows_done_earlier": self.done,
            "remarks": dict(self.remarks),
            "rows_out": self.written,
            "items": dict(self.items),
        }


def score_frame(
    task: AnyTask,
    frame: pd.DataFrame,
    *,
    named: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
) -> pd.DataFrame:
    """Score a DataFrame.

    Args:
        task: what to do with each row or group of rows.
        frame: a table with the columns of the task.
        named: our column -> the frame's column, if its name is not recognised.
        keep: further columns to copy to the output, as text.

    Returns:
        The id columns, the task's columns, `status` (ok, empty or error) and `reason`; at least
        one row for each item, in order of first appearance.

    Raises:
        TableError: a required column is missing.
        UserError: not a DataFrame.
    """
    if not hasattr(frame, "iloc"):
        module = type(frame).__module__.partition(".")[0]
        fix = ""
        if hasattr(frame, "to_pandas"):  # of polars, Arrow, or Spark on pandas
            fix = "; give frame.to_pandas()"
        raise UserError(
            f"expected a pandas DataFrame, got {module}.{type(frame).__name__}{fix}"
        )
    names = [str(name) for name in frame.columns]
    plan = make_plan(task, names, named=named, keep=keep, source="the table")
    tables = score_chunks(task, plan, together(frame_rows(frame), plan))
    return to_frame(pa.concat_tables([plan.schema.empty_table(), *tables]))


def score_chunks(
    task: AnyTask,
    plan: Plan,
    items: Iterable[list[Row]],
) -> Iterator[pa.Table]:
    """Score items into tables of about a part each."""
    for chunk in chunked(items, size=_size, limit=task.part_characters):
        rows = chain.from_iterable(score_items(task, plan, chunk))
        yield plan.to_table(list(rows))


def score_file(
    task: AnyTask | Callable[[], AnyTask],
    source: str | Path,
    out: str | Path,
    *,
    named: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
    options: ReadOptions | None = None,
    restart: bool = False,
    raw: bool = False,
    summary: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, rows: None,
) -> Counts:
    """Score a source into a table, in memory bounded by the size of a part.

    The source is read twice: to survey it, and to score it; a query runs once. The same call
    resumes a run that was stopped, without scoring its items again. On Ctrl-C (and SIGTERM),
    items that have been started are finished, for at most ten seconds.

    Args:
        task: see `score_frame`; or a function that loads the task, called after the input has
            been checked.
        source: a file, a folder or a pattern, see `domainbert.tables.iter_rows`; or
            `postgresql://...` or `sqlite:///...` with a query.
        out: a table (.csv, .parquet, .jsonl, …).
        named: see `score_frame`.
        keep: see `score_frame`.
        options: how to read the source.
        restart: start over instead of resuming.
        raw: leave text in CSV unchanged, even if a spreadsheet would run it as a formula.
        summary: a JSON file for the summary: task, model, rows, items by status, time.
        progress: called after each item with its number of rows (at first, the rows of an earlier
            run) and the number of all rows.

    Raises:
        TableError: a source that cannot be read or lacks a column.
        UserError: `out` is one of the inputs, is in use, cannot be written, or belongs to a run
            with another task or input; or the input was changed meanwhile.
        KeyboardInterrupt: the run was stopped; finished items are kept.
    """
    started = time.monotonic()
    store = RunStore(source, Path(out))
    options = options or ReadOptions()
    with store.held(restart=restart) as work:
        local = spooled(source, options, folder=work)
        if not isinstance(task, Task):
            task = task()
        digest = store.digest(local)
        plan, surveyed = _survey(task, local, options, named=named, keep=keep)
        facts = {
            "task": {"name": task.name, **task.facts()},
            "input": {
                "rows": surveyed.rows,
                "digest": digest,
                "options": asdict(replace(options, query=None)),
                "columns": plan.chosen,
            },
            "columns": plan.schema.names,
        }
        n_stored = store.start(facts)
        with ExitStack() as stack:
            stream = iter_rows(local, options)
            if not surveyed.contiguous:
                stream = stack.enter_context(
                    gathered(stream, plan, folder=work)
                )
            counts = Counts(surveyed.rows, surveyed.remarks)
            total = _score(
                task,
                plan,
                stream,
                store,
                counts,
                n_stored=n_stored,
                progress=progress,
            )
        if store.digest(local) != digest:
            raise UserError(
                "the input changed while it was read; start over with `restart=True`"
            )
        counts.items, counts.written = store.totals()
        if counts.items.total() != total:
            raise UserError(
                f"{store.folder} has {counts.items.total()} items and the input {total}; "
                "start over with `restart=True`"
            )
        about = {
            "task": task.name,
            "model": task.facts().get("model"),
            **task.about(),
            **counts.summary(),
            "seconds": time.monotonic() - started,
        }
        store.finish(plan.schema, raw=raw, summary=about, summary_file=summary)
        return counts


def _score(
    task: AnyTask,
    plan: Plan,
    rows: Iterable[Row],
    store: RunStore,
    counts: Counts,
    *,
    n_stored: int,
    progress: Callable[[int, int], None],
) -> int:
    """Score the items after the first `n_stored`, which the store has; return how many there are.

    An item is the rows that are scored together. The chunks are those of an undisturbed run: one
    that is stored in part is scored whole, since the last digits of a result depend on the batch.
    Raises `KeyboardInterrupt` after a request to stop, once the part is written.
    """
    chunks = chunked(
        grouped(rows, plan), size=_size, limit=task.part_characters
    )
    total = 0
    started_chunks: list[tuple[list[list[Row]], int]] = []
    for chunk in chunks:
        stored = chunk[: n_stored - total]
        counts.done += sum(map(len, stored))
        total += len(stored)
        if len(stored) < len(chunk):
            started_chunks.append((chunk, len(stored)))
            break
    progress(counts.done, counts.rows)

    def scored() -> Iterator[_Scored]:
        """The items that are not stored, each with its output."""
        new_chunks = ((chunk, 0) for chunk in chunks)
        for chunk, n_known in read_ahead(chain(started_chunks, new_chunks)):
            outputs = score_items(task, plan, chunk)
            pairs = zip(chunk, outputs, strict=True)
            for item, output in islice(pairs, n_known, None):
                progress(len(item), counts.rows)
                yield item, output

    with _stop_requests(task.grace_seconds) as signals:
        for part in _parts(task, scored(), signals):
            outputs = [output for _, output in part]
            table = plan.to_table(list(chain.from_iterable(outputs)))
            statuses = Counter(str(output[0]["status"]) for output in outputs)
            store.write(table, items=statuses)
            total += len(part)
            counts.made += len(table)
    if signals:
        raise KeyboardInterrupt(*signals)
    return total


def _parts(
    task: AnyTask, scored: Iterable[_Scored], signals: list[int]
) -> Iterator[list[_Scored]]:
    """Scored items in parts; a part ends by its size, after a minute, or on a request to stop."""
    part = []
    size = 0
    started = time.monotonic()
    try:
        for rows, output in scored:
            part.append((rows, output))
            size += _size(rows)
            is_due = time.monotonic() - started > task.part_seconds
            if size >= task.part_characters or is_due or signals:
                yield part
                part = []
                size = 0
                started = time.monotonic()
            if signals:
                return
    except KeyboardInterrupt as stop:
        # It comes in the middle of an item: the items before it are kept.
        if not signals:
            signals.append(next(iter(stop.args), signal.SIGINT))
    if part:
        yield part


def _survey(
    task: AnyTask,
    source: str | Path,
    options: ReadOptions,
    *,
    named: Mapping[str, str] | None,
    keep: Iterable[str],
) -> tuple[Plan, Survey]:
    """The columns of a run, and the survey of its rows."""
    new_plan = partial(
        make_plan,
        task,
        named=named,
        keep=list(keep),
        source=Path(source).name,
    )
    columns = table_columns(source, options, lines=FIRST_LINES)
    with suppress(TableError):
        plan = new_plan(columns)
        surveyed = survey(iter_rows(source, options), plan)
        if set(surveyed.columns) <= set(columns):
            return plan, surveyed
    # Later lines of JSON may have further columns.
    plan = new_plan(table_columns(source, options))
    return plan, survey(iter_rows(source, options), plan)


def score_items(
    task: AnyTask,
    plan: Plan,
    items: Sequence[Sequence[Row]],
) -> Iterator[list[OutputRow]]:
    """The output rows of each item."""
    read_items = [_read(task, plan, rows) for rows in items]
    sound_items = [item for item in read_items if not isinstance(item, Fault)]
    results = iter(task.run(sound_items))
    for rows, item in zip(items, read_items, strict=True):
        result = item if isinstance(item, Fault) else next(results)
        if isinstance(result, Fault):
            output: Sequence[Mapping[str, object]] = [asdict(result)]
        else:
            output = task.rows(item, result)
        yield [plan.finished(rows, row) for row in output]


def _read(task: AnyTask, plan: Plan, rows: Sequence[Row]) -> object:
    first = rows[0]
    if first.fault:
        return Fault(f"{first.place}: {first.fault}")
    return task.read(plan.item_rows(rows))


def _size(item: Sequence[Row]) -> int:
    """Characters of an item, at least so many that a part has some 2,000 items at most."""
    cells = chain.from_iterable(row.cells.values() for row in item)
    n_characters = sum(len(str(cell)) for cell in cells if cell is not None)
    return max(n_characters, LEAST_CHARACTERS)


@contextmanager
def _stop_requests(grace_seconds: float) -> Iterator[list[int]]:
    """The requests to stop so far; a second one, or the end of the grace time, interrupts."""
    received: list[int] = []
    # Python handles signals in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    timers = []

    def request_stop(number: int, _: object) -> None:
        if received:
            raise KeyboardInterrupt(number)
        received.append(number)
        timer = threading.Timer(grace_seconds, signal.raise_signal, [number])
        timer.daemon = True
        timer.start()
        timers.append(timer)

    numbers = STOP_SIGNALS | {signal.SIGINT}
    handlers = {
        number: signal.signal(number, request_stop) for number in numbers
    }
    try:
        yield received
    finally:
        for timer in timers:
            timer.cancel()
        for number, handler in handlers.items():
            signal.signal(number, handler)
