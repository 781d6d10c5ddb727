"""The streaming reader of all tables and texts: row by row, as text, with every fault listed."""

from __future__ import annotations

import codecs
import csv
import glob
import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.tables.csv_files import (
    UNDECODABLE,
    csv_columns,
    csv_rows,
    open_text,
    unchanged,
)
from domainbert.tables.ids import id_text, is_id_column, is_missing, unguard
from domainbert.tables.names import FORMATS, TEXT_FORMATS, TableError, table_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

DATABASES = ("postgresql://", "postgres://", "sqlite://")
_BATCH_ROWS = 1024
_ENDINGS = (*FORMATS, *TEXT_FORMATS)


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source, where its name does not say.

    Attributes:
        delimiter: of CSV files, one ASCII character or "tab"; by default a tab for .tsv, else a
            comma.
        encoding: of text files; UTF-8 by default, undecodable bytes become U+FFFD and a remark.
        lines: read each line of a .txt file as a text, instead of the file as one text.
        query: of a database source.
    """

    delimiter: str | None = None
    encoding: str | None = None
    lines: bool = False
    query: str | None = None

    def __post_init__(self) -> None:
        delimiter = "\t" if self.delimiter in ("tab", "\\t") else self.delimiter
        is_one = delimiter is None or (len(delimiter) == 1 and delimiter.isascii())
        if not is_one or delimiter in ('"', "\r", "\n", "\0"):
            msg = f"delimiter: expected one character such as ';', or tab, got {delimiter!r}"
            raise TableError(msg)
        try:
            encoding = codecs.lookup(self.encoding).name if self.encoding else None
            b"a".decode(encoding or "utf-8", "replace")  # base64 is a codec but no encoding
        except (LookupError, UnicodeError):
            msg = f"encoding: expected one such as cp1252 or utf-16, got {self.encoding!r}"
            raise TableError(msg) from None
        object.__setattr__(self, "delimiter", delimiter)
        # The default leaves out the mark that some programs put in front of UTF-8.
        object.__setattr__(self, "encoding", None if encoding == "utf-8" else encoding)


DEFAULTS = ReadOptions()


@dataclass(frozen=True)
class Row:
    """One row of a source.

    Attributes:
        number: from 0, over the whole source.
        cells: column -> text, a list, or None where the cell is empty.
        place: such as "notes.csv line 17".
        fault: why the row cannot be read, else "".
        remark: what was noticed while reading it, else "".
    """

    number: int
    cells: Mapping[str, Any] = field(repr=False)
    place: str
    fault: str = ""
    remark: str = ""


def source_files(source: str | Path) -> list[Path]:
    """The files of a source: a file, a folder's tables (hidden ones left out), or a pattern's.

    Raises:
        TableError: nothing there, or a file that is no table.
    """
    path = Path(source)
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        found = [
            file
            for file in inside
            if file.name.lower().endswith(_ENDINGS)
            and not any(part.startswith(".") for part in file.relative_to(path).parts)
        ]
    else:
        # A path that exists is taken as it is, whatever characters are in it.
        names = [path] if path.exists() else sorted(glob.glob(str(source), recursive=True))  # noqa: PTH207
        found = [Path(name) for name in names if not Path(name).is_dir()]
        for file in found:
            table_format(file, _ENDINGS)
    if not found:
        what = "no table in this folder" if path.is_dir() else "no such file"
        msg = f"{path}: {what}; expected {', '.join(_ENDINGS)}, a folder of them, or a pattern"
        raise TableError(msg)
    return found


def iter_rows(
    source: str | Path,
    options: ReadOptions = DEFAULTS,
    *,
    columns: Sequence[str] | None = None,
) -> Iterator[Row]:
    """Stream the rows of a file, a folder, a pattern or a database query.

    Every cell is text as it is spelled ("038", "NA"); only an empty cell, JSON's null or a NaN
    is missing (None). Numbers become their text. Lists in JSON lines and Parquet stay lists. An id
    in CSV loses the apostrophe that guards it, see `domainbert.tables.ids.guard`. A line that is
    no row is a `Row` with a fault.

    Args:
        source: see `source_files`; or `postgresql://...`, `sqlite:///...` with a query.
        options: how to read it.
        columns: read only these where a row has them; all by default.

    Raises:
        TableError: a source that cannot be opened or read to its end, or was changed meanwhile.
    """
    for number, (place, cells, fault, remark) in enumerate(_cells(source, options, columns)):
        yield Row(number, cells, place, fault, remark)


def table_columns(
    source: str | Path, options: ReadOptions = DEFAULTS, *, until: Sequence[str] | None = None
) -> list[str]:
    """The column names of a source, in order; see `iter_rows` for errors.

    JSON lines are read to their end, or until the columns of `until` were seen.
    """
    if str(source).startswith(DATABASES):
        first = next(iter_rows(source, options), None)
        return list(first.cells) if first else []
    names: dict[str, None] = {}
    for path in source_files(source):
        with _read_errors(path):
            for columns in _file_columns(path, options):
                names |= dict.fromkeys(columns)
                if until is not None and names.keys() >= set(until):
                    break
    return list(names)


def frame_rows(frame: pd.DataFrame) -> Iterator[Row]:
    """The rows of a DataFrame; ids and numbers become text, other objects stay what they are."""
    names = [str(name) for name in frame.columns]
    columns = [frame.iloc[:, position].tolist() for position in range(len(names))]
    for number, cells in enumerate(zip(*columns, strict=True)):
        yield Row(number, dict(zip(names, map(_cell, cells), strict=True)), f"row {number}")


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return value or None
    if is_missing(value):
        return None
    if hasattr(value, "__len__"):
        return value
    return id_text(value)


_Cells = tuple[str, Mapping[str, Any], str, str]  # place, values, fault, remark


def _cells(
    source: str | Path, options: ReadOptions, columns: Sequence[str] | None
) -> Iterator[_Cells]:
    if str(source).startswith(DATABASES):
        from domainbert.tables.databases import query_batches

        batches = query_batches(str(source), options.query)
        yield from _arrow_cells(batches, "query", columns)
        return
    for path in source_files(source):
        with _read_errors(path):
            yield from _READERS[_kind(path)](path, options, columns)


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        msg = f"{path.name} cannot be read to its end ({type(error).__name__})"
        raise TableError(msg) from None


def _kind(path: Path) -> str:
    ending = table_format(path, _ENDINGS).removesuffix(".gz")
    return ".csv" if ending == ".tsv" else ending


def _file_columns(path: Path, options: ReadOptions) -> Iterator[Sequence[str]]:
    """The columns of a file; of JSON lines, those of each line."""
    kind = _kind(path)
    if kind == ".csv":
        yield csv_columns(path, delimiter=options.delimiter, encoding=options.encoding)
    elif kind == ".parquet":
        with open_parquet(path) as file:
            yield file.schema_arrow.names
    elif kind == ".txt":
        yield ["text"]
    else:
        yield from (list(values) for _, values, *_ in _json_cells(path, options, None))


_Wanted = Sequence[str] | None  # columns to read; None for all


def _csv_cells(path: Path, options: ReadOptions, columns: _Wanted) -> Iterator[_Cells]:
    names = csv_columns(path, delimiter=options.delimiter, encoding=options.encoding)
    rows = csv_rows(path, width=len(names), delimiter=options.delimiter, encoding=options.encoding)
    chosen = [(name, n) for n, name in enumerate(names) if columns is None or name in columns]
    ids = [name for name, _ in chosen if is_id_column(name)]
    for line, fields, fault, remark in rows:
        values = {} if fault else {name: fields[number] or None for name, number in chosen}
        for name in ids:
            if values.get(name):
                values[name] = unguard(values[name])  # type: ignore[arg-type]
        yield f"{path.name} line {line}", values, fault, remark


def _json_cells(path: Path, options: ReadOptions, columns: _Wanted) -> Iterator[_Cells]:
    wanted = None if columns is None else set(columns)
    with open_text(path, options.encoding, newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            fault, values = "not a JSON object", {}
            with suppress(ValueError, RecursionError):
                found = json.loads(line, parse_int=str, parse_float=str, parse_constant=_constant)
                if isinstance(found, dict):
                    values = {
                        _plain(name): None if value == "" else _plain(value)
                        for name, value in found.items()
                        if wanted is None or name in wanted
                    }
                    fault = ""
            remark = UNDECODABLE if "\ufffd" in line else ""
            yield f"{path.name} line {number}", values, fault, remark


def _constant(name: str) -> str | None:
    """NaN is a number that is missing."""
    return None if name == "NaN" else name


def _plain(value: Any) -> Any:
    """A value with numbers and booleans as text, and U+FFFD for half a surrogate pair."""
    if isinstance(value, str):
        return _HALF_PAIR.sub("\ufffd", value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain(name): _plain(item) for name, item in value.items()}
    return id_text(value)


_HALF_PAIR = re.compile("[\ud800-\udfff]")  # json joins whole pairs; what is left is half of one


def _parquet_cells(path: Path, options: ReadOptions, columns: _Wanted) -> Iterator[_Cells]:
    del options
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        chosen = [name for name in names if columns is None or name in columns]
        batches = file.iter_batches(batch_size=_BATCH_ROWS, columns=chosen)
        yield from _arrow_cells(batches, path.name)


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
                twice = ", ".join(name for name, count in Counter(names).items() if count > 1)
                msg = f"{path.name} repeats the columns {twice}; each needs a name of its own"
                raise TableError(msg)
            yield file
    except (OSError, pa.ArrowException) as error:
        # Arrow's own message may quote a cell.
        msg = f"{path.name} cannot be read as Parquet ({type(error).__name__})"
        raise TableError(msg) from None


def _arrow_cells(batches: Any, name: str, columns: _Wanted = None) -> Iterator[_Cells]:
    number = 0
    for batch in batches:
        names = [n for n in batch.schema.names if columns is None or n in columns]
        cells = {n: _as_text(batch.column(n)) for n in names}
        for place in range(batch.num_rows):
            number += 1
            yield f"{name} row {number}", {n: cells[n][place] for n in names}, "", ""


def arrow_rows(batches: Iterable[Any], name: str) -> Iterator[Row]:
    """The rows of Arrow tables or record batches, read as those of a Parquet file are."""
    for number, (place, cells, fault, remark) in enumerate(_arrow_cells(batches, name)):
        yield Row(number, cells, place, fault, remark)


def _as_text(column: pa.Array) -> list[Any]:
    """Cells as text; lists and structures as Python objects."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_timestamp(kind):  # Python's own dates have no nanoseconds
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    cells = column.to_pylist()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        cells = [cell.decode("utf-8", "replace") if cell else None for cell in cells]
    elif kind not in (pa.string(), pa.large_string()):
        cells = [_plain(cell) for cell in cells]
    return [None if cell == "" else cell for cell in cells]


def _text_cells(path: Path, options: ReadOptions, columns: _Wanted) -> Iterator[_Cells]:
    del columns
    newline = None if options.lines else ""
    with open_text(path, options.encoding, newline=newline) as text:
        texts = (line.rstrip("\n") for line in text) if options.lines else (text.read(),)
        for number, value in enumerate(texts, start=1):
            place = f"{path.name} line {number}" if options.lines else path.name
            remark = UNDECODABLE if "\ufffd" in value else ""
            yield place, {"text": value or None}, "", remark


_READERS = {
    ".csv": _csv_cells,
    ".jsonl": _json_cells,
    ".parquet": _parquet_cells,
    ".txt": _text_cells,
}
