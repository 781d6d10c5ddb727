"""Drugs in the names of allergies: "penicillin allergy" is the drug, not a disease."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from biomed.ner.differences import is_drug_name
from biomed.ner.entities import Entity
from biomed.notes.assertion import DRUGS
from domainbert.files import read_toml

_DATA = read_toml(__file__, "allergies.toml")
_NO_DRUG = frozenset(_DATA["no_drug"].split())
_LISTED = frozenset(_DATA["drugs"].split())
_CLASSES = frozenset(_DATA["classes"].split())
_CUE = re.compile(_DATA["cue"], re.IGNORECASE | re.VERBOSE)
_WORDS_BEFORE = re.compile(r"[\w-]{2,30}(?:\s[\w-]{2,30})?$")
# "penicillin and sulfa allergies"
_LIST_BEFORE = re.compile(r"(?:,\s|,?\s(?:and|or)\s|/|\s&\s)$")
_FARTHEST = 65  # characters before a cue that one drug of a list may take
_LONGEST = 8  # drugs of a list


def with_allergens(
    text: str, entities: list[Entity], types: Sequence[str]
) -> list[Entity]:
    """The entities with the drugs of a text's allergies, instead of the diseases over them.

    A drug that no entity covers has the score 1, since it is found by its name.
    """
    drug_type = next((t for t in types if t.casefold() in DRUGS), None)
    if drug_type is None:
        return entities
    for cue in _CUE.finditer(text):
        for start, end in _drugs_before(text, cue.start()):
            entities = _with_drug(
                text, entities, (start, end, cue.end()), drug_type
            )
    return entities


def _drugs_before(text: str, position: int) -> Iterator[tuple[int, int]]:
    """The drugs that end before a position, from right to left."""
    end = len(text[:position].rstrip(" -"))
    for _ in range(_LONGEST):
        first = max(0, end - _FARTHEST)
        words = _WORDS_BEFORE.search(text[first:end])
        if words is None:
            return
        name = _drug_at_end(words[0])
        if name is None:
            return
        start = end - len(name)
        yield start, end
        link = _LIST_BEFORE.search(text[max(0, start - _FARTHEST) : start])
        if link is None:
            return
        end = start - len(link[0])


def _drug_at_end(words: str) -> str | None:
    """The drug that one or two words are, or the second of them is."""
    *_, last = words.split()
    if last.casefold().removesuffix("s") in _CLASSES:
        return words
    for name in (words, last):
        folded = name.casefold()
        if folded in _LISTED or folded.removesuffix("s") in _LISTED:
            return name
        parts = folded.split()
        if _NO_DRUG.isdisjoint(parts) and is_drug_name(folded):
            return name
    return None


def _with_drug(
    text: str,
    entities: list[Entity],
    extent: tuple[int, int, int],
    drug_type: str,
) -> list[Entity]:
    """The entities with a drug, without what overlaps it and the word for the allergy."""
    start, end, cue_end = extent
    # A drug may overlap the word for the allergy, an entity of another type may not.
    extent_ends = {drug_type: end}
    overlapping = [
        entity
        for entity in entities
        if start < entity.end
        and entity.start < extent_ends.get(entity.label, cue_end)
    ]
    covering_drugs = [
        entity
        for entity in overlapping
        if entity.label == drug_type
        and entity.start <= start
        and entity.end == end
    ]
    scores = [entity.score for entity in overlapping if entity.start < end]
    drug = Entity(
        start, end, text[start:end], drug_type, max(scores, default=1.0)
    )
    kept = [entity for entity in entities if entity not in overlapping]
    kept += covering_drugs or [drug]
    return sorted(kept, key=lambda entity: entity.start)
