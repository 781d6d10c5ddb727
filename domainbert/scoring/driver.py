"""Score tables with any task: every row gets an output row with a status and a reason."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.scoring.plan import Plan, Survey, checked, gathered, grouped, make_plan, survey
from domainbert.scoring.store import RunStore
from domainbert.scoring.task import Fault, Task
from domainbert.tables import (
    ReadOptions,
    Row,
    TableError,
    frame_rows,
    iter_rows,
    spooled,
    table_columns,
    to_frame,
)
from domainbert.tables.rows import FIRST_LINES
from domainbert.text.runner import chunked, read_ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    import pyarrow as pa

    from domainbert.scoring.plan import OutputRow

AnyTask = Task[Any, Any]

# One part: what is scored before it is written. About a minute of work for MiniLM on two cores.
PART_CHARACTERS = 500_000
PART_ITEMS = 2048
# Beside Ctrl-C; Windows has no SIGHUP.
ENDINGS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@dataclass
class Counts:
    """What became of the rows.

    Attributes:
        rows: read.
        done: of these, done by an earlier run.
        items: scored in this run; by status.
        made: output rows of this run.
        total: items of the input, once all are done.
        was_complete: whether an earlier run had finished.
    """

    rows: int = 0
    done: int = 0
    made: int = 0
    total: int = 0
    was_complete: bool = False
    items: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        """One line for the person at the terminal."""
        by_status = ", ".join(f"{n:,} {status}" for status, n in sorted(self.items.items()))
        earlier = f" ({self.done:,} done earlier)" if self.done else ""
        return f"{self.rows:,} rows in{earlier}, {self.made:,} rows out: {by_status or 'none'}"


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
    if not hasattr(frame, "columns"):
        msg = f"expected a pandas DataFrame, got {type(frame).__name__}"
        raise UserError(msg)
    names = [str(name) for name in frame.columns]
    plan = make_plan(task, names, named=named, keep=keep, source="the table")
    rows = list(frame_rows(frame))
    if plan.group is not None:
        first: dict[str | None, int] = {}
        rows.sort(key=lambda row: _place(row, plan, first))
    import pyarrow as pa

    tables = [plan.schema.empty_table(), *score_rows(task, plan, rows)]
    return to_frame(pa.concat_tables(tables))


def score_rows(task: AnyTask, plan: Plan, rows: Iterable[Row]) -> Iterator[pa.Table]:
    """Score rows, those of a group together, into tables of about a part each."""
    for chunk in chunked(grouped(rows, plan), size=_size, limit=PART_CHARACTERS):
        yield plan.to_table([row for made in score_items(task, plan, chunk) for row in made])


def _place(row: Row, plan: Plan, first: dict[str | None, int]) -> int:
    """Where the group of a row appeared first."""
    key = plan.key(row)
    return row.number if key is None else first.setdefault(key, row.number)


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
    progress: Callable[[int, int], None] = lambda done, rows: None,
) -> Counts:
    """Score a source into a table or a folder of parts, in memory bounded by the size of a part.

    The source is read twice: to survey it, and to score it; a query runs once. The same call again
    resumes a run that was stopped: items that are done are not scored again. On Ctrl-C (and
    SIGTERM) the current part is finished.

    Args:
        task: what to do with each row, or group of rows; or a function that loads it, called once
            the input is known to be readable.
        source: a file, a folder, a pattern or a database; see `domainbert.tables.iter_rows`.
        out: a table (.csv, .parquet, .jsonl, …), or a folder for Parquet parts.
        named: our column -> the source's, where its name is not recognised.
        keep: further columns to carry along, as text.
        options: how to read the source.
        restart: start over instead of resuming.
        raw: leave text in CSV as it is, also where a spreadsheet would run it as a formula.
        progress: called with (rows scored, rows in all) after each item.

    Raises:
        TableError: a source that cannot be read, or lacks a column.
        UserError: `out` is one of the inputs, is in use, cannot be written, or holds a run of
            something else; the input changed meanwhile.
        KeyboardInterrupt: stopped; what was done is kept.
    """
    store, options = RunStore(source, Path(out)), options or ReadOptions()
    with store.held(restart=restart) as work:
        local = spooled(source, options, folder=work)
        if not isinstance(task, Task):
            task = task()
        settings: dict[str, Any] = {"named": named, "keep": list(keep), "salt": store.salt}
        plan, found = _survey(task, local, options, **settings)
        facts = {
            "task": {"name": task.name, **task.facts()},
            "input": {"rows": found.rows, "digest": found.digest},
            "columns": plan.schema.names,
        }
        done = store.start(facts)
        if store.is_complete:
            return Counts(rows=found.rows, done=found.rows, was_complete=True)
        rows = iter_rows(local, options)
        with ExitStack() as stack:
            stream = checked(rows, plan, salt=store.salt, digest=found.digest)
            if not found.contiguous:
                stream = stack.enter_context(gathered(stream, plan, folder=work))
            counts = Counts(rows=found.rows)
            _score(task, plan, stream, store, counts, done=done, progress=progress)
        store.finish(plan.schema, items=counts.total, raw=raw)
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
) -> None:
    """Score all items but the first `done`, which the parts of a store have, into new parts."""
    items = iter(grouped(rows, plan))
    for item in islice(items, done):
        counts.done += len(item)
        counts.total += 1
    seen = counts.done
    with _signals() as asked:
        for chunk in read_ahead(chunked(items, size=_size, limit=PART_CHARACTERS)):
            made: list[list[OutputRow]] = []
            for rows_in, rows_out in zip(chunk, score_items(task, plan, chunk), strict=True):
                made.append(rows_out)
                seen += len(rows_in)
                progress(seen, counts.rows)
            table = plan.to_table([row for item in made for row in item])
            store.write(table, items=len(made))
            counts.total += len(made)
            counts.made += len(table)
            counts.items.update(str(item[0]["status"]) for item in made)
            if asked:
                raise KeyboardInterrupt(*asked)


def _survey(
    task: AnyTask,
    source: str | Path,
    options: ReadOptions,
    *,
    named: Mapping[str, str] | None,
    keep: Sequence[str],
    salt: bytes,
) -> tuple[Plan, Survey]:
    """The columns of a run, and what a pass over its rows found."""
    columns = table_columns(source, options, lines=FIRST_LINES)
    while True:
        try:
            plan = make_plan(task, columns, named=named, keep=keep, source=Path(source).name)
        except TableError:
            if (complete := table_columns(source, options)) == columns:
                raise
            columns = complete
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
        if isinstance(result, Fault):
            yield [plan.failed(rows[0], result)]
        else:
            yield [plan.finished(rows[0], row) for row in task.rows(item, result)]


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
    """The signals that asked for a stop, none at first; a second one stops at once."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, _: object) -> None:
        asked.append(number)
        signal.signal(number, before[number])

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, *ENDINGS)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
