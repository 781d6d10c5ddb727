"""Kinds of errors: what is wrong with each entity that is not exactly as the gold standard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from biomed.ner.sections import sections_of

if TYPE_CHECKING:
    from biomed.corpora.documents import Span
    from biomed.ner.dictionaries import Dictionary
    from biomed.ner.entities import Entity
    from biomed.ner.evaluation import Prediction

KINDS = {
    "missed": "nothing was found there",
    "boundary": "something was found there that begins or ends elsewhere",
    "type": "the same words with another type",
    "invented": "there is nothing in the gold standard",
    "assertion": "the right entity with another assertion",
    "link: no candidate": "the right entity without a concept",
    "link: wrong candidate": "the right entity with another concept",
    "link: no such name": "the dictionary does not have the right concept",
}
LISTED = 20  # texts of each kind


@dataclass(frozen=True)
class EntityError:
    """An error; `expected` and `predicted` are types, assertions or ids, by its kind."""

    kind: str
    text: str = field(repr=False)
    expected: str
    predicted: str
    section: str


def errors_of(
    predictions: Iterable[Prediction],
    *,
    types: Sequence[str],
    dictionary: Dictionary | None = None,
) -> Iterator[EntityError]:
    """The errors of each text, among entities of these types.

    Assertions and links are compared where the gold standard has them and, for links, a
    dictionary is given.
    """
    codes = _codes(dictionary) if dictionary else None
    for prediction in predictions:
        gold = [span for span in prediction.gold if span.label in types]
        entities = [e for e in prediction.entities if e.label in types]
        pairs = list(_paired(gold, entities))
        extents = [_extent(span, entity) for span, entity in pairs]
        sections = sections_of(prediction.text, extents)
        for (span, entity), (start, end, _), section in zip(
            pairs, extents, sections, strict=True
        ):
            for kind, expected, predicted in _kinds(span, entity, codes):
                yield EntityError(
                    kind,
                    " ".join(prediction.text[start:end].split()),
                    expected,
                    predicted,
                    section.name if section else "",
                )


def _paired(
    gold: Sequence[Span], entities: Sequence[Entity]
) -> Iterator[tuple[Span | None, Entity | None]]:
    """Each gold span with the entity that overlaps it most, and what is left of both."""
    remaining = list(entities)
    # Exact matches first, so that a neighbour does not take their partner.
    ordered = sorted(gold, key=lambda span: not _has_exact(span, remaining))
    for span in ordered:
        partner = _best_overlap(span, remaining)
        if partner is not None:
            remaining.remove(partner)
        yield span, partner or _best_overlap(span, entities)
    for entity in remaining:
        is_part = any(_overlap(span, entity) > 0 for span in gold)
        if not is_part:
            yield None, entity


def _best_overlap(span: Span, entities: Sequence[Entity]) -> Entity | None:
    overlaps = [_overlap(span, entity) for entity in entities]
    largest = max(overlaps, default=0)
    return entities[overlaps.index(largest)] if largest > 0 else None


def _has_exact(span: Span, entities: Iterable[Entity]) -> bool:
    return any((e.start, e.end) == (span.start, span.end) for e in entities)


def _overlap(span: Span, entity: Entity) -> float:
    """Characters in common; a little more for the same type or the same extent."""
    common = min(span.end, entity.end) - max(span.start, entity.start)
    if common <= 0:
        return 0.0
    is_same = (span.start, span.end) == (entity.start, entity.end)
    return common + 0.5 * is_same + 0.25 * (span.label == entity.label)


def _extent(span: Span | None, entity: Entity | None) -> tuple[int, int, str]:
    if span is not None:
        return span.start, span.end, span.label
    if entity is not None:
        return entity.start, entity.end, entity.label
    raise ValueError("a pair of nothing")


def _kinds(
    span: Span | None, entity: Entity | None, codes: dict[str, str] | None
) -> Iterator[tuple[str, str, str]]:
    """Kind, expected and predicted value of each error of a pair."""
    if span is None:
        yield "invented", "", entity.label if entity else ""
    elif entity is None:
        yield "missed", span.label, ""
    elif (span.start, span.end) != (entity.start, entity.end):
        yield "boundary", span.label, entity.label
    elif span.label != entity.label:
        yield "type", span.label, entity.label
    else:
        if span.assertion and span.assertion != entity.assertion:
            yield "assertion", span.assertion, entity.assertion
        if span.id and codes is not None:
            yield from _link_error(span, entity, codes)


def _link_error(
    span: Span, entity: Entity, codes: dict[str, str]
) -> Iterator[tuple[str, str, str]]:
    """The error of a link; of a gold standard with several concepts any one is right."""
    ids = span.id.replace(",", "|").split("|")
    concepts = {codes[_code(id_)] for id_ in ids if _code(id_) in codes}
    if not concepts:
        yield "link: no such name", span.id, entity.id or ""
    elif entity.id is None:
        yield "link: no candidate", span.id, ""
    elif entity.id not in concepts:
        yield "link: wrong candidate", span.id, entity.id


def _codes(dictionary: Dictionary) -> dict[str, str]:
    """The concept of each id and of each code in another system, without its prefix too."""
    codes: dict[str, str] = {}
    for id_ in dictionary.preferred:
        for code in (id_, *dictionary.codes.get(id_, ())):
            codes.setdefault(_code(code), id_)
    return codes


def _code(id_: str) -> str:
    """An id without the prefix of its system, which corpora often leave out."""
    return id_.strip().rpartition(":")[2].casefold()


def error_counts(errors: Iterable[EntityError]) -> dict[str, int]:
    """The number of errors of each kind, in the order of `KINDS`."""
    counts = Counter(error.kind for error in errors)
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def frequent_texts(errors: Iterable[EntityError]) -> pd.DataFrame:
    """The twenty most frequent texts of each kind: `kind, text, expected, predicted, count`."""
    counts: dict[str, Counter[tuple[str, str, str]]] = {
        kind: Counter() for kind in KINDS
    }
    for error in errors:
        counts[error.kind][error.text, error.expected, error.predicted] += 1
    rows = [
        (kind, *key, count)
        for kind, texts in counts.items()
        for key, count in texts.most_common(LISTED)
    ]
    columns = ["kind", "text", "expected", "predicted", "count"]
    return pd.DataFrame(rows, columns=columns)
