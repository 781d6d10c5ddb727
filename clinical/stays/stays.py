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


# Common words of notes in other languages that are neither English words nor abbreviations.
_ROMANCE = (
    "el los las una por del que fue paciente ingreso ingresa ingresado alta domicilio diagnóstico "
    "tratamiento evoluciona mejoría años dolor se não foi com pelo pela internado internada "
    "domicílio melhorou dias les une pour dans avec sous été hospitalisé hospitalisée "
    "patiente retour domicile traitement jours della che gli stata stato paziente dimesso dimessa "
    "ricoverato ricoverata terapia scompenso giorni alla nel și pentru pacientul "
    "pacienta internat externat "
)
_GERMANIC = (
    "der und nicht mit das ein eine einer wegen nach unter wurde bei zur zum patientin entlassung "
    "hause aufgenommen aufnahme diagnose diagnosen therapie besserte täglich sich tagen morgens "
    "abends herzinsuffizienz het een voor werd wegens naar huis onder opgenomen ontslag patiënt "
    "patiënte dagen och för vårdades hemmet skrevs det som ikke og af ble blev innlagt utskrevet "
    "hjem pasient pasienten patienten indlagt udskrevet behandlet behandlades "
)
_OTHERS = (
    "się nie została został przyjęta przyjęty powodu domu wypisana wypisany pacjent pacjentka "
    "poprawa oraz jest pacient pacientka byla přijata přijat propuštěna propuštěn domů és nem egy "
    "beteg felvétel kórház otthonába ja ei oli potilas sairaalaan hoito kotiin hoidettiin ile bir "
    "hasta nedeniyle yatırıldı evine taburcu edildi tedavi için"
)
_OTHER_WORDS = frozenset((_ROMANCE + _GERMANIC + _OTHERS).split())
_ENGLISH = "the of and with for was to in is on at he she his her pt pts hx yo bid tid prn daily"
_ENGLISH_WORDS = frozenset(_ENGLISH.split())
_LANGUAGE_WORD = re.compile(r"[^\W\d_]+")
_FEWEST_OTHER_WORDS = (
    2  # other than one another, so that a name does not decide
)
_LAST_LATIN = "\u024f"
OTHER_LANGUAGE = (
    "the notes seem not to be in English, and the model knows English only"
)


def is_english(text: str) -> bool:
    """Whether nothing speaks against English, in the first 20,000 characters of a text."""
    words = _LANGUAGE_WORD.findall(text[:20_000])
    text = text[:20_000].lower()
    other_words = [word.lower() for word in words if _is_other(word)]
    n_english_words = sum(word.lower() in _ENGLISH_WORDS for word in words)
    is_other = len(set(other_words)) >= _FEWEST_OTHER_WORDS
    if is_other and len(other_words) > n_english_words:
        return False
    letters = [character for character in text if character.isalpha()]
    n_other_letters = sum(letter > _LAST_LATIN for letter in letters)
    return n_other_letters <= 0.3 * len(letters)


def _is_other(word: str) -> bool:
    """Whether a word is one of another language, or has its letters and is no name."""
    if word.lower() in _OTHER_WORDS:
        return True
    # A micro sign is no letter of a language.
    has_accent = any(
        "\u00df" <= letter <= _LAST_LATIN for letter in word.lower()
    )
    return has_accent and not word.istitle()


def clean(note: str) -> str:
    """Replace meaningless marks in a note with spaces.

    The length does not change, so positions in the cleaned note are positions in the original.
    """
    return _MARKS.sub(lambda mark: re.sub(r"[^\n]", " ", mark.group()), note)


def note_list(stay: object) -> list[Any]:
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


def note_time(cell: object) -> datetime | None:
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


def note_texts(stay: object) -> tuple[list[tuple[int, str]], list[int], str]:
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


def present_notes(stay: object) -> list[str]:
    """The notes of a stay that have text; one string is one note.

    Raises:
        UserError: a note is not text.
    """
    notes, _, fault = note_texts(stay)
    if fault:
        raise UserError(f"text: {fault}; expected a list of strings")
    return [text for _, text in notes if text.strip()]
