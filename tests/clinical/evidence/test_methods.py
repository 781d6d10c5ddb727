"""The comparison of methods: each method by its definition, and the measures from end to end."""

import numpy as np
import pytest

from benchmarks.explanations import (
    METHODS,
    attention_weights,
    greedy_order,
    integrated_gradients,
)
from benchmarks.faithfulness import SHARES, evaluate_methods
from clinical.evidence.case import sentence_pieces
from domainbert.errors import UserError

pytest.importorskip("captum")


def test_integrated_gradients_add_up_to_the_change_of_the_logit(case):
    numbers = list(range(len(case.stay.windows)))
    values = integrated_gradients(case, numbers, steps=200)
    windows = [case.windows[number].input_ids for number in numbers]
    blank = [np.array([w[0], *[0] * (len(w) - 2), w[-1]]) for w in windows]
    runner = case.model.runner
    assert case.model.tokenizer.pad_token_id == 0
    change = runner.logits(windows) - runner.logits(blank)
    np.testing.assert_allclose([v.sum() for v in values], change, atol=0.05)
    assert [len(v) for v in values] == [len(w) - 2 for w in windows]


def test_gradients_do_not_depend_on_the_company(case):
    last = len(case.stay.windows) - 1
    together = integrated_gradients(case, [0, 1, last], steps=8)
    alone = integrated_gradients(case, [last], steps=8)
    np.testing.assert_allclose(together[2], alone[0], atol=1e-4)
    assert all(
        parameter.grad is None for parameter in case.model.network.parameters()
    )


def test_attention_is_that_of_hugging_face(case):
    import torch

    window, bert = case.windows[0].input_ids, case.model.network.bert
    bert.set_attn_implementation("eager")
    with torch.inference_mode():
        theirs = bert(
            torch.tensor(window)[None], output_attentions=True
        ).attentions
    bert.set_attn_implementation("sdpa")
    for layer in (0, 1, -1):
        ours = attention_weights(case.model, window, layer=layer)
        np.testing.assert_allclose(ours, theirs[layer][0].numpy(), atol=1e-5)


def test_the_greedy_order_starts_in_the_riskiest_window(case):
    pieces = sentence_pieces(case.stay)
    riskiest = int(case.probabilities.argmax())
    order = greedy_order(case, pieces, [riskiest])
    assert sorted(order) == list(range(len(pieces)))
    inside = [i for i, piece in enumerate(pieces) if piece.window == riskiest]
    lowest = inside[
        int(
            case.predict_windows(
                [case.shortened(pieces[i].window, [pieces[i]]) for i in inside]
            ).argmin()
        )
    ]
    assert order[0] == lowest
    assert set(order[: len(inside)]) == set(inside)
    risks = [
        case.probabilities[pieces[i].window] for i in order[len(inside) :]
    ]
    assert risks == sorted(risks, reverse=True)


@pytest.mark.parametrize("method", METHODS)
def test_pieces_outside_the_examined_windows_have_no_value(case, method):
    pieces = sentence_pieces(case.stay)
    values = METHODS[method](case, pieces, [1])
    for piece, value in zip(pieces, values, strict=True):
        assert (value != 0) == (piece.window == 1)


def test_removing_what_occlusion_names_lowers_the_risk_more_than_chance(
    evidence_model, stays
):
    found = evaluate_methods(evidence_model, stays, bootstrap=200)
    assert (found.stays, found.patients) == (20, 20)
    values = found.to_frame().set_index(["method", "measure"])["value"]
    assert values["occlusion", "AOPC"] > values["random", "AOPC"]
    assert (
        values["occlusion", "normalised AOPC"]
        > values["random", "normalised AOPC"]
    )
    assert values["occlusion", "AOPC over random"] == pytest.approx(
        values["occlusion", "AOPC"] / values["random", "AOPC"]
    )
    curve = [
        values["occlusion", f"comprehensiveness {share:.0%}"]
        for share in SHARES
    ]
    assert values["occlusion", "AOPC"] == pytest.approx(np.mean(curve))
    lead = found.intervals["random", "AOPC of occlusion minus this"]
    assert lead.low <= lead.value <= lead.high
    lead = found.intervals["random", "normalised AOPC of occlusion minus this"]
    both = [
        values[name, "normalised AOPC"] for name in ("occlusion", "random")
    ]
    assert lead.value == pytest.approx(both[0] - both[1])
    assert any(
        line.startswith("occlusion ") and "random" in line
        for line in found.verdicts()
    )


def test_a_run_that_was_stopped_gives_the_same_numbers(
    evidence_model, stays, tmp_path
):
    kept = tmp_path / "stays.jsonl"
    few = stays[:3]
    whole = evaluate_methods(evidence_model, few, bootstrap=0, keep=kept)
    setting, first, second, _ = kept.read_text().splitlines()
    kept.write_text(f"{setting}\n{first}\n{second[:50]}")
    resumed = evaluate_methods(evidence_model, few, bootstrap=0, keep=kept)
    assert resumed.intervals == whole.intervals
    with pytest.raises(UserError, match=r"stays\.jsonl is of another model"):
        evaluate_methods(evidence_model, few, bootstrap=0, seed=1, keep=kept)
