"""Which notes of a stay a model reads: chosen by its cohort, kept in the model, applied to others.

A cohort carries its choice in the column `note_choice`. The rules are in
`clinical/stays/note_rules.py`. Which stays are one episode, and when a patient came back, is known
only with the admissions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

import pyarrow as pa
from pydantic import Field

from clinical.stays import note_rules
from clinical.stays.stays import MISSING_WORDS, note_time
from domainbert.errors import UserError
from domainbert.files import whole_text
from domainbert.settings import Names, Settings
from domainbert.tables import Column, Row, TableError, id_text, is_missing

if TYPE_CHECKING:
    import pandas as pd

CHOICE = "note_choice"
COHORT_COLUMNS = tuple(
    map(Column, (CHOICE, "exclusion", "scorable", "died_within_horizon"))
)
"""What a cohort says about whether a stay is scored, and from which notes."""
COLUMNS = (
    *COHORT_COLUMNS,
    Column("category", also=("note_category",)),
    Column("kind", also=("description", "note_type")),
    Column("error", also=("iserror",)),
    Column("chart_date", also=("chartdate", "note_date")),
    Column(
        "admit_time",
        also=("episode_start", "admittime", "visit_start_datetime"),
    ),
)
"""What a table of notes may have for the choice."""
EVENT = "readmitted within 30 days of discharge"
"""What happened to a stay with the outcome, of a table that does not say."""
_READMISSION = re.compile(
    r"unplanned readmission within (\d{1,4}(?:\.\d{1,4})?) days of discharge"
)
_OUTCOME_UNKNOWN = ("censored", "not_followed")
AS_GIVEN = "notes as given, not chosen as in training"
NOT_A_CHOICE = (
    f"{CHOICE} is not a choice of notes as clinical cohort writes it"
)
_TRUE = {
    "1",
    "1.0",
    "TRUE",
    "T",
    "YES",
    "Y",
}


CENTURY_DAYS = 36_525
"""The most days that a definition may count: beyond, dates leave the calendar."""
Days = Annotated[float, Field(gt=0, le=CENTURY_DAYS)]
Minutes = Annotated[float, Field(ge=0, le=24 * 60 * CENTURY_DAYS)]
Years = Annotated[float, Field(ge=0, le=1000)]
Hours = Annotated[float, Field(gt=0, le=24 * CENTURY_DAYS)]
GapHours = Annotated[float, Field(ge=0, le=24 * CENTURY_DAYS)]


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
    hours: Hours | None = None
    summaries: Names
    addenda: Names = ()
    transfer_gap_hours: GapHours
    definition: str
    definition_sha256: str
    event: Annotated[
        str, Field(pattern=r"\w", description=f'words such as "{EVENT}"')
    ] = EVENT

    def __str__(self) -> str:
        """What a message calls the notes."""
        summaries = (
            f"discharge summaries (category {' or '.join(self.summaries)})"
        )
        if self.hours is None:
            return summaries
        return (
            f"notes of the first {self.hours:g} hours other than {summaries}"
        )

    def choose(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of a stay whose notes are read, in the order of a cohort.

        Raises:
            TableError: the table has no column that decides.
        """
        self._require_columns(rows[0].cells)
        facts = self._facts(rows)
        verdicts = self.judge(facts)
        positions = self.positions(
            verdicts.field("charted_by"), facts["kind"], facts["note_id"]
        )
        columns = zip(
            verdicts.field("status").to_pylist(),
            positions.to_pylist(),
            rows,
            strict=True,
        )
        order = [
            (position, str(row.cells.get("text")), number)
            for number, (status, position, row) in enumerate(columns)
            if status == "used"
        ]
        return [rows[number] for *_, number in sorted(order)]

    def judge(self, notes: pa.RecordBatch | pa.StructArray) -> pa.StructArray:
        """Whether each note counts; see `note_rules.judge`."""
        return note_rules.judge(
            notes,
            early=self.notes == "early",
            summaries=self.summaries,
        )

    def positions(
        self, charted_by: pa.Array, categories: pa.Array, note_ids: pa.Array
    ) -> pa.Array:
        """Texts that sort notes as they are read; see `note_rules.positions`."""
        return note_rules.positions(
            charted_by, categories, note_ids, addenda=self.addenda
        )

    def _require_columns(self, cells: Mapping[str, object]) -> None:
        """Raise a `TableError` if a column that decides which notes are read is missing."""
        needed = ["category"]
        if self.notes == "early":
            needed += ["chart_time", "admit_time"]
        for name in needed:
            if name not in cells:
                raise TableError(
                    f"this model reads {self}, and there is no column {name!r} to choose them by; "
                    f"name it with `named={{{name!r}: 'NAME'}}`, score a cohort (clinical cohort), "
                    "or read all notes with `notes='as-given'`"
                )

    def _facts(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """What `note_rules.judge` asks about the notes of one stay.

        Whether the patient came back is known only with the admissions.
        """
        deadline = None
        admitted = filter(None, (_time(row, "admit_time") for row in rows))
        first = min(admitted, default=None)
        if self.hours is not None and first:
            deadline = first + timedelta(hours=self.hours)
        facts = [
            {
                "is_error": is_true(row.cells.get("error")),
                "category": _upper(row.cells.get("category")) or None,
                "kind": _upper(row.cells.get("kind")) or None,
                "note_id": whole_text(id_text(row.cells.get("note_id")) or "")
                or None,
                "charted_at": _time(row, "chart_time"),
                "is_date": len(str(row.cells.get("chart_time")).strip())
                <= len("2020-12-31"),
                "charted_on": _time(row, "chart_date"),
                "cutoff": deadline,
            }
            for row in rows
        ]
        return pa.RecordBatch.from_pylist(facts, schema=note_rules.ARROW_FACTS)


def exclusion_of(cells: Mapping[str, object]) -> str | None:
    """Why a row of a cohort is not scored; None if it is.

    `scorable` decides if the row has it, except that a stay whose outcome is unknown is not scored
    if the patient died.
    """
    exclusion = id_text(cells.get("exclusion"))
    scorable = cells.get("scorable")
    if not is_missing(scorable) and not is_true(scorable):
        return exclusion or "not scorable"
    if exclusion in _OUTCOME_UNKNOWN and is_true(
        cells.get("died_within_horizon")
    ):
        return "died_after_discharge"
    return exclusion if is_missing(scorable) else None


def outcome_of(choice: NoteChoice | None) -> str:
    """The outcome of a model as a noun; see `outcome_noun`."""
    event = EVENT
    if choice:
        event = choice.event
    return outcome_noun(event)


def readmission_days(choice: NoteChoice | None) -> float:
    """The days after discharge in which a readmission counts; 0 if the outcome is another."""
    outcome = _READMISSION.fullmatch(outcome_of(choice))
    return float(outcome[1]) if outcome else 0.0


def outcome_noun(event: str) -> str:
    """An event as a noun, such as "unplanned readmission within 30 days of discharge"."""
    verb, _, period = event.strip().partition(" ")
    nouns = {
        "readmitted": "unplanned readmission",
        "died": "death",
        "stayed": "stay",
    }
    return f"{nouns.get(verb, verb)} {period}".strip()


@cache
def read_choice(cell: str) -> NoteChoice:
    """The choice that a cell of `note_choice` holds.

    Raises:
        UserError: `clinical cohort` did not write it.
    """
    import pydantic_core

    try:
        return NoteChoice(**pydantic_core.from_json(cell))
    except (TypeError, ValueError):
        raise UserError(NOT_A_CHOICE) from None


def require_same_notes(cohort: NoteChoice, model: NoteChoice) -> None:
    """Check that a cohort's notes were chosen as the model's; names of categories may differ.

    Raises:
        UserError: they were not.
    """
    rules = ("notes", "hours", "transfer_gap_hours")
    if any(getattr(cohort, rule) != getattr(model, rule) for rule in rules):
        raise UserError(
            f"this model reads {model}, by the definition {model.definition}; the cohort has "
            f"{cohort}, by {cohort.definition}: build it with the model's definition, or read its "
            "notes with `notes='as-given'`"
        )


def choice_of(cells: Iterable[object]) -> NoteChoice | None:
    """The choice that a cohort's column `note_choice` holds; None without one.

    Raises:
        UserError: several choices, or text that is not a choice.
    """
    choices = {cell for cell in cells if not is_missing(cell)}
    if not choices:
        return None
    if len(choices) > 1:
        raise UserError(
            f"{CHOICE} holds {len(choices)} choices of notes; expected one definition"
        )
    return read_choice(choices.pop())


def check_notes(model: NoteChoice | None, stays: pd.DataFrame) -> list[str]:
    """Check that a table of stays has the notes that a model was trained on.

    Returns:
        A remark where the table does not say, or was built by another definition.

    Raises:
        UserError: its notes were chosen in another way.
    """
    cohort = choice_of(stays.get(CHOICE, ()))
    if model is None:
        return []
    if cohort is None:
        return [
            f"The table does not say how its notes were chosen; the model reads {model}."
        ]
    require_same_notes(cohort, model)
    if cohort.definition_sha256 == model.definition_sha256:
        return []
    remark = (
        f"The cohort was built by {cohort.definition}, the model's by {model.definition}, "
        "or one of them was edited: check that the outcome is the same."
    )
    return [remark]


def is_true(cell: object) -> bool:
    """Whether a cell says yes, as `clinical/cohort/sql/macros.sql` reads it."""
    return _upper(cell) in _TRUE


def _time(row: Row, column: str) -> datetime | None:
    """The time of a cell in UTC, without a zone, as Arrow has it."""
    time = note_time(row.cells.get(column))
    if not time:
        return None
    return time.astimezone(UTC).replace(tzinfo=None)


def _upper(cell: object) -> str:
    if is_missing(cell):
        return ""
    text = whole_text(str(cell)).strip().upper()
    return "" if text in MISSING_WORDS else text


def in_time_order(rows: list[Row]) -> tuple[list[Row], int]:
    """By `chart_time` where every note has one, else as they came; unreadable times are counted."""
    cells = [row.cells.get("chart_time") for row in rows]
    times = [note_time(cell) for cell in cells]
    known_times = [time for time in times if time]
    if len(known_times) < len(rows):
        present = sum(cell is not None for cell in cells)
        return rows, present - len(known_times)
    order = sorted(range(len(rows)), key=known_times.__getitem__)
    return [rows[number] for number in order], 0
