"""Read CSV, Parquet and JSON lines, whole or in pieces, and the metadata of Parquet."""

from __future__ import annotations

import gzip
import math
import re
import sys
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.tables.names import TableError, require_columns, table_format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd


def iter_table(
    path: str | Path, *, columns: Sequence[str] | None = None, chunk_rows: int = 2048
) -> Iterator[pd.DataFrame]:
    """Stream a table as DataFrames of at most `chunk_rows` rows; an empty table gives none.

    Text that is not UTF-8 is read with its bad bytes replaced by U+FFFD, so that one row of
    another encoding does not cost the rest. Columns whose name ends in `_id` are strings: a
    hospital's leading zeros are part of the number. In CSV an empty cell is a missing one, and
    so is one that says NA, NULL, None or the like; other columns have the type of what a piece
    holds.

    Args:
        path: a file whose name ends in one of `FORMATS`.
        columns: read these alone, in this order.
        chunk_rows: rows held at a time.

    Raises:
        TableError: no such file, not a table, or a column that is not there.
    """
    path = Path(path)
    for frame in _frames(path, chunk_rows=chunk_rows):
        if columns is not None:
            require_columns(frame.columns, columns, source=path.name)
            frame = frame[list(columns)]
        if len(frame):
            yield frame


def _frames(path: Path, *, chunk_rows: int) -> Iterator[pd.DataFrame]:
    """A table in pieces; one without rows where only its columns are there."""
    ending = table_format(path)
    if not path.is_file():
        msg = f"{path}: {'a folder, not a table' if path.is_dir() else 'no such file'}"
        raise TableError(msg)
    readers = {".csv": _iter_csv, ".parquet": _iter_parquet, ".jsonl": _iter_jsonl}
    try:
        yield from readers[ending.removesuffix(".gz")](path, chunk_rows)
    except (TableError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  (readers and decompressors raise all sorts)
        # The parser's own message may quote the row, and a row may be a note: it stays unsaid.
        line = re.search(r"in line (\d+)|starting at row (\d+)", str(error))
        place = f", {line[0].removeprefix('in ')}" if line else ""
        msg = f"{path.name}{place} cannot be read as {ending} ({type(error).__name__})"
        raise TableError(msg) from None


def read_table(path: str | Path, *, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a whole table; see `iter_table`. An empty file gives a frame with no rows."""
    import pandas as pd

    # In one piece, so that a column has one type however its values change on the way.
    frame = next(iter_table(path, columns=columns, chunk_rows=sys.maxsize), None)
    return pd.DataFrame(columns=list(columns or table_columns(path))) if frame is None else frame


def table_columns(path: str | Path) -> list[str]:
    """The column names of a table, from its header or first row.

    Raises:
        TableError: see `iter_table`.
    """
    first = next(_frames(Path(path), chunk_rows=1), None)
    return [] if first is None else [str(name) for name in first.columns]


def _open_text(path: Path) -> Any:
    # utf-8-sig: the mark that spreadsheets put in front is no part of the first name.
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
    return path.open(encoding="utf-8-sig", errors="replace", newline="")


def _iter_csv(path: Path, chunk_rows: int) -> Iterator[pd.DataFrame]:
    import pandas as pd

    with _open_text(path) as handle:
        header = pd.read_csv(handle, nrows=0) if _has_text(path) else pd.DataFrame()
    if not len(header.columns):
        return
    with _open_text(path) as handle:
        # Raises where the first row has more fields than the header has names: of such a file
        # pandas would take the first column for the rows' names, and move every other.
        pd.read_csv(handle, header=None, nrows=2, dtype=str)
    text_like = ("_id", "text", "patient_nbr")
    dtypes = {name: str for name in header.columns if str(name).lower().endswith(text_like)}
    with (
        _open_text(path) as handle,
        pd.read_csv(handle, chunksize=chunk_rows, dtype=dtypes, low_memory=False) as chunks,
    ):
        yield from chunks


def _has_text(path: Path) -> bool:
    with _open_text(path) as handle:
        return bool(handle.read(1))


def _iter_parquet(path: Path, chunk_rows: int) -> Iterator[pd.DataFrame]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        if not file.metadata.num_rows:
            yield file.schema_arrow.empty_table().to_pandas()
        for batch in file.iter_batches(batch_size=min(chunk_rows, max(1, file.metadata.num_rows))):
            yield _with_text_ids(batch).to_pandas()


def _with_text_ids(batch: Any) -> Any:
    """Number columns whose name ends in `_id` as strings."""
    import pyarrow as pa

    types = pa.types
    for position, field in enumerate(batch.schema):
        kinds = (types.is_integer, types.is_floating, types.is_decimal)
        if _is_id(field.name) and any(is_kind(field.type) for is_kind in kinds):
            texts = [_id_text(value) for value in batch.column(position).to_pylist()]
            batch = batch.set_column(position, field.name, pa.array(texts, pa.string()))
    return batch


def _iter_jsonl(path: Path, chunk_rows: int) -> Iterator[pd.DataFrame]:
    import pandas as pd

    # A pass for the names: many writers leave out what a row lacks, and every piece needs them.
    columns = list(dict.fromkeys(name for row in _json_rows(path) for name in row))
    rows = _json_rows(path)
    while piece := list(islice(rows, chunk_rows)):
        yield pd.DataFrame(piece, columns=columns)


def _json_rows(path: Path) -> Iterator[dict[str, Any]]:
    import json

    with _open_text(path) as handle:
        for number, line in enumerate(handle, start=1):
            if not line.strip():
                continue
            try:
                row = _whole_pairs(json.loads(line)) if "\\ud" in line.lower() else json.loads(line)
            except json.JSONDecodeError as error:
                msg = f"{path.name}, line {number}, column {error.colno}: not JSON ({error.msg})"
                raise TableError(msg) from None
            if not isinstance(row, dict):
                msg = f"{path.name}, line {number}: expected one JSON object a line"
                raise TableError(msg)
            yield {name: _id_text(value) if _is_id(name) else value for name, value in row.items()}


def _is_id(name: str) -> bool:
    return name.lower().endswith("_id")


def _id_text(value: Any) -> Any:
    """An id as a string: 12, 12.0 (as columns with gaps keep it) and Decimal("12") are all "12"."""
    if value is None or value != value:
        return None
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    is_whole = is_number and math.isfinite(value) and value == int(value)
    return str(int(value)) if is_whole else str(value) if is_number else value


def _whole_pairs(row: Any) -> Any:
    """A JSON value with U+FFFD for each half of a surrogate pair, which no text may hold."""
    import json

    text = json.dumps(row, ensure_ascii=False).encode("utf-16", "surrogatepass")
    return json.loads(text.decode("utf-16", "replace"))


def read_metadata(path: str | Path) -> dict[str, str]:
    """The text metadata of a Parquet file, without what pandas keeps there.

    Raises:
        TableError: not a Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
    except pa.ArrowException:
        msg = f"{Path(path).name} is not a Parquet file, and only those keep metadata"
        raise TableError(msg) from None
    return {k.decode(): v.decode() for k, v in metadata.items() if k != b"pandas"}
