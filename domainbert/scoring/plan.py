"""Before scoring: the columns that a task reads and copies, a first pass, groups together."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

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

if TYPE_CHECKING:
    import pyarrow as pa

    from domainbert.scoring.task import Fault, Item, Result, Task

OutputRow: TypeAlias = "dict[str, object]"


@dataclass(frozen=True)
class Plan:
    """The columns of one run.

    Attributes:
        chosen: our column -> the table's.
        carried: columns of the table that the output repeats.
        group: the table's column whose equal values make one item, or None.
        schema: of the output.
    """

    chosen: dict[str, str]
    carried: tuple[str, ...]
    group: str | None
    schema: pa.Schema

    def item_rows(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with the task's columns alone, under its names."""
        chosen = self.chosen.items()
        return [replace(row, cells={o: row.cells.get(t) for o, t in chosen}) for row in rows]

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

    def failed(self, row: Row, fault: Fault) -> OutputRow:
        """The output row of an item without a result."""
        return self.finished(row, {"status": fault.status, "reason": fault.reason})

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
        *(theirs for ours, theirs in (named or {}).items() if theirs and ours not in read),
    )
    require_columns(available, keep, source=source)
    ids = {
        chosen[column.name]
        for column in task.columns
        if column.kind == "id" and column.name in chosen and not (group and column.within)
    }
    texts = {chosen[c.name] for c in task.columns if c.kind != "id" and c.name in chosen}
    others = {n for n in available if n.casefold() == "id" or n.casefold().endswith("_id")} - texts
    carried = [n for n in available if n in ids or n in keep or (group is None and n in others)]
    columns = [pa.field(name, pa.string()) for name in carried]
    if group is None:
        columns.append(pa.field("row", pa.int64()))
    columns += [*task.output, pa.field("status", pa.string()), pa.field("reason", pa.string())]
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
    """What a pass over the input found.

    Attributes:
        rows: how many there are.
        digest: keyed hash of all rows in their order.
        contiguous: whether the rows of every group lie together.
        columns: names of the cells, in order of first appearance.
    """

    rows: int
    digest: str
    contiguous: bool
    columns: list[str]


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


def checked(rows: Iterable[Row], plan: Plan, *, salt: bytes, digest: str) -> Iterator[Row]:
    """The same rows; `UserError` at their end if they are not those of the survey."""
    now = blake2b(key=salt)
    for row in rows:
        now.update(plan.content(row) + b"\n")
        yield row
    if now.hexdigest() != digest:
        raise UserError("the input changed while it was read; start over with --restart")


@contextmanager
def gathered(rows: Iterable[Row], plan: Plan, *, folder: Path) -> Iterator[Iterator[Row]]:
    """The rows with those of each group together, groups in order of first appearance.

    The rows wait in a file in a private folder; in memory are the hash and the place of each.
    """
    hashes, places = bytearray(), array("q")
    with disk_errors(folder), (folder / "rows.jsonl").open("w+b") as file:
        for row in rows:
            key = plan.key(row) or f" {row.number}"  # no key begins with a space
            hashes += blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            places.append(file.tell())
            file.write(packed(row).encode() + b"\n")
        keys = np.frombuffer(hashes, dtype="V16")
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        yield _unpacked(file, np.array(places)[np.argsort(first[group], kind="stable")])


def packed(row: Row) -> str:
    """A row as one text, for `unpacked`."""
    return json.dumps([row.number, dict(row.cells), row.place, row.fault, row.remark])


def unpacked(text: str) -> Row:
    """What `packed` wrote."""
    return Row(*json.loads(text))


def _unpacked(file: BinaryIO, places: np.ndarray) -> Iterator[Row]:
    for place in places:
        file.seek(place)
        yield unpacked(file.readline().decode())
