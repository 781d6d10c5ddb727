"""Which notes of a stay a model reads: chosen by its cohort, kept in the model, applied to others.

A cohort carries its choice in the column `note_choice`. The rules are those of
`clinical/cohort/sql/notes.sql`, as far as a table of notes alone can tell: which stays are one
episode, and when a patient came back, is known only with the admissions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from clinical.stays.stays import note_times
from domainbert.errors import UserError
from domainbert.settings import Names, Positive, Settings
from domainbert.tables import Column, TableError, is_missing

if TYPE_CHECKING:
    import pandas as pd

    from domainbert.tables import Row

CHOICE = "note_choice"
COLUMNS = (
    Column(CHOICE),
    Column("exclusion"),
    Column("category", also=("note_category",)),
    Column("kind", also=("description", "note_type")),
    Column("error", also=("iserror",)),
    Column("chart_date", also=("chartdate", "note_date")),
    Column("admit_time", also=("episode_start", "admittime", "visit_start_datetime")),
)
"""What a table of notes may have for the choice."""
EVENT = "readmitted within 30 days of discharge"
"""What happened to a stay with the outcome, of a table that does not say."""
AS_GIVEN = "notes as given, not chosen as in training"
_TRUE = {"1", "1.0", "TRUE", "T", "YES", "Y"}  # as in clinical/cohort/sql/macros.sql


class NoteChoice(Settings):
    """Which notes of a stay are read.

    Attributes:
        notes: "discharge" for discharge summaries and their addenda; "early" for every other note
            that was charted within `hours` of admission.
        hours: after admission; for "early" only.
        summaries: categories of discharge summaries, upper case.
        addenda: kinds of notes that are addenda, upper case; they follow their summary.
        transfer_gap_hours: stays that follow each other within this time are one episode, whose
            notes are read together.
        definition: name and version of the cohort's definition.
        definition_sha256: of its text.
        event: what happened to a stay with the outcome, such as "died within 30 days of discharge".
    """

    notes: Literal["discharge", "early"]
    hours: Positive | None = None
    summaries: Names
    addenda: Names = ()
    transfer_gap_hours: float
    definition: str
    definition_sha256: str
    event: str = EVENT

    def __str__(self) -> str:
        """What a message calls the notes."""
        early = (
            ""
            if self.hours is None
            else f"notes of the first {self.hours:g} hours other than "
        )
        return f"{early}discharge summaries (category {' or '.join(self.summaries)})"

    def choose(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of a stay whose notes are read, in the order of a cohort.

        Raises:
            TableError: the table has no column that decides.
        """
        early = self.notes == "early"
        for name in ("category", "chart_time", "admit_time")[: 3 if early else 1]:
            if name not in rows[0].cells:
                raise TableError(
                    f"this model reads {self}, and there is no column {name!r} to choose them by; "
                    f"add or rename it, score a cohort (clinical cohort), or read all notes with "
                    "--notes as-given"
                )
        charted = self._charted(rows)
        admitted = note_times(row.cells.get("admit_time") for row in rows).min()
        places = []
        for number, (row, time) in enumerate(zip(rows, charted, strict=True)):
            category = _upper(row.cells.get("category"))
            is_kind = bool(category) and (category in self.summaries) != early
            is_late = early and not (time - admitted).total_seconds() <= 3600 * (
                self.hours or 0
            )
            if is_kind and not is_late and _upper(row.cells.get("error")) not in _TRUE:
                places.append((*self._place(row, time), number))
        return [rows[place[-1]] for place in sorted(places)]

    def _charted(self, rows: Sequence[Row]) -> list[Any]:
        """When each note was charted; a day without a time counts to its end. NaT if unknown."""
        import pandas as pd

        written = [row.cells.get("chart_time") for row in rows]
        times = note_times(written)
        days = times.fillna(
            note_times(row.cells.get("chart_date") for row in rows)
        ).dt.normalize()
        # MIMIC-IV writes the day of a summary as a time: midnight.
        is_day = times.isna() | pd.Series(
            [len(str(cell).strip()) <= 10 for cell in written]
        )
        is_day |= (times == days) & (self.notes == "discharge")
        return list(times.mask(is_day, days + pd.Timedelta(days=1)))

    def _place(self, row: Row, charted: pd.Timestamp) -> tuple[Any, ...]:
        """Where a note stands: by time, a summary before its addenda, then by number and id."""
        note = str(row.cells.get("note_id") or "").strip()
        digits = note[len(note.rstrip("0123456789")) :]
        known = not is_missing(charted)
        return (
            *(not known, charted.value if known else 0),
            _upper(row.cells.get("kind")) in self.addenda,
            *(not digits, int(digits or 0), not note, note, str(row.cells.get("text"))),
        )


def outcome_of(choice: NoteChoice | None) -> str:
    """The outcome as a noun, such as "unplanned readmission within 30 days of discharge"."""
    verb, rest = (choice.event if choice else EVENT).split(" ", 1)
    nouns = {"readmitted": "unplanned readmission", "died": "death", "stayed": "stay"}
    return f"{nouns.get(verb, verb)} {rest}"


@cache
def checked_choice(cell: str | None, wanted: NoteChoice) -> bool:
    """Whether a cell of `note_choice` is the choice that is wanted; False for an empty one.

    The names of the categories may differ.

    Raises:
        UserError: it is another one, or none.
    """
    found = choice_of([cell])
    rules = ("notes", "hours", "transfer_gap_hours")
    if found and any(getattr(found, rule) != getattr(wanted, rule) for rule in rules):
        raise UserError(
            f"this model reads {wanted}, by the definition {wanted.definition}; the cohort has "
            f"{found}, by {found.definition}: build it with the model's definition, or read its "
            "notes with --notes as-given"
        )
    return found is not None


def choice_of(cells: Any) -> NoteChoice | None:
    """The choice that a cohort's column `note_choice` holds; None without one.

    Raises:
        UserError: several choices, or text that is none.
    """
    import pydantic_core

    given = {cell for cell in cells if not is_missing(cell)}
    if len(given) > 1:
        raise UserError(
            f"{CHOICE} holds {len(given)} choices of notes; expected one definition"
        )
    try:
        return NoteChoice(**pydantic_core.from_json(given.pop())) if given else None
    except (TypeError, ValueError):
        raise UserError(
            f"{CHOICE} holds no choice of notes as clinical cohort writes it"
        ) from None


def check_notes(wanted: NoteChoice | None, stays: pd.DataFrame) -> list[str]:
    """Check that a table of stays has the notes that a model was trained on.

    Returns:
        A remark where the table does not say, or was built by another definition.

    Raises:
        UserError: its notes were chosen in another way.
    """
    found = choice_of(stays.get(CHOICE, ()))
    if wanted is None or found is None:
        silent = f"The table does not say how its notes were chosen; the model reads {wanted}."
        return [silent] if wanted else []
    checked_choice(found.model_dump_json(), wanted)
    if wanted.definition_sha256 == found.definition_sha256:
        return []
    remark = f"The cohort was built by {found.definition}, the model's by {wanted.definition}"
    return [f"{remark}, or one of them was edited: check that the outcome is the same."]


def _upper(cell: object) -> str:
    return "" if is_missing(cell) else str(cell).strip().upper()
