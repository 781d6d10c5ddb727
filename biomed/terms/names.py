"""Names of terms: their normal form, abbreviations and what they stand for, brands."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from domainbert.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

DATA = Path(__file__).parents[1] / "data" / "notes"
_WORD = re.compile(r"[^\W_]+")
_BRITISH = (("aem", "em"), ("oed", "ed"), ("oes", "es"), ("tumour", "tumor"), ("rrhoe", "rrhe"))
_DROPPED = frozenset(("the", "of", "in", "nos", "unspecified", "and"))
_NUMBERS = {"ii": "2", "iii": "3", "iv": "4"}
_ARTICLE = re.compile(r"^(?:the|an?) ")
_CAPITALS = re.compile(r"\b[A-Z]{4,6}\b")  # an abbreviation such as AIDS has no singular
_OWNER = re.compile(r"(?<=\w)['\u2018\u2019]s\b")
_LONGEST_ABBREVIATION = 6
# Abbreviations that are common words when case is ignored.
COMMON_WORDS = frozenset(["as", "he", "all", "ed", "mom", "dig", "ten", "ua", "mr", "tr"])
Value = TypeVar("Value")


def normalised(name: str) -> str:
    """A name without accents, marks, word order, plural, British spelling and small words."""
    letters = unicodedata.normalize("NFKD", name)
    short = {word.casefold() for word in _CAPITALS.findall(letters)}
    plain = _OWNER.sub("", letters.casefold())
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    plain = _ARTICLE.sub("", plain.strip())  # elsewhere "a" is a letter, as in "hepatitis A"
    for british, american in _BRITISH:
        plain = plain.replace(british, american)
    words = [_NUMBERS.get(word, word) for word in _WORD.findall(plain) if word not in _DROPPED]
    return " ".join(sorted(word if word in short else _singular(word) for word in words))


def _singular(word: str) -> str:
    is_plural = len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return word[:-1] if is_plural else word


class Names(Generic[Value]):
    """Values by name, case and spacing ignored.

    Args:
        pairs: name and value; a name may have several values.
    """

    def __init__(self, pairs: Iterable[tuple[str, Value]]) -> None:
        self._exact: dict[str, dict[Value, None]] = {}
        self._forms: dict[str, dict[Value, None]] = {}
        for name, value in pairs:
            self._exact.setdefault(_folded(name), {})[value] = None
            self._forms.setdefault(normalised(name), {})[value] = None

    def find(self, name: str) -> tuple[list[Value], bool]:
        """The values of a name, else of names with the same normal form; and whether exactly."""
        if exact := self._exact.get(_folded(name)):
            return list(exact), True
        form = normalised(name)
        return list(self._forms.get(form, ())) if form else [], False


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()


def meanings(term: str) -> tuple[str, ...]:
    """What an abbreviation of the shipped table may stand for; nothing for other terms.

    Case does not matter, except that a common word such as "all" is no abbreviation.
    """
    return () if is_common(term) else _meanings().get(_folded(term), ())


def is_common(term: str) -> bool:
    """Whether a term is a common word such as "all", and is not written as an abbreviation."""
    return term.casefold() in COMMON_WORDS and not term.isupper()


@cache
def _meanings() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for row in abbreviations().itertuples():
        key = _folded(str(row.abbreviation))
        found[key] = (*found.get(key, ()), *str(row.expansion).split("|"))
    return found


def is_abbreviation(term: str) -> bool:
    """Whether a term looks like one: a short word with two capitals or more."""
    return len(term) <= _LONGEST_ABBREVIATION and sum(map(str.isupper, term)) > 1


def abbreviations() -> pd.DataFrame:
    """The shipped abbreviations: `abbreviation, expansion` ("|" between several), `label`."""
    return read_table(DATA / "abbreviations.csv")


def brands() -> pd.DataFrame:
    """The shipped brand names that the vocabulary lacks: `brand, generic`."""
    return read_table(DATA / "brands.csv")
