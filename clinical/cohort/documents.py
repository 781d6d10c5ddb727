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
    "source", "id", "left_out", "names", "replaces", "studies", "version", "words",
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
        reason = "marked_error" if row["error"] == "1" else row["left_out"]
        status = "used" if reason in (None, "interim") and row["text"] else reason
        columns = {name: row[name] for name in _COLUMNS} | {"left_out": reason}
        rows.append({"document": position, "stay": "", "status": status, **columns})
    own = {
        row["document"]: row["left_out"]
        for row in rows
        if row["left_out"] not in (None, "interim")
    }
    texts = [(name, pa.string()) for name in ("stay", "status", *_COLUMNS)]
    schema = pa.schema([("document", pa.int64()), *texts])
    with duckdb.connect(config={"threads": 1}) as con:
        con.register("documents", pa.Table.from_pylist(rows, schema))
        judged = con.execute(step("documents")).fetchall()
    return dict(judged) | own
