"""The columns that a task reads, and how they are found under other names."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from domainbert.tables.names import TableError, require_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True)
class Column:
    """A column that a task reads.

    Attributes:
        name: ours.
        kind: "text" (one text or a list of them), "id" (carried into the output) or "value".
        also: other names of it, in any case; MIMIC's and OMOP's, for example.
        required: whether a table without it is refused.
        within: an id of a row within a group; carried only where rows are not grouped.
    """

    name: str
    kind: Literal["text", "id", "value"] = "value"
    also: tuple[str, ...] = ()
    required: bool = False
    within: bool = False


_SEARCHED = 1000  # columns; a table with more is a matrix, and comparing names takes long
# The commands' options that name a column.
_OPTIONS = {
    "text": "--text",
    "patient_id": "--patient",
    "stay_id": "--stay",
    "note_id": "--note",
    "chart_time": "--time",
}

PATIENT = Column("patient_id", "id", ("subject_id", "person_id", "patient_nbr", "patient", "mrn"))
STAY = Column(
    "stay_id",
    "id",
    ("hadm_id", "visit_occurrence_id", "encounter_id", "admission_id", "visit_id", "stay"),
)
NOTE = Column("note_id", "id", ("row_id", "note"), within=True)
TIME = Column("chart_time", "value", ("charttime", "note_datetime", "chartdate", "note_date"))
TEXT = Column("text", "text", ("note_text", "notes"), required=True)


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
            option = _OPTIONS.get(column.name, "")
            require_columns(available, [column.name], source=source, option=option)
    _check_unused_ids(available, columns, chosen, source=source)
    return chosen


def _check_unused_ids(
    available: Sequence[str], columns: Iterable[Column], chosen: dict[str, str], *, source: str
) -> None:
    """Refuse a table whose stay or patient column was probably missed."""
    ids = {c.name: c for c in columns if c.kind == "id" and c.name not in chosen}
    used = set(chosen.values())
    for name in available[:_SEARCHED]:
        for ours, column in ids.items():
            if name not in used and _is_near(name, column):
                option = f"name it with {_OPTIONS[ours]} {name}, or " if ours in _OPTIONS else ""
                msg = (
                    f"{source} has a column {name!r} that looks like {ours}, and no {ours}; "
                    f"{option}rename the column"
                )
                raise TableError(msg)


def _is_near(name: str, column: Column) -> bool:
    """Whether a name is a slip of one of the column's: "patientid", but not "patient_age"."""
    plain = _plain(name)
    known = [_plain(other) for other in (column.name, *column.also)]
    ids = [other for other in known if other.endswith("id")]
    return plain in known or bool(difflib.get_close_matches(plain, ids, n=1, cutoff=0.8))


def _plain(name: str) -> str:
    return "".join(ch for ch in name.casefold() if ch.isalnum())
