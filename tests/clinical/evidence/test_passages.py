"""Faithfulness: the sentences that explain names carry more of the risk than random ones."""

import numpy as np
import pytest

from benchmarks.passages import chosen_tokens, evaluate_faithfulness
from clinical.evidence.case import sentence_pieces


@pytest.mark.parametrize("share", [0.01, 0.05, 0.5])
def test_every_order_chooses_equally_many_tokens(case, share):
    stay = case.stay
    pieces = sentence_pieces(stay)
    generator = np.random.default_rng(0)
    tokens = sum(len(window.offsets) for _, window in stay.windows)
    for _ in range(5):
        order = [pieces[i] for i in generator.permutation(len(pieces))]
        chosen = chosen_tokens(stay, order, share=share)
        assert sum(mask.sum() for mask in chosen) == np.ceil(share * tokens)
        first = order[0]
        assert chosen[first.window][first.first]


def test_removing_what_is_named_lowers_the_risk_more_than_chance(
    evidence_model_of_words, stays
):
    # Whole sentences of these short stays.
    measured = evaluate_faithfulness(
        evidence_model_of_words, stays, bootstrap=200, share=0.3
    )
    assert (measured["stays"], measured["patients"]) == (20, 20)
    named, chance, lead = measured["measures"]
    assert named["value"] > chance["value"]
    assert lead["value"] == pytest.approx(named["value"] - chance["value"])
    assert lead["low"] <= lead["value"] <= lead["high"]
    assert ("is not shown to fall" in measured["verdicts"][0]) == (
        lead["low"] <= 0
    )
    assert (
        named["measure"] == measured["table"][1][0] == "comprehensiveness 30%"
    )


def test_few_patients_have_no_interval(evidence_model, stays):
    found = evaluate_faithfulness(evidence_model, stays[:3])
    assert evaluate_faithfulness(evidence_model, stays[:3]) == found
    assert {each["low"] for each in found["measures"]} == {None}
    assert "is not shown to fall further" in found["verdicts"][0]
