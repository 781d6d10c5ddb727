"""The sentences of a made-up hospital that an explanation should find."""

import pytest

from benchmarks.explain import made_up, meets_any, places, raises_risk
from clinical.datasets.sentences import FACTS, Statement
from clinical.evidence.case import Piece
from domainbert.tables import read_table

RAISING = next(fact for fact in FACTS if fact.weight > 0)
LOWERING = next(fact for fact in FACTS if fact.weight < 0)


def test_planted_sentences_are_in_the_notes(tmp_path):
    planted = made_up(tmp_path, stays=5, seed=9)
    notes = read_table(tmp_path / "NOTEEVENTS.csv")["TEXT"]
    text = " ".join(" ".join(notes).split())
    assert any(sentence in text for sentence in planted)


@pytest.mark.parametrize(
    ("statement", "raises"),
    [
        (Statement(RAISING, truth=True), True),
        (Statement(RAISING, truth=False), False),
        (Statement(RAISING, truth=True, elsewhere=True), False),
        (Statement(LOWERING, truth=True), False),
    ],
    ids=["true", "denied", "of another person", "lowers the risk"],
)
def test_only_true_facts_that_raise_the_risk_are_planted(statement, raises):
    assert raises_risk([statement]) == raises


def test_a_sentence_is_found_across_line_breaks():
    notes = ["Seen at home.", "Pt lives\n  alone. Well."]
    assert places(notes, {"lives alone.", "not there"}) == [(1, 3, 17)]


@pytest.mark.parametrize(
    ("note", "start", "end", "meets"),
    [(1, 0, 4, True), (1, 0, 3, False), (1, 17, 20, False), (0, 3, 17, False)],
)
def test_a_passage_meets_a_place_that_it_overlaps(note, start, end, meets):
    passage = Piece(note=note, start=start, end=end, window=0, first=0, last=1)
    assert meets_any(passage, [(1, 3, 17)]) == meets
