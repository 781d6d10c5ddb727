"""Dictionaries for linking: names and ids of concepts, such as those of MONDO, DrugBank and RxNorm.

A dictionary is a table of names: `name`, `id`, and `codes`, the concept's codes in other systems.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from biomed.terms.names import NameTable, split_names
from domainbert.errors import UserError
from domainbert.tables import read_table, require_cells
from domainbert.training.objective import fingerprint

if TYPE_CHECKING:
    import pandas as pd

NORMALISED = 0.95  # the score of a name that differs in form only
# Systems of codes as tables of mappings spell them -> as dictionaries name them.
SYSTEMS = {
    "MESH": "MESH",
    "UMLS": "UMLS",
    "SCTID": "SNOMED",
    "ICD10CM": "ICD10CM",
    "OMIM": "OMIM",
}
_RXNORM = {"rxcui": "id", "ingredient": "name", "brands": "synonyms"}


@dataclass(frozen=True)
class Link:
    """The concept of a name.

    Attributes:
        id: of the concept.
        name: its preferred name, the first that the dictionary gives it.
        score: how sure the link is, in (0, 1]: 1 for a name of the dictionary (case ignored), 0.95
            for one that differs in form only (see `biomed.terms.names.normalised`), both divided by
            the number of concepts that have the name; otherwise the probability that the concept
            with the nearest vectors is right.
        codes: of the concept in other systems, such as "MESH:D006333".
    """

    id: str
    name: str
    score: float
    codes: tuple[str, ...] = ()


class Dictionary:
    """NameTable and the ids of their concepts.

    Args:
        pairs: (name, id) of each name; the first name of an id is its preferred one.
        codes: the codes of concepts in other systems.
        path: the table; vectors are kept beside it.
    """

    def __init__(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        codes: Mapping[str, tuple[str, ...]] | None = None,
        path: Path | None = None,
    ) -> None:
        self.pairs, self.codes, self.path = (
            list(dict.fromkeys(pairs)),
            codes or {},
            path,
        )
        if not self.pairs:
            raise UserError(
                "the dictionary is empty; expected at least one name and id"
            )
        self.preferred = {id_: name for name, id_ in reversed(self.pairs)}
        self._names = NameTable(self.pairs)
        self._sizes = Counter(id_ for _, id_ in self.pairs)

    @classmethod
    def read(cls, path: str | Path) -> Dictionary:
        """Read a table with the columns `name` and `id`, and perhaps `codes` (split by "|").

        Raises:
            TableError: a column is missing, or a row lacks its name or id.
        """
        path = Path(path)
        table = read_table(path)
        require_cells(table, ["name", "id"], source=path.name)
        pairs = zip(table["name"].str.strip(), table["id"], strict=True)
        listed = table.reindex(columns=["id", "codes"]).dropna().itertuples(index=False)
        return cls(
            pairs,
            codes={id_: tuple(each.split("|")) for id_, each in listed},
            path=path,
        )

    @cached_property
    def digest(self) -> str:
        """A hash of all names and ids."""
        return fingerprint(self.pairs)

    def link(self, id_: str, score: float) -> Link:
        """A link to a concept."""
        return Link(id_, self.preferred[id_], score, self.codes.get(id_, ()))

    def find(self, name: str) -> Link | None:
        """The concept with this name, or with one that differs in form only.

        Of several, the one whose preferred name it is, else the one with the most names.
        """
        ids, is_exact = self._names.find(name)
        if not ids:
            return None
        key = " ".join(name.split()).casefold()
        best = max(
            ids, key=lambda i: (self.preferred[i].casefold() == key, self._sizes[i])
        )
        return self.link(best, (1.0 if is_exact else NORMALISED) / len(ids))


def build_dictionary(
    tables: Sequence[Path], *, mappings: Path | None = None, system: str | None = None
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

    Raises:
        UserError: no concept, or none with a code in the system.
    """
    import pandas as pd

    pairs: list[tuple[str, str]] = []  # name and id
    codes = _read_codes(mappings)
    known: dict[str, dict[str, None]] = {}  # id -> its codes
    for path in tables:
        table = read_table(path).rename(columns=_RXNORM)
        require_cells(table, ["id", "name"], source=path.name)
        rows = table.reindex(columns=["id", "name", "synonyms"]).itertuples(index=False)
        for own, name, synonyms in rows:
            concept = own if ":" in own else f"{path.name.split('.')[0]}:{own}"
            others = [concept, *codes.get(concept, ())]
            id_ = next(
                (c for c in others if not system or c.startswith(f"{system}:")), None
            )
            if id_:
                known.setdefault(id_, {}).update(
                    dict.fromkeys(c for c in others if c != id_)
                )
                pairs += [(each, id_) for each in (name, *split_names(synonyms))]
    if not pairs:
        raise UserError(
            f"no concept with a code in {system or 'these tables'}; name --mappings with its codes"
        )
    frame = pd.DataFrame(list(dict.fromkeys(pairs)), columns=["name", "id"])
    return frame.assign(codes=["|".join(known[id_]) for id_ in frame["id"]])


def _read_codes(path: Path | None) -> dict[str, list[str]]:
    """The codes of each concept in the systems of `SYSTEMS`."""
    codes: dict[str, list[str]] = defaultdict(list)
    for concept, code in (
        read_table(path).iloc[:, :2].itertuples(index=False) if path else ()
    ):
        system, _, number = code.partition(":")
        if system.upper() in SYSTEMS:
            codes[concept].append(f"{SYSTEMS[system.upper()]}:{number}")
    return codes
