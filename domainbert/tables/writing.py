"""Write CSV, Parquet and JSON lines, whole or in pieces, under a name that appears when done."""

from __future__ import annotations

import csv
import gzip
import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from domainbert.files import atomic_path
from domainbert.tables.ids import guard, is_id_column
from domainbert.tables.names import TableError, table_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd
    import pyarrow.parquet as pq


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


def _nullable(schema: Any) -> Any:
    """A column that is empty in the first piece is text in the next ones, and so are lists."""
    import pyarrow as pa

    def filled(kind: Any) -> Any:
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
