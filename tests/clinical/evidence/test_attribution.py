import numpy as np
import pytest

from clinical.evidence.attention import attention_weights
from clinical.evidence.attribution import (
    EFFORT,
    METHODS,
    attribute,
    integrated_gradients,
    windows_that_matter,
)
from clinical.evidence.pieces import sentence_pieces
from clinical.evidence.removal import greedy_order, kept_tokens, stay_without
from domainbert.errors import UserError


def test_integrated_gradients_add_up_to_the_change_of_the_logit(evidence_model, read):
    stay, _ = read
    numbers = list(range(len(stay.windows)))
    values = integrated_gradients(evidence_model, stay, numbers, steps=300)
    windows = [stay.windows[n][1].input_ids for n in numbers]
    blank = [np.array([w[0], *[0] * (len(w) - 2), w[-1]]) for w in windows]
    assert evidence_model.tokenizer.pad_token_id == 0
    change = evidence_model.runner.logits(windows) - evidence_model.runner.logits(blank)
    np.testing.assert_allclose([v.sum() for v in values], change, atol=0.05)
    assert [len(v) for v in values] == [len(w) - 2 for w in windows]


def test_gradients_do_not_depend_on_the_company(evidence_model, read):
    stay, _ = read
    together = integrated_gradients(evidence_model, stay, [0, 1, len(stay.windows) - 1], steps=8)
    alone = integrated_gradients(evidence_model, stay, [len(stay.windows) - 1], steps=8)
    np.testing.assert_allclose(together[2], alone[0], atol=1e-4)
    assert all(parameter.grad is None for parameter in evidence_model.network.parameters())


def test_attention_is_that_of_hugging_face(evidence_model, read):
    window = read[0].windows[0][1].input_ids
    import torch

    bert = evidence_model.network.bert
    bert.set_attn_implementation("eager")
    with torch.inference_mode():
        theirs = bert(torch.tensor(window)[None], output_attentions=True).attentions
    bert.set_attn_implementation("sdpa")
    for layer in (0, 1, -1):
        ours = attention_weights(evidence_model, window, layer=layer)
        np.testing.assert_allclose(ours, theirs[layer][0].numpy(), atol=1e-5)


def test_a_layer_that_is_not_there(evidence_model, read):
    with pytest.raises(UserError, match="layer is 2; expected -2 to 1"):
        attention_weights(evidence_model, read[0].windows[0][1].input_ids, layer=2)


@pytest.mark.parametrize("method", METHODS)
def test_pieces_outside_the_examined_windows_have_no_value(evidence_model, read, method):
    stay, probabilities = read
    pieces = sentence_pieces(stay)
    values = attribute(evidence_model, stay, pieces, probabilities, method=method, windows=[1])
    for piece, value in zip(pieces, values, strict=True):
        assert (value != 0) == (piece.window == 1)


def test_the_riskiest_windows_are_searched_within_the_effort(read):
    stay, probabilities = read
    pieces = sentence_pieces(stay)
    found = windows_that_matter(pieces, probabilities)
    assert found == np.argsort(-probabilities, kind="stable")[: len(found)].tolist()
    cost = sum(
        len(stay.windows[piece.window][1].offsets) - len(piece)
        for piece in pieces
        if piece.window in found
    )
    assert len(found) == 1 or cost <= EFFORT * stay.risk.coverage.tokens
    assert windows_that_matter(pieces, probabilities, windows=2) == found[:2]


def test_a_stay_with_all_its_tokens_is_the_stay(evidence_model, read, nothing_kept):
    stay, probabilities = read
    risk = evidence_model.risk_of(stay, probabilities)
    scores, risks = stay_without(
        evidence_model, stay, probabilities, [kept_tokens(stay, []), nothing_kept]
    )
    assert scores[0] == pytest.approx(risk.score)
    assert risks[0] == pytest.approx(risk.probability)
    empty = stay.windows[0][1].input_ids[[0, -1]]
    assert scores[1] == pytest.approx(evidence_model.score_token_ids([empty])[0], abs=1e-6)


def test_a_window_without_a_token_is_left_out(evidence_model, read):
    stay, probabilities = read
    risk = evidence_model.risk_of(stay, probabilities)
    kept = kept_tokens(stay, [piece for piece in sentence_pieces(stay) if piece.window == 1])
    scores, _ = stay_without(evidence_model, stay, probabilities, [kept])
    assert scores[0] == pytest.approx(risk.score - risk.windows[1].score_contribution)


def test_the_greedy_order_starts_with_the_sentence_that_lowers_the_riskiest_window_most(
    evidence_model, read
):
    stay, probabilities = read
    pieces = sentence_pieces(stay)
    riskiest = int(probabilities.argmax())
    values = attribute(evidence_model, stay, pieces, probabilities, windows=[riskiest])
    order = greedy_order(evidence_model, stay, probabilities, pieces, [riskiest])
    assert sorted(order) == list(range(len(pieces)))
    inside = [i for i, piece in enumerate(pieces) if piece.window == riskiest]
    left = stay_without(
        evidence_model, stay, probabilities, [kept_tokens(stay, [pieces[i]]) for i in inside]
    )
    assert order[0] == inside[int(np.argmin(left[0]))] or values[order[0]] == values.max()
