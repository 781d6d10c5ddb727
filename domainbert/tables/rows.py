"""The streaming reader of all tables and texts: row by row, as text, with every fault listed.

A new format needs a `Reader` in a file of its own, and its line in `READERS`.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
    READ_ERRORS,
    Cells,
    ReadOptions,
    TableError,
    Wanted,
    table_format,
)
from domainbert.tables.parquet_files import parquet_cells, parquet_columns, plain

if TYPE_CHECKING:
    import pandas as pd

FIRST_LINES = 1000  # of JSON, which tell its columns before all of it is read


class Reader(NamedTuple):
    """How files of one format are read: their columns, and their rows.

    The columns may come as several lists, which are joined in order.
    """

    columns: Callable[[Path, ReadOptions], Iterable[Sequence[str]]]
    cells: Callable[[Path, ReadOptions, Wanted], Iterator[Cells]]


@dataclass(frozen=True)
class Row:
    """One row of a source: its number from 0, and its cells as text, lists, or None where empty."""

    number: int
    cells: Mapping[str, Any] = field(repr=False)
    place: str  # such as "notes.csv line 17"
    fault: str = ""  # why the row cannot be read
    remark: str = ""  # what was noticed while reading it


def source_files(source: str | Path) -> list[Path]:
    """The files of a source: a file, a folder's tables (hidden ones left out), or a pattern's.

    Raises:
        TableError: nothing there, or a file that is no table.
    """
    if str(source).startswith(DATABASES):
        raise TableError(
            "expected files, got a database; write the rows of a query to a table"
        )
    path, endings = Path(source), tuple(READERS)
    if path.is_dir():
        files = [
            file
            for file in sorted(path.rglob("*"))
            if file.is_file()
            and file.name.lower().endswith(endings)
            and not any(part.startswith(".") for part in file.relative_to(path).parts)
        ]
    else:
        # A path that exists is taken as it is, whatever characters are in it.
        names: list[str] | list[Path] = [path]
        if not path.exists():
            names = sorted(glob.glob(str(source), recursive=True))  # noqa: PTH207
        files = [Path(name) for name in names if not Path(name).is_dir()]
        for file in files:
            table_format(file, endings)
            if not file.is_file():
                raise TableError(
                    f"{file} is a pipe or a device; save its content to a file first"
                )
    if not files:
        what = "no table in this folder" if path.is_dir() else "no such file"
        msg = f"{path}: {what}; expected {', '.join(endings)}, a folder of them, or a pattern"
        raise TableError(msg)
    return files


def iter_rows(
    source: str | Path, options: ReadOptions = DEFAULTS, *, columns: Wanted = None
) -> Iterator[Row]:
    """Stream the rows of a file, a folder or a pattern.

    Every cell is text as it is spelled ("038", "NA"); only an empty cell, JSON's null or a NaN
    is missing (None). Numbers become their text. Lists in JSON lines and Parquet stay lists. An id
    in CSV loses the apostrophe that guards it from spreadsheets. A line that is not a row is a
    `Row` with a fault.

    Args:
        source: see `source_files`; of a database, see `spooled`.
        options: how to read it.
        columns: read only these where a row has them; all by default.

    Raises:
        TableError: a source that cannot be opened or read to its end, or was changed meanwhile.
    """
    numbers = count()
    for reader, path in _readers(source):
        with _read_errors(path):
            for place, cells, fault, remark in reader.cells(path, options, columns):
                yield Row(next(numbers), cells, place, fault, remark)


def spooled(source: str | Path, options: ReadOptions, *, folder: Path) -> str | Path:
    """The source; or a file in a private folder with the rows of a query, which runs once."""
    if not str(source).startswith(DATABASES):
        return source
    import pyarrow.parquet as pq

    from domainbert.tables import databases

    kept = folder / "query.parquet"
    with (
        databases.query_batches(str(source), options.query) as batches,
        pq.ParquetWriter(kept, batches.schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)
    return kept


def table_columns(
    source: str | Path, options: ReadOptions = DEFAULTS, *, lines: int | None = None
) -> list[str]:
    """The column names of a source, in order; see `iter_rows` for errors.

    JSON lines are read to their end, or for `lines` lines of each file.
    """
    names: dict[str, None] = {}
    for reader, path in _readers(source):
        with _read_errors(path):
            for columns in islice(reader.columns(path, options), lines):
                names |= dict.fromkeys(columns)
    return list(names)


def _readers(source: str | Path) -> list[tuple[Reader, Path]]:
    endings = tuple(READERS)
    return [
        (READERS[table_format(path, endings)], path) for path in source_files(source)
    ]


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except READ_ERRORS as error:
        msg = f"{path.name} cannot be read to its end ({type(error).__name__})"
        raise TableError(msg) from None


def frame_rows(frame: pd.DataFrame) -> Iterator[Row]:
    """The rows of a DataFrame; ids and numbers become text, other objects stay what they are."""
    names = [str(name) for name in frame.columns]
    for number, cells in enumerate(frame.itertuples(index=False, name=None)):
        yield Row(
            number, dict(zip(names, map(cell_of, cells), strict=True)), f"row {number}"
        )


def cell_of(value: Any) -> Any:
    """A value as a cell: None if missing or empty, texts and lists as they are, others as text."""
    if isinstance(value, str):
        return value or None
    if is_missing(value):
        return None
    if hasattr(value, "__len__"):
        return None if isinstance(value, list | dict) and not value else value
    return id_text(value)


# --- JSON lines


def _json_columns(path: Path, options: ReadOptions) -> Iterator[list[str]]:
    yield from (list(values) for _, values, *_ in _json_cells(path, options, None))


def _json_cells(path: Path, options: ReadOptions, columns: Wanted) -> Iterator[Cells]:
    wanted = None if columns is None else set(columns)
    with open_text(path, options.encoding, newline="\n") as text:
        for number, line, fault in bounded_lines(text):
            if not line.strip() and not fault:
                continue
            values, fault = ({}, fault) if fault else _json_object(line)
            cells = {
                whole_text(name): None if value == "" else plain(value)
                for name, value in values.items()
                if wanted is None or name in wanted
            }
            remark = UNDECODABLE if "\ufffd" in line else ""
            yield f"{path.name} line {number}", cells, fault, remark


class _RepeatedKeyError(ValueError):
    """An object with a key twice, of whose values json would keep the last one."""


def _json_object(line: str) -> tuple[dict[str, Any], str]:
    """The object of a line, numbers as text and NaN as missing; or why there is none."""
    keep: dict[str, Any] = {"parse_int": str, "parse_float": str}
    keep["parse_constant"] = lambda name: None if name == "NaN" else name
    try:
        value = json.loads(line, object_pairs_hook=_object, **keep)
    except _RepeatedKeyError:
        return {}, "a JSON object with a key twice"
    except (ValueError, RecursionError):
        value = None
    return (value, "") if isinstance(value, dict) else ({}, "not a JSON object")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _RepeatedKeyError
    return values


# --- text files


def _text_cells(path: Path, options: ReadOptions, columns: Wanted) -> Iterator[Cells]:
    del columns
    with open_text(
        path, options.encoding, newline=None if options.lines else ""
    ) as text:
        lines = bounded_lines(text) if options.lines else [(0, text.read(), "")]
        for number, line, fault in lines:
            place = f"{path.name} line {number}" if options.lines else path.name
            value = line.rstrip("\n") if options.lines else line
            remark = UNDECODABLE if "\ufffd" in value else ""
            yield place, {} if fault else {"text": value or None}, fault, remark


_CSV = Reader(lambda path, options: [csv_columns(path, options)], csv_cells)
READERS: dict[str, Reader] = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), _CSV),
    ".parquet": Reader(lambda path, options: [parquet_columns(path)], parquet_cells),
    **dict.fromkeys((".jsonl", ".jsonl.gz"), Reader(_json_columns, _json_cells)),
    **dict.fromkeys(
        (".txt", ".txt.gz"), Reader(lambda path, options: [["text"]], _text_cells)
    ),
}
