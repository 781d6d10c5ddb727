"""Survey: a first pass over the input; and a sort that brings the rows of each group together."""

from __future__ import annotations

import json
from array import array
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.tables import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from domainbert.scoring.plan import Plan

_BATCH_ROWS = 512
_MEMORY = "512MB"


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

    They are sorted on disk by DuckDB, in a private folder.
    """
    import duckdb
    import pyarrow as pa

    settings = {"temp_directory": str(folder), "memory_limit": _MEMORY}
    try:
        with duckdb.connect(str(folder / "rows.duckdb"), config=settings) as con:
            con.execute("CREATE TABLE spool (number BIGINT, key VARCHAR, row VARCHAR)")
            stream = iter(rows)
            while piece := list(islice(stream, _BATCH_ROWS)):
                batch = {
                    "number": [row.number for row in piece],
                    "key": pa.array([plan.key(row) for row in piece], pa.string()),
                    "row": [packed(row) for row in piece],
                }
                con.register("piece", pa.table(batch))
                con.execute("INSERT INTO spool SELECT * FROM piece")
                con.unregister("piece")
            # A row without a key is its own group, at its own place.
            con.execute(
                "SELECT row FROM spool ORDER BY CASE WHEN key IS NULL THEN number "
                "ELSE min(number) OVER (PARTITION BY key) END, number"
            )
            yield _unpacked(con)
    except (duckdb.IOException, duckdb.TransactionException, duckdb.OutOfMemoryException) as error:
        # Its own message may quote a row.
        why = "no space left on device" if "No space left" in str(error) else type(error).__name__
        msg = f"{folder} cannot be written ({why}); correct this and repeat the command to resume"
        raise UserError(msg) from None


def packed(row: Row) -> str:
    """A row as one text, for `unpacked`."""
    return json.dumps([row.number, dict(row.cells), row.place, row.fault, row.remark])


def unpacked(text: str) -> Row:
    """What `packed` wrote."""
    return Row(*json.loads(text))


def _unpacked(con: Any) -> Iterator[Row]:
    while piece := con.fetchmany(_BATCH_ROWS):
        for (text,) in piece:
            yield unpacked(text)
