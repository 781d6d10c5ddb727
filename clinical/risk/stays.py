"""A stay's notes, as a caller gives them -> its windows, and a receipt of what was read."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clinical.risk.notes import clean
from clinical.risk.results import Coverage, Status, UnreadSpan

if TYPE_CHECKING:
    from domainbert.windows import Window, Windower

NOTE_JOINT = "\n\n"


@dataclass(frozen=True)
class ReadStay:
    """A stay, windowed and waiting for its turn.

    Attributes:
        stay_id: as given, as a string.
        windows: of all notes in reading order, each with the number of its note.
        coverage: what was read.
        status: "ok", "empty" or "error"; without windows unless it is "ok".
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
        clean_notes: write over marks that carry no meaning (see `clinical.risk.notes`).
        join_notes: window a stay's notes as one text instead of each on its own; positions then
            count through the joined text, as note 0.
    """

    def __init__(self, windower: Windower, *, clean_notes: bool, join_notes: bool) -> None:
        self.window = windower.window
        self._windower, self._clean, self._join = windower, clean_notes, join_notes

    def read(self, stay: Any, stay_id: object = None) -> ReadStay:
        """Window one stay; whatever comes, nothing raises: a fault becomes a status.

        Args:
            stay: one note, or the stay's notes in time order; missing ones are noted.
            stay_id: carried along.
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
        return ReadStay(
            None if stay_id is None else str(stay_id), windows, coverage, status, reason
        )


def _texts(stay: Any) -> tuple[list[tuple[int, str]], list[UnreadSpan], str]:
    """The notes that are text, with their numbers; the missing ones; a fault or ""."""
    alone = isinstance(stay, str | bytes | dict) or not isinstance(stay, Iterable)
    notes: list[tuple[int, str]] = []
    missing: list[UnreadSpan] = []
    for number, note in enumerate([stay] if alone else stay):
        if isinstance(note, str):
            notes.append((number, note))
        elif _is_missing(note):
            missing.append(UnreadSpan(number, 0, 0, "missing"))
        else:
            kind = type(note).__name__
            hint = "; decode it first: note.decode()" if isinstance(note, bytes) else ""
            return [], [], f"note {number} is {kind}, not text{hint}"
    return notes, missing, ""


def _is_missing(note: object) -> bool:
    pandas = sys.modules.get("pandas")  # its missing value can only come from where it is in use
    if note is None or (pandas is not None and note is pandas.NA):
        return True
    return isinstance(note, float) and math.isnan(note)
