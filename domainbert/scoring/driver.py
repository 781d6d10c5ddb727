"""Score tables with any task: every row gets an output row with a status and a reason."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from domainbert import __version__
from domainbert.errors import UserError
from domainbert.scoring.store import RunStore
from domainbert.scoring.task import (
    Fault,
    OutputRow,
    Plan,
    Survey,
    Task,
    checked,
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
    import pyarrow as pa

AnyTask = Task[Any, Any]
_Scored: TypeAlias = tuple[
    Sequence[Row], list[OutputRow]
]  # rows of an item, and those made

# One part: what is scored before it is written. About a minute of work for MiniLM on two cores.
PART_CHARACTERS = 500_000
PART_ITEMS = 2048
PART_SECONDS = 60
GRACE_SECONDS = 10  # that an item may still take when a stop is asked
# Beside Ctrl-C; Windows has no SIGHUP.
ENDINGS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@dataclass
class Counts:
    """What became of the rows."""

    rows: int = 0  # read
    done: int = 0  # of these, done by an earlier run
    made: int = 0  # output rows of this run
    written: int = 0  # output rows of the whole table
    items: Counter[str] = field(
        default_factory=Counter
    )  # of the whole table, by status

    def __str__(self) -> str:
        """One line for the person at the terminal."""
        by_status = ", ".join(
            f"{n:,} {status}" for status, n in sorted(self.items.items())
        )
        earlier = f" ({self.done:,} done earlier)" if self.done else ""
        return f"{self.rows:,} rows in{earlier}, {self.written:,} rows out: {by_status or 'none'}"

    def summary(self) -> dict[str, Any]:
        """Numbers of the whole table, with the version and the time; see docs/scale.md."""
        return {
            "version": __version__,
            "finished": time.time(),
            "rows": self.rows,
            "rows_done_earlier": self.done,
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
        task: what to do with each row, or group of rows.
        frame: see the task for its columns.
        named: our column -> the frame's, where its name is not recognised.
        keep: further columns to carry along, as text.

    Returns:
        The id columns, the task's columns, `status` (ok, empty or error) and `reason`; at least
        one row for each item, in order of first appearance.

    Raises:
        TableError: a column that is needed is not there.
        UserError: not a DataFrame.
    """
    import pyarrow as pa

    if not hasattr(frame, "columns"):
        raise UserError(f"expected a pandas DataFrame, got {type(frame).__name__}")
    names = [str(name) for name in frame.columns]
    plan = make_plan(task, names, named=named, keep=keep, source="the table")
    tables = score_chunks(task, plan, together(frame_rows(frame), plan))
    return to_frame(pa.concat_tables([plan.schema.empty_table(), *tables]))


def score_chunks(
    task: AnyTask, plan: Plan, items: Iterable[list[Row]]
) -> Iterator[pa.Table]:
    """Score items into tables of about a part each."""
    for chunk in chunked(items, size=_size, limit=PART_CHARACTERS):
        yield plan.to_table(
            [row for made in score_items(task, plan, chunk) for row in made]
        )


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

    The source is read twice: to survey it, and to score it; a query runs once. The same call again
    resumes a run that was stopped: items that are done are not scored again. On Ctrl-C (and
    SIGTERM) the items in work are finished, for ten seconds at most.

    Args:
        task: see `score_frame`, as `named` and `keep`; or a function that loads it, called once
            the input is known to be readable.
        source: a file, a folder or a pattern, see `domainbert.tables.iter_rows`; or
            `postgresql://...` or `sqlite:///...` with a query.
        out: a table (.csv, .parquet, .jsonl, …).
        named: our column -> the source's.
        keep: further columns.
        options: how to read the source.
        restart: start over instead of resuming.
        raw: leave text in CSV as it is, also where a spreadsheet would run it as a formula.
        summary: a JSON file for what the run did: task, model, rows, items by status, time.
        progress: called with (its rows, rows in all) after each item.

    Raises:
        TableError: a source that cannot be read, or lacks a column.
        UserError: `out` is one of the inputs, is in use, cannot be written, or holds a run of
            something else; the input changed meanwhile.
        KeyboardInterrupt: stopped; what was done is kept.
    """
    began = time.monotonic()
    store, options = RunStore(source, Path(out)), options or ReadOptions()
    with store.held(restart=restart) as work:
        local = spooled(source, options, folder=work)
        if not isinstance(task, Task):
            task = task()
        plan, found = _survey(
            task, local, options, named=named, keep=keep, salt=store.salt
        )
        facts = {
            "task": {"name": task.name, **task.facts()},
            "input": {"rows": found.rows, "digest": found.digest},
            "columns": plan.schema.names,
        }
        done = store.start(facts)
        rows = iter_rows(local, options)
        with ExitStack() as stack:
            stream = checked(rows, plan, salt=store.salt, digest=found.digest)
            if not found.contiguous:
                stream = stack.enter_context(gathered(stream, plan, folder=work))
            counts = Counts(rows=found.rows)
            total = _score(
                task, plan, stream, store, counts, done=done, progress=progress
            )
        counts.items, counts.written = store.totals()
        if counts.items.total() != total:
            msg = (
                f"{store.folder} has {counts.items.total()} items and the input {total}"
            )
            raise UserError(f"{msg}; start over with --restart")
        about = {"task": task.name, "model": task.facts().get("model"), **task.about()}
        about |= {**counts.summary(), "seconds": time.monotonic() - began}
        store.finish(plan.schema, raw=raw, summary=about, beside=summary)
        return counts


def _score(
    task: AnyTask,
    plan: Plan,
    rows: Iterable[Row],
    store: RunStore,
    counts: Counts,
    *,
    done: int,
    progress: Callable[[int, int], None],
) -> int:
    """Score all items but the first `done`, which the parts of a store have; how many there are."""
    items, total = iter(grouped(rows, plan)), 0
    for item in islice(items, done):
        counts.done += len(item)
        total += 1
    progress(counts.done, counts.rows)

    def scored() -> Iterator[_Scored]:
        for chunk in read_ahead(chunked(items, size=_size, limit=PART_CHARACTERS)):
            for pair in zip(chunk, score_items(task, plan, chunk), strict=True):
                progress(len(pair[0]), counts.rows)
                yield pair

    with _signals() as asked:
        for part in _parts(scored(), asked):
            table = plan.to_table([row for _, made in part for row in made])
            store.write(
                table, items=Counter(str(made[0]["status"]) for _, made in part)
            )
            total += len(part)
            counts.made += len(table)
    if asked:
        raise KeyboardInterrupt(*asked)
    return total


def _parts(scored: Iterable[_Scored], asked: list[int]) -> Iterator[list[_Scored]]:
    """Scored items in parts; a part ends by its size, after a minute, or when a stop is asked."""
    part: list[_Scored] = []
    size, began = 0, time.monotonic()
    try:
        for pair in scored:
            part.append(pair)
            size += _size(pair[0])
            if (
                size >= PART_CHARACTERS
                or asked
                or time.monotonic() - began > PART_SECONDS
            ):
                yield part
                part, size, began = [], 0, time.monotonic()
            if asked:
                return
    except (
        KeyboardInterrupt
    ) as stop:  # in the middle of an item: what was made before is kept
        asked[:] = asked or [signal.SIGINT, *stop.args][-1:]
    if part:
        yield part


def _survey(
    task: AnyTask,
    source: str | Path,
    options: ReadOptions,
    *,
    named: Mapping[str, str] | None,
    keep: Iterable[str],
    salt: bytes,
) -> tuple[Plan, Survey]:
    """The columns of a run, and what a pass over its rows found."""
    keep = list(keep)
    columns = table_columns(source, options, lines=FIRST_LINES)
    while True:
        try:
            plan = make_plan(
                task, columns, named=named, keep=keep, source=Path(source).name
            )
        except TableError:
            every = table_columns(
                source, options
            )  # of JSON lines, also what only later ones have
            if columns == every:
                raise
            columns = every
            continue
        found = survey(iter_rows(source, options), plan, salt=salt)
        if set(found.columns) <= set(columns):
            return plan, found
        # JSON lines: a column that no line at the beginning has.
        columns = list(dict.fromkeys([*columns, *found.columns]))


def score_items(
    task: AnyTask, plan: Plan, items: Sequence[Sequence[Row]]
) -> Iterator[list[OutputRow]]:
    """The output rows of each item."""
    read = [_read(task, plan, rows) for rows in items]
    results = iter(task.run([item for item in read if not isinstance(item, Fault)]))
    for rows, item in zip(items, read, strict=True):
        result = item if isinstance(item, Fault) else next(results)
        made = (
            [asdict(result)] if isinstance(result, Fault) else task.rows(item, result)
        )
        yield [plan.finished(rows[0], row) for row in made]


def _read(task: AnyTask, plan: Plan, rows: Sequence[Row]) -> Any | Fault:
    if fault := rows[0].fault:
        return Fault(f"{rows[0].place}: {fault}")
    return task.read(plan.item_rows(rows))


def _size(item: Sequence[Row]) -> int:
    """Characters of an item, for parts of about one size."""
    cells = (cell for row in item for cell in row.cells.values() if cell is not None)
    return max(sum(len(str(cell)) for cell in cells), PART_CHARACTERS // PART_ITEMS)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals that asked for a stop, none at first; a second one, or time, ends an item."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    timers: list[threading.Timer] = []

    def ask(number: int, _: object) -> None:
        if asked:
            raise KeyboardInterrupt(number)
        asked.append(number)
        timers.append(threading.Timer(GRACE_SECONDS, signal.raise_signal, [number]))
        timers[0].daemon = True
        timers[0].start()

    before = {
        number: signal.signal(number, ask) for number in (signal.SIGINT, *ENDINGS)
    }
    try:
        yield asked
    finally:
        for timer in timers:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
