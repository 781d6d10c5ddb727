"""Names of terms: vocabularies, normal forms and abbreviations."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from domainbert.files import read_toml
from domainbert.tables import (
    Column,
    ReadOptions,
    TableError,
    match_columns,
    read_table,
)

if TYPE_CHECKING:
    import pandas as pd


DATA = Path(__file__).parents[1] / "data"
_WORD = re.compile(r"[^\W_]+")
_SPELLINGS = read_toml(__file__, "names.toml")
COMMON_WORDS = frozenset(_SPELLINGS["common_words"])
_ARTICLE = re.compile(r"^(?:the|an?) ")
# An abbreviation such as AIDS has no singular.
_CAPITALS = re.compile(r"\b[A-Z]{4,6}\b")
_OWNER = re.compile(r"(?<=\w)['\u2018\u2019]s\b")
_LONGEST_ABBREVIATION = 6
TERM = Column(
    "term", "text", ("text", "terms", "concept", "name"), required=True
)
_COLUMNS = (
    TERM,
    Column("category"),
    Column("synonyms", also=("synonym",)),
    Column("id", "id"),
)
Value = TypeVar("Value")


def medical_terms() -> pd.DataFrame:
    """The shipped vocabulary: about 1,170 terms in 14 clinical categories.

    The category of a term is the specialty that mostly treats it; drugs have a category of their
    own. `synonyms` are lists of one or two names, including abbreviations.

    Returns:
        `term`, `category`, `synonyms`.
    """
    return read_vocabulary(DATA / "medical_terms.csv")


def read_vocabulary(path: str | Path) -> pd.DataFrame:
    """Read terms from a table, or from a text file with one on each line.

    Args:
        path: .csv, .parquet or .jsonl with a column `term` (or `name`), and optionally
            `category`, `synonyms` (lists, or separated by "|") and `id` (of the concept that the
            term names); or .txt.

    Returns:
        These columns of the rows that have a term; `synonyms` are lists.

    Raises:
        TableError: a source that cannot be read or has no column of terms, or a category or id
            that only some of the rows have.
    """
    return vocabulary_rows(path).reset_index(drop=True)


def vocabulary_rows(path: str | Path) -> pd.DataFrame:
    """The terms of a table as in `read_vocabulary`; the index is the row, from 0."""
    path = Path(path)
    table = read_table(path, options=ReadOptions(lines=True))
    names = match_columns(list(table.columns), _COLUMNS, source=path.name)
    table = table[list(names.values())].set_axis(list(names), axis=1)
    has_term = [
        isinstance(term, str) and term.strip() != "" for term in table["term"]
    ]
    table = table[has_term]
    for name in {"category", "id"} & set(names):
        missing = int(table[name].isna().sum())
        if missing == len(table):
            table = table.drop(columns=name)
        elif missing:
            raise TableError(
                f"{path.name}: {missing} rows with a term have no {name}"
            )
    if "synonyms" in names:
        table = table.assign(
            synonyms=[split_names(cell) for cell in table["synonyms"]]
        )
    return table


def percent(key: str) -> int:
    """The hash of a key, modulo 100; names below a limit are held out of all training."""
    digest = hashlib.sha256(key.encode(errors="replace"))
    return int(digest.hexdigest(), 16) % 100


def split_names(synonyms: object) -> list[str]:
    """The names in a cell: a list of names, or text with "|" between them."""
    if isinstance(synonyms, str):
        synonyms = synonyms.split("|")
    if not isinstance(synonyms, list | tuple | np.ndarray):
        return []
    names = [name.strip() for name in synonyms if isinstance(name, str)]
    return [name for name in names if name]


def normalised(name: str) -> str:
    """A name without accents, marks, word order, plural, British spelling and small words."""
    letters = unicodedata.normalize("NFKD", name)
    abbreviations = {word.casefold() for word in _CAPITALS.findall(letters)}
    plain = _OWNER.sub("", letters.casefold())
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    # Only a leading article is dropped: "a" is a letter in "hepatitis A".
    plain = _ARTICLE.sub("", plain.strip())
    plain = american(plain)
    forms = []
    for word in _WORD.findall(plain):
        if word in _SPELLINGS["small_words"]:
            continue
        form = _SPELLINGS["numbers"].get(word, word)
        if form not in abbreviations:
            form = _singular(form)
        forms.append(form)
    return " ".join(sorted(forms))


def american(text: str) -> str:
    """A text in small letters with American spelling."""
    for british, spelling in _SPELLINGS["american"].items():
        text = text.replace(british, spelling)
    return text


def _singular(word: str) -> str:
    """The word without a plural s."""
    has_plural_s = word.endswith("s") and not word.endswith(("ss", "us", "is"))
    if len(word) > 3 and has_plural_s:
        return word[:-1]
    return word


class NameTable(Generic[Value]):
    """Values by name; case and spacing are ignored.

    Args:
        pairs: a name and its value; a name may have several values.
    """

    def __init__(self, pairs: Iterable[tuple[str, Value]]) -> None:
        self._exact: dict[str, dict[Value, None]] = {}
        self._forms: dict[str, dict[Value, None]] = {}
        for name, value in pairs:
            self._exact.setdefault(folded(name), {})[value] = None
            form = normalised(name)
            if form:
                self._forms.setdefault(form, {})[value] = None

    def find(self, name: str) -> tuple[list[Value], bool]:
        """The values of a name, and whether the name itself is listed.

        If it is not, they are the values of the names that have the same normal form.
        """
        values = self._exact.get(folded(name))
        if values:
            return list(values), True
        form = normalised(name)
        return [*self._forms.get(form, ())], False


def folded(name: str) -> str:
    """A name in small letters, with single spaces."""
    return " ".join(name.split()).casefold()


def meanings(term: str) -> tuple[str, ...]:
    """What an abbreviation of the shipped table may stand for; empty for other terms.

    Case is ignored, except that a common word such as "all" is not read as an abbreviation.
    """
    if is_common(term):
        return ()
    return _meanings().get(folded(term), ())


def is_common(term: str) -> bool:
    """Whether a term is a common word such as "all" that is not written in capitals."""
    return term.casefold() in COMMON_WORDS and not term.isupper()


@cache
def _meanings() -> dict[str, tuple[str, ...]]:
    table = abbreviations()
    expansions = table["expansion"].str.split("|").explode()
    keys = table["abbreviation"].map(folded)
    return expansions.groupby(keys).agg(tuple).to_dict()


def is_abbreviation(term: str) -> bool:
    """Whether a term looks like an abbreviation: short, with at least two capitals."""
    n_capitals = sum(letter.isupper() for letter in term)
    return len(term) <= _LONGEST_ABBREVIATION and n_capitals > 1


def abbreviations() -> pd.DataFrame:
    """The shipped abbreviations: `abbreviation, expansion` ("|" between several), `label`."""
    return read_table(DATA / "notes" / "abbreviations.csv")
