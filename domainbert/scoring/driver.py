"""Score tables with any task: every row gets an output row with a status and a reason."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.files import check_output
from domainbert.inference import chunked, read_ahead
from domainbert.meter import stage, timed
from domainbert.scoring.layout import Layout, grouped, plan_layout, to_frame
from domainbert.scoring.store import RunStore
from domainbert.scoring.survey import Survey, gathered, sum_digests, survey
from domainbert.scoring.task import Fault, Task
from domainbert.tables import ReadOptions, Row, frame_rows, iter_rows, table_columns
from domainbert.tables.rows import source_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    import pyarrow as pa

    from domainbert.scoring.done import Done

# One part: what is scored before it is written. About a minute of work for MiniLM on two cores.
PART_CHARACTERS = 500_000
PART_ITEMS = 2048


@dataclass
class Counts:
    """What became of the rows.

    Attributes:
        rows: read.
        done: of these, done by an earlier run.
        items: scored in this run; by status.
        made: output rows of this run.
    """

    rows: int = 0
    done: int = 0
    made: int = 0
    items: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        """One line for the person at the terminal."""
        by_status = ", ".join(f"{n:,} {status}" for status, n in sorted(self.items.items()))
        earlier = f" ({self.done:,} done earlier)" if self.done else ""
        return f"{self.rows:,} rows in{earlier}, {self.made:,} rows out: {by_status or 'none'}"


def score_frame(
    task: Task,
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
    layout = plan_layout(task, names, named=named, keep=keep, source="the table")
    rows = list(frame_rows(frame))
    if layout.group is not None:
        first: dict[str | None, int] = {}
        rows.sort(key=lambda row: _place(row, layout, first))
    import pyarrow as pa

    tables = [layout.schema.empty_table(), *score_rows(task, layout, rows)]
    return to_frame(pa.concat_tables(tables))


def score_rows(task: Task, layout: Layout, rows: Iterable[Row]) -> Iterator[pa.Table]:
    """Score rows, those of a group together, into tables of about a part each."""
    for chunk in _chunks(grouped(rows, layout)):
        yield layout.to_table([row for made in score_items(task, layout, chunk) for row in made])


def _place(row: Row, layout: Layout, first: dict[str | None, int]) -> int:
    """Where the group of a row appeared first."""
    key = layout.key(row)
    return row.number if key is None else first.setdefault(key, row.number)


def score_file(
    task: Task,
    source: str | Path,
    out: str | Path,
    *,
    named: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
    options: ReadOptions | None = None,
    restart: bool = False,
    progress: Callable[[int, int], None] = lambda done, rows: None,
) -> Counts:
    """Score a source into a table or a folder of parts, in memory bounded by the size of a part.

    The same call again resumes a run that was stopped: items that are done are not scored again,
    whatever the order of files and rows. On Ctrl-C (and SIGTERM) the current part is finished.

    Args:
        task: what to do with each row, or group of rows.
        source: a file, a folder, a pattern or a database; see `domainbert.tables.iter_rows`.
        out: a table (.csv, .parquet, .jsonl, …), or a folder for Parquet parts.
        named: our column -> the source's, where its name is not recognised.
        keep: further columns to carry along, as text.
        options: how to read the source.
        restart: start over instead of resuming.
        progress: called with (rows scored, rows in all) after each item.

    Raises:
        TableError: a source that cannot be read, or lacks a column.
        UserError: `out` is one of the inputs, is in use, cannot be written, or holds a run of
            something else; the input changed meanwhile.
        KeyboardInterrupt: stopped; what was done is kept.
    """
    options, out = options or ReadOptions(), Path(out)
    store = store_of(source, out)
    name = "the query" if "://" in str(source) else Path(source).name
    layout = plan_layout(task, table_columns(source, options), named=named, keep=keep, source=name)
    with stage("survey"):
        found = survey(iter_rows(source, options), layout)
    facts = {
        "task": {"name": task.name, **task.facts()},
        "input": {"rows": found.rows, "digest": f"{found.digest:032x}"},
        "columns": layout.schema.names,
    }
    counts = Counts(rows=found.rows)
    items = partial(_items, source, options, layout, found, store)
    with ExitStack() as stack:
        done = stack.enter_context(store.opened(facts, restart=restart))
        if store.is_complete:
            counts.done = counts.rows
            return counts
        asked = stack.enter_context(_signals())
        with items() as stream:
            seen = 0
            todo = _todo(stream, done, counts)
            for chunk in timed(read_ahead(_chunks(todo, with_key=True)), "read"):
                made = []
                with stage("prepare"):
                    scored = score_items(task, layout, [item for item, _ in chunk])
                    for (rows_in, _), rows_out in zip(chunk, scored, strict=True):
                        made.append(rows_out)
                        seen += len(rows_in)
                        progress(counts.done + seen, counts.rows)
                with stage("write"):
                    table = layout.to_table([row for item in made for row in item])
                    store.write(table, [key for _, key in chunk], map(len, made))
                counts.made += len(table)
                counts.items.update(item[0]["status"] for item in made)
                if asked:
                    raise KeyboardInterrupt(*asked)
        with stage("assemble"):
            if not done.in_order:
                with items() as stream:
                    store.sort((key, unreadable(rows)) for rows, key in stream)
            store.finish(layout.schema, ids=layout.carried)
    return counts


@contextmanager
def _items(
    source: str | Path, options: ReadOptions, layout: Layout, found: Survey, store: RunStore
) -> Iterator[Iterator[tuple[list[Row], bytes]]]:
    """The items of a source with their keys.

    Raises:
        UserError: at the end, if they are not what was found before.
    """

    def keyed(rows: Iterable[Row]) -> Iterator[tuple[list[Row], bytes]]:
        total = 0
        for item in grouped(rows, layout):
            digests = [layout.digest(row) for row in item]
            total = reduce(sum_digests, digests, total)
            yield item, store.key(digests)
        if total != found.digest:
            raise UserError("the input changed while it was read; start over with --restart")

    rows = iter_rows(source, options)
    with (
        nullcontext(rows)
        if found.contiguous
        else gathered(rows, layout, beside=store.folder) as together
    ):
        yield keyed(together)


def sample_items(
    task: Task,
    source: str | Path,
    *,
    named: Mapping[str, str] | None = None,
    options: ReadOptions | None = None,
    number: int,
) -> list[Any]:
    """The first items of a source, as the task reads them; those with a fault are left out."""
    options = options or ReadOptions()
    layout = plan_layout(task, table_columns(source, options), named=named, source=str(source))
    items = (_read(task, layout, rows) for rows in grouped(iter_rows(source, options), layout))
    return list(islice((item for item in items if not isinstance(item, Fault)), number))


def store_of(source: str | Path, out: Path) -> RunStore:
    """Where the parts of a run go.

    Raises:
        TableError: `out` is no table that can be written.
        UserError: `out` is one of the inputs, or is in the folder that is read.
    """
    if "://" not in str(source):
        check_output(out, source_files(source))
        if Path(source).is_dir() and out.resolve().is_relative_to(Path(source).resolve()):
            msg = f"{out} is in the folder that is read; write somewhere else"
            raise UserError(msg)
    return RunStore(out)


def score_items(
    task: Task, layout: Layout, items: Sequence[Sequence[Row]]
) -> Iterator[list[dict[str, Any]]]:
    """The output rows of each item."""
    read = [_read(task, layout, rows) for rows in items]
    results = iter(task.run([item for item in read if not isinstance(item, Fault)]))
    for rows, item in zip(items, read, strict=True):
        result = item if isinstance(item, Fault) else next(results)
        if isinstance(result, Fault):
            yield [layout.failed(rows[0], result)]
        else:
            yield [layout.finished(rows[0], row) for row in task.rows(item, result)]


def _read(task: Task, layout: Layout, rows: Sequence[Row]) -> Any | Fault:
    if fault := unreadable(rows):
        return Fault(fault)
    return task.read(layout.item_rows(rows))


def unreadable(rows: Sequence[Row]) -> str | None:
    """Where and why an item could not be read, or None."""
    return f"{rows[0].place}: {rows[0].fault}" if rows[0].fault else None


def _todo(
    items: Iterable[tuple[list[Row], bytes]], done: Done, counts: Counts
) -> Iterator[tuple[list[Row], bytes]]:
    """The items that no earlier run has done."""
    for rows, key in items:
        if done.take(key):
            counts.done += len(rows)
        else:
            yield rows, key


def _chunks(items: Iterable[Any], *, with_key: bool = False) -> Iterator[list[Any]]:
    least = PART_CHARACTERS // PART_ITEMS

    def size(item: Any) -> int:
        rows = item[0] if with_key else item
        cells = (cell for row in rows for cell in row.cells.values() if cell is not None)
        characters = sum(len(str(cell)) for cell in cells)
        return max(characters, least)

    return chunked(items, size=size, limit=PART_CHARACTERS)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals that asked for a stop, none at first; a second one stops at once."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before: dict[signal.Signals, Any] = {}

    def ask(number: int, _: Any) -> None:
        asked.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        before[number] = signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
