"""Dictionaries for linking, from tables of names such as MONDO, DrugBank and RxNorm, or your own.

A dictionary is a table of names: `name`, `id`, and `codes`, the concept's codes in other systems.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from biomed.corpora.formats import read_pubtator
from biomed.ner.abbreviations import expanded, find_abbreviations
from biomed.terms.names import Names, normalised, split_names
from domainbert.errors import UserError
from domainbert.tables import read_table, require_cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pandas as pd

    Pairs = list[tuple[str, str]]  # name and id

# Systems of codes as tables of mappings spell them -> as dictionaries name them.
SYSTEMS = {"MESH": "MESH", "UMLS": "UMLS", "SCTID": "SNOMED", "ICD10CM": "ICD10CM", "OMIM": "OMIM"}
_RXNORM = {"rxcui": "id", "ingredient": "name", "brands": "synonyms"}


def build_dictionary(
    tables: Sequence[Path],
    *,
    mappings: Path | None = None,
    system: str | None = None,
    corpora: Sequence[Path] = (),
) -> pd.DataFrame:
    """The names of the concepts of several tables.

    Args:
        tables: each with `id`, `name` and perhaps `synonyms` (separated by "|"), or RxNorm's
            columns (`rxcui, ingredient, brands`). An id without a prefix gets the file's name
            ("drugbank:DB01050"). A table without ids adds names to the concepts of the tables
            before it that have the same name.
        mappings: a table of ids and codes, in two columns, such as "MONDO:0005252, mesh:D006333".
        system: one of `SYSTEMS`: keep the concepts that have a code in it, which is then their id.
        corpora: PubTator files whose mentions have ids: names as texts have them, which decide
            where several concepts share a name.

    Returns:
        `name`, `id` and `codes` (separated by "|"); the first name of an id is its preferred one.

    Raises:
        UserError: no concept, or none with a code in the system.
    """
    import pandas as pd

    pairs: Pairs = []
    codes = _read_codes(mappings)
    known: dict[str, dict[str, None]] = {}  # id -> its codes
    for path in tables:
        table = read_table(path).rename(columns=_RXNORM)
        require_cells(table, ["name"], source=path.name)
        synonyms = table.get("synonyms", pd.Series("", index=table.index))
        names = [[n, *split_names(s)] for n, s in zip(table["name"], synonyms, strict=True)]
        if "id" not in table:
            pairs += _joined(names, pairs)
            continue
        for own, each in zip(table["id"], names, strict=True):
            concept = own if ":" in own else f"{path.name.split('.')[0]}:{own}"
            others = [concept, *codes.get(concept, ())]
            id_ = next((c for c in others if not system or c.startswith(f"{system}:")), None)
            if id_:
                known.setdefault(id_, {}).update(dict.fromkeys(c for c in others if c != id_))
                pairs += [(name, id_) for name in each]
    if not pairs:
        msg = (
            f"no concept with a code in {system or 'these tables'}; name --mappings with its codes"
        )
        raise UserError(msg)
    seen = _seen_names(corpora, {c: id_ for id_, each in known.items() for c in (id_, *each)})
    pairs = [(n, i) for n, i in pairs if seen.get(normalised(n), (n, i))[1] == i] + [*seen.values()]
    frame = pd.DataFrame(list(dict.fromkeys(pairs)), columns=["name", "id"])
    return frame.assign(codes=["|".join(known[id_]) for id_ in frame["id"]])


def _read_codes(path: Path | None) -> dict[str, list[str]]:
    """The codes of each concept in the systems of `SYSTEMS`."""
    codes: dict[str, list[str]] = defaultdict(list)
    for concept, code in read_table(path).iloc[:, :2].itertuples(index=False) if path else ():
        system, _, number = code.partition(":")
        if system.upper() in SYSTEMS:
            codes[concept].append(f"{SYSTEMS[system.upper()]}:{number}")
    return codes


def _joined(groups: Iterable[list[str]], pairs: Pairs) -> Pairs:
    """The names of groups whose first name, or else most names, belong to one known concept."""
    known = Names(pairs)
    joined: Pairs = []
    for names in groups:
        ids = known.find(names[0])[0]
        if len(ids) != 1:
            counts = Counter(id_ for name in names for id_ in known.find(name)[0])
            most = max(counts.values(), default=0)
            ids = [id_ for id_, count in counts.items() if count == most]
        if len(ids) == 1:
            joined += [(name, ids[0]) for name in names]
    return joined


def _seen_names(corpora: Iterable[Path], ids: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The names in corpora and their most frequent id, by normal form."""
    counts: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for document in (document for path in corpora for document in read_pubtator(path)):
        known = find_abbreviations(document.text)
        for span in document.spans:
            code = span.id if ":" in span.id else f"MESH:{span.id}"
            name = expanded(document.text[span.start : span.end], known)
            if code in ids and (form := normalised(name)):
                counts[form][name, ids[code]] += 1
    return {form: max(each, key=lambda pair: each[pair]) for form, each in counts.items()}
