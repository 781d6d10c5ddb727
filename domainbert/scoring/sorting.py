"""Bring the parts of a run into the order that the input has now, sorted on disk by DuckDB."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.scoring.done import KEY_BYTES, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

Place = tuple[bytes, str | None]  # the key of an item, and the fault of a row that is none
Part = tuple["pa.Table", list[bytes], list[int]]  # rows, keys of the items, rows of each item

SPOOL = ".rows-"
_ITEMS = 2048  # of a part
_MEMORY = "512MB"
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}
_UNWRITABLE = "{folder} cannot be written ({why}); mend that and repeat the command to resume"

_MOVES = """
CREATE TABLE moves AS
WITH now AS (SELECT *, row_number() OVER (PARTITION BY key ORDER BY place) AS nth FROM places),
     was AS (SELECT *, row_number() OVER (PARTITION BY key ORDER BY item) AS nth FROM items)
SELECT item, place, key, fault FROM was JOIN now USING (key, nth)
"""
_SORTED = """
CREATE TABLE sorted AS
SELECT made.* REPLACE ({replaced}), __place: place, __key: key
FROM made JOIN moves ON __item = item ORDER BY place, __number
"""


def in_order(parts: Sequence[Path], places: Iterable[Place], *, beside: Path) -> Iterator[Part]:
    """The contents of parts, in the order of `places`, as new parts.

    The column `row` becomes the item's place, and the reason of a row that cannot be read its
    fault, which says where it is now. Memory is bounded.

    Raises:
        UserError: the places are not those of the items.
    """
    import pyarrow.parquet as pq

    with spool(beside) as con:
        _load_places(con, places)
        total = _load_parts(con, parts)
        con.execute(_MOVES)
        (moved,) = con.execute("SELECT count(*) FROM moves").fetchone()
        if moved != total:
            raise UserError("the input changed while it was read; start over with --restart")
        schema = pq.read_schema(parts[0]).remove_metadata()
        replaced = "coalesce(fault, reason) AS reason"
        if "row" in schema.names:
            replaced += ', place AS "row"'
        con.execute(_SORTED.format(replaced=replaced))
        for start in range(0, total, _ITEMS):
            yield _part(con, start, schema)


@contextmanager
def spool(beside: Path) -> Iterator[Any]:
    """A DuckDB database in a private folder within `beside`, which is removed at the end.

    What a killed process leaves is removed by the next run.
    """
    import duckdb

    try:
        with disk_errors(beside), tempfile.TemporaryDirectory(prefix=SPOOL, dir=beside) as folder:
            settings = {"temp_directory": folder, "memory_limit": _MEMORY}
            with duckdb.connect(str(Path(folder) / "rows.duckdb"), config=settings) as con:
                yield con
    except (duckdb.IOException, duckdb.TransactionException, duckdb.OutOfMemoryException) as error:
        # Its own message may quote a row.
        full = os.strerror(errno.ENOSPC)
        why = full.lower() if full in str(error) else type(error).__name__
        raise UserError(_UNWRITABLE.format(folder=beside, why=why)) from None


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Say in one line that a disk is full or cannot be written."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK:
            raise
        why = os.strerror(error.errno).lower()
        raise UserError(_UNWRITABLE.format(folder=folder, why=why)) from None


def insert(con: Any, table: str, columns: dict[str, Any] | pa.Table) -> None:
    """Append columns of equal length to a table of DuckDB's."""
    import pyarrow as pa

    con.register("piece", pa.table(columns) if isinstance(columns, dict) else columns)
    con.execute(f"INSERT INTO {table} SELECT * FROM piece")  # noqa: S608
    con.unregister("piece")


def _load_places(con: Any, places: Iterable[Place]) -> None:
    import pyarrow as pa

    con.execute("CREATE TABLE places (key BLOB, place BIGINT, fault VARCHAR)")
    stream, number = iter(places), 0
    while piece := list(islice(stream, _ITEMS)):
        keys = pa.array([key for key, _ in piece], pa.binary())
        faults = pa.array([fault for _, fault in piece], pa.string())
        numbers = np.arange(number, number + len(piece))
        insert(con, "places", {"key": keys, "place": numbers, "fault": faults})
        number += len(piece)


def _load_parts(con: Any, parts: Sequence[Path]) -> int:
    """Load the rows and items of parts; returns the number of items."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    con.execute("CREATE TABLE items (key BLOB, item BIGINT)")
    items = rows = 0
    for part in parts:
        keys, sizes = keys_of(part)
        numbers = np.arange(items, items + len(sizes))
        each = [keys[i : i + KEY_BYTES] for i in range(0, len(keys), KEY_BYTES)]
        insert(con, "items", {"key": pa.array(each, pa.binary()), "item": numbers})
        table = pq.read_table(part).replace_schema_metadata(None)
        table = table.append_column("__item", pa.array(np.repeat(numbers, sizes)))
        table = table.append_column("__number", pa.array(np.arange(rows, rows + len(table))))
        con.register("piece", table)
        if not items:
            con.register("first", table.slice(0, 0))
            con.execute("CREATE TABLE made AS SELECT * FROM first")
        insert(con, "made", table)
        items, rows = items + len(sizes), rows + len(table)
    return items


def _part(con: Any, start: int, schema: pa.Schema) -> Part:
    span = f"FROM sorted WHERE __place >= {start} AND __place < {start + _ITEMS}"
    table = con.sql(f"SELECT * {span} ORDER BY __place, __number").to_arrow_table()
    each = f"SELECT any_value(__key), count(*) {span} GROUP BY __place ORDER BY __place"
    items = con.execute(each).fetchall()
    keys, sizes = [key for key, _ in items], [size for _, size in items]
    return table.select(schema.names).cast(schema), keys, sizes
