"""Which documents of a request are read, by the rules that a cohort has in `sql/documents.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from clinical.cohort.source import step

if TYPE_CHECKING:
    Row = Mapping[str, str | None]

REASONS = {
    "marked_error": "entered in error",
    "not_current": "not current",
    "not_final": "not final or cancelled",
    "replaced": "replaced by another",
    "older_version": "of an older version",
    "copy": "copied from another",
}
_COLUMNS = (
    "source", "id", "state", "doc_state", "names", "replaces", "codes", "studies", "version",
    "words",
)  # fmt: skip


def left_out(documents: Sequence[Row]) -> dict[int, str]:
    """Why documents of one stay are not read, by their position; see `REASONS`.

    Args:
        documents: rows of `fhir.read_resource`, with the type of resource as `source`.
    """
    import duckdb
    import pyarrow as pa

    rows = []
    for position, row in enumerate(documents):
        columns: dict[str, object] = {name: row.get(name) for name in _COLUMNS}
        status = "used" if row["text"] else None
        rows.append(
            columns | {"document": position, "stay": "", "status": status}
        )
    texts = dict.fromkeys(("stay", "status", *_COLUMNS), "string")
    schema = pa.schema({"document": "int64", **texts})
    with duckdb.connect(config={"threads": 1}) as con:
        con.register("documents", pa.Table.from_pylist(rows, schema))
        return dict(con.execute(step("documents")).fetchall())
