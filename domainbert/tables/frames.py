"""Tables as DataFrames, whole or in pieces: read by the one reader, written in three formats."""

from __future__ import annotations

import csv
import gzip
import re
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from domainbert.files import atomic_path
from domainbert.tables.columns import require_columns
from domainbert.tables.formats import DEFAULTS, ReadOptions, TableError, table_format
from domainbert.tables.ids import guard, id_text, is_id_column
from domainbert.tables.parquet_files import open_parquet
from domainbert.tables.rows import iter_rows, table_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

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
        TableError: no such source or column, a line that is not a row, or a cell of another type.
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
            frame = batch.to_pandas(ignore_metadata=True)[names]
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
        faulty = [f"{row.place}: {row.fault}" for row in piece if row.fault]
        count += len(faulty)
        faults += faulty[: _LISTED_FAULTS - len(faults)]
        if not count:
            cells = [[row.cells.get(name) for name in names] for row in piece]
            yield pd.DataFrame(cells, columns=names)
    if count:
        rest = f"; and {count - len(faults)} more" if count > len(faults) else ""
        lines = "1 line" if count == 1 else f"{count} lines"
        msg = f"{lines} cannot be read as rows: {'; '.join(faults)}{rest}. Correct or remove them"
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


class TableWriter:
    """Write a table piece by piece; the file appears under its name when all of it is written.

    Use as a context manager. In CSV, an id that a spreadsheet would run as a formula gets an
    apostrophe in front, which readers here remove. Ids are the columns that `is_id_column` knows
    by name, and those in `ids`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        metadata: Mapping[str, str] | None = None,
        ids: Iterable[str] = (),
    ) -> None:
        self._path, self._ids = Path(path), set(ids)
        self._ending = table_format(path)
        self._metadata = dict(metadata or {})
        if self._metadata and self._ending != ".parquet":
            msg = f"{self._path.name}: only .parquet keeps metadata"
            raise TableError(msg)
        self._columns: list[str] | None = None
        self._parquet: pq.ParquetWriter | None = None
        self._text: Any = None

    def __enter__(self) -> Self:
        """Open the temporary file."""
        with ExitStack() as stack:
            self._temporary = stack.enter_context(atomic_path(self._path))
            if self._ending != ".parquet":
                opener = gzip.open if self._ending.endswith(".gz") else open
                handle = opener(self._temporary, "wt", encoding="utf-8", newline="")
                self._text = stack.enter_context(handle)
            self._open = stack.pop_all()
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append rows; every piece has the columns of the first.

        Raises:
            TableError: other columns, or values that the format cannot hold, such as lists in CSV.
        """
        import pyarrow as pa

        names = [str(name) for name in frame.columns]
        is_first, self._columns = self._columns is None, self._columns or names
        if names != self._columns:
            msg = f"{self._path.name}: every piece needs the columns {', '.join(self._columns)}"
            raise TableError(msg)
        try:
            if self._ending == ".parquet":
                self._write_parquet(frame)
            elif self._ending.startswith((".csv", ".tsv")):
                self._write_csv(frame, header=is_first)
            else:
                self._write_jsonl(frame)
        except (pa.ArrowException, UnicodeError) as error:
            # The library's own message quotes the cell.
            column = re.search("for column (.+) with type", str(error.args[-1]))
            name = f"column {column[1]!r}" if column else "a column"
            msg = (
                f"{self._path.name}: {name} holds values of more than one kind, or text that is "
                f"not Unicode ({type(error).__name__}); make it one type first"
            )
            raise TableError(msg) from None

    def _write_csv(self, frame: pd.DataFrame, *, header: bool) -> None:
        quoting = csv.QUOTE_MINIMAL
        frame = frame.copy(deep=False)
        for name, column in frame.items():
            if name in self._ids or is_id_column(name):
                frame[name] = column.map(_guarded)
            if column.dtype == object and column.map(_is_nested).any():
                msg = f"{self._path.name}: column {name!r} holds lists; write .parquet or .jsonl"
                raise TableError(msg)
            if column.dtype.kind in "OUT" and column.map(_has_return).any():
                # Minimal quoting leaves a lone carriage return bare, where readers end the row.
                quoting = csv.QUOTE_NONNUMERIC
        separator = "\t" if self._ending.startswith(".tsv") else ","
        frame.to_csv(self._text, index=False, header=header, quoting=quoting, sep=separator)

    def _write_jsonl(self, frame: pd.DataFrame) -> None:
        if len(frame):
            form = {"orient": "records", "lines": True, "date_format": "iso"}
            frame.to_json(self._text, force_ascii=False, double_precision=15, **form)

    def _write_parquet(self, frame: pd.DataFrame) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._parquet is None:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            ours = {key.encode(): value.encode() for key, value in self._metadata.items()}
            kept = {**(table.schema.metadata or {}), **ours}
            schema = _nullable(table.schema).with_metadata(kept)
            writer = pq.ParquetWriter(self._temporary, schema, compression="zstd")
            self._parquet = self._open.enter_context(writer)
        schema = self._parquet.schema
        self._parquet.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))

    def __exit__(self, *error: Any) -> None:
        """Close, and give the file its name if nothing went wrong."""
        import pandas as pd

        if error[0] is None and self._columns is None and self._ending == ".parquet":
            self.write(pd.DataFrame())  # an empty file would be no Parquet at all
        self._open.__exit__(*error)


def _is_nested(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)


def _guarded(cell: object) -> object:
    return guard(cell) if isinstance(cell, str) else cell


def _has_return(value: object) -> bool:
    return isinstance(value, str) and "\r" in value


def _nullable(schema: pa.Schema) -> pa.Schema:
    """A column that is empty in the first piece is text in the next ones, and so are lists."""
    import pyarrow as pa

    def filled(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_list(kind):
            return pa.list_(filled(kind.value_type))
        return pa.string() if pa.types.is_null(kind) else kind

    return pa.schema([field.with_type(filled(field.type)) for field in schema])


def write_table(
    frame: pd.DataFrame, path: str | Path, *, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a whole table under a temporary name and rename it; see `TableWriter`."""
    with TableWriter(path, metadata=metadata) as writer:
        writer.write(frame)
