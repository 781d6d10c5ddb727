"""Dictionaries for linking: names and ids of concepts, such as those of MONDO, DrugBank and RxNorm.

A dictionary is a table of names: `name`, `id`, and `codes`, the concept's codes in other systems.
Or it is a file that `biomed.ner.name_files` wrote, which is never whole in memory.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from biomed.notes.assertion import DRUGS
from biomed.terms.names import NameTable, folded, normalised, split_names
from domainbert.errors import UserError
from domainbert.progress import progress
from domainbert.tables import TableError, read_table, require_cells
from domainbert.training.objective import fingerprint

if TYPE_CHECKING:
    import pandas as pd


log = logging.getLogger(__name__)
NORMALISED = 0.95  # the score of a name that differs in form only
# Systems of codes, as tables of mappings spell them, and their names in dictionaries.
SYSTEMS = {
    "MESH": "MESH",
    "UMLS": "UMLS",
    "SCTID": "SNOMED",
    "ICD10CM": "ICD10CM",
    "OMIM": "OMIM",
}
_RXNORM = {
    "rxcui": "id",
    "ingredient": "name",
    "brands": "synonyms",
}


@dataclass(frozen=True)
class Link:
    """The concept of a name.

    Attributes:
        id: the id of the concept.
        name: its preferred name, the first that the dictionary gives it.
        score: how sure the link is, in (0, 1]: 1 for a name of the dictionary (case ignored), 0.95
            for one that differs in form only (see `biomed.terms.names.normalised`), both divided by
            the number of concepts that have the name; otherwise the probability that the concept
            with the nearest vectors is right.
        codes: the codes of the concept in other systems, such as "MESH:D006333".
    """

    id: str
    name: str
    score: float
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Concept:
    """A concept that has a name; `source` are the codes of the name where it is another one's."""

    id: str
    name: str
    codes: tuple[str, ...]
    name_count: int
    label: str | None = None
    source: tuple[str, ...] = ()


def _with_progress(
    pairs: Sequence[tuple[str, str]],
) -> Iterator[tuple[str, str]]:
    """The same names, with a progress bar that moves once for a thousand of them."""
    with progress("names that are read", total=len(pairs)) as advance:
        for start in range(0, len(pairs), 1000):
            names = pairs[start : start + 1000]
            yield from names
            advance(len(names))


class Dictionary:
    """Names and the ids of their concepts.

    Args:
        pairs: (name, id) of each name; the first name of an id is its preferred one.
        codes: the codes of concepts in other systems.
        path: the table; vectors are kept beside it.
    """

    def __init__(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        codes: Mapping[str, Sequence[str]] | None = None,
        path: Path | None = None,
    ) -> None:
        self.pairs = list(dict.fromkeys(pairs))
        self.codes = codes or {}
        self.path = path
        if not self.pairs:
            raise UserError(
                "the dictionary is empty; expected at least one name and id"
            )
        self.preferred = {id_: name for name, id_ in reversed(self.pairs)}
        self._names = NameTable(_with_progress(self.pairs))
        self._sizes = Counter(id_ for _, id_ in self.pairs)

    @classmethod
    def read(cls, path: str | Path) -> Dictionary:
        """Open a file of names, or read a table of them.

        A table has the columns `name` and `id`, and perhaps `codes` (split by "|").

        Raises:
            TableError: a column is missing, or a row lacks its name or id.
        """
        path = Path(path)
        if path.suffix.lower() == ENDING:
            return DictionaryFile(path)
        table = read_table(path)
        require_cells(table, ["name", "id"], source=path.name)
        pairs = zip(table["name"].str.strip(), table["id"], strict=True)
        listed = table.reindex(columns=["id", "codes"]).dropna()
        codes = {
            id_: _split(cell) for id_, cell in listed.itertuples(index=False)
        }
        return cls(pairs, codes=codes, path=path)

    @cached_property
    def digest(self) -> str:
        """A hash of all names and ids."""
        return fingerprint(self.pairs)

    def link(self, id_: str, score: float) -> Link:
        """A link to a concept."""
        codes = self.codes.get(id_, ())
        return Link(id_, self.preferred[id_], score, tuple(codes))

    def concepts(self) -> Iterator[tuple[str, Sequence[str]]]:
        """The id of each concept, and its codes in other systems."""
        for id_ in self.preferred:
            yield id_, self.codes.get(id_, ())

    def find(self, name: str, label: str | None = None) -> Link | None:
        """The first concept of `find_all`, if there is one."""
        return next(iter(self.find_all(name, label)), None)

    def find_all(self, name: str, label: str | None = None) -> list[Link]:
        """The concepts with this name, or else with one that differs in form only.

        The one whose preferred name it is comes first, then the one with the most names.

        Args:
            name: as a text has it.
            label: the entity type, if it is known; concepts of other types are left out.
        """
        matches, is_exact = self._named(name)
        concepts = [match for match in matches if self._fits(match, label)]
        key = folded(name)

        def rank(concept: _Concept) -> tuple[bool, int]:
            return folded(concept.name) != key, -concept.name_count

        score = NORMALISED
        if is_exact:
            score = 1.0
        return [
            Link(
                concept.id,
                concept.name,
                score / len(concepts),
                tuple(dict.fromkeys((*concept.codes, *concept.source))),
            )
            for concept in sorted(concepts, key=rank)
        ]

    def find_listed(self, name: str, label: str | None = None) -> Link | None:
        """The concept of a name that the user listed, however short it is; here none."""
        del name, label
        return None

    def _named(self, name: str) -> tuple[list[_Concept], bool]:
        """The concepts of a name, and whether the name itself is listed."""
        ids, is_exact = self._names.find(name)
        concepts = [
            _Concept(
                id_,
                self.preferred[id_],
                tuple(self.codes.get(id_, ())),
                self._sizes[id_],
            )
            for id_ in ids
        ]
        return concepts, is_exact

    def _fits(self, concept: _Concept, label: str | None) -> bool:
        """Whether a concept may be an entity of this type, as far as either is known."""
        del concept, label
        return True


ENDING = ".sqlite"
APPLICATION = 0x6E616D65  # "name", in the head of each file
INDEX = "CREATE UNIQUE INDEX concepts_by_id ON concepts (id)"  # of the finished file
SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE concepts (number INTEGER PRIMARY KEY, id TEXT, name TEXT, label TEXT, codes TEXT,
    name_count INTEGER);
CREATE TABLE names (key TEXT, concept INTEGER, preference INTEGER, spelling TEXT, listed INTEGER,
    source TEXT, PRIMARY KEY (key, concept)) WITHOUT ROWID;
CREATE TABLE forms (form TEXT, concept INTEGER, source TEXT, PRIMARY KEY (form, concept))
    WITHOUT ROWID;
CREATE TABLE codes (code TEXT PRIMARY KEY, display TEXT) WITHOUT ROWID
"""
_CONCEPT = (
    "SELECT id, concepts.name, codes, name_count, label, source FROM concepts"
)
_LONGEST_LISTED = 3  # letters of a name whose capitals count


class DictionaryFile(Dictionary):
    """A dictionary in a file of SQLite, which is searched in the file. Threads may share it.

    Attributes:
        facts: what the file was made from, such as the versions of its systems.

    Raises:
        TableError: no such file, or one that `biomed ner dictionary` did not write.
    """

    path: Path

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        try:
            self._con = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro&immutable=1",
                uri=True,
                check_same_thread=False,
            )
            (application,) = self._rows("PRAGMA application_id")[0]
            stored = dict(self._rows("SELECT name, value FROM facts"))
        except sqlite3.Error:
            application = 0
        if application != APPLICATION:
            raise TableError(
                f"{path.name} is missing or damaged, or is no file of names; write it with "
                f"`biomed ner dictionary RELEASE --out {path.name}`"
            )
        self.facts = {
            name: json.loads(value) for name, value in stored.items()
        }
        self._labels = {label.casefold() for label in self.facts["labels"]}

    def __reduce__(self) -> tuple[type[DictionaryFile], tuple[Path]]:
        """Another process opens the file again."""
        return DictionaryFile, (self.path.absolute(),)

    def _rows(self, query: str, *values: object) -> list[tuple]:
        with self._lock:
            return self._con.execute(query, values).fetchall()

    @property
    def digest(self) -> str:
        """A hash of all names and ids."""
        return self.facts["digest"]

    @property
    def pairs(self) -> list[tuple[str, str]]:  # type: ignore[override]
        """(name, id) of each name, the preferred ones first within a concept; all in memory."""
        return self._rows(
            "SELECT spelling, id FROM names JOIN concepts ON number = concept "
            "ORDER BY concept, preference, spelling"
        )

    @property
    def preferred(self) -> dict[str, str]:  # type: ignore[override]
        """The preferred name of each id; all in memory."""
        return dict(self._rows("SELECT id, name FROM concepts"))

    @property
    def codes(self) -> dict[str, list[str]]:  # type: ignore[override]
        """The codes of each id that has some; all in memory."""
        return {id_: list(codes) for id_, codes in self.concepts() if codes}

    def concepts(self) -> Iterator[tuple[str, Sequence[str]]]:
        """The id of each concept, and its codes in other systems."""
        for id_, codes in self._rows("SELECT id, codes FROM concepts"):
            yield id_, _split(codes)

    def names_for_vectors(self, limit: int) -> list[str]:
        """Up to this many names of different normal forms, preferred names before others."""
        order = "preference, concept, spelling"
        if self.facts["names"] <= limit:
            order = "concept, preference, spelling"
        forms: dict[str, str] = {}
        with self._lock:
            for (name,) in self._con.execute(
                f"SELECT spelling FROM names ORDER BY {order}"  # noqa: S608
            ):
                forms.setdefault(normalised(name), name)
                if len(forms) == limit:
                    break
        return list(forms.values())

    def find_listed(self, name: str, label: str | None = None) -> Link | None:
        """The concept of a name that the user listed; capitals count in a short one."""
        key = folded(name)
        rows = self._rows(
            "SELECT id, spelling FROM names JOIN concepts ON number = concept "
            "WHERE key = ? AND listed",
            key,
        )
        ids = {
            id_
            for id_, spelling in rows
            if len(key) > _LONGEST_LISTED or spelling == name.strip()
        }
        links = [link for link in self.find_all(name, label) if link.id in ids]
        return next(iter(links), None)

    def codings(
        self, codes: Iterable[str]
    ) -> dict[str, tuple[str | None, str | None]]:
        """The version of the system and the display of each of some codes, where known."""
        codings = {}
        for code in codes:
            rows = self._rows("SELECT display FROM codes WHERE code = ?", code)
            rows = rows or self._rows(
                "SELECT name FROM concepts WHERE id = ?", code
            )
            display = next((row[0] for row in rows), None)
            version = self.facts["systems"].get(code.partition(":")[0])
            codings[code] = (version, display)
        return codings

    def _named(self, name: str) -> tuple[list[_Concept], bool]:
        rows = self._rows(
            f"{_CONCEPT} JOIN names ON concept = number WHERE key = ?",
            folded(name),
        )
        is_exact = bool(rows)
        if not rows:
            rows = self._rows(
                f"{_CONCEPT} JOIN forms ON concept = number WHERE form = ?",
                normalised(name),
            )
        concepts = [
            _Concept(id_, title, _split(codes), count, label, _split(source))
            for id_, title, codes, count, label, source in rows
        ]
        return concepts, is_exact

    def _fits(self, concept: _Concept, label: str | None) -> bool:
        if label is None or concept.label is None:
            return True
        key = label.casefold()
        if key in DRUGS:
            return concept.label.casefold() in DRUGS
        return key == concept.label.casefold() or key not in self._labels


def _split(codes: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (codes or "").split("|")))


def build_dictionary(
    tables: Sequence[Path],
    *,
    mappings: Path | None = None,
    system: str | None = None,
) -> pd.DataFrame:
    """The names of the concepts of several tables.

    Args:
        tables: each with `id`, `name` and perhaps `synonyms` (separated by "|"), or RxNorm's
            columns (`rxcui, ingredient, brands`). An id without a prefix gets the file's name
            ("drugbank:DB01050").
        mappings: a table of ids and codes, in two columns, such as "MONDO:0005252, mesh:D006333".
        system: one of `SYSTEMS`: keep the concepts that have a code in it, which is then their id.

    Returns:
        `name`, `id` and `codes` (separated by "|"); the first name of an id is its preferred one.

    Rows that repeat an id are names of one concept; a warning says so where each row has its
    synonyms.

    Raises:
        UserError: no concept, or none with a code in the system.
    """
    codes = _read_codes(mappings)
    prefix = f"{system}:" if system else ""
    pairs = []  # name and id
    codes_of: dict[str, dict[str, None]] = defaultdict(dict)
    for path in tables:
        table = read_table(path).rename(columns=_RXNORM)
        require_cells(table, ["id", "name"], source=path.name)
        columns = table.reindex(columns=["id", "name", "synonyms"])
        # A table without synonyms may have a row for each name of a concept.
        if "synonyms" in table:
            _warn_of_repeated(columns["id"], source=path.name)
        for concept, name, synonyms in columns.itertuples(index=False):
            if ":" not in concept:
                concept = f"{path.name.split('.')[0]}:{concept}"
            concept_codes = [concept, *codes[concept]]
            id_ = next(
                (c for c in concept_codes if c.startswith(prefix)), None
            )
            if id_:
                codes_of[id_] |= dict.fromkeys(concept_codes)
                pairs += [
                    (form, id_) for form in (name, *split_names(synonyms))
                ]
    if not pairs:
        raise UserError(
            f"no concept with a code in {system or 'these tables'}; name its codes with "
            "`mappings='FILE'`"
        )
    import pandas as pd

    frame = pd.DataFrame(pairs, columns=["name", "id"]).drop_duplicates()
    cells = {
        id_: "|".join(filter(id_.__ne__, id_codes))
        for id_, id_codes in codes_of.items()
    }
    return frame.assign(codes=frame["id"].map(cells)).reset_index(drop=True)


def _read_codes(path: Path | None) -> dict[str, list[str]]:
    """The codes of each concept in the systems of `SYSTEMS`."""
    codes: dict[str, list[str]] = defaultdict(list)
    if path is None:
        return codes
    for concept, code in read_table(path).iloc[:, :2].itertuples(index=False):
        system, _, number = code.partition(":")
        if system.upper() in SYSTEMS:
            codes[concept].append(f"{SYSTEMS[system.upper()]}:{number}")
    return codes


def _warn_of_repeated(ids: pd.Series[str], *, source: str) -> None:
    """Warn of ids that stand in several rows, each of which should be a concept."""
    repeated = ids[ids.duplicated()]
    if len(repeated):
        log.warning(
            "%s: rows with the id of an earlier row: %d, the first with %s; their names go to "
            "the earlier concept",
            source,
            len(repeated),
            repeated.iloc[0],
        )
