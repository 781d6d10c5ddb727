"""Read and write CSV, Parquet and JSON lines in streams: a table need not fit in memory."""

from __future__ import annotations

import difflib
import gzip
import os
import re
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    import pandas as pd
    import pyarrow.parquet as pq

FORMATS = (".csv", ".csv.gz", ".parquet", ".jsonl", ".jsonl.gz")
LISTED_COLUMNS = 40


class TableError(ValueError):
    """A table that cannot be read as asked; the message names the file, the fault and the fix."""


def table_format(path: str | Path) -> str:
    """The format of a table by its file name: one of `FORMATS`.

    Raises:
        TableError: the name ends in none of them.
    """
    name = Path(path).name.lower()
    for ending in FORMATS:
        if name.endswith(ending):
            return ending
    msg = f"{Path(path).name}: not a table we know; legal endings are {', '.join(FORMATS)}"
    raise TableError(msg)


def require_columns(available: Iterable[str], needed: Iterable[str], *, source: str) -> None:
    """Check that every needed column is there.

    Raises:
        TableError: naming the missing column, the nearest one there is, and all of them.
    """
    available = [str(name) for name in available]
    for name in needed:
        if name in available:
            continue
        # The first row of a file without a header is data, and may be a note: it stays unsaid.
        shown = [column for column in available if len(column) <= 60 and column.count(" ") < 3]
        lowered = {column.lower(): column for column in shown}
        near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.4)
        guess = f"; did you mean {lowered[near[0]]!r}? Rename it to {name!r}" if near else ""
        listed = ", ".join(shown[:LISTED_COLUMNS]) or "none"
        if rest := len(available) - len(shown[:LISTED_COLUMNS]):
            listed += f" (and {rest} more)"
        msg = f"{source} has no column {name!r}{guess}. Columns there: {listed}"
        raise TableError(msg)


def iter_table(
    path: str | Path, *, columns: Sequence[str] | None = None, chunk_rows: int = 2048
) -> Iterator[pd.DataFrame]:
    """Stream a table as DataFrames of at most `chunk_rows` rows; an empty table gives none.

    Text that is not UTF-8 is read with its bad bytes replaced by U+FFFD, so that one row of
    another encoding does not cost the rest. Columns whose name ends in `_id` are strings: a
    hospital's leading zeros are part of the number.

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
        msg = f"{path}: no such file"
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
    import pyarrow.compute as pc

    for position, field in enumerate(batch.schema):
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        if number and field.name.lower().endswith("_id"):
            text = pc.cast(batch.column(position), pa.string())
            batch = batch.set_column(position, field.name, text)
    return batch


def _iter_jsonl(path: Path, chunk_rows: int) -> Iterator[pd.DataFrame]:
    import json

    import pandas as pd

    rows: list[dict[str, Any]] = []
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
            rows.append({name: _text_id(name, value) for name, value in row.items()})
            if len(rows) == chunk_rows:
                yield pd.DataFrame(rows)
                rows = []
    if rows:
        yield pd.DataFrame(rows)


def _text_id(name: str, value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number and name.lower().endswith("_id") and value == value else value


def _whole_pairs(row: Any) -> Any:
    """A JSON value with U+FFFD for each half of a surrogate pair, which no text may hold."""
    import json

    text = json.dumps(row, ensure_ascii=False).encode("utf-16", "surrogatepass")
    return json.loads(text.decode("utf-16", "replace"))


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary name beside `path`, renamed over it when the block ends well, else removed.

    Raises:
        TableError: the folder of `path` does not exist.
    """
    path = Path(path)
    if not path.parent.is_dir():
        msg = f"{path.parent}: no such folder; make it first, or write somewhere else"
        raise TableError(msg)
    handle, name = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name.split('.')[0]}-", suffix="".join(path.suffixes)
    )
    os.close(handle)
    temporary = Path(name)
    # mkstemp makes private files; what we leave behind follows the user's umask like any other.
    umask = os.umask(0)
    os.umask(umask)
    temporary.chmod(0o666 & ~umask)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class TableWriter:
    """Write a table piece by piece; the file appears under its name when all of it is written.

    Use as a context manager; every piece has the columns of the first.
    """

    def __init__(self, path: str | Path, *, metadata: Mapping[str, str] | None = None) -> None:
        self._path = Path(path)
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
        """Append rows.

        Raises:
            TableError: other columns than the first piece's, or values that the format cannot
                hold, such as lists in CSV.
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
            elif self._ending.startswith(".csv"):
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
        for name in frame.columns:
            if frame[name].dtype == object and frame[name].map(_is_nested).any():
                msg = f"{self._path.name}: column {name!r} holds lists; write .parquet or .jsonl"
                raise TableError(msg)
        frame.to_csv(self._text, index=False, header=header)

    def _write_jsonl(self, frame: pd.DataFrame) -> None:
        if len(frame):
            frame.to_json(
                self._text,
                orient="records",
                lines=True,
                force_ascii=False,
                date_format="iso",
                double_precision=15,
            )

    def _write_parquet(self, frame: pd.DataFrame) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._parquet is None:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            kept = {**(table.schema.metadata or {}), **_encoded(self._metadata)}
            schema = _nullable(table.schema).with_metadata(kept)
            writer = pq.ParquetWriter(self._temporary, schema, compression="zstd")
            self._parquet = self._open.enter_context(writer)
        schema = self._parquet.schema
        self._parquet.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, and give the file its name if nothing went wrong."""
        import pandas as pd

        if kind is None and self._columns is None and self._ending == ".parquet":
            self.write(pd.DataFrame())  # an empty file would be no Parquet at all
        self._open.__exit__(kind, error, trace)


def _is_nested(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)


def _nullable(schema: Any) -> Any:
    """A column that is empty in the first piece is text in the next ones."""
    import pyarrow as pa

    fields = [
        field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def _encoded(metadata: Mapping[str, str]) -> dict[bytes, bytes]:
    return {key.encode(): value.encode() for key, value in metadata.items()}


def write_table(
    frame: pd.DataFrame, path: str | Path, *, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a whole table under a temporary name and rename it; see `TableWriter`."""
    with TableWriter(path, metadata=metadata) as writer:
        writer.write(frame)


def read_metadata(path: str | Path) -> dict[str, str]:
    """The text metadata of a Parquet file, without what pandas and Arrow keep there.

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
    ours = {k.decode(): v.decode() for k, v in metadata.items() if k not in {b"pandas"}}
    return {key: value for key, value in ours.items() if not key.startswith("ARROW:")}
