"""Names of terms: the shipped vocabulary and your own, normal forms and abbreviations."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from domainbert.tables import Column, ReadOptions, TableError, match_columns, read_table

if TYPE_CHECKING:
    import pandas as pd

DATA = Path(__file__).parents[1] / "data"
_WORD = re.compile(r"[^\W_]+")
_BRITISH = (
    ("aem", "em"),
    ("oed", "ed"),
    ("oes", "es"),
    ("tumour", "tumor"),
    ("rrhoe", "rrhe"),
)
_DROPPED = frozenset(("the", "of", "in", "nos", "unspecified", "and"))
_NUMBERS = {"ii": "2", "iii": "3", "iv": "4"}
_ARTICLE = re.compile(r"^(?:the|an?) ")
_CAPITALS = re.compile(
    r"\b[A-Z]{4,6}\b"
)  # an abbreviation such as AIDS has no singular
_OWNER = re.compile(r"(?<=\w)['\u2018\u2019]s\b")
_LONGEST_ABBREVIATION = 6
# Abbreviations that are common words when case is ignored.
COMMON_WORDS = frozenset(
    ["as", "he", "all", "ed", "mom", "dig", "ten", "ua", "mr", "tr"]
)
TERM = Column("term", "text", ("text", "terms", "concept", "name"), required=True)
_COLUMNS = (
    TERM,
    Column("category"),
    Column("synonyms", also=("synonym",)),
    Column("id", "id"),
)
Value = TypeVar("Value")


def medical_terms() -> pd.DataFrame:
    """The shipped vocabulary: some 1,170 terms in 14 clinical categories.

    Each term is in one category, that of the specialty that mostly treats it; drugs have their own
    category. `synonyms` are lists of one or two names, abbreviations among them.

    Returns:
        `term`, `category`, `synonyms`.
    """
    return read_vocabulary(DATA / "medical_terms.csv")


def read_vocabulary(path: str | Path) -> pd.DataFrame:
    """Read terms from a table, or from a text file with one on each line.

    Args:
        path: .csv, .parquet or .jsonl with a column `term` (or `name`); where there are,
            `category`, `synonyms` (lists, or separated by "|") and `id` (of the concept that the
            term names); or .txt.

    Returns:
        These columns, `synonyms` as lists, of the rows with a term.

    Raises:
        TableError: a source that cannot be read, or without a column of terms; or some rows have a
            category or an id and others none.
    """
    path = Path(path)
    table = read_table(path, options=ReadOptions(lines=True))
    names = match_columns(list(table.columns), _COLUMNS, source=path.name)
    table = table[list(names.values())].set_axis(list(names), axis=1)
    table = table[
        [isinstance(term, str) and bool(term.strip()) for term in table["term"]]
    ]
    for name in {"category", "id"} & set(names):
        missing = int(table[name].isna().sum())
        if missing == len(table):
            table = table.drop(columns=name)
        elif missing:
            raise TableError(f"{path.name}: {missing} rows with a term have no {name}")
    if "synonyms" in names:
        table = table.assign(synonyms=[split_names(cell) for cell in table["synonyms"]])
    return table.reset_index(drop=True)


def percent(key: str) -> int:
    """A number from 0 to 99 by a hash of the key; it decides what is held out from training."""
    return int(hashlib.sha256(key.encode(errors="replace")).hexdigest(), 16) % 100


def split_names(synonyms: object) -> list[str]:
    """The names of a cell: a list of them, or text with "|" between them."""
    listed = synonyms.split("|") if isinstance(synonyms, str) else synonyms
    if not isinstance(listed, list | tuple | np.ndarray):
        return []
    return [name.strip() for name in listed if isinstance(name, str) and name.strip()]


def normalised(name: str) -> str:
    """A name without accents, marks, word order, plural, British spelling and small words."""
    letters = unicodedata.normalize("NFKD", name)
    short = {word.casefold() for word in _CAPITALS.findall(letters)}
    plain = _OWNER.sub("", letters.casefold())
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    plain = _ARTICLE.sub(
        "", plain.strip()
    )  # elsewhere "a" is a letter, as in "hepatitis A"
    for british, american in _BRITISH:
        plain = plain.replace(british, american)
    words = [
        _NUMBERS.get(word, word)
        for word in _WORD.findall(plain)
        if word not in _DROPPED
    ]
    return " ".join(
        sorted(word if word in short else _singular(word) for word in words)
    )


def _singular(word: str) -> str:
    is_plural = (
        len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    )
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
    table = abbreviations()
    expansions = table["expansion"].str.split("|").explode()
    return expansions.groupby(table["abbreviation"].map(_folded)).agg(tuple).to_dict()


def is_abbreviation(term: str) -> bool:
    """Whether a term looks like one: a short word with two capitals or more."""
    return len(term) <= _LONGEST_ABBREVIATION and sum(map(str.isupper, term)) > 1


def abbreviations() -> pd.DataFrame:
    """The shipped abbreviations: `abbreviation, expansion` ("|" between several), `label`."""
    return read_table(DATA / "notes" / "abbreviations.csv")
