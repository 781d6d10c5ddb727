"""What a table is: its endings, its columns, and the error that names the fault."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

FORMATS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".jsonl", ".jsonl.gz")
TEXT_FORMATS = (".txt", ".txt.gz")
_ADVICE = {
    ".xlsx": "save the sheet as CSV (UTF-8)",
    ".xls": "save the sheet as CSV (UTF-8)",
    ".json": "write one JSON object a line (.jsonl)",
    ".zip": "unpack it",
}
_LISTED_COLUMNS = 40


class TableError(UserError):
    """A table that cannot be read as asked; the message names the file, the fault and the fix."""


def table_format(path: str | Path, endings: tuple[str, ...] = FORMATS) -> str:
    """The ending of a table's file name, one of `endings`, else TableError."""
    name = Path(path).name.lower()
    for ending in endings:
        if name.endswith(ending):
            return ending
    advice = _ADVICE.get(Path(name).suffix)
    fix = f"; {advice}" if advice else ""
    msg = f"{Path(path).name}: expected a table that ends in {', '.join(endings)}{fix}"
    raise TableError(msg)


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
        guess = f"; did you mean {theirs!r}? {fix}" if near else (f". {fix}" if option else "")
        listed = ", ".join(available[:_LISTED_COLUMNS]) or "none"
        if rest := len(available[_LISTED_COLUMNS:]):
            listed += f" (and {rest} more)"
        if not is_header:
            listed = f"{len(available)}, not shown: the first line may be data, not names"
        msg = f"{source} has no column {name!r}{guess}. Columns there: {listed}"
        raise TableError(msg)


def require_cells(frame: pd.DataFrame, needed: Sequence[str], *, source: str) -> None:
    """Check that the needed columns are there and that no row lacks one of their cells.

    Raises:
        TableError: see `require_columns`; or naming the first row that lacks one.
    """
    require_columns(frame.columns, needed, source=source)
    empty = frame[list(needed)].isna().any(axis=1)
    if empty.any():
        msg = f"{source}: row {int(empty.argmax())} has no {' or no '.join(needed)}"
        raise TableError(msg)


# Some name of a header is like one of these. "Smith,John" is a first row without a header.
_SPELLED = re.compile(
    r"[^\W_]*+_\w*+|[a-z]|[a-z]++\d++|age|answer|category|context|date|doc|gender|ids?|labels?|names?|notes?"
    r"|patient|question|sentence|sex|split|stay|terms?|texts?|time|title|type|value|year",
    re.IGNORECASE,
)


def are_names(columns: Iterable[str]) -> bool:
    """Whether a first line is a header, and not data that no message may show."""
    columns = list(columns)
    is_usual = any(map(_SPELLED.fullmatch, columns)) or not columns
    return is_usual and all(map(_is_like_a_name, columns))


def _is_like_a_name(column: str) -> bool:
    is_short = len(column) <= 60 and column.count(" ") < 3
    is_text = column.isprintable() and "\ufffd" not in column
    return is_short and is_text and any(map(str.isalpha, column))
