"""The columns that a task reads, under whatever name a table has them."""

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
    """Which column of a table is which of ours.

    Args:
        available: the table's column names.
        columns: those a task reads.
        named: our name -> the table's, where the caller says so; wins over what is recognised.
        source: the table's name, for messages.

    Returns:
        Our name -> the table's, for the columns that are there.

    Raises:
        TableError: a required or named column is not there; or a column that looks like an id of
            a kind that the task groups by was recognised under no name.
    """
    named = {ours: theirs for ours, theirs in (named or {}).items() if theirs}
    spelled = {name.casefold(): name for name in reversed(available)}
    chosen: dict[str, str] = {}
    for column in columns:
        if column.name in named:
            require_columns(available, [named[column.name]], source=source)
            chosen[column.name] = named[column.name]
            continue
        names = (column.name, *column.also)
        if column.name in available:
            chosen[column.name] = column.name
        elif found := [spelled[n.casefold()] for n in names if n.casefold() in spelled]:
            chosen[column.name] = found[0]
        elif column.required:
            require_columns(available, [column.name], source=source)
    _check_unused_ids(available, columns, chosen, source=source)
    return chosen


def _check_unused_ids(
    available: Sequence[str], columns: Iterable[Column], chosen: dict[str, str], *, source: str
) -> None:
    """Refuse a table whose stay or patient column was probably missed."""
    ids = {c.name: c for c in columns if c.kind == "id" and c.name not in chosen}
    used = {name.casefold() for name in chosen.values()}
    for name in available:
        plain = "".join(ch for ch in name.casefold() if ch.isalnum())
        for ours, column in ids.items():
            known = [ours, *column.also]
            spelled = ["".join(ch for ch in n if ch.isalnum()) for n in known]
            is_near = difflib.get_close_matches(plain, spelled, n=1, cutoff=0.8)
            if name.casefold() not in used and is_near:
                option = ours.removesuffix("_id")
                msg = (
                    f"{source} has a column {name!r} that looks like {ours}, and no {ours}; name "
                    f"it with --{option} {name}, or rename the column"
                )
                raise TableError(msg)
