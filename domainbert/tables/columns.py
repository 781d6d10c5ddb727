"""Columns: those that a task reads, and how they are found in a table."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from domainbert.tables.options import TableError, shortened

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column that a task reads.

    Attributes:
        name: the name in this package.
        role: "text" (a text or a list of texts), "id" (carried into the output) or "value".
        also: other names, in any case, such as those of MIMIC and OMOP.
        required: whether a table without the column is refused.
        within: whether it is the id of a row within a group, carried only if rows are not grouped.
        joined: columns that an argument of our name can join in place of a missing text.
    """

    name: str
    role: Literal["text", "id", "value"] = "value"
    also: tuple[str, ...] = ()
    required: bool = False
    within: bool = False
    joined: tuple[str, ...] = ()


_LISTED_COLUMNS = 40
# A table with more columns is a matrix of numbers, and comparing their names takes long.
_SEARCHED_COLUMNS = 1000
_SEARCHED_CHARACTERS = 200  # of a name; comparing longer ones takes long
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
PATIENT = Column("patient_id", "id", _PATIENTS)
STAY = Column("stay_id", "id", _STAYS)
NOTE = Column("note_id", "id", ("row_id", "note"), within=True)
TIME = Column("chart_time", "value", _TIMES)
TEXT = Column("text", "text", ("note_text", "notes"), required=True)
# Each spelling of an id, a time or a text -> our name: a note's id is never offered as a patient's.
_KNOWN = {
    spelling: column.name
    for column in (PATIENT, STAY, NOTE, TIME, TEXT)
    for spelling in (column.name, *column.also)
}
# How a message tells the caller to name a column, with our name and the table's.
NAMED = "`named={{{ours!r}: {theirs!r}}}`"
KEYWORD = "`{ours}={theirs!r}`"


def match_columns(
    available: Sequence[str],
    columns: Sequence[Column],
    *,
    named: Mapping[str, str | None] | None = None,
    argument: str = "",
    source: str,
) -> dict[str, str]:
    """Find the columns of a task in a table.

    Args:
        available: the table's column names.
        columns: the columns that the task reads.
        named: our name -> the table's name, if the caller knows it; it takes precedence.
        argument: how messages tell to name a column: `NAMED`, `KEYWORD`, or "" if one cannot.
        source: the table's name, for messages.

    Returns:
        Our name -> the table's name, for the columns that the table has.

    Raises:
        TableError: a required or named column is missing, or a column looks like an id that was
            not recognised.
    """
    named = named or {}
    require_columns(
        available,
        [name for column in columns if (name := named.get(column.name))],
        source=source,
    )
    missing = []
    spelled = {name.casefold(): name for name in reversed(available)}
    matches = {}
    for column in columns:
        match = named.get(column.name)
        if not match and column.name in available:
            match = column.name
        elif not match:
            names = (name.casefold() for name in (column.name, *column.also))
            match = next(
                (spelled[name] for name in names if name in spelled), None
            )
        if match:
            matches[column.name] = match
        elif column.required:
            _suggest_joining(column, spelled, source=source)
            missing.append(column.name)
    require_columns(available, missing, source=source, argument=argument)
    _check_unused_ids(
        available, columns, matches, argument=argument, source=source
    )
    return matches


def _suggest_joining(
    column: Column,
    spelled: Mapping[str, str],
    *,
    source: str,
) -> None:
    """Raise a `TableError` if the table has the parts of a column that can be joined."""
    parts = [spelled[name] for name in column.joined if name in spelled]
    if len(parts) > 1:
        raise TableError(
            f"{source} has no column {column.name!r}, but {' and '.join(parts)}; join them "
            f"with `{column.name}={parts}`"
        )


def _check_unused_ids(
    available: Sequence[str],
    columns: Iterable[Column],
    matches: Mapping[str, str],
    *,
    argument: str,
    source: str,
) -> None:
    """Refuse a table with an unused column that is probably an id under a misspelled name."""
    used = set(matches.values())
    unused = [
        name
        for name in available[:_SEARCHED_COLUMNS]
        if name not in used and len(name) <= _SEARCHED_CHARACTERS
    ]
    for column in columns:
        if column.role != "id" or column.name in matches:
            continue
        spellings = [_plain(name) for name in (column.name, *column.also)]
        ids = [spelling for spelling in spellings if spelling.endswith("id")]
        for name in unused:
            # "Patient ID" has the letters of patient_id, "patientsid" nearly. Names are compared
            # only with names that end in id, so "patient_age" passes.
            is_near = difflib.get_close_matches(
                _plain(name), ids, n=1, cutoff=0.8
            )
            if _plain(name) not in spellings and not is_near:
                continue
            fix = "rename the column"
            if argument:
                call = argument.format(ours=column.name, theirs=name)
                fix = f"name it with {call}, or {fix}"
            raise TableError(
                f"{source} has a column {name!r} that looks like {column.name}, and no "
                f"{column.name}; {fix}"
            )


def _plain(name: str) -> str:
    """The letters and digits of a name, in lower case."""
    return "".join(ch for ch in name.casefold() if ch.isalnum())


def require_columns(
    available: Iterable[str],
    needed: Iterable[str],
    *,
    source: str,
    argument: str = "",
) -> None:
    """Check that a table has all needed columns.

    Args:
        available: the table's column names.
        needed: names that must be among them.
        source: the table's name, for the message.
        argument: see `match_columns`.

    Raises:
        TableError: with the missing columns, the nearest names in the table, and all its names.
    """
    available = [str(name) for name in available]
    missing = [name for name in dict.fromkeys(needed) if name not in available]
    if not missing:
        return
    # The first row of a file without a header is data, and may be a note: it is not shown.
    shown: list[str] = []
    if are_names(available):
        shown = available
    listed = shortened(available, _LISTED_COLUMNS) or "none"
    if len(shown) < len(available):
        listed = f"{len(available)}, not shown: the first line may be data, not names"
    head, *tail = [
        repr(name) + _advice(name, shown, argument=argument)
        for name in missing
    ]
    other_columns = "".join(f"; no column {fault}" for fault in tail)
    raise TableError(
        f"{source} has no column {head}{other_columns}. Columns there: {listed}"
    )


def _advice(missing: str, available: Sequence[str], *, argument: str) -> str:
    """What to do about a missing column: name it, or rename the nearest one."""
    meaning = _KNOWN.get(missing.lower())
    same = [name for name in available if _KNOWN.get(name.lower()) == meaning]
    names = {
        name.lower(): name
        for name in available
        if meaning is None or _KNOWN.get(name.lower(), meaning) == meaning
        if len(name) <= _SEARCHED_CHARACTERS
    }
    near = difflib.get_close_matches(missing.lower(), names, n=1, cutoff=0.4)
    if meaning and same:
        near = [same[0].lower()]
    for name in map(names.get, near):
        fix = "Rename it to {ours!r}"
        if argument:
            fix = f"Name it with {argument}"
        call = fix.format(ours=missing, theirs=name)
        return f"; did you mean {name!r}? {call}"
    if argument:
        call = argument.format(ours=missing, theirs="NAME")
        return f". Name it with {call}"
    return ""


def require_cells(
    frame: pd.DataFrame, needed: Sequence[str], *, source: str
) -> None:
    """Check that a table has all needed columns, and a cell of each in every row.

    Raises:
        TableError: see `require_columns`; or with the first row that lacks a cell.
    """
    require_columns(frame.columns, needed, source=source)
    empty = frame[list(needed)].isna().any(axis=1)
    if empty.any():
        raise TableError(
            f"{source}: row {int(empty.argmax())} has no {' or no '.join(needed)}"
        )


# A header has at least one name like these; "Smith,John" is the first row of a file without one.
_SPELLED = re.compile(
    r"[^\W_]*+_\w*+|[a-z]|[a-z]++\d++|age|answer|category|context|date|doc|gender|ids?|labels?|names?|notes?"
    r"|patient|question|sentence|sex|split|stay|terms?|texts?|time|title|type|value|year",
    re.IGNORECASE,
)


def are_names(columns: Sequence[str]) -> bool:
    """Whether a first line is a header, and not data that no message may show."""
    if not columns:
        return True
    has_usual_name = any(map(_SPELLED.fullmatch, columns))
    return has_usual_name and all(map(_is_like_a_name, columns))


def _is_like_a_name(column: str) -> bool:
    is_short = len(column) <= 60 and column.count(" ") < 3
    is_text = column.isprintable() and "\ufffd" not in column
    return is_short and is_text and any(map(str.isalpha, column))
