"""Kinds of errors: what is wrong with each entity that is not exactly as the gold standard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from biomed.ner.entities import Entity, extents
from biomed.notes.sections import sections_of
from domainbert.files import write_json
from domainbert.tables import write_table

if TYPE_CHECKING:
    from biomed.corpora.documents import Span
    from biomed.ner.dictionaries import Dictionary
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

    text: str = field(repr=False)
    section: str
    kind: str
    expected: str
    predicted: str


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
    codes = {}
    if dictionary:
        codes = _codes(dictionary)
    for prediction in predictions:
        entities = [e for e in prediction.entities if e.label in types]
        exact = {(entity.start, entity.end) for entity in entities}
        gold = [span for span in prediction.gold if span.label in types]
        # Exact matches first, so that a neighbour does not take their partner.
        gold.sort(key=lambda span: (span.start, span.end) not in exact)
        invented = [e for e in entities if not _is_part(e, gold)]
        mentions: list[Span | Entity] = [*gold, *invented]
        partners = [*_partners(gold, entities), *invented]
        sections = sections_of(prediction.text, extents(mentions))
        for mention, entity, section in zip(
            mentions, partners, sections, strict=True
        ):
            words = prediction.text[mention.start : mention.end].split()
            text = " ".join(words)
            for values in _kinds(mention, entity, codes):
                yield EntityError(text, section.name, *values)


def _partners(
    gold: Iterable[Span],
    entities: Sequence[Entity],
) -> Iterator[Entity | None]:
    """The entity that overlaps each gold span most, a different one for each if possible."""
    remaining = list(entities)
    for span in gold:
        partner = _best_overlap(span, remaining)
        if partner is not None:
            remaining.remove(partner)
        yield partner or _best_overlap(span, entities)


def _best_overlap(span: Span, entities: Sequence[Entity]) -> Entity | None:
    overlapping = [entity for entity in entities if _overlap(span, entity)]
    return max(overlapping, key=lambda e: _overlap(span, e), default=None)


def _is_part(entity: Entity, gold: Iterable[Span]) -> bool:
    return any(_overlap(span, entity) for span in gold)


def _overlap(span: Span, entity: Entity) -> float:
    """Characters in common; a little more for the same type or the same extent."""
    common = min(span.end, entity.end) - max(span.start, entity.start)
    if common <= 0:
        return 0.0
    is_same = (span.start, span.end) == (entity.start, entity.end)
    return common + 0.5 * is_same + 0.25 * (span.label == entity.label)


def _kinds(
    mention: Span | Entity,
    entity: Entity | None,
    codes: dict[str, str],
) -> Iterator[tuple[str, str, str]]:
    """Kind, expected and predicted value of each error of a gold span and its entity.

    An invented entity is its own mention.
    """
    if entity is None:
        yield "missed", mention.label, ""
    elif mention is entity:
        yield "invented", "", entity.label
    elif (mention.start, mention.end) != (entity.start, entity.end):
        yield "boundary", mention.label, entity.label
    elif mention.label != entity.label:
        yield "type", mention.label, entity.label
    else:
        if mention.assertion and mention.assertion != entity.assertion:
            yield "assertion", mention.assertion, entity.assertion
        if mention.id and codes:
            yield from _link_error(mention.id, entity, codes)


def _link_error(
    expected: str,
    entity: Entity,
    codes: dict[str, str],
) -> Iterator[tuple[str, str, str]]:
    """The error of a link; any concept of the gold standard is right."""
    ids = map(_code, expected.replace(",", "|").split("|"))
    concepts = {codes[id_] for id_ in ids if id_ in codes}
    if not concepts:
        yield "link: no such name", expected, entity.id or ""
    elif entity.id is None:
        yield "link: no candidate", expected, ""
    elif entity.id not in concepts:
        yield "link: wrong candidate", expected, entity.id


def _codes(dictionary: Dictionary) -> dict[str, str]:
    """The concept of each id and of each code in another system, without its prefix too."""
    codes: dict[str, str] = {}
    for id_, other_codes in dictionary.concepts():
        for code in (id_, *other_codes):
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
    texts = Counter((e.kind, e.text, e.expected, e.predicted) for e in errors)
    ranked = [(*text, count) for text, count in texts.most_common()]
    columns = ["kind", "text", "expected", "predicted", "count"]
    rows = pd.DataFrame(ranked, columns=columns)
    order = list(KINDS)
    rows = rows.sort_values(
        "kind",
        key=lambda kinds: kinds.map(order.index),
        kind="stable",
    )
    return rows.groupby("kind").head(LISTED).reset_index(drop=True)


def write_errors(
    errors: Sequence[EntityError], facts: Mapping[str, object], path: Path
) -> Path:
    """Write facts with the counts of errors, and their most frequent texts beside them.

    Returns:
        The table of texts.
    """
    by_section: dict[str, list[EntityError]] = {}
    for error in errors:
        by_section.setdefault(error.section or "none", []).append(error)
    counts = {"errors": error_counts(errors)}
    sections = {
        name: error_counts(group) for name, group in by_section.items()
    }
    write_json({**facts, **counts, "errors_by_section": sections}, path)
    texts = path.with_suffix(".errors.csv")
    write_table(frequent_texts(errors), texts)
    return texts
