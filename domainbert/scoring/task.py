"""Task (what a model does to the rows of a table), and the columns and items of a run."""

import json
import sqlite3
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import ClassVar, Generic, Literal, TypeVar

import numpy as np
import pyarrow as pa

from domainbert.files import disk_errors, whole_text
from domainbert.tables import (
    Column,
    Row,
    TableError,
    id_key,
    id_text,
    match_columns,
    require_columns,
)
from domainbert.tables.columns import NAMED
from domainbert.tables.ids import is_id_column
from domainbert.tables.options import repeated
from domainbert.text.windows import is_blank, too_long

OutputRow = dict[str, object]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Fault:
    """Why an item has no result; it becomes a row with this status and reason."""

    reason: str
    status: Literal["error", "empty"] = "error"


def text_of(row: Row, column: str) -> str | Fault:
    """The text of a cell, or why there is none."""
    text = row.cells.get(column)
    if is_blank(text):
        return Fault("no text", "empty")
    if not isinstance(text, str):
        return Fault(f"{column} is {type(text).__name__}, not text")
    reason = too_long(text)
    if reason:
        return Fault(f"{column} has {reason}")
    return text


class Task(ABC, Generic[Item, Result]):
    """What a model does to one item; the driver does the rest in the same way for every task.

    An item is one row, or all rows with the same value in the column `group`, in input order.

    Attributes:
        name: the name of the task, such as "readmission".
        columns: the columns to read; those with the role "id" are copied to the output.
        group: the column whose equal values make one item; None if each row is an item.
        part_characters: the characters of input in a part; a part of the output is written when
            it is complete, after about a minute of work for MiniLM on two cores.
        part_seconds: the time after which a part is written though it is smaller.
        grace_seconds: the time that an item has to finish after a request to stop.
    """

    name: ClassVar[str]
    columns: tuple[Column, ...]
    group: str | None = None
    part_characters = 500_000
    part_seconds = 60.0
    grace_seconds = 10.0

    @property
    @abstractmethod
    def output(self) -> pa.Schema:
        """The output columns of the task, fixed before the first row.

        The driver puts the ids before them, and `status` and `reason` after them.
        """

    @abstractmethod
    def read(self, rows: Sequence[Row]) -> Item | Fault:
        """One item, or a fault; it must not raise for bad values.

        Args:
            rows: the rows of the item, with cells by the names of `columns`; a missing column is
                None.
        """

    @abstractmethod
    def run(self, items: Iterable[Item]) -> Iterator[Result | Fault]:
        """A result or a fault for each item, in order."""

    @abstractmethod
    def rows(
        self, item: Item, result: Result
    ) -> Sequence[Mapping[str, object]]:
        """The output rows of an item, at least one.

        A row has the columns of `output` (a missing one is null). It may have a `status` other
        than "ok", and a `reason`, which is a remark if the status is "ok".
        """

    def about(self) -> Mapping[str, object]:
        """Further facts about the model for the summary of a run, such as its name."""
        return {}

    @abstractmethod
    def facts(self) -> Mapping[str, object]:
        """What the results depend on, as JSON: a hash of the model, and settings."""


class TextTask(Task[str, Result]):
    """A task whose items are the texts in the first of its columns."""

    def read(self, rows: Sequence[Row]) -> str | Fault:
        """The text of a row."""
        return text_of(rows[0], self.columns[0].name)


@dataclass(frozen=True)
class Plan:
    """The columns of one run.

    Attributes:
        chosen: our column -> the table's column.
        carried: columns of the table that are copied to the output.
        group: the table's column whose equal values make one item.
        schema: the schema of the output.
    """

    chosen: dict[str, str]
    carried: tuple[str, ...]
    group: str | None
    schema: pa.Schema

    def item_rows(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with only the task's columns, by our names."""
        item_rows = []
        for row in rows:
            cells = {
                ours: row.cells.get(theirs)
                for ours, theirs in self.chosen.items()
            }
            item_rows.append(replace(row, cells=cells))
        return item_rows

    def key(self, row: Row) -> str | None:
        """The group of a row; None for a row that is an item by itself."""
        if self.group is None or row.fault:
            return None
        value = row.cells.get(self.group)
        text = row.cells.get(self.chosen.get("text", ""))
        # A row with a list of texts is a whole item: its id has one spelling, and "aB" is not "ab".
        if isinstance(text, str | None):
            return id_key(value)
        return id_text(value)

    def item_key(self, row: Row) -> str:
        """The group of a row, or a key that no other row has; no id begins with a space."""
        return self.key(row) or f" {row.number}"

    def finished(
        self, rows: Sequence[Row], output: Mapping[str, object]
    ) -> OutputRow:
        """An output row of an item's rows: ids, number, columns, status, remarks and reason."""
        row = rows[0]
        cells: OutputRow = {
            name: id_text(row.cells.get(name)) for name in self.carried
        }
        if "row" in self.schema.names:
            cells["row"] = row.number
        remarks = [row.remark for row in rows]
        reasons = dict.fromkeys([*remarks, str(output.get("reason") or "")])
        reason = "; ".join(filter(None, reasons))
        cells |= {"status": "ok", **output, "reason": reason}
        for name, value in cells.items():
            if isinstance(value, str):
                cells[name] = whole_text(value)
        return cells

    def to_table(self, rows: list[OutputRow]) -> pa.Table:
        """Output rows as Arrow, in the schema of every other piece."""
        return pa.Table.from_pylist(rows, schema=self.schema)


def make_plan(
    task: Task[Item, Result],
    available: Sequence[str],
    *,
    named: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
    source: str,
) -> Plan:
    """Match a table's columns with those of a task.

    Copied to the output are the ids that the task declares and other columns of ids, such as `id`,
    `*_id` and `pmid` (for grouped rows only the declared ids of the group), the columns in `keep`,
    and those in `named` that the task does not read.

    Raises:
        TableError: a required or named column is missing, or a copied column has the name of an
            output column.
    """
    chosen = match_columns(
        available, task.columns, named=named, argument=NAMED, source=source
    )
    group = chosen.get(task.group or "")
    task_names = {column.name for column in task.columns}
    further = {
        theirs
        for ours, theirs in (named or {}).items()
        if theirs and ours not in task_names
    }
    kept = [*keep, *further]
    require_columns(available, kept, source=source)
    ids = _id_columns(task, chosen, available, is_grouped=group is not None)
    carried = [name for name in available if name in ids.union(kept)]
    fields = [(name, "string") for name in carried]
    if group is None:
        fields.append(("row", "int64"))
    fields += [*task.output, ("status", "string"), ("reason", "string")]
    schema = pa.schema(fields)
    if names := repeated(schema.names):
        raise TableError(
            f"{source} has a column {names[0]!r}, a name that the result needs; rename it"
        )
    return Plan(chosen, tuple(carried), group, schema)


def _id_columns(
    task: Task[Item, Result],
    chosen: Mapping[str, str],
    available: Sequence[str],
    *,
    is_grouped: bool,
) -> set[str]:
    """The table's columns of ids; of grouped rows only the declared ids of the group."""
    columns = [column for column in task.columns if column.name in chosen]
    ids = {
        chosen[column.name]
        for column in columns
        if column.role == "id" and not (is_grouped and column.within)
    }
    if is_grouped:
        return ids
    texts = {chosen[c.name] for c in columns if c.role != "id"}
    return ids | set(filter(is_id_column, available)) - texts


def grouped(rows: Iterable[Row], plan: Plan) -> Iterator[list[Row]]:
    """Items: consecutive rows of one group, or single rows.

    This is the only grouping. Whoever has rows in another order sorts them before: `together` in
    memory, `gathered` on disk, and Ray and Spark by a shuffle.
    """
    for _, item in groupby(rows, key=plan.item_key):
        yield list(item)


def together(rows: Iterable[Row], plan: Plan) -> list[list[Row]]:
    """Items of rows in any order; a group is at the position of its first row."""
    firsts: dict[str, int] = {}

    def first_of_group(row: Row) -> int:
        return firsts.setdefault(plan.item_key(row), len(firsts))

    return list(grouped(sorted(rows, key=first_of_group), plan))


@dataclass(frozen=True)
class Survey:
    """The results of a first pass over the input.

    Attributes:
        rows: number of rows.
        remarks: number of rows by what was noticed while they were read.
        contiguous: whether the rows of every group are consecutive.
        columns: names of all cells, in order of first appearance.
    """

    rows: int
    remarks: Counter[str]
    contiguous: bool
    columns: list[str]


def survey(rows: Iterable[Row], plan: Plan) -> Survey:
    """Count the rows and look for scattered groups, with ten bytes of memory per group."""
    columns: dict[str, None] = {}
    remarks: Counter[str] = Counter()
    starts = array("Q")  # hashes of the groups, each time one starts
    number = 0
    last_key = None
    for row in rows:
        number += 1
        columns |= dict.fromkeys(row.cells)
        if row.remark:
            remarks[row.remark] += 1
        key = plan.key(row)
        if key is not None and key != last_key:
            starts.append(hash(key) & 0xFFFF_FFFF_FFFF_FFFF)
        last_key = key
    n_groups = len(np.unique(np.array(starts, dtype=np.uint64)))
    is_contiguous = n_groups == len(starts)
    return Survey(number, remarks, is_contiguous, list(columns))


@contextmanager
def gathered(
    rows: Iterable[Row],
    plan: Plan,
    *,
    folder: Path,
) -> Iterator[Iterator[Row]]:
    """The rows with each group's rows together, and groups in order of first appearance.

    The rows are kept in a database in a private folder.
    """
    file = folder / "rows.sqlite"
    # The database need not survive a crash, and another thread reads it.
    with (
        disk_errors(folder),
        closing(sqlite3.connect(file, check_same_thread=False)) as con,
    ):
        con.execute("PRAGMA journal_mode = OFF")
        con.execute(
            "CREATE TABLE places (key TEXT PRIMARY KEY, first INTEGER) WITHOUT ROWID"
        )
        con.execute(
            "CREATE TABLE spool (first INTEGER, number INTEGER, row TEXT)"
        )
        con.execute("CREATE UNIQUE INDEX in_order ON spool (first, number)")
        for row in rows:
            key = plan.item_key(row)
            con.execute(
                "INSERT OR IGNORE INTO places VALUES (?, ?)", (key, row.number)
            )
            insert = "INSERT INTO spool SELECT first, ?, ? FROM places WHERE key = ?"
            con.execute(insert, (row.number, packed(row), key))
        cursor = con.execute("SELECT row FROM spool ORDER BY first, number")
        yield (unpacked(text) for (text,) in cursor)


def packed(row: Row) -> str:
    """A row as text, see `unpacked`."""
    return json.dumps(
        [row.number, dict(row.cells), row.place, row.fault, row.remark]
    )


def unpacked(text: str) -> Row:
    """A row from the text of `packed`."""
    return Row(*json.loads(text))
