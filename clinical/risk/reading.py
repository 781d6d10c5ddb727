"""A stay cut into windows (`StayPreparer`, `PreparedStay`), and its risk (`StayRisk`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from clinical.stays.stays import (
    OTHER_LANGUAGE,
    StayInput,
    clean,
    is_english,
    note_texts,
)
from domainbert.errors import UserError
from domainbert.settings import Positive, Settings
from domainbert.tables.ids import id_key
from domainbert.text.identifiers import count_placeholders
from domainbert.text.windows import Window, Windower, too_long

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

NOTE_JOINT = "\n\n"
Status = Literal["ok", "empty", "error"]
OtherLanguages = Literal["remark", "error", "accept"]
_Share = Annotated[float, Field(ge=0, le=1)]
_Point = Annotated[tuple[Positive, _Share, _Share], Field(strict=False)]
NO_DAYS = (
    "this model does not know on which days readmissions come; learn it from a cohort with "
    "days_to_readmission: clinical recalibrate COHORT.parquet --model MODEL --out NEW"
)


@dataclass(frozen=True)
class WindowRisk:
    """The probability of one window: characters `start` to `end` of note number `note`."""

    note: int
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class UnreadSpan:
    """Characters `start` to `end` of note number `note` that were not read, and the reason."""

    note: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True)
class Coverage:
    """How much of a stay was read: characters of its notes, tokens without special ones, windows.

    A token counts once where windows do not overlap. `unread` is normally empty. `placeholders`
    has the notes in which de-identification left marks (`[**2151-7-16**]`, `___`, `<DATE>`), by
    number, with how many they have.
    """

    characters: int
    tokens: int
    windows: int
    unread: tuple[UnreadSpan, ...] = ()
    placeholders: Mapping[int, int] = field(default_factory=dict, hash=False)


class RiskGroup(Settings):
    """When the outcome came after discharge, in validation stays of similar risk.

    Attributes:
        above: the smallest risk of the group.
        points: days, rising to the horizon of the outcome; the share of the group's readmissions
            that had come by this day; and the share of its other stays in which the patient had
            died by then.
    """

    above: _Share
    points: Annotated[tuple[_Point, ...], Field(strict=False, min_length=1)]

    @property
    def horizon(self) -> float:
        """The last day."""
        return self.points[-1][0]

    def remaining(self, risk: ArrayLike, day: float) -> np.ndarray:
        """The risks that are left on a day after discharge; see `StayRisk.remaining`.

        With p the risk at discharge, R the share of readmissions that came by that day and D the
        share of other patients who died by then (both linear between the known days), this is
        p (1 - R) / (1 - p R - (1 - p) D).

        Args:
            risk: calibrated risks at discharge, of any shape.
            day: from 0 to the horizon.

        Raises:
            UserError: another day.
        """
        if not 0 <= day <= self.horizon:
            raise UserError(
                f"day is {day}; expected days since discharge, 0 to {self.horizon:g}"
            )
        days, returned, died = np.array([(0.0, 0.0, 0.0), *self.points]).T
        at_discharge = np.asarray(risk)
        later = at_discharge * (1 - np.interp(day, days, returned))
        never = (1 - at_discharge) * (1 - np.interp(day, days, died))
        free = later + never
        return np.asarray(later / np.where(free == 0, 1.0, free))


def remaining_risk(
    groups: Sequence[RiskGroup], risk: float, day: float
) -> float:
    """The risk that is left on a day, by the group of a risk; see `StayRisk.remaining`."""
    if not groups:
        raise UserError(NO_DAYS)
    below = [group for group in groups if group.above <= risk]
    return float(below[-1].remaining(risk, day))


@dataclass(frozen=True)
class StayRisk:
    """The risk of one stay, of readmission within 30 days or of another outcome.

    Attributes:
        probability: the calibrated chance of the outcome, in [0, 1]; equal to `score` where the
            model has no calibrator; NaN where `status` is not "ok".
        score: the value of the readmission rule, in [0, 1]; it ranks stays.
        p_max: largest window probability.
        p_mean: mean window probability.
        calibrated: whether `probability` is calibrated.
        windows: in reading order.
        coverage: what was read.
        alert: whether `probability` reaches the model's alert threshold; None without one.
        status: "ok", "empty" (no note has text) or "error" (not text, or not a number).
        reason: why it is not "ok"; else a remark, or "".
        shift: what the columns beside the notes add to the log-odds of `probability`.
        after_discharge: when readmissions came in validation, by risk; empty if not known.
    """

    probability: float
    score: float
    p_max: float
    p_mean: float
    calibrated: bool
    windows: tuple[WindowRisk, ...]
    coverage: Coverage
    alert: bool | None = None
    status: Status = "ok"
    reason: str = ""
    shift: float = 0.0
    after_discharge: tuple[RiskGroup, ...] = field(default=(), repr=False)

    @classmethod
    def without_numbers(
        cls, coverage: Coverage, status: Status, reason: str
    ) -> StayRisk:
        """What is known of a stay before its windows have probabilities."""
        return cls(
            probability=math.nan,
            score=math.nan,
            p_max=math.nan,
            p_mean=math.nan,
            calibrated=False,
            windows=(),
            coverage=coverage,
            status=status,
            reason=reason,
        )

    def remaining(self, day: float) -> float:
        """The risk that is left on a day after discharge, if the patient lives and is not back.

        It is the chance of a readmission from this day to the end of the 30 days (or whatever the
        outcome is): `probability` on day 0, and 0 on the last day. Days may have fractions. It is
        NaN where there is no risk.

        When readmissions come is known from the validation stays of similar risk, with death as a
        competing event. It assumes that they come here as they did there, and that the patient's
        risk is calibrated; nothing that happened since discharge is used, except that the patient
        was neither readmitted nor died. See docs/explanation/after_discharge.md.

        Raises:
            UserError: a day outside of this time, or a model that does not know when readmissions
                come.
        """
        if self.status != "ok":
            return math.nan
        return remaining_risk(self.after_discharge, self.probability, day)

    def _repr_html_(self) -> str:
        """A small table, for a notebook."""
        import pandas as pd

        # Of `windows`, which both have, the table shows the number and not the list.
        facts = pd.Series(vars(self) | vars(self.coverage))
        hidden = ["coverage", "after_discharge", "placeholders"]
        return facts.drop(hidden).to_frame("stay").to_html()


class ColumnEffect(Settings):
    """What a column adds to the log-odds of a stay; `median` is of the stays it was fitted on."""

    name: str
    median: float = 0.0
    weight: float = 1.0

    def shift(self, cell: object) -> float:
        """What a cell adds to the log-odds of a stay: weight × (value - median).

        NaN for a missing cell. Infinite for a cell that is not a number, which the callers refuse.
        """
        # Cells are read as ids are, so that 3, 3.0 and "3" are the same, and "NULL" is missing.
        text = id_key(cell)
        if text is None:
            return math.nan
        try:
            value = float({"true": "1", "false": "0"}.get(text, text))
        except ValueError:
            return math.inf
        if not math.isfinite(value):
            return math.inf
        return self.weight * (value - self.median)


def shifts(rows: pd.DataFrame, effects: Sequence[ColumnEffect]) -> np.ndarray:
    """What the columns of stays add in all, shape (stays,); a missing value adds nothing."""
    by_column = [
        list(map(effect.shift, rows[effect.name])) for effect in effects
    ]
    return np.nansum(by_column, axis=0)


@dataclass(frozen=True)
class PreparedStay:
    """A stay cut into windows, each with the number of its note, and its risk without numbers.

    `texts` are the notes by number, unchanged; the positions of windows refer to them.
    """

    windows: list[tuple[int, Window]] = field(repr=False)
    risk: StayRisk
    texts: dict[int, str] = field(repr=False)

    @property
    def input_ids(self) -> list[np.ndarray]:
        """Token ids of the windows, each of shape (tokens,)."""
        return [window.input_ids for _, window in self.windows]

    def with_columns(
        self,
        effects: Sequence[ColumnEffect],
        stay: StayInput,
    ) -> PreparedStay:
        """The stay with its shift: a missing value is a remark, a non-numeric one an error."""
        if not effects or self.risk.status != "ok":
            return self
        record: Mapping[str, object] = {}
        if isinstance(stay, Mapping):
            record = stay
        by_name = {
            effect.name: effect.shift(record.get(effect.name, "absent"))
            for effect in effects
        }
        wrong = [name for name, shift in by_name.items() if math.isinf(shift)]
        if wrong:
            expected = f"{{'text': notes, {wrong[0]!r}: 3}}"
            reason = f"not a number: {', '.join(wrong)}; expected {expected}"
            risk = replace(self.risk, status="error", reason=reason)
            return replace(self, windows=[], risk=risk)
        remarks = [self.risk.reason]
        missing = [
            name for name, shift in by_name.items() if math.isnan(shift)
        ]
        if missing:
            remarks.append(f"no {', '.join(missing)}: the median is read")
        reason = "; ".join(filter(None, remarks))
        total = float(np.nansum([*by_name.values()]))
        return replace(
            self, risk=replace(self.risk, reason=reason, shift=total)
        )


@dataclass(frozen=True)
class StayPreparer:
    """Checks, cleans and windows the notes of stays; see `ReadmissionSettings`.

    With `join_notes`, positions count through the joined text, as note 0.
    """

    windower: Windower
    clean_notes: bool
    join_notes: bool
    other_languages: OtherLanguages = "remark"

    def prepare(self, stay: object) -> PreparedStay:
        """Window one note, or a list of notes in time order; a fault becomes a status."""
        notes, missing, fault = note_texts(stay)
        unread = [UnreadSpan(number, 0, 0, "missing") for number in missing]
        if self.join_notes and notes:
            notes = [(0, NOTE_JOINT.join(text for _, text in notes))]
        if length_fault := _length_fault(notes):
            fault = length_fault
            notes = []
        text_of = dict(notes)
        texts = list(text_of.values())
        if self.clean_notes:
            texts = list(map(clean, texts))
        windows = []
        n_tokens = 0
        parts_by_note = self.windower.split_many(texts)
        for number, parts in zip(text_of, parts_by_note, strict=True):
            windows += [(number, window) for window in parts.windows]
            unread += [
                UnreadSpan(number, span.start, span.end, span.reason)
                for span in parts.unread
            ]
            n_tokens += parts.tokens
        placeholders = {
            number: count
            for number, text in text_of.items()
            if (count := count_placeholders(text))
        }
        coverage = Coverage(
            sum(map(len, text_of.values())),
            n_tokens,
            len(windows),
            tuple(unread),
            placeholders,
        )
        status, reason = self._status(texts, fault, has_windows=bool(windows))
        if status == "error":
            windows = []
        risk = StayRisk.without_numbers(coverage, status, reason)
        return PreparedStay(windows, risk, text_of)

    def _status(
        self,
        texts: Sequence[str],
        fault: str,
        *,
        has_windows: bool,
    ) -> tuple[Status, str]:
        """The status of a stay and its reason, or a remark."""
        if fault:
            return "error", fault
        if not has_windows:
            return "empty", "no note of this stay has any text"
        if self.other_languages == "accept" or is_english("\n".join(texts)):
            return "ok", ""
        if self.other_languages == "error":
            return "error", OTHER_LANGUAGE
        return "ok", OTHER_LANGUAGE


def _length_fault(notes: Sequence[tuple[int, str]]) -> str:
    """What is wrong with the first note that is too long to read, or ""."""
    for number, text in notes:
        if reason := too_long(text):
            return f"note {number} has {reason}"
    return ""
