"""Parquet files and Arrow tables row by row, with every cell that cannot be read a row's fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.files import whole_text
from domainbert.tables.csv_files import unchanged
from domainbert.tables.ids import id_text
from domainbert.tables.options import TableError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from domainbert.tables.options import Cells, ReadOptions, Wanted

_BATCH_ROWS = 1024
_UNREADABLE = object()  # a cell that Python cannot hold


def parquet_columns(path: Path) -> list[str]:
    """The names of a file's columns."""
    with open_parquet(path) as file:
        names: list[str] = file.schema_arrow.names
        return names


def parquet_cells(path: Path, options: ReadOptions, columns: Wanted) -> Iterator[Cells]:
    """The rows of a file."""
    del options
    with open_parquet(path) as file:
        chosen = [n for n in file.schema_arrow.names if columns is None or n in columns]
        batches = file.iter_batches(batch_size=_BATCH_ROWS, columns=chosen)
        yield from arrow_cells(batches, path.name)


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """A Parquet file.

    Raises:
        TableError: it cannot be read to its end, repeats a column, or was changed meanwhile.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with unchanged(path), pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if len(set(names)) < len(names):
                twice = ", ".join(
                    name for name, count in Counter(names).items() if count > 1
                )
                msg = f"{path.name} repeats the columns {twice}; each needs a name of its own"
                raise TableError(msg)
            yield file
    except (OSError, pa.ArrowException) as error:
        # Arrow's own message may quote a cell.
        msg = f"{path.name} cannot be read as Parquet ({type(error).__name__})"
        raise TableError(msg) from None


def arrow_cells(batches: Iterable[pa.RecordBatch], name: str) -> Iterator[Cells]:
    """The rows of Arrow tables or record batches."""
    number = 0
    for batch in batches:
        names = batch.schema.names
        cells = {n: _as_text(batch.column(n)) for n in names}
        for place in range(batch.num_rows):
            number += 1
            values = {
                n: cells[n][place] for n in names if cells[n][place] is not _UNREADABLE
            }
            bad = [n for n in names if n not in values]
            fault = (
                f"column {bad[0]!r} is not UTF-8, or a date out of range" if bad else ""
            )
            yield f"{name} row {number}", values, fault, ""


def _as_text(column: pa.Array) -> list[Any]:
    """Cells as text; lists and structures as Python objects."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_timestamp(kind):  # Python's own dates have no nanoseconds
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    try:
        cells = column.to_pylist()
    except (UnicodeDecodeError, OverflowError, ValueError):
        cells = [_scalar(cell) for cell in column]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        cells = [cell.decode("utf-8", "replace") if cell else None for cell in cells]
    elif kind not in (pa.string(), pa.large_string()):
        cells = [cell if cell is _UNREADABLE else plain(cell) for cell in cells]
    return [None if cell == "" else cell for cell in cells]


def _scalar(cell: pa.Scalar) -> Any:
    try:
        return cell.as_py()
    except (UnicodeDecodeError, OverflowError, ValueError):
        return _UNREADABLE


def plain(value: Any) -> Any:
    """A value with numbers and booleans as text, and U+FFFD for half a surrogate pair."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(name): plain(item) for name, item in value.items()}
    return id_text(value)
