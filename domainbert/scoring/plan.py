"""Plan: which columns of a table a task reads and which are copied; rows in, output rows out."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from domainbert.tables import (
    Row,
    TableError,
    id_key,
    id_text,
    match_columns,
    require_columns,
    whole_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pandas as pd
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


def to_frame(table: pa.Table) -> pd.DataFrame:
    """A DataFrame whose whole numbers and booleans stay what they are where cells are missing."""
    import pandas as pd
    import pyarrow as pa

    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame = table.to_pandas()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and column.type in nullable:
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame
