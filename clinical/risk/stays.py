"""Stays: reading their notes into windows, and the risk that comes out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from clinical.risk.notes import clean
from domainbert.tables.ids import id_text, is_missing

if TYPE_CHECKING:
    from domainbert.windows import Window, Windower

NOTE_JOINT = "\n\n"

Status = Literal["ok", "empty", "error"]


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
    """What of a stay was read.

    Attributes:
        characters: of all its notes.
        tokens: word pieces scored, without special tokens; each once where windows do not
            overlap.
        windows: windows scored.
        unread: normally empty.
    """

    characters: int
    tokens: int
    windows: int
    unread: tuple[UnreadSpan, ...] = ()


@dataclass(frozen=True)
class StayRisk:
    """The 30-day readmission risk of one stay.

    Attributes:
        stay_id: as given, else None.
        probability: the calibrated chance of readmission, in [0, 1]; equal to `score` where the
            model has no calibrator; NaN where `status` is not "ok".
        score: the value of the readmission rule, in [0, 1]; it ranks stays.
        p_max: largest window probability.
        p_mean: mean window probability.
        calibrated: whether `probability` is calibrated.
        windows: every window in reading order.
        coverage: what was read.
        alert: whether `probability` reaches the model's alert threshold; None without one.
        status: "ok"; "empty" where no note has text; "error" where a note is not text or the
            model gave no number.
        reason: why it is not "ok", else "".
    """

    stay_id: str | None
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


@dataclass(frozen=True)
class ReadStay:
    """A stay cut into windows, to be scored.

    Attributes:
        stay_id: as given, as a string.
        windows: of all notes in reading order, each with the number of its note.
        coverage: what was read.
        status: "ok", "empty" or "error"; there are windows only where it is "ok".
        reason: why it is not "ok", else "".
    """

    stay_id: str | None
    windows: list[tuple[int, Window]] = field(repr=False)
    coverage: Coverage
    status: Status
    reason: str


class StayReader:
    """Check, clean and window the notes of stays.

    Args:
        windower: cuts texts into windows.
        clean_notes: blank out marks that carry no meaning (see `clinical.risk.notes`).
        join_notes: window a stay's notes as one text instead of each separately; positions then
            count through the joined text, as note 0.
    """

    def __init__(self, windower: Windower, *, clean_notes: bool, join_notes: bool) -> None:
        self.window = windower.window
        self._windower, self._clean, self._join = windower, clean_notes, join_notes

    def read(self, stay: Any, stay_id: object = None) -> ReadStay:
        """Window one stay. Nothing raises: a fault becomes a status.

        Args:
            stay: one note, or the stay's notes in time order; missing notes are recorded.
            stay_id: returned with the result.
        """
        notes, unread, reason = _texts(stay)
        if self._join and notes:
            notes = [(0, NOTE_JOINT.join(text for _, text in notes))]
        texts = [clean(text) if self._clean else text for _, text in notes]
        windows: list[tuple[int, Window]] = []
        tokens = 0
        for (number, _), parts in zip(notes, self._windower.split_many(texts), strict=True):
            windows += [(number, window) for window in parts.windows]
            unread += [UnreadSpan(number, p.start, p.end, p.reason) for p in parts.unread]
            tokens += parts.tokens
        coverage = Coverage(
            characters=sum(len(text) for _, text in notes),
            tokens=tokens,
            windows=len(windows),
            unread=tuple(unread),
        )
        status: Status = "error" if reason else "ok" if windows else "empty"
        if status == "empty":
            reason = "no note of this stay has any text"
        return ReadStay(id_text(stay_id), windows, coverage, status, reason)


def _texts(stay: Any) -> tuple[list[tuple[int, str]], list[UnreadSpan], str]:
    """The notes that are text, with their numbers; the missing ones; a fault or ""."""
    if isinstance(stay, np.ndarray) and stay.ndim == 0:
        stay = stay.item()
    alone = isinstance(stay, str | bytes | dict) or not isinstance(stay, Iterable)
    try:
        given = [stay] if alone else list(stay)
    except Exception as error:  # noqa: BLE001  (a caller's iterator may raise anything)
        return [], [], f"its notes cannot be read ({type(error).__name__})"
    notes: list[tuple[int, str]] = []
    missing: list[UnreadSpan] = []
    for number, note in enumerate(given):
        if isinstance(note, str):
            notes.append((number, note))
        elif is_missing(note):
            missing.append(UnreadSpan(number, 0, 0, "missing"))
        else:
            kind = type(note).__name__
            hint = "; decode it first: note.decode()" if isinstance(note, bytes) else ""
            return [], [], f"note {number} is {kind}, not text{hint}"
    return notes, missing, ""
