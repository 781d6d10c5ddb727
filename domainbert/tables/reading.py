"""Tables as DataFrames, whole or in pieces, through the one reader; metadata of Parquet."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from domainbert.tables.ids import id_text, is_id_column
from domainbert.tables.names import TableError, require_columns
from domainbert.tables.rows import DEFAULTS, ReadOptions, iter_rows, open_parquet, table_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd

Type = Literal["int", "float", "bool"]
_LISTED_FAULTS = 5
_TYPES = {"int": "Int64", "float": "float64", "bool": "boolean"}
_SPELLED = {"int": "a whole number", "float": "a number", "bool": "true or false"}
_BOOLS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


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
        columns: read only these, in this order.
        schema: types of columns that are not text. Parquet keeps its own types, but ids (columns
            called `id` or ending in `_id`) are text.
        chunk_rows: rows held at a time.
        options: how to read it.

    Raises:
        TableError: no such source or column, a line that is no row, or a cell of another type.
    """
    names = _chosen_columns(source, columns, options)
    if Path(source).suffix.lower() == ".parquet" and Path(source).is_file():
        frames = _parquet_frames(Path(source), names, chunk_rows)
    else:
        frames = _text_frames(source, names, chunk_rows, options)
    kinds = {name: kind for name, kind in (schema or {}).items() if name in names}
    for frame in frames:
        yield frame.assign(**{name: _cast(frame[name], kinds[name], source) for name in kinds})


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
    return pd.DataFrame(columns=_chosen_columns(source, columns, options))


def _chosen_columns(
    source: str | Path, columns: Sequence[str] | None, options: ReadOptions
) -> list[str]:
    """The columns to read; an empty file of JSON lines has every column."""
    names = table_columns(source, options, until=columns)
    is_jsonl = str(source).lower().removesuffix(".gz").endswith(".jsonl")
    if columns is not None and (names or not is_jsonl):
        require_columns(names, columns, source=Path(source).name)
    return list(names if columns is None else columns)


def _parquet_frames(path: Path, names: list[str], chunk_rows: int) -> Iterator[pd.DataFrame]:
    with open_parquet(path) as file:
        for batch in file.iter_batches(batch_size=chunk_rows, columns=names):
            frame = batch.to_pandas()[names]
            ids = filter(is_id_column, names)
            if len(frame):
                yield frame.assign(**{i: frame[i].map(id_text).astype("str") for i in ids})


def _text_frames(
    source: str | Path, names: list[str], chunk_rows: int, options: ReadOptions
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    faults: list[str] = []
    count = 0
    rows = iter_rows(source, options, columns=names)
    while piece := list(islice(rows, chunk_rows)):
        found = [f"{row.place}: {row.fault}" for row in piece if row.fault]
        count += len(found)
        faults += found[: _LISTED_FAULTS - len(faults)]
        if not count:
            cells = [[row.cells.get(name) for name in names] for row in piece]
            yield pd.DataFrame(cells, columns=names)
    if count:
        rest = f"; and {count - len(faults)} more" if count > len(faults) else ""
        lines = "1 line is no row" if count == 1 else f"{count} lines are no rows"
        msg = f"{lines}: {'; '.join(faults)}{rest}. Correct or remove them"
        raise TableError(msg)


def _cast(column: pd.Series, kind: Type, source: str | Path) -> pd.Series:
    import pandas as pd

    # Without the empty cells, which would turn whole numbers into floats.
    present = column.dropna()
    try:
        if kind == "bool":
            values = present.map(lambda value: _BOOLS[str(value).lower()])
        else:
            values = pd.to_numeric(present)
        return values.astype(_TYPES[kind]).reindex(column.index)
    except (ValueError, TypeError, KeyError):
        name = Path(source).name
        msg = f"{name}: column {column.name!r}: expected {_SPELLED[kind]} in every row"
        raise TableError(msg) from None


def read_metadata(path: str | Path) -> dict[str, str]:
    """The text metadata of a Parquet file, without what pandas keeps there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata: dict[bytes, bytes] = pq.read_schema(path).metadata or {}
    except pa.ArrowException:
        msg = f"{Path(path).name} is not a Parquet file, and only those keep metadata"
        raise TableError(msg) from None
    return {k.decode(): v.decode() for k, v in metadata.items() if k != b"pandas"}
