"""Pairs of a drug and a disease of a document: the candidates, their positions, and the rules."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np

from biomed.corpora.documents import Document, Span, concepts_of
from biomed.ner.entities import extents
from biomed.ner.standoff import TaggedDocument
from biomed.notes.assertion import assert_spans
from biomed.notes.medications import read_medications
from domainbert.text.sentences import sentence_spans

DRUGS = ("Chemical", "ChemicalEntity")
DISEASES = ("Disease", "DiseaseOrPhenotypicFeature")

Pair = tuple[str, str]
"""The ids of a drug and of a disease."""


@dataclass(frozen=True)
class Candidates:
    """The drugs and diseases of a document, and which pairs of them are related.

    Attributes:
        mentions: those of each concept, drugs before diseases.
        related: the pairs that the gold standard relates.
    """

    document: Document
    drugs: tuple[str, ...]
    diseases: tuple[str, ...]
    mentions: dict[str, list[Span]] = field(repr=False)
    related: frozenset[Pair]

    @cached_property
    def pairs(self) -> list[Pair]:
        """Every drug with every disease."""
        return list(product(self.drugs, self.diseases))

    @cached_property
    def outcome(self) -> np.ndarray:
        """Whether each pair is related."""
        return np.array([pair in self.related for pair in self.pairs], bool)

    @cached_property
    def sentences(self) -> list[tuple[int, int]]:
        """First character of each sentence, and one past its last."""
        return sentence_spans(self.document.text)

    def sentence_numbers(self, concept: str) -> set[int]:
        """The sentences that mention a concept."""
        return {
            number
            for number, (start, end) in enumerate(self.sentences)
            for span in self.mentions[concept]
            if start <= span.start < end
        }

    def share_sentence(self) -> np.ndarray:
        """Whether a sentence mentions both concepts of each pair."""
        numbers = {name: self.sentence_numbers(name) for name in self.mentions}
        shared = [bool(numbers[a] & numbers[b]) for a, b in self.pairs]
        return np.array(shared, bool)


def gold_pairs(document: Document, label: str) -> frozenset[Pair]:
    """The drugs and diseases that relations of a type relate, in either direction."""
    drugs, diseases = concepts_by_type(document)
    pairs = set()
    for relation in document.relations:
        if relation.label != label:
            continue
        for pair in (
            (relation.first, relation.second),
            (relation.second, relation.first),
        ):
            if pair[0] in drugs and pair[1] in diseases:
                pairs.add(pair)
    return frozenset(pairs)


def concepts_by_type(
    document: Document,
) -> tuple[dict[str, list[Span]], dict[str, list[Span]]]:
    """The mentions of each drug, and of each disease; a mention of several concepts is in each."""
    drugs: dict[str, list[Span]] = defaultdict(list)
    diseases: dict[str, list[Span]] = defaultdict(list)
    for span in document.spans:
        concepts = sorted(concepts_of(span.id))
        if len(concepts) > 1:
            concepts.remove(span.id)  # all of them together
        for concept in concepts:
            if span.label in DRUGS:
                drugs[concept].append(span)
            elif span.label in DISEASES:
                diseases[concept].append(span)
    return drugs, diseases


def candidates_of(document: Document, related: frozenset[Pair]) -> Candidates:
    """The drugs and diseases that a document mentions."""
    drugs, diseases = concepts_by_type(document)
    mentions = {
        concept: drugs.get(concept, []) + diseases.get(concept, [])
        for concept in [*drugs, *diseases]
    }
    return Candidates(
        document, tuple(drugs), tuple(diseases), mentions, related
    )


def positions(candidates: Candidates) -> np.ndarray:
    """Where the mentions of each pair are, and how many; shape (pairs, 21)."""
    text = candidates.document.text
    title_end = len(text.partition("\n")[0])
    count = len(candidates.sentences)
    numbers = {
        name: candidates.sentence_numbers(name) or {0}
        for name in candidates.mentions
    }
    mention_counts = {k: len(v) for k, v in candidates.mentions.items()}
    most_drug = max((mention_counts[k] for k in candidates.drugs), default=1)
    most = max((mention_counts[k] for k in candidates.diseases), default=1)
    rows = []
    for drug, disease in candidates.pairs:
        drug_spans = candidates.mentions[drug]
        disease_spans = candidates.mentions[disease]
        in_drug = numbers[drug]
        in_disease = numbers[disease]
        shared = in_drug & in_disease
        spans = list(product(drug_spans, disease_spans))
        words_between = min(
            len(text[min(a.end, b.end) : max(a.start, b.start)].split())
            for a, b in spans
        )
        drug_in_title = any(span.start < title_end for span in drug_spans)
        disease_in_title = any(
            span.start < title_end for span in disease_spans
        )
        rows.append(
            [
                len(shared),
                bool(shared),
                np.log1p(words_between),
                min(abs(i - j) for i in in_drug for j in in_disease),
                drug_in_title,
                disease_in_title,
                drug_in_title and disease_in_title,
                np.log(len(drug_spans)),
                np.log(len(disease_spans)),
                len(drug_spans) / most_drug,
                len(disease_spans) / most,
                np.log(len(candidates.drugs)),
                np.log(len(candidates.diseases)),
                min(in_drug) / count,
                min(in_disease) / count,
                max(in_drug) / count,
                max(in_disease) / count,
                count - 1 in shared,
                bool(shared) and min(shared) <= 1,
                np.log(len(candidates.pairs)),
                any(a.start < b.start for a, b in spans),
            ]
        )
    return np.array(rows, np.float32).reshape(-1, 21)


def rule_relations(document: Document) -> set[tuple[str, Pair]]:
    """Reasons and reactions that the rules find between the gold mentions."""
    tagged = TaggedDocument.of_gold(document)
    renamed = [
        replace(entity, label=DRUGS[0])
        if entity.label in DRUGS
        else replace(entity, label=DISEASES[0])
        for entity in tagged.entities
        if entity.label in DRUGS + DISEASES
    ]
    spans = extents(renamed)
    assertions = assert_spans(document.text, spans)
    medications = read_medications(document.text, spans, assertions)
    drugs = {medication.start: medication for medication in medications}
    entities = [
        replace(entity, medication=drugs.get(entity.start))
        for entity in renamed
    ]
    relations = TaggedDocument.of_tags("", document.text, entities).relations
    return {
        (relation.label, pair)
        for relation in relations
        for pair in product(
            concepts_of(relation.first), concepts_of(relation.second)
        )
    }
