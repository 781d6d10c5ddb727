"""Stays: their notes cleaned and cut into windows, and the risk that comes out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from domainbert.errors import UserError
from domainbert.settings import Settings
from domainbert.tables.ids import id_key, is_missing
from domainbert.text.windows import too_long

if TYPE_CHECKING:
    import pandas as pd

    from domainbert.text.windows import Window, Windower

NOTE_JOINT = "\n\n"
FIRST_YEAR = 1800
LAST_YEAR = 2300
MISSING_WORDS = (
    "NULL", "(NULL)", "\\N", "NAT", "NAN", "NA", "N/A", "#N/A", "<NA>", "NONE",
)  # fmt: skip
"""What programs write into empty cells, in upper case."""

Given: TypeAlias = "str | Sequence[str] | Mapping[str, object]"
"""A stay: a note, a list of notes in time order, or a record with these as `text` and columns."""
Status = Literal["ok", "empty", "error"]
OtherLanguages = Literal["remark", "error", "accept"]

# De-identification marks of MIMIC-III ([**2151-7-16**], [**Known lastname 1234**]) and of
# MIMIC-IV (___), rules drawn with dashes or equals signs, and the number of a section or list
# item at the start of a line ("3. Congestive heart failure").
_MARKS = re.compile(
    r"\[\*\*[^\[\]]{0,300}\*\*\]"
    r"|_{2,}"
    r"|[-=*~#]{3,}"
    r"|^[ \t]{0,40}\d{1,2}[.)](?=[ \t])",
    re.MULTILINE,
)


# Common words of other languages that are not English words, and common English ones.
_OTHER_WORDS = (
    "el los las que una por para con del und der mit nicht ist les une pour dans avec della che "
    "gli n\u00e3o uma het een voor"
)
_ENGLISH_WORDS = "the of and with for was to in is on at he she his her"
_LAST_LATIN = "\u024f"
OTHER_LANGUAGE = "the notes seem not to be in English, and the model knows English only"


def is_english(text: str) -> bool:
    """Whether nothing speaks against English, in the first 20,000 characters of a text."""
    text = text[:20_000].lower()
    words = re.findall(r"\w+", text)
    n_other_words = sum(map(words.count, _OTHER_WORDS.split()))
    n_english_words = sum(map(words.count, _ENGLISH_WORDS.split()))
    if n_other_words >= 3 and n_other_words > n_english_words:
        return False
    letters = [character for character in text if character.isalpha()]
    n_other_letters = sum(letter > _LAST_LATIN for letter in letters)
    return n_other_letters <= 0.3 * len(letters)


def clean(note: str) -> str:
    """Replace meaningless marks in a note with spaces.

    The length does not change, so positions in the cleaned note are positions in the original.
    """
    return _MARKS.sub(lambda mark: re.sub(r"[^\n]", " ", mark.group()), note)


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
    by_column = [list(map(effect.shift, rows[effect.name])) for effect in effects]
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

    def with_columns(self, effects: Sequence[ColumnEffect], stay: Given) -> ReadStay:
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
        missing = [name for name, shift in by_name.items() if math.isnan(shift)]
        if missing:
            remarks.append(f"no {', '.join(missing)}: the median is read")
        reason = "; ".join(filter(None, remarks))
        total = float(np.nansum([*by_name.values()]))
        return replace(self, risk=replace(self.risk, reason=reason, shift=total))


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
        notes, unread, fault = note_texts(stay)
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
        coverage = Coverage(n_characters, n_tokens, len(windows), tuple(unread))
        status, reason = self._status(texts, fault, has_windows=bool(windows))
        if status == "error":
            windows = []
        numbers = (math.nan, math.nan, math.nan, math.nan, False, (), coverage)
        risk = StayRisk(*numbers, status=status, reason=reason)
        return ReadStay(windows, risk, dict(notes))

    def _status(
        self, texts: Sequence[str], fault: str, *, has_windows: bool
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


def note_list(stay: Any) -> list[Any]:
    """The notes of a stay (see `Given`) as a list.

    A text, bytes, or what cannot be iterated is one note; the notes themselves are not checked.
    """
    notes = stay
    if isinstance(stay, Mapping) and "text" in stay:
        notes = stay["text"]
    if isinstance(notes, np.ndarray) and notes.ndim == 0:
        notes = notes.item()
    if isinstance(notes, str | bytes | dict) or not isinstance(notes, Iterable):
        return [notes]
    return list(notes)


def note_time(cell: Any) -> datetime | None:
    """When a note was written: an ISO 8601 date or datetime, in UTC where it has no offset.

    None where it is missing, unreadable, or in a year before 1800 or after 2300: such dates stand
    for "unknown" (0001-01-01, 9999-12-31) or are mistyped. MIMIC's shifted dates end in 2211.
    """
    text = str(cell).strip().removesuffix("UTC").replace(" Z", "Z")
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if not FIRST_YEAR <= time.year <= LAST_YEAR:
        return None
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    return time


def note_texts(stay: Any) -> tuple[list[tuple[int, str]], list[UnreadSpan], str]:
    """The notes that are text, with their numbers; the missing ones; a fault or ""."""
    try:
        cells = note_list(stay)
    except Exception as error:  # noqa: BLE001  (a caller's iterator may raise anything)
        return [], [], f"its notes cannot be read ({type(error).__name__})"
    notes = []
    missing = []
    for number, note in enumerate(cells):
        is_text = isinstance(note, str)
        if is_text and note.strip().upper() not in MISSING_WORDS:
            notes.append((number, note))
        elif is_text or is_missing(note):
            missing.append(UnreadSpan(number, 0, 0, "missing"))
        elif isinstance(note, bytes):
            fix = "decode it first: note.decode()"
            return [], [], f"note {number} is bytes, not text; {fix}"
        else:
            return [], [], f"note {number} is {type(note).__name__}, not text"
    return notes, missing, ""


def present_notes(stay: Any) -> list[str]:
    """The notes of a stay that have text; one string is one note.

    Raises:
        UserError: a note is not text.
    """
    notes, _, fault = note_texts(stay)
    if fault:
        raise UserError(f"text: {fault}; expected a list of strings")
    return [text for _, text in notes if text.strip()]
