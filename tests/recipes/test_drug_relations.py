"""Pairs of drugs and diseases: which are candidates, where they are, and how they are counted."""

import numpy as np
import pytest

from biomed.corpora.documents import Document, Relation, Span
from recipes.drug_relations.__main__ import (
    Side,
    measure_rows,
)
from recipes.drug_relations.head import fit_head, pair_vectors
from recipes.drug_relations.pairs import (
    candidates_of,
    gold_pairs,
    positions,
    rule_relations,
)

TEXT = "Naproxen and ulcers.\nUlcers bled. Iron treats anaemia and ulcers."


def at(part, label, concept, *, last=False):
    start = TEXT.rindex(part) if last else TEXT.index(part)
    return Span(start, start + len(part), label, id=concept)


DOCUMENT = Document(
    "1",
    TEXT,
    (
        at("Naproxen", "Chemical", "C1"),
        at("ulcers", "Disease", "D1"),
        at("Ulcers", "Disease", "D1"),
        at("Iron", "ChemicalEntity", "C2"),
        at("anaemia", "DiseaseOrPhenotypicFeature", "D2|D3"),
        at("ulcers", "Disease", "D1", last=True),
        at("bled", "Disease", ""),
    ),
    relations=(
        Relation("CID", "C1", "D1"),
        Relation("CID", "D3", "C2"),  # the other way round
        Relation("CID", "C1", "C2"),
        Relation("CID", "C1", "D9"),
        Relation("Bind", "C1", "D2"),
    ),
)


@pytest.fixture
def candidates():
    return candidates_of(DOCUMENT, gold_pairs(DOCUMENT, "CID"))


def test_candidates_are_concepts_and_not_mentions(candidates):
    assert candidates.pairs == [
        ("C1", "D1"),
        ("C1", "D2"),
        ("C1", "D3"),
        ("C2", "D1"),
        ("C2", "D2"),
        ("C2", "D3"),
    ]
    assert candidates.related == {("C1", "D1"), ("C2", "D3")}
    assert candidates.outcome.tolist() == [True, *4 * [False], True]
    assert candidates.share_sentence().tolist() == [
        True,
        False,
        False,
        True,
        True,
        True,
    ]


def test_positions_know_sentences_titles_and_counts(candidates):
    rows = positions(candidates)
    assert rows.shape == (6, 21)
    first, *_, last = rows
    assert first[[0, 1, 4, 5, 6]].tolist() == [1, 1, 1, 1, 1]
    assert last[[0, 1, 4, 5, 6]].tolist() == [1, 1, 0, 0, 0]
    assert np.isfinite(rows).all()
    assert positions(
        candidates_of(Document("2", "x", ()), frozenset())
    ).shape == (
        0,
        21,
    )


def test_vectors_are_of_the_mentions_and_of_the_tokens_between(candidates):
    offsets = np.array([(0, 0), (0, 8), (9, 12), (13, 19), (21, 27), (0, 0)])
    hidden = np.eye(6, dtype=np.float32)
    attention = np.full((2, 6, 6), 1 / 6, np.float32)
    vectors = pair_vectors(candidates, hidden, attention, offsets)
    assert vectors.shape == (6, 36)
    parts = vectors[0].reshape(6, 6)
    assert parts[3].tolist() == [0, 0, 1, 0, 0, 0]  # "and"
    assert parts[4].tolist() == [0, 1, 0, 0, 0, 0]  # "Naproxen"
    assert parts[5].tolist() == [0, 0, 0, 1, 0, 0]  # "ulcers"
    # Iron comes after the last token that the network read.
    assert vectors[3].reshape(6, 6)[4].tolist() == [1, 0, 0, 0, 0, 0]


def test_reasons_come_from_the_rules():
    text = "Takes iron for anaemia."
    spans = (
        Span(6, 10, "Chemical", id="C2"),
        Span(15, 22, "Disease", id="D2"),
    )
    document = Document("3", text, spans)
    assert rule_relations(document) == {("reason", ("C2", "D2"))}


def test_relations_that_no_candidate_has_count_as_missed(candidates):
    side = Side(
        [candidates, candidates_of(DOCUMENT, frozenset({("C9", "D9")}))],
        np.zeros((12, 1)),
        np.zeros((12, 1)),
    )
    is_predicted = np.array([True, True, *10 * [False]])
    assert side.counts(is_predicted).tolist() == [[1, 2, 2], [0, 0, 1]]
    rows = measure_rows(
        side, {"same sentence": is_predicted, "none": ~is_predicted}
    )
    assert rows[0][:4] == ["same sentence", "0.500", "0.333", "0.400"]


def test_a_head_learns_which_pairs_are_related():
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(200, 8)).astype(np.float32)
    outcome = vectors[:, 0] > 0
    places = generator.normal(size=(200, 21)).astype(np.float32)
    log_odds = fit_head(vectors, places, outcome)(vectors, places)
    assert np.mean((log_odds > 0) == outcome) > 0.8
