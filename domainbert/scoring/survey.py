"""A first pass over the input: how many rows, which input, whether groups lie together."""

from __future__ import annotations

import json
from array import array
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from domainbert.scoring.sorting import insert, spool
from domainbert.tables import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from domainbert.scoring.layout import Layout

_SPOOL_ROWS = 512
_MODULUS = 1 << 128


@dataclass(frozen=True)
class Survey:
    """What a pass over the input found.

    Attributes:
        rows: how many there are.
        digest: of all rows, whatever their order.
        contiguous: whether the rows of every group lie together.
    """

    rows: int
    digest: int
    contiguous: bool


def survey(rows: Iterable[Row], layout: Layout) -> Survey:
    """Count and identify the rows; ten bytes of memory per group."""
    number = total = 0
    starts = array("Q")
    last: str | None = None
    for row in rows:
        number += 1
        total = sum_digests(total, layout.digest(row))
        key = layout.key(row)
        if key is not None and key != last:
            starts.append(hash(key) & 0xFFFF_FFFF_FFFF_FFFF)
        last = key
    found = np.array([], dtype=np.uint64)
    if starts:
        found = np.frombuffer(starts, dtype=np.uint64)
        found.sort()
    return Survey(number, total, not (found[1:] == found[:-1]).any())


def sum_digests(total: int, digest: bytes) -> int:
    """A sum that does not depend on the order, of 128 bits."""
    return (total + int.from_bytes(digest)) % _MODULUS


@contextmanager
def gathered(rows: Iterable[Row], layout: Layout, *, beside: Path) -> Iterator[Iterator[Row]]:
    """The rows with those of each group together, groups in order of first appearance.

    They are sorted on disk, in a private folder within `beside`, which is removed at the end or,
    after a kill, by the next run.
    """
    with spool(beside) as con:
        con.execute("CREATE TABLE spool (number BIGINT, key VARCHAR, row VARCHAR)")
        stream = iter(rows)
        while piece := list(islice(stream, _SPOOL_ROWS)):
            batch = {
                "number": [row.number for row in piece],
                "key": [layout.key(row) for row in piece],
                "row": [packed(row) for row in piece],
            }
            insert(con, "spool", batch)
        # A row without a key is its own group, at its own place.
        con.execute(
            "SELECT row FROM spool ORDER BY CASE WHEN key IS NULL THEN number "
            "ELSE min(number) OVER (PARTITION BY key) END, number"
        )
        yield _unpacked(con)


def packed(row: Row) -> str:
    """A row as one text, for `unpacked`."""
    return json.dumps([row.number, dict(row.cells), row.place, row.fault, row.remark])


def unpacked(text: str) -> Row:
    """What `packed` wrote."""
    return Row(*json.loads(text))


def _unpacked(con: object) -> Iterator[Row]:
    while piece := con.fetchmany(_SPOOL_ROWS):  # type: ignore[attr-defined]
        for (text,) in piece:
            yield unpacked(text)
