"""What a prediction returns: the risk of a stay, of its windows, and what was read of its notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
        tokens: word-pieces scored, special tokens not counted; each once where windows do not
            overlap.
        windows: windows scored.
        unread: normally nothing.
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
        probability: the rule's value, in [0, 1]; NaN where `status` is not "ok".
        p_max: largest window probability.
        p_mean: mean window probability.
        calibrated: `probability` through the model's calibrator; None where none is fitted.
        windows: every window in reading order.
        coverage: the receipt.
        status: "ok"; "empty" where no note has text; "error" where a note is no text.
        reason: why it is not "ok", else "".
    """

    stay_id: str | None
    probability: float
    p_max: float
    p_mean: float
    calibrated: float | None
    windows: tuple[WindowRisk, ...]
    coverage: Coverage
    status: Status = "ok"
    reason: str = ""
