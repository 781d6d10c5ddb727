"""Read and write CSV, Parquet and JSON lines in streams: a table need not fit in memory."""

from __future__ import annotations

import difflib
import gzip
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    import pandas as pd
    import pyarrow.parquet as pq

FORMATS = (".csv", ".csv.gz", ".parquet", ".jsonl", ".jsonl.gz")


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
        lowered = {column.lower(): column for column in available}
        near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.4)
        guess = f"; did you mean {lowered[near[0]]!r}? Rename it to {name!r}" if near else ""
        listed = ", ".join(available) if available else "none"
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
    path, ending = Path(path), table_format(path)
    if not path.is_file():
        msg = f"{path}: no such file"
        raise TableError(msg)
    readers = {".csv": _iter_csv, ".parquet": _iter_parquet, ".jsonl": _iter_jsonl}
    reader = readers[ending.removesuffix(".gz")]
    seen_rows = False
    try:
        for frame in reader(path, chunk_rows):
            if columns is not None:
                require_columns(frame.columns, columns, source=path.name)
                frame = frame[list(columns)]
            if len(frame):
                seen_rows = True
                yield frame
    except (TableError, GeneratorExit):
        raise
    except Exception as error:
        if seen_rows and not _is_parse_error(error):
            raise
        # The parser's own message may quote the row, and a row may be a note: it stays unsaid.
        msg = f"{path.name} cannot be read as {ending} ({type(error).__name__})"
        raise TableError(msg) from None


def _is_parse_error(error: Exception) -> bool:
    import pandas as pd
    import pyarrow as pa

    return isinstance(error, pd.errors.ParserError | pa.ArrowInvalid | ValueError | OSError)


def read_table(path: str | Path, *, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a whole table; see `iter_table`. An empty file gives a frame with no rows."""
    import pandas as pd

    frames = list(iter_table(path, columns=columns))
    if frames:
        return pd.concat(frames, ignore_index=True)
    return pd.DataFrame(columns=list(columns or table_columns(path)))


def table_columns(path: str | Path) -> list[str]:
    """The column names of a table, with no row read where the format has a header."""
    path, ending = Path(path), table_format(path)
    if ending == ".parquet":
        import pyarrow.parquet as pq

        return list(pq.read_schema(path).names)
    first = next(iter_table(path, chunk_rows=1), None)
    if first is not None:
        return [str(name) for name in first.columns]
    if path.stat().st_size and ending.startswith(".csv"):
        with _open_text(path) as handle:
            return handle.readline().strip().split(",")
    return []


def _open_text(path: Path) -> Any:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="")
    return path.open(encoding="utf-8", errors="replace", newline="")


def _iter_csv(path: Path, chunk_rows: int) -> Iterator[pd.DataFrame]:
    import pandas as pd

    with _open_text(path) as handle:
        header = pd.read_csv(handle, nrows=0) if _has_text(path) else pd.DataFrame()
    if not len(header.columns):
        return
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
        for batch in file.iter_batches(batch_size=chunk_rows):
            yield batch.to_pandas()


def _iter_jsonl(path: Path, chunk_rows: int) -> Iterator[pd.DataFrame]:
    import json

    import pandas as pd

    def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
        table = pd.DataFrame(rows)
        for name in table.columns:
            if str(name).endswith("_id"):
                table[name] = table[name].map(str, na_action="ignore")
        return table

    rows: list[dict[str, Any]] = []
    with _open_text(path) as handle:
        for number, line in enumerate(handle, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                msg = f"{path.name}, line {number}, column {error.colno}: not JSON ({error.msg})"
                raise TableError(msg) from None
            if not isinstance(row, dict):
                msg = f"{path.name}, line {number}: expected one JSON object a line"
                raise TableError(msg)
            rows.append(row)
            if len(rows) == chunk_rows:
                yield frame(rows)
                rows = []
    if rows:
        yield frame(rows)


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
        self._context = atomic_path(self._path)
        self._parquet: pq.ParquetWriter | None = None
        self._text: Any = None

    def __enter__(self) -> Self:
        """Open the temporary file."""
        self._temporary = self._context.__enter__()
        if self._ending != ".parquet":
            opener = gzip.open if self._ending.endswith(".gz") else open
            self._text = opener(self._temporary, "wt", encoding="utf-8", newline="")
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append rows."""
        if self._ending == ".parquet":
            self._write_parquet(frame)
        elif self._ending.startswith(".csv"):
            # The header belongs to the first piece alone.
            frame.to_csv(self._text, index=False, header=self._text.tell() == 0)
        else:
            frame.to_json(
                self._text, orient="records", lines=True, force_ascii=False, date_format="iso"
            )

    def _write_parquet(self, frame: pd.DataFrame) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._parquet is None:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            kept = {**(table.schema.metadata or {}), **_encoded(self._metadata)}
            schema = _nullable(table.schema).with_metadata(kept)
            self._parquet = pq.ParquetWriter(self._temporary, schema, compression="zstd")
        schema = self._parquet.schema
        self._parquet.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, and give the file its name if nothing went wrong."""
        for handle in (self._parquet, self._text):
            if handle is not None:
                handle.close()
        self._context.__exit__(kind, error, trace)


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
    """The text metadata of a Parquet file, without what pandas and Arrow keep there."""
    import pyarrow.parquet as pq

    metadata = pq.read_schema(path).metadata or {}
    ours = {k.decode(): v.decode() for k, v in metadata.items() if k not in {b"pandas"}}
    return {key: value for key, value in ours.items() if not key.startswith("ARROW:")}
