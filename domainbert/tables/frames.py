"""Tables as DataFrames: read whole by the one reader, written in three formats."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from domainbert.files import atomic_path
from domainbert.tables.columns import require_columns
from domainbert.tables.ids import guard, id_text, is_id_column, unguard
from domainbert.tables.options import DEFAULTS, ReadOptions, TableError, table_format
from domainbert.tables.parquet_files import open_parquet
from domainbert.tables.rows import iter_rows, table_columns

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

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
    """Read a whole table. An empty one gives a frame without rows.

    Args:
        source: a file, a folder or a pattern; see `iter_rows`. Text in CSV loses the apostrophe
            that guards it from spreadsheets, see `write_table`.
        columns: read only these, in this order.
        schema: types of columns that are not text. Parquet keeps its own types, but ids (columns
            called `id` or ending in `_id`) are text.
        options: how to read it.

    Raises:
        TableError: no such source or column, a line that is not a row, or a cell of another type.
    """
    if Path(source).suffix.lower() == ".parquet" and Path(source).is_file():
        frame = _parquet_frame(Path(source), columns)
    else:
        frame = _text_frame(source, columns, options)
    kinds = {name: kind for name, kind in (schema or {}).items() if name in frame}
    return frame.assign(
        **{name: _cast(frame[name], kinds[name], source) for name in kinds}
    )


def _parquet_frame(path: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    with open_parquet(path) as file:
        require_columns(file.schema_arrow.names, columns or (), source=path.name)
        names = list(file.schema_arrow.names if columns is None else columns)
        frame = file.read(columns=names).to_pandas(ignore_metadata=True)[names]
    ids = [name for name in names if is_id_column(name)] if len(frame) else []
    return frame.assign(
        **{name: frame[name].map(id_text).astype("str") for name in ids}
    )


def _text_frame(
    source: str | Path, columns: Sequence[str] | None, options: ReadOptions
) -> pd.DataFrame:
    import pandas as pd

    there = dict.fromkeys(table_columns(source, options, lines=1))
    rows: list[Mapping[str, Any]] = []
    faults: list[str] = []
    for row in iter_rows(source, options, columns=columns):
        there |= dict.fromkeys(
            row.cells
        )  # lines of JSON may have more than the first one
        if row.fault:
            faults.append(f"{row.place}: {row.fault}")
        elif not faults:
            rows.append(row.cells)
    if columns is not None and there:  # an empty file of JSON lines has every column
        require_columns(there, columns, source=Path(source).name)
    if faults:
        more = len(faults) - _LISTED_FAULTS
        rest = f"; and {more} more" if more > 0 else ""
        lines = "1 line" if len(faults) == 1 else f"{len(faults)} lines"
        listed = "; ".join(faults[:_LISTED_FAULTS])
        raise TableError(
            f"{lines} cannot be read as rows: {listed}{rest}. Correct or remove them"
        )
    names = list(there if columns is None else columns)
    frame = pd.DataFrame(
        [[cells.get(name) for name in names] for cells in rows], columns=names
    )
    if not re.search(r"\.[ct]sv(\.gz)?\Z", str(source).lower()):
        return frame
    texts = [name for name in names if not is_id_column(name)]  # ids come without it
    return frame.assign(
        **{name: frame[name].map(unguard, na_action="ignore") for name in texts}
    )


def _cast(column: pd.Series, kind: Type, source: str | Path) -> pd.Series:
    import pandas as pd

    dtype, expected = _TYPES[kind]
    present = column.dropna()  # the empty cells would turn whole numbers into floats
    try:
        return pd.to_numeric(present).astype(dtype).reindex(column.index)
    except (ValueError, TypeError):
        place = f"{Path(source).name}: column {column.name!r}"
        raise TableError(f"{place}: expected {expected} in every row") from None


def read_metadata(path: str | Path) -> dict[str, str]:
    """The text metadata of a Parquet file, without what pandas keeps there."""
    with open_parquet(Path(path)) as file:
        metadata: dict[bytes, bytes] = file.schema_arrow.metadata or {}
    return {k.decode(): v.decode() for k, v in metadata.items() if k != b"pandas"}


def write_table(
    table: pd.DataFrame | Iterable[pa.Table], path: str | Path, *, raw: bool = False
) -> None:
    """Write a table, whole or piece by piece; it appears when all of it is written.

    In CSV, text that a spreadsheet would run as a formula gets an apostrophe in front, which
    `read_table` removes.

    Args:
        table: a frame; or pieces of one schema, at least one.
        path: the file, in one of `FORMATS`.
        raw: leave text in CSV as it is.

    Raises:
        TableError: another ending, or values that the format cannot hold, such as lists in CSV.
    """
    import pyarrow as pa

    path, ending = Path(path), table_format(path)
    try:
        with atomic_path(path) as temporary:
            if ending == ".parquet":
                _write_parquet(table, temporary)
            else:
                _write_text(table, temporary, name=path.name, ending=ending, raw=raw)
    except (pa.ArrowException, UnicodeError) as error:
        # The library's own message quotes the cell.
        column = re.search("for column (.+) with type", str(error.args[-1]))
        name = f"column {column[1]!r}" if column else "a column"
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
    import pandas as pd

    opener = gzip.open if ending.endswith(".gz") else open
    with opener(path, "wt", encoding="utf-8", newline="") as file:
        frames = [table] if isinstance(table, pd.DataFrame) else map(to_frame, table)
        for number, frame in enumerate(frames):
            if ending.startswith((".csv", ".tsv")):
                separator = "\t" if ending.startswith(".tsv") else ","
                form = {"index": False, "header": not number, "sep": separator}
                cells, quoting = _csv_cells(frame, name, raw=raw)
                cells.to_csv(file, quoting=quoting, **form)
            elif len(frame):
                form = {"orient": "records", "lines": True, "date_format": "iso"}
                frame.to_json(file, force_ascii=False, double_precision=15, **form)


def _csv_cells(
    frame: pd.DataFrame, source: str, *, raw: bool
) -> tuple[pd.DataFrame, Any]:
    """The frame as it is written to CSV, and which of its cells are quoted."""
    quoting = csv.QUOTE_MINIMAL
    frame = frame.copy(deep=False)
    for name, column in frame.items():
        if column.dtype.kind not in "OUT":
            continue
        cells = column.tolist()
        if any(
            hasattr(cell, "__len__") and not isinstance(cell, str | bytes)
            for cell in cells
        ):
            raise TableError(
                f"{source}: column {name!r} holds lists; write .parquet or .jsonl"
            )
        if any(isinstance(cell, str) and "\r" in cell for cell in cells):
            # Minimal quoting leaves a lone carriage return bare, where readers end the row.
            quoting = csv.QUOTE_NONNUMERIC
        if not raw:
            frame[name] = [
                guard(cell) if isinstance(cell, str) else cell for cell in cells
            ]
    return frame, quoting


def _write_parquet(table: pd.DataFrame | Iterable[pa.Table], path: Path) -> None:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(table, pd.DataFrame):
        whole = pa.Table.from_pandas(table, preserve_index=False)
        empty = [
            f.with_type(pa.string()) if f.type == pa.null() else f for f in whole.schema
        ]
        table = [whole.cast(pa.schema(empty, whole.schema.metadata))]
    pieces = iter(table)
    first = next(pieces)
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        for piece in chain([first], pieces):
            writer.write_table(piece)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """A DataFrame whose whole numbers and booleans stay what they are where cells are missing."""
    import pandas as pd
    import pyarrow as pa

    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame = table.to_pandas()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and column.type in nullable:
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame
