"""Names of terms: their normal form, abbreviations and what they stand for, brands."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DATA = Path(__file__).parents[1] / "data" / "notes"
_WORD = re.compile(r"[^\W_]+")
_BRITISH = (("aem", "em"), ("oed", "ed"), ("oes", "es"), ("tumour", "tumor"), ("rrhoe", "rrhe"))
_DROPPED = frozenset(("the", "a", "an", "of", "in", "nos", "unspecified", "and", "s"))
_NUMBERS = {"ii": "2", "iii": "3", "iv": "4"}
# PubMed's sentences have spaces around marks.
_SHORT_FORM = re.compile(r"\( ?([A-Z][A-Za-z0-9]{1,7}) ?\)")


def normalised(name: str) -> str:
    """A name without accents, marks, word order, plural, British spelling and small words."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    for british, american in _BRITISH:
        plain = plain.replace(british, american)
    words = [_NUMBERS.get(word, word) for word in _WORD.findall(plain) if word not in _DROPPED]
    return " ".join(sorted(map(_singular, words)))


def _singular(word: str) -> str:
    is_plural = len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return word[:-1] if is_plural else word


def abbreviations() -> pd.DataFrame:
    """The shipped abbreviations: `abbreviation, expansion` ("|" between several), `label`."""
    return pd.read_csv(DATA / "abbreviations.csv", keep_default_na=False)


def brands() -> pd.DataFrame:
    """The shipped brand names that the vocabulary lacks: `brand, generic`."""
    return pd.read_csv(DATA / "brands.csv", keep_default_na=False)


def defined_abbreviations(sentences: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Abbreviations that sentences define in brackets, and what they stand for.

    By the rule of Schwartz and Hearst (2003): the letters of the abbreviation, from the last on,
    are in the words before the bracket, and the first one begins a word.
    """
    for sentence in sentences:
        for match in _SHORT_FORM.finditer(sentence):
            short = match[1]
            if sum(map(str.isupper, short)) > 1:
                words = sentence[: match.start()].replace(" - ", "-").split()
                number = min(len(short) + 5, 2 * len(short))
                if found := _long_form(short, " ".join(words[-number:])):
                    yield short, found


def _long_form(short: str, before: str) -> str | None:
    place = len(before)
    for number in range(len(short) - 1, -1, -1):
        place -= 1
        while place >= 0 and (
            before[place].lower() != short[number].lower()
            or (number == 0 and place > 0 and before[place - 1].isalnum())
        ):
            place -= 1
        if place < 0:
            return None
    found = before[before.rfind(" ", 0, place + 1) + 1 :]
    is_whole = len(found) > len(short) + 2 and short not in found.split()
    return found if is_whole and not set(found) & set("(),;[]") else None
