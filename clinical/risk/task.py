"""Scoring tasks: tables of notes, or of stays, -> tables of risks, or of risks after each note."""

import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import (
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
)

import pyarrow as pa

from clinical.risk.model import ReadmissionModel
from clinical.risk.reading import NO_DAYS, StayRisk
from clinical.stays.choice import (
    AS_GIVEN,
    CHOICE,
    COHORT_COLUMNS,
    COLUMNS,
    NoteChoice,
    exclusion_of,
    in_time_order,
    read_choice,
    require_same_notes,
)
from clinical.stays.note_rules import copy_text
from clinical.stays.pieces import LINE, contradicting_ids, join_pieces
from clinical.stays.stays import FIRST_YEAR, LAST_YEAR, StayInput, note_list
from domainbert.errors import UserError
from domainbert.files import whole_text
from domainbert.scoring import Fault, Task
from domainbert.settings import check_choice
from domainbert.tables import (
    NOTE,
    PATIENT,
    STAY,
    TEXT,
    TIME,
    Column,
    Row,
    id_key,
    id_text,
    is_missing,
)

Notes = Literal["chosen", "as-given"]
Record = dict[str, Any]
Result = TypeVar("Result")
Trajectory: TypeAlias = tuple[StayRisk, dict[int, StayRisk]]
"""The risk of a stay, and by number of a note the risk of the notes so far; see `follow`."""
_NO_RISK = {
    "died_in_hospital": "the patient died",
    "same_day_death": "the patient died on the day of discharge",
    "after_death": "the patient had died before",
    "died_after_discharge": "the patient died",
    "missing_time": "no time of discharge: a stay is scored when it has ended",
    "still_patient": "the patient is still in hospital: a stay is scored when it has ended",
    "transfer": "the later stay that continues it has the risk",
}
"""What a reader of the risks should know of some exclusions."""
_NO_ADMISSIONS = (
    "The notes were chosen without the admissions, so transfers, earlier stays of an episode and "
    "deaths are unknown: a few stays may get another risk than from a cohort, or one where a "
    "cohort has none. clinical discharges reads a hospital's admissions and notes together."
)
_DEFINITION = {"definition", "definition_sha256"}
_NUMBERS = ("probability", "score", "p_max", "p_mean")


@dataclass(frozen=True)
class StayNotes:
    """The notes of a stay in time order, and what was noticed while reading them.

    Where the model reads columns, `notes` is a record with them.
    `labels` are the `note_id` and `chart_time` of each note where it has a row of its own.
    """

    notes: Any = field(repr=False)
    remarks: list[str]
    labels: list[tuple[str | None, str | None]]


class StayTask(Task[StayNotes, Result]):
    """Reads stays: the rows with one `stay_id`, or each row of a table without stay ids.

    The column `text` has one note a row, in the order of `chart_time` where there is one, or a list
    with all notes of a stay. A model that reads other columns beside the notes needs these too.

    Args:
        model: the model that scores the stays.
        notes: "chosen" to read only the notes that the model was trained on (see `NoteChoice`), or
            "as-given" to read all of them, which every row then says.

    Raises:
        TableError: there is no column `text`, or none to choose the notes by.
    """

    columns: tuple[Column, ...] = (PATIENT, STAY, NOTE, LINE, TIME, TEXT)
    group = STAY.name

    def __init__(
        self, model: ReadmissionModel, *, notes: Notes = "chosen"
    ) -> None:
        check_choice("notes", notes, get_args(Notes))
        self._model = model
        self._notes = notes
        self.choice = model.settings.notes
        columns_of_choice = COHORT_COLUMNS
        if self.choice:
            columns_of_choice = COLUMNS
        self._beside = [effect.name for effect in model.settings.columns]
        columns_beside = [Column(name, required=True) for name in self._beside]
        self.columns = (*self.columns, *columns_of_choice, *columns_beside)
        self._chose_notes = False
        self._days: dict[str, float] = {}

    @property
    def output(self) -> pa.Schema:
        """Columns of the score table; `alert` if the model has a threshold."""
        columns = dict.fromkeys(_NUMBERS, "double")
        columns |= {
            "n_windows": "int64",
            "n_tokens": "int64",
            "calibrated": "bool",
        }
        if self._model.settings.alert_threshold is not None:
            columns["alert"] = "bool"
        columns |= dict.fromkeys(self._days, "double")
        return pa.schema(columns)

    def read(self, rows: Sequence[Row]) -> StayNotes | Fault:
        """The notes of one stay that the model reads, with its columns."""
        item = self._read_notes(rows)
        if isinstance(item, Fault) or not self._beside:
            return item
        records = {self._values_beside(row) for row in rows}
        if len(records) > 1:
            return Fault(
                f"the rows of this stay differ in {' or '.join(self._beside)}"
            )
        columns = dict(zip(self._beside, records.pop(), strict=True))
        return replace(item, notes={**columns, "text": item.notes})

    def _values_beside(self, row: Row) -> tuple[str | None, ...]:
        return tuple(id_key(row.cells.get(name)) for name in self._beside)

    def _read_notes(self, rows: Sequence[Row]) -> StayNotes | Fault:
        """The notes of the rows of a stay that the model reads, or why there are none."""
        cells = rows[0].cells
        if STAY.name in cells and id_key(cells[STAY.name]) is None:
            return Fault("this row has no stay_id, and the table has stay ids")
        notes = self._whole_notes(rows)
        if isinstance(notes, Fault):
            return notes
        if self._notes == "as-given":
            return read_notes(notes, AS_GIVEN if self.choice else "")
        # A copied row of the admissions is excluded; the row that it copies has the notes.
        scorable = [row for row in notes if exclusion_of(row.cells) is None]
        if not scorable:
            return _excluded(exclusion_of(cells))
        if self.choice is None:
            return read_notes(scorable)
        return self._chosen_notes(scorable, self.choice)

    def _whole_notes(self, rows: Sequence[Row]) -> list[Row] | Fault:
        """Notes whose pieces stand in several rows as one row each."""
        if any(not is_missing(row.cells.get(LINE.name)) for row in rows):
            notes = join_pieces(rows)
            if isinstance(notes, str):
                return Fault(notes)
            return notes
        if n_rows := contradicting_ids(rows):
            return Fault(
                f"{n_rows} rows share a note_id and have different texts; if they are pieces of a "
                "note, name the column that numbers them: `named={'line': 'NAME'}`"
            )
        return list(rows)

    def _chosen_notes(
        self,
        rows: Sequence[Row],
        choice: NoteChoice,
    ) -> StayNotes | Fault:
        """The notes that training chose, unless a cohort has chosen them already."""
        cells = rows[0].cells
        cohort_choice = cells.get(CHOICE)
        if not is_missing(cohort_choice):
            try:
                rows_choice = read_choice(str(cohort_choice))
            except UserError as error:
                return Fault(str(error))
            require_same_notes(rows_choice, choice)
            return read_notes(rows)
        if not isinstance(cells["text"], str | None):
            return read_notes(rows, AS_GIVEN)
        self._chose_notes = True
        chosen = choice.choose(rows)
        if not chosen:
            reason = f"none of its {len(rows)} notes is read: this model reads {choice}"
            return Fault(reason, "empty")
        return read_notes(chosen, in_order=True)

    def risk_row(self, item: StayNotes, risk: StayRisk) -> Record:
        """The row of the score table for one stay."""
        remarks = [risk.reason, *item.remarks]
        unread = len(risk.coverage.unread)
        if unread and risk.status == "ok":
            remarks.append(
                "1 passage unread"
                if unread == 1
                else f"{unread} passages unread"
            )
        row: Record = {
            "n_windows": risk.coverage.windows,
            "n_tokens": risk.coverage.tokens,
            "calibrated": self._model.settings.calibration is not None,
            "status": risk.status,
            "reason": "; ".join(filter(None, remarks)),
            **_numbers(risk),
        }
        if risk.status == "ok":
            for name, day in self._days.items():
                row[name] = risk.remaining(day)
        return row

    def about(self) -> Record:
        """The model, its outcome, the definition of its notes if any, and which notes were read."""
        facts = {
            "model_name": self._model.name,
            "outcome": self._model.outcome,
        }
        if self.choice:
            facts |= self.choice.model_dump(include=_DEFINITION)
        if self._chose_notes:
            facts["remark"] = _NO_ADMISSIONS
        return {**facts, "notes": self._notes}

    def facts(self) -> Record:
        """The model, and whether it chooses its notes."""
        return {"model": self._model.fingerprint(), "notes": self._notes}


class ReadmissionTask(StayTask["StayRisk"]):
    """Scores stays, one row each, in order of first appearance; see `StayTask` for the options.

    Output: `patient_id` and `stay_id`, `probability, score, p_max, p_mean, n_windows, n_tokens,
    calibrated`, `alert` if the model has a threshold, `status` and `reason`. With `remaining`, also
    the risk that is left on days after discharge (see `StayRisk.remaining`), as `remaining_day_7`.
    """

    name: ClassVar[str] = "readmission"

    def __init__(
        self,
        model: ReadmissionModel,
        *,
        notes: Notes = "chosen",
        remaining: bool = False,
    ) -> None:
        super().__init__(model, notes=notes)
        groups = model.settings.after_discharge
        if remaining and not groups:
            raise UserError(NO_DAYS)
        if remaining:
            days = [point[0] for point in groups[0].points[:-1]]
            self._days = {f"remaining_day_{day:g}": day for day in days}

    def run(self, items: Iterable[StayNotes]) -> Iterator[StayRisk]:
        """The risk of each stay."""
        return self._model.predict_many(stay.notes for stay in items)

    def rows(self, item: StayNotes, result: StayRisk) -> list[Record]:
        """The one row of a stay."""
        return [self.risk_row(item, result)]


class TrajectoryTask(StayTask["Trajectory"]):
    """The risk of each stay after each of its notes, in time order: one row per note.

    Each window is scored once. See `StayTask` for the columns, of which `stay_id` is needed, and
    for the options. Output: `note_id, chart_time, n_notes`, and the columns of `ReadmissionTask`
    without `n_tokens`, for the notes so far.

    Huang, Altosaar and Ranganath, "ClinicalBERT" (arXiv 1904.05342), predict in this way while a
    stay lasts: the windows of a new note join those of the notes before, whose numbers stay.
    """

    name: ClassVar[str] = "trajectory"
    columns = (PATIENT, replace(STAY, required=True), NOTE, LINE, TIME, TEXT)

    @property
    def output(self) -> pa.Schema:
        """The note, and the risk of the notes so far; `alert` where there is a threshold."""
        of_note = {
            "note_id": "string",
            "chart_time": "string",
            "n_notes": "int64",
        }
        of_stay = super().output
        return pa.schema(
            [
                *of_note.items(),
                *of_stay.remove(of_stay.get_field_index("n_tokens")),
            ]
        )

    def run(self, items: Iterable[StayNotes]) -> Iterator[Trajectory]:
        """The trajectory of each stay."""
        return follow(self._model, (stay.notes for stay in items))

    def rows(self, item: StayNotes, result: Trajectory) -> list[Record]:
        """One row for each note; one for a stay without a trajectory."""
        risk, risks_so_far = result
        remarks = "; ".join(filter(None, [risk.reason, *item.remarks]))
        shared = {
            "status": risk.status,
            "reason": remarks,
            "calibrated": self._model.settings.calibration is not None,
        }
        if risk.status != "ok":
            return [shared]
        notes = note_list(item.notes)
        labels = item.labels
        if len(labels) != len(notes):  # the notes of a list have none
            labels = [(None, None)] * len(notes)
        rows: list[Record] = []
        numbers: Record = {"n_windows": 0, "status": "empty"}
        for note, (note_id, chart_time) in zip(notes, labels, strict=True):
            so_far = risks_so_far.get(len(rows))
            # A note without text adds nothing to the notes before it.
            if so_far:
                numbers = {
                    "n_windows": so_far.coverage.windows,
                    "status": so_far.status,
                    **_numbers(so_far),
                }
            row = shared | numbers
            row |= {"note_id": note_id, "chart_time": chart_time}
            row["n_notes"] = len(rows) + 1
            if is_missing(note):
                row["reason"] = "; ".join(
                    filter(None, ["this note has no text", remarks])
                )
            rows.append(row)
        return rows


def follow(
    model: ReadmissionModel, stays: Iterable[StayInput]
) -> Iterator[Trajectory]:
    """The trajectories of stays (each as for `ReadmissionModel.predict`), in flat memory.

    Each window is scored once. A model that joins the notes of a stay cuts the joined text anew
    after each note, and scores only the windows that the new note changed.
    """
    if model.settings.join_notes:
        yield from (_followed_anew(model, stay) for stay in stays)
        return
    for stay, probabilities in model.scored(stays):
        note_of_window = [note for note, _ in stay.windows]
        so_far = {}
        for note in dict.fromkeys(note_of_window):
            end = bisect.bisect_right(note_of_window, note)
            # Without its windows: those of all beginnings would be quadratic.
            coverage = replace(stay.risk.coverage, windows=end)
            beginning = replace(stay.risk, coverage=coverage)
            so_far[note] = model.combined(beginning, probabilities[:end])
        yield model.risk_of(stay, probabilities), so_far


def _followed_anew(model: ReadmissionModel, stay: StayInput) -> Trajectory:
    """The trajectory of a stay whose notes are joined: each beginning is scored by itself."""
    notes = note_list(stay)
    record = {}
    if isinstance(stay, Mapping):
        record = {**stay}
    ends = range(min(1, len(notes)), len(notes) + 1)
    beginnings = [{**record, "text": notes[:end]} for end in ends]
    risks = list(model.predict_many(beginnings))
    return risks[-1], dict(enumerate(risks))


def _numbers(risk: StayRisk) -> Record:
    """The numbers of a risk and its alert; nothing for a stay that could not be scored."""
    if risk.status != "ok":
        return {}
    return {name: getattr(risk, name) for name in (*_NUMBERS, "alert")}


def _excluded(exclusion: str | None) -> Fault:
    reason = f"excluded from the cohort: {exclusion}"
    if exclusion in _NO_RISK:
        reason += f" ({_NO_RISK[exclusion]})"
    return Fault(reason, "empty")


def _labels(rows: Sequence[Row]) -> list[tuple[str | None, str | None]]:
    """The `note_id` and `chart_time` of each row."""
    return [
        (
            id_text(row.cells.get("note_id")),
            id_text(row.cells.get("chart_time")),
        )
        for row in rows
    ]


def read_notes(
    rows: Sequence[Row], remark: str = "", *, in_order: bool = False
) -> StayNotes | Fault:
    """The notes of one stay, for every task that reads stays.

    Args:
        rows: the rows of one stay, with the cells `patient_id, note_id, chart_time, text`.
        remark: the first of the remarks.
        in_order: whether the rows were chosen, and are in time order; copies are left out.

    Returns:
        The notes in time order, each `note_id` once; or why the rows are not one stay.
    """
    patients = {id_key(row.cells.get("patient_id")) for row in rows} - {None}
    if len(patients) > 1:
        return Fault("this stay_id belongs to more than one patient_id")
    remarks = [remark]
    texts = [row.cells.get("text") for row in rows]
    if len(rows) == 1:
        return StayNotes(texts[0], remarks, _labels(rows))
    if any(text is not None and not isinstance(text, str) for text in texts):
        return Fault(
            f"{len(rows)} rows of this stay have a list of notes; expected one row"
        )
    kept = _different(rows, lambda row: id_key(row.cells.get("note_id")))
    n_repeated = len(rows) - len(kept)
    if n_repeated:
        remarks.append(f"{n_repeated} rows with a repeated note_id left out")
    n_unreadable = 0
    if not in_order:
        kept, n_unreadable = in_time_order(kept)
    if n_unreadable:
        remarks.append(
            f"{n_unreadable} notes have a chart_time that is not an ISO date between "
            f"{FIRST_YEAR} and {LAST_YEAR}: notes in the order of the table"
        )
    texts = [whole_text(str(row.cells.get("text") or "")) for row in kept]
    compared = copy_text(pa.array(texts, pa.string())).to_pylist()
    keys = dict(zip((row.number for row in kept), compared, strict=True))
    different = _different(kept, lambda row: keys[row.number])
    n_copies = len(kept) - len(different)
    if n_copies:
        fate = "left out" if in_order else "counted again"
        remarks.append(
            f"{n_copies} notes repeat another note's text and are {fate}"
        )
    if in_order:
        kept = different
    texts = [row.cells.get("text") for row in kept]
    return StayNotes(texts, remarks, _labels(kept))


def _different(
    rows: Sequence[Row], key: Callable[[Row], str | None]
) -> list[Row]:
    """The first row of each key, and all rows without one."""
    firsts: dict[str | int, Row] = {}
    for row in rows:
        firsts.setdefault(key(row) or row.number, row)
    return list(firsts.values())
