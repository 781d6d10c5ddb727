"""Parquet files and Arrow tables, row by row; a cell that cannot be read is a row's fault."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from domainbert.files import whole_text
from domainbert.tables.csv_files import unchanged
from domainbert.tables.ids import id_text
from domainbert.tables.options import (
    Cell,
    Cells,
    ReadOptions,
    TableError,
    Wanted,
    read_errors,
    repeated,
)

_BATCH_ROWS = 1024
_UNREADABLE = object()  # a cell that Python cannot hold


def parquet_columns(path: Path) -> list[str]:
    """The names of a file's columns."""
    with open_parquet(path) as file:
        return list(file.schema_arrow.names)


def parquet_cells(
    path: Path, options: ReadOptions, columns: Wanted
) -> Iterator[Cells]:
    """The rows of a file."""
    del options
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        if columns is not None:
            names = [name for name in names if name in columns]
        batches = file.iter_batches(batch_size=_BATCH_ROWS, columns=names)
        yield from arrow_cells(batches, path.name)


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file.

    Raises:
        TableError: it cannot be read to its end, repeats a column, or was changed meanwhile.
    """
    with (
        read_errors(path, "as Parquet", pa.ArrowException),
        unchanged(path),
        pq.ParquetFile(path) as file,
    ):
        if names := repeated(file.schema_arrow.names):
            raise TableError(
                f"{path.name} repeats the columns {', '.join(names)}; each needs a name "
                "of its own"
            )
        yield file


def arrow_cells(
    batches: Iterable[pa.RecordBatch], name: str
) -> Iterator[Cells]:
    """The rows of Arrow tables or record batches."""
    number = 0
    for batch in batches:
        columns = {
            field: _as_text(batch.column(field))
            for field in batch.schema.names
        }
        for row in range(batch.num_rows):
            number += 1
            values = {}
            fault = ""
            for field, cells in columns.items():
                if cells[row] is not _UNREADABLE:
                    values[field] = cells[row]
                elif not fault:
                    fault = f"column {field!r} is not UTF-8, or a date out of range"
            yield values, f"{name} row {number}", fault, ""


def _as_text(column: pa.Array) -> list[Cell]:
    """Cells as text; lists and structures as Python objects."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column_type = column.type
    if pa.types.is_timestamp(column_type):
        # Python's datetimes have no nanoseconds.
        column = column.cast(pa.timestamp("us", column_type.tz), safe=False)
    try:
        cells = column.to_pylist()
    except (UnicodeDecodeError, OverflowError, ValueError):
        cells = [_scalar(cell) for cell in column]
    if pa.types.is_binary(column_type) or pa.types.is_large_binary(
        column_type
    ):
        cells = [(cell or b"").decode("utf-8", "replace") for cell in cells]
    elif column_type not in (pa.string(), pa.large_string()):
        cells = list(map(plain, cells))
    return list(map(filled, cells))


def _scalar(cell: pa.Scalar) -> Cell:
    try:
        return cell.as_py()
    except (UnicodeDecodeError, OverflowError, ValueError):
        return _UNREADABLE


def filled(cell: Cell) -> Cell:
    """The same cell, but None for an empty text."""
    if cell == "":
        return None
    return cell


def plain(value: Cell) -> Cell:
    """Turn the numbers and booleans in a value into text, and lone surrogates into U+FFFD."""
    if value is _UNREADABLE:
        return value
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    if isinstance(value, dict):
        return {plain(name): plain(item) for name, item in value.items()}
    return id_text(value)
