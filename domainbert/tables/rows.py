"""The streaming reader of all tables and texts: every cell as text, every fault listed.

A new format needs a `Reader` and a line in `READERS`.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq

from domainbert.files import whole_text
from domainbert.tables.csv_files import (
    UNDECODABLE,
    bounded_lines,
    csv_cells,
    csv_columns,
    open_text,
)
from domainbert.tables.ids import id_text, is_missing
from domainbert.tables.options import (
    DATABASES,
    DEFAULTS,
    Cell,
    Cells,
    ReadOptions,
    TableError,
    Wanted,
    check_parts,
    is_hidden,
    is_text_file,
    read_errors,
    table_format,
)
from domainbert.tables.parquet_files import (
    filled,
    parquet_cells,
    parquet_columns,
    plain,
)

if TYPE_CHECKING:
    import pandas as pd


TEXT_ENDING = re.compile(r"\.txt(\.gz)?\Z", re.IGNORECASE)
FILE_ID = "note_id"  # the column of a .txt file's name
_CONSTANTS = {
    "NaN": None,
    "Infinity": "Infinity",
    "-Infinity": "-Infinity",
}  # of JSON
# Lines of JSON that tell the columns before all of the file is read.
FIRST_LINES = 1000


class Reader(NamedTuple):
    """Reads files of one format.

    Attributes:
        columns: gives the column names, in one or several lists that are joined in order.
        cells: gives the rows: cells by column, position, fault and remark of each.
    """

    columns: Callable[[Path, ReadOptions], Iterable[Sequence[str]]]
    cells: Callable[[Path, ReadOptions, Wanted], Iterator[Cells]]


@dataclass(frozen=True)
class Row:
    """One row of a source.

    Attributes:
        number: its position, from 0.
        cells: texts or lists by column name; None for an empty cell.
        place: such as "notes.csv line 17".
        fault: why the row cannot be read, or "".
        remark: what was noticed while it was read, or "".
    """

    number: int
    cells: Mapping[str, Cell] = field(repr=False)
    place: str
    fault: str = ""
    remark: str = ""


def source_files(source: str | Path) -> list[Path]:
    """The files of a source: a file, the tables in a folder (without hidden ones), or a pattern.

    Raises:
        TableError: no file, or a file that is not a table.
    """
    if str(source).startswith(DATABASES):
        raise TableError(
            "expected files, got a database; write the rows of a query to a table"
        )
    path = Path(source)
    endings = tuple(READERS)
    if path.is_dir():
        files = [
            file
            for file in sorted(path.rglob("*"))
            if file.name.lower().endswith(endings)
            and file.is_file()
            and not is_hidden(file.relative_to(path))
        ]
        for folder in {path, *(file.parent for file in files)}:
            check_parts(folder)
    else:
        files = _matching_files(str(source), endings)
    if files:
        return files
    missing = "no such file"
    if path.is_dir():
        missing = "no table in this folder"
    raise TableError(
        f"{path}: {missing}; expected {', '.join(endings)}, a folder of them, or a pattern"
    )


def _matching_files(pattern: str, endings: tuple[str, ...]) -> list[Path]:
    """The file of that name, or else the files that match it as a pattern."""
    names = [pattern]
    # A path that exists is taken literally, whatever characters are in it.
    if not Path(pattern).exists():
        names = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    files = [Path(name) for name in names if not Path(name).is_dir()]
    for file in files:
        table_format(file, endings)
        if not file.is_file():
            raise TableError(
                f"{file} is a pipe or a device; save its content to a file first"
            )
    return files


def iter_rows(
    source: str | Path,
    options: ReadOptions = DEFAULTS,
    *,
    columns: Wanted = None,
) -> Iterator[Row]:
    """Stream the rows of a file, a folder or a pattern.

    Every cell is text as it is spelled ("038", "NA"); only an empty cell, JSON's null or a NaN
    is missing (None). Numbers become text. Lists in JSON lines and Parquet stay lists. An id in
    CSV loses the apostrophe that guards it from spreadsheets. A line that is not a row gives a
    `Row` with a fault. A .txt file has its name as `note_id`, with its folders in the source.

    Args:
        source: see `source_files`; for a database, see `spooled`.
        options: how to read the source.
        columns: the columns to read, if a row has them; by default all.

    Raises:
        TableError: the source cannot be opened or read to its end, or was changed meanwhile.
    """
    numbers = count()
    readers = _readers(source)
    root = Path(source)
    if not root.is_dir():  # the deepest folder that holds all files
        root = Path(os.path.commonpath([path.parent for _, path in readers]))
    for reader, path in readers:
        ids = {}
        if is_text_file(path) and not options.lines:
            name = path.relative_to(root).as_posix()
            ids[FILE_ID] = TEXT_ENDING.sub("", name)
        with read_errors(path):
            for cells, *remarks in reader.cells(path, options, columns):
                yield Row(next(numbers), {**ids, **cells}, *remarks)


def spooled(
    source: str | Path, options: ReadOptions, *, folder: Path
) -> str | Path:
    """The source; for a database a file in a private folder, with the rows of the query."""
    if not str(source).startswith(DATABASES):
        return source
    from domainbert.tables import databases

    file = folder / "query.parquet"
    with (
        databases.query_batches(str(source), options.query) as batches,
        pq.ParquetWriter(file, batches.schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)
    return file


def table_columns(
    source: str | Path,
    options: ReadOptions = DEFAULTS,
    *,
    lines: int | None = None,
) -> list[str]:
    """The column names of a source, in order; see `iter_rows` for errors.

    JSON lines are read to their end, or only the first `lines` of each file.
    """
    names: dict[str, None] = {}
    for reader, path in _readers(source):
        with read_errors(path):
            for columns in islice(reader.columns(path, options), lines):
                names |= dict.fromkeys(columns)
    return list(names)


def _readers(source: str | Path) -> list[tuple[Reader, Path]]:
    endings = tuple(READERS)
    return [
        (READERS[table_format(path, endings)], path)
        for path in source_files(source)
    ]


def frame_rows(frame: pd.DataFrame) -> Iterator[Row]:
    """The rows of a DataFrame, with cells as in `cell_of`."""
    names = [str(name) for name in frame.columns]
    for number, values in enumerate(frame.itertuples(index=False, name=None)):
        cells = dict(zip(names, map(cell_of, values), strict=True))
        yield Row(number, cells, f"row {number}")


def cell_of(value: Cell) -> Cell:
    """A value as a cell: None if missing or empty, texts and lists unchanged, others as text."""
    if isinstance(value, str):
        return value or None
    if is_missing(value):
        return None
    if isinstance(value, list | dict):
        return value or None
    if hasattr(value, "__len__"):
        return value
    return id_text(value)


# --- JSON lines


def _json_columns(path: Path, options: ReadOptions) -> Iterator[list[str]]:
    for cells, *_ in _json_cells(path, options, None):
        yield list(cells)


def _json_cells(
    path: Path, options: ReadOptions, columns: Wanted
) -> Iterator[Cells]:
    """The objects of JSON lines, each with its place, its fault and a remark."""
    with open_text(path, options.encoding, newline="\n") as text:
        for number, line, fault in bounded_lines(text):
            values: dict[str, Cell] = {}
            if not fault:
                if not line.strip():
                    continue
                values, fault = _json_object(line)
            cells = {
                whole_text(name): filled(plain(value))
                for name, value in values.items()
                if columns is None or name in columns
            }
            yield cells, f"{path.name} line {number}", fault, _remark(line)


class _RepeatedKeyError(ValueError):
    """An object has a key twice; json would keep only the last value."""


def _json_object(line: str) -> tuple[dict[str, Cell], str]:
    """The object of a line, with numbers as text and NaN as missing; and the fault, or ""."""
    try:
        value = json.loads(
            line,
            object_pairs_hook=_object,
            parse_int=str,
            parse_float=str,
            parse_constant=_CONSTANTS.get,
        )
    except _RepeatedKeyError:
        return {}, "a JSON object with a key twice"
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value, ""
    return {}, "not a JSON object"


def _object(pairs: list[tuple[str, Cell]]) -> dict[str, Cell]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _RepeatedKeyError
    return values


# --- text files


def _text_columns(path: Path, options: ReadOptions) -> list[list[str]]:
    del path
    return [["text"] if options.lines else [FILE_ID, "text"]]


def _text_cells(
    path: Path, options: ReadOptions, columns: Wanted
) -> Iterator[Cells]:
    """The texts of a .txt file, the file or each line, with place, fault and remark."""
    del columns
    if not options.lines:
        with open_text(path, options.encoding, newline="") as file:
            yield _text_row(path.name, file.read(), "")
        return
    with open_text(path, options.encoding, newline=None) as file:
        for number, line, fault in bounded_lines(file):
            yield _text_row(
                f"{path.name} line {number}", line.rstrip("\n"), fault
            )


def _text_row(position: str, text: str, fault: str) -> Cells:
    cells = {}
    if not fault:
        cells["text"] = text or None
    return cells, position, fault, _remark(text)


def _remark(text: str) -> str:
    return UNDECODABLE * ("\ufffd" in text)


_CSV = Reader(lambda path, options: [csv_columns(path, options)], csv_cells)
READERS: dict[str, Reader] = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), _CSV),
    ".parquet": Reader(
        lambda path, options: [parquet_columns(path)], parquet_cells
    ),
    **dict.fromkeys(
        (".jsonl", ".jsonl.gz"), Reader(_json_columns, _json_cells)
    ),
    **dict.fromkeys((".txt", ".txt.gz"), Reader(_text_columns, _text_cells)),
}
