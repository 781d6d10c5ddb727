"""Tables as DataFrames, whole or in pieces, through the one reader; metadata of Parquet."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from domainbert.tables.ids import id_text
from domainbert.tables.names import TableError, require_columns
from domainbert.tables.rows import DEFAULTS, ReadOptions, iter_rows, table_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd

Type = Literal["int", "float", "bool"]
_LISTED_FAULTS = 5
_TYPES = {"int": "Int64", "float": "float64", "bool": "boolean"}


def iter_table(
    source: str | Path,
    *,
    columns: Sequence[str] | None = None,
    schema: Mapping[str, Type] | None = None,
    chunk_rows: int = 2048,
    options: ReadOptions = DEFAULTS,
) -> Iterator[pd.DataFrame]:
    """Stream a table as DataFrames of at most `chunk_rows` rows; an empty table gives none.

    Args:
        source: a file, a folder, a pattern or a database; see `iter_rows`.
        columns: read these alone, in this order.
        schema: types of columns that are not text. Parquet keeps its own types, but ids (names
            that end in `_id`) are text.
        chunk_rows: rows held at a time.
        options: how to read it.

    Raises:
        TableError: no such source or column, a line that is no row, or a cell that is not of its
            type.
    """
    import pandas as pd

    if _is_parquet(source):
        frames = _parquet_frames(Path(source), chunk_rows)
    else:
        names = list(columns or table_columns(source, options))
        frames = _text_frames(source, names, chunk_rows, options)
    for frame in frames:
        if columns is not None:
            require_columns(frame.columns, columns, source=Path(source).name)
            frame = frame[list(columns)]
        for name, kind in (schema or {}).items():
            if name in frame.columns:
                frame = frame.assign(**{name: _cast(frame[name], kind, source)})
        if len(frame):
            yield pd.DataFrame(frame)


def read_table(
    source: str | Path,
    *,
    columns: Sequence[str] | None = None,
    schema: Mapping[str, Type] | None = None,
    options: ReadOptions = DEFAULTS,
) -> pd.DataFrame:
    """Read a whole table; see `iter_table`. An empty one gives a frame with no rows."""
    import pandas as pd

    parts = list(iter_table(source, columns=columns, schema=schema, options=options))
    if parts:
        return pd.concat(parts, ignore_index=True)
    names = table_columns(source, options)
    if columns is not None:
        require_columns(names, columns, source=Path(source).name)
    return pd.DataFrame(columns=list(columns or names))


def _is_parquet(source: str | Path) -> bool:
    return Path(source).suffix.lower() == ".parquet" and Path(source).is_file()


def _parquet_frames(path: Path, chunk_rows: int) -> Iterator[pd.DataFrame]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=chunk_rows):
                frame = batch.to_pandas()
                for name in frame.columns:
                    if str(name).lower().endswith("_id"):
                        frame[name] = frame[name].map(id_text).astype("str")
                yield frame
    except (OSError, pa.ArrowException) as error:
        msg = f"{path.name} cannot be read as Parquet ({type(error).__name__})"
        raise TableError(msg) from None


def _text_frames(
    source: str | Path, names: list[str], chunk_rows: int, options: ReadOptions
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    faults: list[str] = []
    rows = iter_rows(source, options)
    while piece := list(islice(rows, chunk_rows)):
        faults += [f"{row.place}: {row.fault}" for row in piece if row.fault]
        if len(faults) >= _LISTED_FAULTS:
            break
        if not faults:
            cells = [[row.cells.get(name) for name in names] for row in piece]
            yield pd.DataFrame(cells, columns=names)
    if faults:
        msg = f"{len(faults)} lines are no rows: {'; '.join(faults[:_LISTED_FAULTS])}"
        raise TableError(msg)


def _cast(column: pd.Series, kind: Type, source: str | Path) -> pd.Series:
    import pandas as pd

    if kind == "bool" and column.dtype == object:
        column = column.map({"true": True, "false": False, "1": True, "0": False}.get)
    try:
        numbers = pd.to_numeric(column) if kind != "bool" else column
        return numbers.astype(_TYPES[kind])
    except (ValueError, TypeError):
        msg = f"{Path(source).name}: column {column.name!r} must be {kind} in every row"
        raise TableError(msg) from None


def read_metadata(path: str | Path) -> dict[str, str]:
    """The text metadata of a Parquet file, without what pandas keeps there.

    Raises:
        TableError: not a Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata: dict[bytes, bytes] = pq.read_schema(path).metadata or {}
    except pa.ArrowException:
        msg = f"{Path(path).name} is not a Parquet file, and only those keep metadata"
        raise TableError(msg) from None
    return {k.decode(): v.decode() for k, v in metadata.items() if k != b"pandas"}
