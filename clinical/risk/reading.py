"""A stay cut into windows (`StayReader`, `ReadStay`), and the risk that comes out (`StayRisk`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from clinical.stays.stays import OTHER_LANGUAGE, clean, is_english, note_texts
from domainbert.settings import Settings
from domainbert.tables.ids import id_key
from domainbert.text.windows import too_long

if TYPE_CHECKING:
    import pandas as pd

    from clinical.stays.stays import StayInput
    from domainbert.text.windows import Window, Windower

NOTE_JOINT = "\n\n"
Status = Literal["ok", "empty", "error"]
OtherLanguages = Literal["remark", "error", "accept"]


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

    A token counts once where windows do not overlap. `unread` is normally empty.
    """

    characters: int
    tokens: int
    windows: int
    unread: tuple[UnreadSpan, ...] = ()


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

    def _repr_html_(self) -> str:
        """A small table, for a notebook."""
        import pandas as pd

        facts = vars(self) | vars(self.coverage)  # `windows` is their number
        del facts["coverage"]
        return pd.Series(facts).to_frame("stay").to_html()


class ColumnEffect(Settings):
    """What a column adds to the log-odds of a stay; `median` is of the stays it was fitted on."""

    name: str
    median: float = 0.0
    weight: float = 1.0

    def shift(self, cell: Any) -> float:
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
class ReadStay:
    """A stay cut into windows, each with the number of its note, and its risk without numbers.

    `texts` are the notes by number, as given, to which the positions of windows refer.
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
    ) -> ReadStay:
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
            reason = f"no number as {', '.join(wrong)}; expected {expected}"
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
class StayReader:
    """Checks, cleans and windows the notes of stays; see `ReadmissionSettings`.

    With `join_notes`, positions count through the joined text, as note 0.
    """

    windower: Windower
    clean_notes: bool
    join_notes: bool
    other_languages: OtherLanguages = "remark"

    def read(self, stay: Any) -> ReadStay:
        """Window one note, or a list of notes in time order; a fault becomes a status."""
        notes, missing, fault = note_texts(stay)
        unread = [UnreadSpan(number, 0, 0, "missing") for number in missing]
        if self.join_notes and notes:
            notes = [(0, NOTE_JOINT.join(text for _, text in notes))]
        for number, text in notes:
            reason = too_long(text)
            if reason:
                fault = f"note {number} has {reason}"
                notes = []
                break
        texts = [text for _, text in notes]
        if self.clean_notes:
            texts = list(map(clean, texts))
        windows = []
        n_tokens = 0
        parts_by_note = self.windower.split_many(texts)
        for (number, _), parts in zip(notes, parts_by_note, strict=True):
            windows += [(number, window) for window in parts.windows]
            unread += [
                UnreadSpan(number, span.start, span.end, span.reason)
                for span in parts.unread
            ]
            n_tokens += parts.tokens
        n_characters = sum(len(text) for _, text in notes)
        coverage = Coverage(
            n_characters, n_tokens, len(windows), tuple(unread)
        )
        status, reason = self._status(texts, fault, has_windows=bool(windows))
        if status == "error":
            windows = []
        numbers = (math.nan, math.nan, math.nan, math.nan, False, (), coverage)
        risk = StayRisk(*numbers, status=status, reason=reason)
        return ReadStay(windows, risk, dict(notes))

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
