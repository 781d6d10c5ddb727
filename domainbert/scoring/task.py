"""Task: what a model does to the rows of a table; the columns of a run, and its items."""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeAlias, TypeVar

import numpy as np

from domainbert.errors import UserError
from domainbert.files import whole_text
from domainbert.scoring.store import disk_errors
from domainbert.tables import (
    Row,
    TableError,
    id_key,
    id_text,
    match_columns,
    require_columns,
)
from domainbert.text.windows import too_long

if TYPE_CHECKING:
    import pyarrow as pa

    from domainbert.tables import Column

OutputRow: TypeAlias = dict[str, object]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Fault:
    """Why an item has no result; becomes a row with this status and reason."""

    reason: str
    status: Literal["error", "empty"] = "error"


def text_of(row: Row, column: str) -> str | Fault:
    """The text of a cell, or why it is none."""
    text = row.cells.get(column)
    if text is None or (isinstance(text, str) and not text.strip()):
        return Fault("no text", "empty")
    if not isinstance(text, str):
        return Fault(f"{column} is {type(text).__name__}, not text")
    return Fault(f"{column} has {reason}") if (reason := too_long(text)) else text


class Task(ABC, Generic[Item, Result]):
    """What a model does to one item. The driver does the rest, the same for every task.

    An item is one row, or all rows with the same value in the column `group`, in input order.

    Attributes:
        name: of the task, such as "readmission".
        columns: what it reads; columns of kind "id" are carried into the output.
        group: name of the column whose equal values make one item; None for one row an item.
    """

    name: ClassVar[str]
    columns: tuple[Column, ...]
    group: str | None = None

    @property
    @abstractmethod
    def output(self) -> pa.Schema:
        """The task's own output columns, fixed before the first row.

        The driver adds the ids before them, and `status` and `reason` after them.
        """

    @abstractmethod
    def read(self, rows: Sequence[Row]) -> Item | Fault:
        """One item, or why there is none; must not raise for bad values.

        Args:
            rows: of the item, cells under the names of `columns`; a missing column is None.
        """

    @abstractmethod
    def run(self, items: Iterable[Item]) -> Iterator[Result | Fault]:
        """A result for each item, in order; a `Fault` where there is none."""

    @abstractmethod
    def rows(self, item: Item, result: Result) -> Sequence[Mapping[str, object]]:
        """The output rows of an item, at least one.

        A row has the columns of `output` (a missing one is null), and may have a `status` other
        than "ok" and a `reason`, which for status "ok" is a remark.
        """

    def about(self) -> Mapping[str, object]:
        """What the summary of a run says of the model beside its hash, such as its name."""
        return {}

    @abstractmethod
    def facts(self) -> Mapping[str, object]:
        """What decides the results, as JSON: a hash of the model, and settings."""


@dataclass(frozen=True)
class Plan:
    """The columns of one run."""

    chosen: dict[str, str]  # our column -> the table's
    carried: tuple[str, ...]  # columns of the table that the output repeats
    group: str | None  # the table's column whose equal values make one item
    schema: pa.Schema  # of the output

    def item_rows(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with the task's columns alone, under its names."""
        chosen = self.chosen.items()
        return [
            replace(row, cells={o: row.cells.get(t) for o, t in chosen}) for row in rows
        ]

    def key(self, row: Row) -> str | None:
        """The group of a row; None for a row that is an item of its own."""
        if self.group is None or row.fault:
            return None
        return id_key(row.cells.get(self.group))

    def content(self, row: Row) -> bytes:
        """All that a row brings to its result but its place."""
        names = (*self.chosen.values(), *self.carried)
        cells = row.fault or [row.cells.get(name) for name in names]
        return json.dumps(cells, ensure_ascii=True, default=repr).encode()

    def finished(self, row: Row, made: Mapping[str, object]) -> OutputRow:
        """An output row: ids, number, the task's columns, status and reason."""
        ids = {name: id_text(row.cells.get(name)) for name in self.carried}
        number = {"row": row.number} if "row" in self.schema.names else {}
        whole = {**ids, **number, "status": "ok", "reason": row.remark, **made}
        return {n: whole_text(v) if isinstance(v, str) else v for n, v in whole.items()}

    def to_table(self, rows: list[OutputRow]) -> pa.Table:
        """Output rows as Arrow, in the schema of every other piece."""
        import pyarrow as pa

        return pa.Table.from_pylist(rows, schema=self.schema)


def make_plan(
    task: Task[Item, Result],
    available: Sequence[str],
    *,
    named: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
    source: str,
) -> Plan:
    """Match a table's columns with a task's.

    Carried along are the ids that the task declares and other columns named `id` or `*_id` (for
    grouped rows only the declared ids of the group), those in `keep`, and those in `named` that
    the task does not read.

    Raises:
        TableError: a column that is needed or named is not there, or a carried one has the name
            of an output column.
    """
    import pyarrow as pa

    chosen = match_columns(available, task.columns, named=named, source=source)
    group = chosen.get(task.group) if task.group else None
    read = {column.name for column in task.columns}
    keep = (
        *keep,
        *(
            theirs
            for ours, theirs in (named or {}).items()
            if theirs and ours not in read
        ),
    )
    require_columns(available, keep, source=source)
    ids = {
        chosen[column.name]
        for column in task.columns
        if column.kind == "id"
        and column.name in chosen
        and not (group and column.within)
    }
    texts = {
        chosen[c.name] for c in task.columns if c.kind != "id" and c.name in chosen
    }
    others = {
        n for n in available if n.casefold() == "id" or n.casefold().endswith("_id")
    } - texts
    carried = [
        n for n in available if n in ids or n in keep or (group is None and n in others)
    ]
    columns = [pa.field(name, pa.string()) for name in carried]
    if group is None:
        columns.append(pa.field("row", pa.int64()))
    columns += [
        *task.output,
        pa.field("status", pa.string()),
        pa.field("reason", pa.string()),
    ]
    names = [column.name for column in columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        msg = f"{source} has a column {twice[0]!r}, a name that the result needs; rename it"
        raise TableError(msg)
    return Plan(chosen, tuple(carried), group, pa.schema(columns))


def grouped(rows: Iterable[Row], plan: Plan) -> Iterator[list[Row]]:
    """Items: neighbouring rows of one group together, every other row alone."""
    item: list[Row] = []
    current: str | None = None
    for row in rows:
        key = plan.key(row)
        if item and (key is None or key != current):
            yield item
            item = []
        item.append(row)
        current = key
    if item:
        yield item


def together(rows: Iterable[Row], plan: Plan) -> list[list[Row]]:
    """Items of rows in any order: those of a group together, at the place of its first row."""
    items: dict[str | int, list[Row]] = {}
    for row in rows:
        items.setdefault(plan.key(row) or row.number, []).append(row)
    return list(items.values())


@dataclass(frozen=True)
class Survey:
    """What a pass over the input found."""

    rows: int
    digest: str  # keyed hash of all rows in their order
    contiguous: bool  # whether the rows of every group lie together
    columns: list[str]  # names of the cells, in order of first appearance


def survey(rows: Iterable[Row], plan: Plan, *, salt: bytes) -> Survey:
    """Count and identify the rows; ten bytes of memory per group."""
    digest = blake2b(key=salt)
    columns: dict[str, None] = {}
    starts = array("Q")
    number, last = 0, None
    for row in rows:
        number += 1
        digest.update(plan.content(row) + b"\n")
        columns |= dict.fromkeys(row.cells)
        key = plan.key(row)
        if key is not None and key != last:
            starts.append(hash(key) & 0xFFFF_FFFF_FFFF_FFFF)
        last = key
    keys = np.sort(np.frombuffer(starts, dtype=np.uint64)) if starts else np.array([])
    contiguous = not (keys[1:] == keys[:-1]).any()
    return Survey(number, digest.hexdigest(), contiguous, list(columns))


def checked(
    rows: Iterable[Row], plan: Plan, *, salt: bytes, digest: str
) -> Iterator[Row]:
    """The same rows; `UserError` at their end if they are not those of the survey."""
    now = blake2b(key=salt)
    for row in rows:
        now.update(plan.content(row) + b"\n")
        yield row
    if now.hexdigest() != digest:
        raise UserError(
            "the input changed while it was read; start over with --restart"
        )


@contextmanager
def gathered(
    rows: Iterable[Row], plan: Plan, *, folder: Path
) -> Iterator[Iterator[Row]]:
    """The rows with those of each group together, groups in order of first appearance.

    The rows wait in a database in a private folder.
    """
    file = folder / "rows.sqlite"
    # Nothing in it outlives this call, and a thread reads it ahead.
    with (
        disk_errors(folder),
        closing(sqlite3.connect(file, check_same_thread=False)) as con,
    ):
        con.execute("PRAGMA journal_mode = OFF")
        con.execute(
            "CREATE TABLE places (key TEXT PRIMARY KEY, first INTEGER) WITHOUT ROWID"
        )
        con.execute("CREATE TABLE spool (first INTEGER, number INTEGER, row TEXT)")
        con.execute("CREATE UNIQUE INDEX in_order ON spool (first, number)")
        for row in rows:
            key = plan.key(row) or f" {row.number}"  # no key begins with a space
            con.execute("INSERT OR IGNORE INTO places VALUES (?, ?)", (key, row.number))
            insert = "INSERT INTO spool SELECT first, ?, ? FROM places WHERE key = ?"
            con.execute(insert, (row.number, packed(row), key))
        found = con.execute("SELECT row FROM spool ORDER BY first, number")
        yield (unpacked(text) for (text,) in found)


def packed(row: Row) -> str:
    """A row as one text, for `unpacked`."""
    return json.dumps([row.number, dict(row.cells), row.place, row.fault, row.remark])


def unpacked(text: str) -> Row:
    """What `packed` wrote."""
    return Row(*json.loads(text))
