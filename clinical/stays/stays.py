"""Stays as users give them: their notes as text, cleaned, with their times and language."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import numpy as np

from domainbert.errors import UserError
from domainbert.tables.ids import is_missing

FIRST_YEAR = 1800
LAST_YEAR = 2300
MISSING_WORDS = (
    "NULL", "(NULL)", "\\N", "NAT", "NAN", "NA", "N/A", "#N/A", "<NA>", "NONE",
)  # fmt: skip
"""What programs write into empty cells, in upper case."""

StayInput: TypeAlias = "str | Sequence[str] | Mapping[str, object]"
"""A stay: a note, a list of notes in time order, or a record with these as `text` and columns."""

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
OTHER_LANGUAGE = (
    "the notes seem not to be in English, and the model knows English only"
)


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


def note_list(stay: Any) -> list[Any]:
    """The notes of a stay (see `StayInput`) as a list.

    A text, bytes, a table (which iterates over its column names) or what cannot be iterated is one
    note; the notes themselves are not checked.
    """
    notes = stay
    if isinstance(stay, Mapping) and "text" in stay:
        notes = stay["text"]
    if isinstance(notes, np.ndarray) and notes.ndim == 0:
        notes = notes.item()
    is_table = hasattr(notes, "columns")
    is_text = isinstance(notes, str | bytes | dict)
    if is_table or is_text or not isinstance(notes, Iterable):
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


def note_texts(stay: Any) -> tuple[list[tuple[int, str]], list[int], str]:
    """The notes that are text, with their numbers; the numbers of missing ones; a fault or ""."""
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
            missing.append(number)
        elif isinstance(note, bytes):
            fix = "decode it first: note.decode()"
            return [], [], f"note {number} is bytes, not text; {fix}"
        else:
            fault = f"note {number} is {type(note).__name__}, not text"
            if hasattr(note, "columns"):
                fault += "; for a table use score_frame"
            return [], [], fault
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
