"""The one streaming reader: any table or text, row by row, as text, with every fault listed."""

from __future__ import annotations

import glob
import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.tables.csv_files import csv_columns, csv_rows
from domainbert.tables.ids import id_text, is_missing
from domainbert.tables.names import FORMATS, TEXT_FORMATS, TableError, table_format

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

    import pandas as pd
    import pyarrow as pa

DATABASES = ("postgresql://", "postgres://", "sqlite://")
BATCH_ROWS = 1024


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source where its name does not tell.

    Attributes:
        delimiter: of CSV files; a tab for .tsv, else a comma by default.
        encoding: of text files; UTF-8 by default, undecodable bytes become U+FFFD and a remark.
        lines: read each line of a .txt file as a text, instead of the file as one text.
        query: of a database source.
    """

    delimiter: str | None = None
    encoding: str | None = None
    lines: bool = False
    query: str | None = None

    def __post_init__(self) -> None:
        """Take the name of the tab for one."""
        if self.delimiter in ("tab", "\\t"):
            object.__setattr__(self, "delimiter", "\t")


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

    A path that exists is taken as it is, whatever characters are in it.

    Raises:
        TableError: nothing there, or a file that is no table.
    """
    path = Path(source)
    endings = (*FORMATS, *TEXT_FORMATS)
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        found = [
            file
            for file in inside
            if file.name.lower().endswith(endings)
            and not any(part.startswith(".") for part in file.relative_to(path).parts)
        ]
    elif path.exists():
        table_format(path, endings)
        return [path]
    else:
        found = sorted(Path(name) for name in glob.glob(str(source), recursive=True))  # noqa: PTH207
        for file in found:
            table_format(file, endings)
    if not found:
        what = "no table in this folder" if path.is_dir() else "no such file"
        msg = f"{path}: {what}; expected {', '.join(endings)}, a folder of them, or a pattern"
        raise TableError(msg)
    return found


def iter_rows(source: str | Path, options: ReadOptions = DEFAULTS) -> Iterator[Row]:
    """Stream the rows of a file, a folder, a pattern or a database query.

    Every cell is text as it is spelled ("038", "NA"); only an empty cell is missing. Lists in
    JSON lines and Parquet stay lists. A line that is no row is a `Row` with a fault.

    Raises:
        TableError: a source that cannot be opened, or that ends before its end.
    """
    for number, (place, cells, fault, remark) in enumerate(_cells(source, options)):
        yield Row(number, cells, place, fault, remark)


def table_columns(source: str | Path, options: ReadOptions = DEFAULTS) -> list[str]:
    """The column names of a source; JSON lines are read to their end for them.

    Raises:
        TableError: see `iter_rows`.
    """
    if str(source).startswith(DATABASES):
        first = next(iter_rows(source, options), None)
        return list(first.cells) if first else []
    names: dict[str, None] = {}
    for path in source_files(source):
        names |= dict.fromkeys(_file_columns(path, options))
    return list(names)


def frame_rows(frame: pd.DataFrame) -> Iterator[Row]:
    """The rows of a DataFrame; ids and numbers become text, other objects stay what they are."""
    names = [str(name) for name in frame.columns]
    columns = [frame.iloc[:, position].tolist() for position in range(len(names))]
    for number, cells in enumerate(zip(*columns, strict=True)):
        yield Row(number, dict(zip(names, map(_cell, cells), strict=True)), f"row {number}")


def _cell(value: Any) -> Any:
    if is_missing(value):
        return None if not isinstance(value, str) else value
    if isinstance(value, str | bytes | list | dict | tuple | set) or hasattr(value, "__len__"):
        return value
    return id_text(value)


_Cells = tuple[str, Mapping[str, Any], str, str]  # place, values, fault, remark


def _cells(source: str | Path, options: ReadOptions) -> Iterator[_Cells]:
    if str(source).startswith(DATABASES):
        from domainbert.tables.databases import query_batches

        batches = query_batches(str(source), options.query)
        yield from _arrow_cells(batches, "query")
        return
    for path in source_files(source):
        try:
            yield from _READERS[_kind(path)](path, options)
        except (TableError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  (decompressors and parsers raise all sorts)
            # The parser's own message may quote a row, and a row may be a note.
            msg = f"{path.name} cannot be read to its end ({type(error).__name__})"
            raise TableError(msg) from None


def _kind(path: Path) -> str:
    ending = table_format(path, (*FORMATS, *TEXT_FORMATS)).removesuffix(".gz")
    return ".csv" if ending == ".tsv" else ending


def _file_columns(path: Path, options: ReadOptions) -> list[str]:
    kind = _kind(path)
    if kind == ".csv":
        return csv_columns(path, delimiter=options.delimiter, encoding=options.encoding)
    if kind == ".parquet":
        return list(_parquet(path).schema_arrow.names)
    if kind == ".txt":
        return ["text"]
    names = (name for _, values, *_ in _json_cells(path, options) for name in values)
    return list(dict.fromkeys(names))


def _csv_cells(path: Path, options: ReadOptions) -> Iterator[_Cells]:
    names = csv_columns(path, delimiter=options.delimiter, encoding=options.encoding)
    rows = csv_rows(path, width=len(names), delimiter=options.delimiter, encoding=options.encoding)
    for line, fields, fault, remark in rows:
        values = {name: cell or None for name, cell in zip(names, fields, strict=False)}
        yield f"{path.name} line {line}", values, fault, remark


def _json_cells(path: Path, options: ReadOptions) -> Iterator[_Cells]:
    with _open_text(path, options) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            place, fault, values = f"{path.name} line {number}", "", {}
            try:
                found = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
            except (ValueError, RecursionError):
                fault = "not a JSON object"
            else:
                if isinstance(found, dict):
                    values = {name: _plain(value) for name, value in found.items()}
                else:
                    fault = "not a JSON object"
            remark = "undecodable bytes read as U+FFFD" if "\ufffd" in line else ""
            yield place, values, fault, remark


def _plain(value: Any) -> Any:
    """A JSON value with numbers and booleans as text, and U+FFFD for half a surrogate pair."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _HALF_PAIR.sub("\ufffd", value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


_HALF_PAIR = re.compile("[\ud800-\udfff]")  # json joins whole pairs; what is left is half of one


def _parquet_cells(path: Path, options: ReadOptions) -> Iterator[_Cells]:
    del options
    with _parquet(path) as file:
        yield from _arrow_cells(file.iter_batches(batch_size=BATCH_ROWS), path.name)


def _parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        msg = f"{path.name} cannot be read as Parquet ({type(error).__name__})"
        raise TableError(msg) from None


def _arrow_cells(batches: Any, name: str) -> Iterator[_Cells]:
    number = 0
    for batch in batches:
        columns = [_as_text(batch.column(i)) for i in range(batch.num_columns)]
        for cells in zip(*columns, strict=True):
            number += 1
            yield f"{name} row {number}", dict(zip(batch.schema.names, cells, strict=True)), "", ""


def _as_text(column: pa.Array) -> list[Any]:
    """Cells as text; lists and structures as Python objects."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return [None if v is None else v.decode("utf-8", "replace") for v in column.to_pylist()]
    if not pa.types.is_nested(column.type):
        column = column.cast(pa.string())
    return column.to_pylist()


def _text_cells(path: Path, options: ReadOptions) -> Iterator[_Cells]:
    with _open_text(path, options, newline="" if not options.lines else None) as text:
        texts = (line.rstrip("\n") for line in text) if options.lines else (text.read(),)
        for number, value in enumerate(texts, start=1):
            place = f"{path.name} line {number}" if options.lines else path.name
            remark = "undecodable bytes read as U+FFFD" if "\ufffd" in value else ""
            yield place, {"text": value}, "", remark


def _open_text(path: Path, options: ReadOptions, newline: str | None = None) -> io.TextIOWrapper:
    encoding = options.encoding or "utf-8-sig"
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding=encoding, errors="replace", newline=newline)
    return path.open(encoding=encoding, errors="replace", newline=newline)


_READERS = {
    ".csv": _csv_cells,
    ".jsonl": _json_cells,
    ".parquet": _parquet_cells,
    ".txt": _text_cells,
}
