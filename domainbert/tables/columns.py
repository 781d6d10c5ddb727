"""What a table is read by: its format, options, the columns that a task finds in it, and ids."""

from __future__ import annotations

import codecs
import csv
import difflib
import math
import re
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from domainbert.errors import UserError

if TYPE_CHECKING:
    import pandas as pd


FORMATS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".jsonl", ".jsonl.gz")
DATABASES = ("postgresql://", "postgres://", "sqlite://")
_ADVICE = {
    ".xlsx": "save the sheet as CSV (UTF-8)",
    ".xls": "save the sheet as CSV (UTF-8)",
    ".json": "write one JSON object a line (.jsonl)",
    ".zip": "unpack it",
}


READ_ERRORS = (OSError, EOFError, zlib.error, csv.Error)  # of a damaged file
Cells: TypeAlias = tuple[
    str, Mapping[str, Any], str, str
]  # place, values, fault, remark
Flaws: TypeAlias = list[tuple[str, int, str]]  # file, line from 1, problem
Wanted: TypeAlias = Sequence[str] | None  # columns to read; None for all


class TableError(UserError):
    """A table that cannot be read as asked; the message names the file, the fault and the fix."""


def is_text_file(path: str | Path) -> bool:
    """Whether a file is plain text by its name, not a table."""
    return str(path).lower().endswith((".txt", ".txt.gz"))


def table_format(path: str | Path, endings: tuple[str, ...] = FORMATS) -> str:
    """The ending of a table's file name, one of `endings`, else TableError."""
    name = Path(path).name.lower()
    for ending in endings:
        if name.endswith(ending):
            return ending
    advice = _ADVICE.get(Path(name).suffix)
    fix = f"; {advice}" if advice else ""
    raise TableError(
        f"{Path(path).name}: expected a table that ends in {', '.join(endings)}{fix}"
    )


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
            b"a".decode(
                encoding or "utf-8", "replace"
            )  # base64 is a codec but no encoding
        except (LookupError, UnicodeError):
            msg = f"encoding: expected one such as cp1252 or utf-16, got {self.encoding!r}"
            raise TableError(msg) from None
        object.__setattr__(self, "delimiter", delimiter)
        # The default leaves out the mark that some programs put in front of UTF-8.
        object.__setattr__(self, "encoding", None if encoding == "utf-8" else encoding)


DEFAULTS = ReadOptions()


@dataclass(frozen=True)
class Column:
    """A column that a task reads.

    Attributes:
        name: ours.
        kind: "text" (one text or a list of them), "id" (carried into the output) or "value".
        also: other names of it, in any case; MIMIC's and OMOP's, for example.
        required: whether a table without it is refused.
        within: an id of a row within a group; carried only where rows are not grouped.
        option: of the commands, that names it.
    """

    name: str
    kind: Literal["text", "id", "value"] = "value"
    also: tuple[str, ...] = ()
    required: bool = False
    within: bool = False
    option: str = ""


_LISTED_COLUMNS = 40
_SEARCHED = (
    1000  # columns; a table with more is a matrix, and comparing names takes long
)
_PATIENTS = ("subject_id", "person_id", "patient_nbr", "patient", "mrn")
_STAYS = (
    "hadm_id",
    "visit_occurrence_id",
    "encounter_id",
    "admission_id",
    "visit_id",
    "stay",
)
_TIMES = ("charttime", "note_datetime", "chartdate", "note_date")
PATIENT = Column("patient_id", "id", _PATIENTS, option="--patient")
STAY = Column("stay_id", "id", _STAYS, option="--stay")
NOTE = Column("note_id", "id", ("row_id", "note"), within=True, option="--note")
TIME = Column("chart_time", "value", _TIMES, option="--time")
TEXT = Column("text", "text", ("note_text", "notes"), required=True, option="--text")


def match_columns(
    available: Sequence[str],
    columns: Iterable[Column],
    *,
    named: Mapping[str, str] | None = None,
    source: str,
) -> dict[str, str]:
    """Our column names -> the table's, for the columns that are there.

    Args:
        available: the table's column names.
        columns: those a task reads.
        named: our name -> the table's, where the caller says so; wins over what is recognised.
        source: the table's name, for messages.

    Raises:
        TableError: a required or named column is not there, or a column looks like an id that no
            name was recognised as.
    """
    named = {ours: theirs for ours, theirs in (named or {}).items() if theirs}
    columns = list(columns)
    spelled = {name.casefold(): name for name in reversed(available)}
    chosen: dict[str, str] = {}
    for column in columns:
        names = [name.casefold() for name in (column.name, *column.also)]
        if column.name in named:
            require_columns(available, [named[column.name]], source=source)
            chosen[column.name] = named[column.name]
        elif column.name in available:
            chosen[column.name] = column.name
        elif found := [spelled[name] for name in names if name in spelled]:
            chosen[column.name] = found[0]
        elif column.required:
            require_columns(
                available, [column.name], source=source, option=column.option
            )
    _check_unused_ids(available, columns, chosen, source=source)
    return chosen


def _check_unused_ids(
    available: Sequence[str],
    columns: Iterable[Column],
    chosen: dict[str, str],
    *,
    source: str,
) -> None:
    """Refuse a table whose stay or patient column was probably missed."""
    used = set(chosen.values())
    unused = [name for name in available[:_SEARCHED] if name not in used]
    for column in columns:
        if column.kind != "id" or column.name in chosen:
            continue
        ours, names = (
            column.name,
            [_plain(name) for name in (column.name, *column.also)],
        )
        ids = [name for name in names if name.endswith("id")]
        for name in unused:
            # A slip of one of its names: "patientid", but not "patient_age".
            is_near = difflib.get_close_matches(_plain(name), ids, n=1, cutoff=0.8)
            if _plain(name) in names or is_near:
                option = (
                    f"name it with {column.option} {name}, or " if column.option else ""
                )
                raise TableError(
                    f"{source} has a column {name!r} that looks like {ours}, and no {ours}; "
                    f"{option}rename the column"
                )


def _plain(name: str) -> str:
    return "".join(ch for ch in name.casefold() if ch.isalnum())


def require_columns(
    available: Iterable[str], needed: Iterable[str], *, source: str, option: str = ""
) -> None:
    """Check that every needed column is there.

    Args:
        available: names of the table's columns.
        needed: names that must be among them.
        source: the table's name, for the message.
        option: of the command, that names another column.

    Raises:
        TableError: naming the missing column, the nearest one there is, and all of them.
    """
    available = [str(name) for name in available]
    # The first row of a file without a header is data, and may be a note: it stays unsaid.
    is_header = are_names(available)
    lowered = {column.lower(): column for column in available} if is_header else {}
    for name in needed:
        if name in available:
            continue
        near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.4)
        theirs = lowered[near[0]] if near else "NAME"
        fix = f"Name it with {option} {theirs}" if option else f"Rename it to {name!r}"
        guess = (
            f"; did you mean {theirs!r}? {fix}"
            if near
            else (f". {fix}" if option else "")
        )
        listed = ", ".join(available[:_LISTED_COLUMNS]) or "none"
        if rest := len(available[_LISTED_COLUMNS:]):
            listed += f" (and {rest} more)"
        if not is_header:
            listed = (
                f"{len(available)}, not shown: the first line may be data, not names"
            )
        raise TableError(
            f"{source} has no column {name!r}{guess}. Columns there: {listed}"
        )


def require_cells(frame: pd.DataFrame, needed: Sequence[str], *, source: str) -> None:
    """Check that the needed columns are there and that no row lacks one of their cells.

    Raises:
        TableError: see `require_columns`; or naming the first row that lacks one.
    """
    require_columns(frame.columns, needed, source=source)
    empty = frame[list(needed)].isna().any(axis=1)
    if empty.any():
        raise TableError(
            f"{source}: row {int(empty.argmax())} has no {' or no '.join(needed)}"
        )


# Some name of a header is like one of these. "Smith,John" is a first row without a header.
_SPELLED = re.compile(
    r"[^\W_]*+_\w*+|[a-z]|[a-z]++\d++|age|answer|category|context|date|doc|gender|ids?|labels?|names?|notes?"
    r"|patient|question|sentence|sex|split|stay|terms?|texts?|time|title|type|value|year",
    re.IGNORECASE,
)


def are_names(columns: Sequence[str]) -> bool:
    """Whether a first line is a header, and not data that no message may show."""

    def is_like_a_name(column: str) -> bool:
        is_short = len(column) <= 60 and column.count(" ") < 3
        is_text = column.isprintable() and "\ufffd" not in column
        return is_short and is_text and any(map(str.isalpha, column))

    is_usual = any(map(_SPELLED.fullmatch, columns)) or not columns
    return is_usual and all(map(is_like_a_name, columns))


# --- ids

_ZEROS = re.compile(r"^([+-]?\d+)\.0+\Z")
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_GUARDED = re.compile(r"'+[=+\-@\t\r]")


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, NaT, pandas.NA or an empty string."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    if isinstance(value, str | bytes | list | dict | tuple):
        return False
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA and arrays have no truth value
        return type(value).__name__ == "NAType"
    except ArithmeticError:  # Decimal("sNaN") cannot be compared
        return True


def id_text(value: Any) -> str | None:
    """An id as text without surrounding spaces, or None where it is missing.

    12, 12.0 and Decimal("12") are all "12", and True is "true".
    """
    if is_missing(value):
        return None
    if isinstance(value, str):
        return value.strip()
    is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool)
    if is_number:
        return _number_text(value)
    text = str(value)
    return text.lower() if text in ("True", "False") else text


def _number_text(value: Any) -> str:
    """A number without a fraction as a whole one; in hex beyond the digits of `str`."""
    is_whole = isinstance(value, Integral)
    if not is_whole:
        is_whole = math.isfinite(value) and value == int(value)
    if not is_whole:
        return str(value)
    try:
        return str(int(value))
    except ValueError:  # more than 4,300 digits
        return hex(int(value))


def id_key(value: Any) -> str | None:
    """An id for comparison: "P1" is "p1 " and 1001 is "1001.0", but "0012" is not "12"."""
    text = id_text(value)
    if text is None:
        return None
    text = unicodedata.normalize("NFKC", text).strip().casefold()
    return _ZEROS.sub(r"\1", text)


def is_id_column(name: object) -> bool:
    """Whether a column holds ids: `id`, `mrn`, `*_id` and the like, in any case."""
    lower = str(name).lower()
    return lower in ("mrn", "patient", "patient_nbr", "stay") or f"_{lower}".endswith(
        "_id"
    )


def guard(text: str) -> str:
    """An id as it is written to CSV: a `'` in front where a spreadsheet would see a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def unguard(text: str) -> str:
    """An id as it was before `guard`."""
    return text[1:] if _GUARDED.match(text) else text
