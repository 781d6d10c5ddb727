import numpy as np
import pandas as pd
import pytest

from clinical.evidence.agreement import evaluate_agreement
from clinical.evidence.faithfulness import SHARES, chosen_tokens, evaluate_faithfulness
from clinical.evidence.pieces import sentence_pieces


@pytest.mark.parametrize("share", SHARES)
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


@pytest.fixture(scope="module")
def stays():
    words = "fever pain edema alone failure insulin chronic renal blood chest home weeks".split()
    generator = np.random.default_rng(1)
    texts = [
        ". ".join(" ".join(generator.choice(words, 4)) for _ in range(14)) + "." for _ in range(20)
    ]
    return pd.DataFrame({"patient_id": [str(i) for i in range(20)], "text": texts})


def test_removing_what_occlusion_names_lowers_the_risk_more_than_chance(evidence_model, stays):
    found = evaluate_faithfulness(evidence_model, stays, bootstrap=200)
    assert (found.stays, found.patients) == (20, 20)
    values = found.to_frame().set_index(["method", "measure"])["value"]
    assert values["occlusion", "AOPC"] > values["random", "AOPC"]
    assert values["occlusion", "normalised AOPC"] > values["random", "normalised AOPC"]
    assert values["occlusion", "AOPC over random"] == pytest.approx(
        values["occlusion", "AOPC"] / values["random", "AOPC"]
    )
    curve = [values["occlusion", f"comprehensiveness {share:.0%}"] for share in SHARES]
    assert values["occlusion", "AOPC"] == pytest.approx(np.mean(curve))
    lead = found.intervals["random", "AOPC of occlusion minus this"]
    assert lead.low <= lead.value <= lead.high
    lead = found.intervals["random", "normalised AOPC of occlusion minus this"]
    both = [values[name, "normalised AOPC"] for name in ("occlusion", "random")]
    assert lead.value == pytest.approx(both[0] - both[1])
    assert any(line.startswith("occlusion ") and "random" in line for line in found.verdicts())


def test_few_patients_have_no_interval(evidence_model, stays):
    found = evaluate_faithfulness(evidence_model, stays[:3])
    assert evaluate_faithfulness(evidence_model, stays[:3]) == found
    assert {interval.low for interval in found.intervals.values()} == {None}
    assert all("not shown" in line for line in found.verdicts()[:-1])


def test_a_model_agrees_with_itself_and_random_sentences_with_nobody(evidence_model, stays):
    texts = [". ".join(map(str.capitalize, text.split(". "))) for text in stays["text"]]
    stays = stays.assign(text=texts)
    found = evaluate_agreement(evidence_model, stays, others=[evidence_model], bootstrap=100)
    values = found.to_frame().set_index(["method", "measure"])["value"]
    assert (found.stays, found.patients) == (20, 20)
    for method in ("occlusion", "gradients", "attention"):
        assert values[method, "agreement"] == 1
        assert 0 < values[method, "agreement by chance"] < 0.5
    chance = found.intervals["occlusion", "agreement by chance"]
    assert chance.low < chance.value < chance.high
    assert "share of 1.000 [1.000, 1.000] overlaps" in found.verdicts()[0]
