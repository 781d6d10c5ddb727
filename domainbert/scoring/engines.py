"""What Ray and Spark share: rows with numbers, packed for a shuffle by group, and scored."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from domainbert.scoring.driver import score_rows
from domainbert.scoring.survey import packed, unpacked
from domainbert.tables.rows import arrow_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from domainbert.scoring.plan import Plan
    from domainbert.scoring.task import Task
    from domainbert.tables import Row

NUMBER = "__number"  # the column that an engine adds: a different number for each row, ascending
PARTITIONS_PER_WORKER = 4  # so that a slow one does not keep the others waiting


def packed_rows(batches: Iterable[Any], plan: Plan) -> Iterator[pa.Table]:
    """Tables with a column NUMBER as (key, number, row): rows of one group have one key.

    The key is the normalised id, so that "P1" and "p1 " meet in one partition; a row without an
    id has a key of its own.
    """
    import pyarrow as pa

    names = {*plan.chosen.values(), *plan.carried}
    for batch in batches:
        rows = [
            replace(row, cells={name: row.cells[name] for name in names})
            for row in _numbered([batch])
        ]
        # No id begins with a space.
        keys = [plan.key(row) or f" {row.number}" for row in rows]
        columns = [keys, [row.number for row in rows], [packed(row) for row in rows]]
        yield pa.table(columns, schema=packed_schema())


def packed_schema() -> pa.Schema:
    """The columns of `packed_rows`."""
    import pyarrow as pa

    return pa.schema([("key", pa.string()), ("number", pa.int64()), ("row", pa.string())])


def scored(
    batches: Iterable[Any], task: Task[Any, Any], plan: Plan, *, packed_as: str | None
) -> Iterator[pa.Table]:
    """The results of tables with a column NUMBER, or of packed rows with groups together.

    Args:
        batches: Arrow tables or record batches.
        task: what to do.
        plan: of the run.
        packed_as: the column of packed rows, each cell one row or a list of them.
    """
    rows = _numbered(batches) if packed_as is None else _unpacked(batches, packed_as)
    return score_rows(task, plan, rows)


def _numbered(batches: Iterable[Any]) -> Iterator[Row]:
    for row in arrow_rows(batches, "the table"):
        yield replace(row, number=int(row.cells[NUMBER]))


def _unpacked(batches: Iterable[Any], column: str) -> Iterator[Row]:
    for batch in batches:
        for cell in batch.column(column):  # one at a time: a stay may have many notes
            found = cell.as_py()
            for text in [found] if isinstance(found, str) else found:
                yield unpacked(text)


def load_task(content: bytes, *, threads: int) -> Task[Any, Any]:
    """A pickled task in a worker, which computes with `threads` threads from now on."""
    os.environ["RAYON_NUM_THREADS"] = str(threads)  # of the tokenizer; read at its first use
    task: Task[Any, Any] = pickle.loads(content)  # noqa: S301  (from our own driver)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
    return task
