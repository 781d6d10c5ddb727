"""The sentences of a made-up hospital that an explanation should find."""

import pytest

from benchmarks.explain import made_up, raises_risk
from clinical.datasets.sentences import FACTS, Statement
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
