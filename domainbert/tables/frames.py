"""Tables as DataFrames: read whole, and written in three formats."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from domainbert.files import atomic_path
from domainbert.tables.columns import require_columns
from domainbert.tables.ids import guard, id_text, is_id_column, unguard
from domainbert.tables.options import (
    DEFAULTS,
    ReadOptions,
    TableError,
    shortened,
    table_format,
)
from domainbert.tables.parquet_files import open_parquet
from domainbert.tables.rows import iter_rows, table_columns

if TYPE_CHECKING:
    import pandas as pd


Type = Literal["int", "float"]
_LISTED_FAULTS = 5
_TYPES = {"int": ("Int64", "a whole number"), "float": ("float64", "a number")}


def read_table(
    source: str | Path,
    *,
    columns: Sequence[str] | None = None,
    schema: Mapping[str, Type] | None = None,
    options: ReadOptions = DEFAULTS,
) -> pd.DataFrame:
    """Read a whole table; an empty one gives a frame without rows.

    Args:
        source: a file, a folder or a pattern; see `iter_rows`. Text in CSV loses the apostrophe
            that guards it from spreadsheets, see `write_table`.
        columns: the columns to read, in this order; by default all.
        schema: types of columns that are not text. Parquet keeps its own types, but ids (columns
            called `id` or ending in `_id`) are text.
        options: how to read the source.

    Raises:
        TableError: no such source or column, a line that is not a row, or a cell of another type.
    """
    if Path(source).suffix.lower() == ".parquet" and Path(source).is_file():
        frame = _parquet_frame(Path(source), columns)
    else:
        frame = _text_frame(source, columns, options)
    for name, column_type in (schema or {}).items():
        if name in frame:
            frame[name] = _cast(frame[name], column_type, source)
    return frame


def _parquet_frame(path: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    """A file of Parquet as a DataFrame, its ids as text."""
    with open_parquet(path) as file:
        names = list(file.schema_arrow.names)
        if columns is not None:
            require_columns(names, columns, source=path.name)
            names = list(columns)
        frame = file.read(columns=names).to_pandas(ignore_metadata=True)[names]
    for name in filter(is_id_column, names):
        if len(frame):
            frame[name] = frame[name].map(id_text).astype("str")
    return frame


def _text_frame(
    source: str | Path,
    columns: Sequence[str] | None,
    options: ReadOptions,
) -> pd.DataFrame:
    """A table of text (CSV, JSON lines) as a DataFrame; a row that cannot be read is an error."""
    import pandas as pd

    available = dict.fromkeys(table_columns(source, options, lines=1))
    rows = []
    faults = []
    for row in iter_rows(source, options, columns=columns):
        # Later lines of JSON may have more columns than the first one.
        available |= dict.fromkeys(row.cells)
        if row.fault:
            faults.append(f"{row.place}: {row.fault}")
        elif not faults:
            rows.append(row.cells)
    # An empty file of JSON lines has any column.
    if columns is not None and available:
        require_columns(available, columns, source=Path(source).name)
    if faults:
        lines = f"{len(faults)} lines".removesuffix("s" * (len(faults) == 1))
        listed = shortened(faults, _LISTED_FAULTS, "; ")
        raise TableError(
            f"{lines} cannot be read as rows: {listed}. Correct or remove them"
        )
    names = list(available if columns is None else columns)
    cells = {}
    for name in names:
        cells[name] = [row.get(name) for row in rows]
    frame = pd.DataFrame(cells, columns=names)
    if re.search(r"\.[ct]sv(\.gz)?\Z", str(source).lower()):
        for name in names:
            # The reader has already removed the apostrophe before ids.
            if not is_id_column(name):
                frame[name] = frame[name].map(unguard, na_action="ignore")
    return frame


def _cast(
    column: pd.Series, column_type: Type, source: str | Path
) -> pd.Series:
    """A column as numbers or truth values; empty cells stay empty."""
    import pandas as pd

    dtype, expected = _TYPES[column_type]
    # Empty cells would turn whole numbers into floats.
    present = column.dropna()
    try:
        return pd.to_numeric(present).astype(dtype).reindex(column.index)
    except (ValueError, TypeError):
        raise TableError(
            f"{Path(source).name}: column {column.name!r}: expected {expected} in every row"
        ) from None


def read_metadata(path: str | Path) -> dict[str, str]:
    """The text metadata of a Parquet file, without those of pandas."""
    with open_parquet(Path(path)) as file:
        metadata = file.schema_arrow.metadata or {}
    return {
        name.decode(): value.decode()
        for name, value in metadata.items()
        if name != b"pandas"
    }


def write_table(
    table: pd.DataFrame | Iterable[pa.Table],
    path: str | Path,
    *,
    raw: bool = False,
) -> None:
    """Write a table, whole or piece by piece; the file appears when it is complete.

    In CSV, text that a spreadsheet would run as a formula gets an apostrophe in front, which
    `read_table` removes.

    Args:
        table: a frame; or one or more pieces with the same schema.
        path: the file, in one of `FORMATS`.
        raw: leave text in CSV unchanged.

    Raises:
        TableError: another ending, or values that the format cannot hold, such as lists in CSV.
    """
    path = Path(path)
    ending = table_format(path)
    try:
        with atomic_path(path) as temporary:
            if ending == ".parquet":
                _write_parquet(table, temporary)
            else:
                _write_text(
                    table, temporary, name=path.name, ending=ending, raw=raw
                )
    except (pa.ArrowException, UnicodeError) as error:
        # The library's own message quotes the cell.
        match = re.search("for column (.+) with type", str(error.args[-1]))
        name = "a column"
        if match:
            name = f"column {match[1]!r}"
        raise TableError(
            f"{path.name}: {name} holds values of more than one kind, or text that is "
            f"not Unicode ({type(error).__name__}); make it one type first"
        ) from None


def _write_text(
    table: pd.DataFrame | Iterable[pa.Table],
    path: Path,
    *,
    name: str,
    ending: str,
    raw: bool,
) -> None:
    """Write a table as CSV or TSV."""
    import pandas as pd

    open_file = gzip.open if ending.endswith(".gz") else open
    separator = "\t" if ending.startswith(".tsv") else ","
    frames: Iterable[pd.DataFrame] = [table]
    if not isinstance(table, pd.DataFrame):
        frames = map(to_frame, table)
    with open_file(path, "wt", encoding="utf-8", newline="") as file:
        for number, frame in enumerate(frames):
            if ending.startswith((".csv", ".tsv")):
                cells, quoting = _csv_cells(frame, name, raw=raw)
                cells.to_csv(
                    file,
                    index=False,
                    header=number == 0,
                    sep=separator,
                    quoting=quoting,
                )
            elif len(frame):
                frame.to_json(
                    file,
                    orient="records",
                    lines=True,
                    date_format="iso",
                    force_ascii=False,
                    double_precision=15,
                )


def _csv_cells(
    frame: pd.DataFrame,
    source: str,
    *,
    raw: bool,
) -> tuple[pd.DataFrame, Literal[0, 2]]:
    """The frame as it is written to CSV, and the quoting of its cells."""
    quoting: Literal[0, 2] = csv.QUOTE_MINIMAL
    frame = frame.copy(deep=False)
    for name, column in frame.items():
        if column.dtype.kind not in "OUT":
            continue
        cells = column.tolist()
        for number, cell in enumerate(cells):
            if isinstance(cell, str):
                if "\r" in cell:
                    # Minimal quoting leaves a lone carriage return bare; readers end the row there.
                    quoting = csv.QUOTE_NONNUMERIC
                if not raw:
                    cells[number] = guard(cell)
            elif hasattr(cell, "__len__") and not isinstance(cell, bytes):
                raise TableError(
                    f"{source}: column {name!r} holds lists; write .parquet or .jsonl"
                )
        frame[name] = cells
    names = [str(name) for name in frame.columns]
    if "\r" in "".join(names):
        quoting = csv.QUOTE_NONNUMERIC
    if not raw:
        names = [guard(name) for name in names]
    frame.columns = names
    return frame, quoting


def _write_parquet(
    table: pd.DataFrame | Iterable[pa.Table], path: Path
) -> None:
    """Write a table, or tables one after the other, as Parquet."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        table = [
            _without_null_types(
                pa.Table.from_pandas(table, preserve_index=False)
            )
        ]
    pieces = iter(table)
    first = next(pieces)
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        for piece in chain([first], pieces):
            writer.write_table(piece)


def _without_null_types(table: pa.Table) -> pa.Table:
    """Columns without any value as text."""
    schema = table.schema
    for number, field in enumerate(schema):
        if field.type == pa.null():
            schema = schema.set(number, field.with_type(pa.string()))
    return table.cast(schema)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """A DataFrame with nullable whole numbers and booleans in columns with missing cells."""
    import pandas as pd

    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame = table.to_pandas()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and column.type in nullable:
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame
