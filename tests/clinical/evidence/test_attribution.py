import numpy as np
import pytest

from clinical.evidence.attention import attention_weights, plot_attention
from clinical.evidence.attribution import (
    EFFORT,
    METHODS,
    attribute,
    integrated_gradients,
    windows_that_matter,
)
from clinical.evidence.case import greedy_order
from clinical.evidence.pieces import sentence_pieces
from domainbert.errors import UserError


def test_integrated_gradients_add_up_to_the_change_of_the_logit(case):
    numbers = list(range(len(case.stay.windows)))
    values = integrated_gradients(case, numbers, steps=200)
    windows = [case.window(number).input_ids for number in numbers]
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
    assert all(parameter.grad is None for parameter in case.model.network.parameters())


def test_attention_is_that_of_hugging_face(case):
    import torch

    window, bert = case.window(0).input_ids, case.model.network.bert
    bert.set_attn_implementation("eager")
    with torch.inference_mode():
        theirs = bert(torch.tensor(window)[None], output_attentions=True).attentions
    bert.set_attn_implementation("sdpa")
    for layer in (0, 1, -1):
        ours = attention_weights(case.model, window, layer=layer)
        np.testing.assert_allclose(ours, theirs[layer][0].numpy(), atol=1e-5)


def test_a_layer_that_is_not_there(case):
    with pytest.raises(UserError, match="layer is 2; expected -2 to 1"):
        attention_weights(case.model, case.window(0).input_ids, layer=2)


@pytest.mark.parametrize("method", METHODS)
def test_pieces_outside_the_examined_windows_have_no_value(case, method):
    pieces = sentence_pieces(case.stay)
    values = attribute(case, pieces, method=method, windows=[1])
    for piece, value in zip(pieces, values, strict=True):
        assert (value != 0) == (piece.window == 1)


def test_the_riskiest_windows_are_searched_within_the_effort(case):
    pieces = sentence_pieces(case.stay)
    found = windows_that_matter(case, pieces)
    assert found == np.argsort(-case.probabilities, kind="stable")[: len(found)].tolist()
    cost = sum(
        len(case.window(piece.window).offsets) - len(piece)
        for piece in pieces
        if piece.window in found
    )
    assert len(found) == 1 or cost <= EFFORT * case.risk.coverage.tokens
    assert windows_that_matter(case, pieces, windows=2)[:1] == found[:1]


def test_a_stay_with_all_or_none_of_its_tokens(case):
    everything = case.kept([])
    scores, risks = case.risks([everything, [~kept for kept in everything]])
    assert scores[0] == pytest.approx(case.risk.score)
    assert risks[0] == pytest.approx(case.risk.probability)
    empty = case.model.score_token_ids([case.window(0).input_ids[[0, -1]]])
    assert scores[1] == pytest.approx(empty[0], abs=1e-6)


def test_a_window_without_a_token_is_left_out(case):
    kept = case.kept([piece for piece in sentence_pieces(case.stay) if piece.window == 1])
    scores, _ = case.risks([kept])
    expected = case.risk.score - case.risk.windows[1].score_contribution
    assert scores[0] == pytest.approx(expected)


def test_a_shortened_window_is_read_once(case, monkeypatch):
    read = []
    own = case.model.runner.logits
    monkeypatch.setattr(
        case.model.runner, "logits", lambda rows: read.append(len(rows)) or own(rows)
    )
    pieces = sentence_pieces(case.stay)
    first = case.without(pieces)
    np.testing.assert_array_equal(case.without(pieces), first)
    assert len(read) == 2
    assert read[1] == 0


def test_the_greedy_order_starts_in_the_riskiest_window(case):
    pieces = sentence_pieces(case.stay)
    riskiest = int(case.probabilities.argmax())
    order = greedy_order(case, pieces, [riskiest])
    assert sorted(order) == list(range(len(pieces)))
    inside = [i for i, piece in enumerate(pieces) if piece.window == riskiest]
    lowest = inside[int(case.without([pieces[i] for i in inside]).argmin())]
    assert order[0] == lowest
    assert set(order[: len(inside)]) == set(inside)
    risks = [case.probabilities[pieces[i].window] for i in order[len(inside) :]]
    assert risks == sorted(risks, reverse=True)


def test_the_figure_warns_and_shows_the_measured_faithfulness(evidence_model):
    note = "He lives alone. Chronic renal failure. No fever."
    figure = plot_attention(evidence_model, note)
    axes = figure.axes[0]
    assert axes.get_title(loc="left") == "Attention from [CLS] in layer 2 of 2, riskiest window"
    assert axes.images[0].get_array().shape[0] == 4  # heads
    words = [label.get_text() for label in axes.get_xticklabels()]
    tokens = evidence_model.tokenizer.convert_ids_to_tokens(
        evidence_model.tokenizer(note)["input_ids"]
    )
    assert words == tokens
    assert "Attention is not an explanation" in figure.texts[0].get_text()
    assert "was not measured" in figure.texts[0].get_text()
    measures = [{"method": "attention", "measure": "normalised AOPC", "value": 0.614}]
    evidence_model.manifest["evidence"] = {"measures": measures}
    assert "attention 0.61" in plot_attention(evidence_model, note).texts[0].get_text()
