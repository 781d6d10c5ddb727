"""A stay that is explained: its sentences, and its risk without some of them."""

import numpy as np
import pytest

from clinical.evidence.case import MAX_TOKENS, sentence_pieces
from clinical.evidence.explain import (
    ALONE_SHARE,
    EFFORT,
    LEAST_TOKENS,
    occlusion,
    riskiest_windows,
)
from clinical.risk.aggregation import aggregate


def test_every_token_is_in_one_piece_of_its_window(case):
    stay = case.stay
    pieces = sentence_pieces(stay)
    for number, (note, window) in enumerate(stay.windows):
        mine = [piece for piece in pieces if piece.window == number]
        covered = [
            token for piece in mine for token in range(piece.first, piece.last)
        ]
        assert covered == list(range(len(window.input_ids) - 2))
        assert {piece.note for piece in mine} == {note}


def test_pieces_are_sentences(evidence_model):
    stay = evidence_model.prepared(
        "He lives alone. No fever.\n\nPLAN: Return to clinic."
    )
    found = [
        stay.texts[p.note][p.start : p.end] for p in sentence_pieces(stay)
    ]
    assert found == ["He lives alone.", "No fever.", "PLAN: Return to clinic."]


def test_a_long_sentence_is_cut_between_words(model):
    text = "pain and edema " * 40
    stay = model.prepared(text)
    pieces = sentence_pieces(stay)
    assert max(map(len, pieces)) <= MAX_TOKENS
    assert all(
        not text[p.start].isspace() and text[p.end : p.end + 1] == " "
        for p in pieces
    )


def test_the_riskiest_windows_are_searched_within_the_effort(case):
    pieces = sentence_pieces(case.stay)
    found = riskiest_windows(case, pieces)
    assert (
        found
        == np.argsort(-case.probabilities, kind="stable")[
            : len(found)
        ].tolist()
    )
    cost = sum(len(piece) + 2 for piece in pieces if piece.window in found)
    budget = max(EFFORT * case.risk.coverage.tokens, LEAST_TOKENS)
    assert len(found) == 1 or cost <= ALONE_SHARE * budget


def test_a_stay_with_all_or_none_of_its_tokens(case):
    everything = case.kept([])
    scores, risks = case.risks([everything, [~kept for kept in everything]])
    assert scores[0] == pytest.approx(case.risk.score)
    assert risks[0] == pytest.approx(case.risk.probability)
    empty = case.model.predict_windows([case.windows[0].input_ids[[0, -1]]])
    assert scores[1] == pytest.approx(empty[0], abs=1e-6)


def test_a_window_without_a_token_is_left_out(case):
    kept = case.kept(
        [piece for piece in sentence_pieces(case.stay) if piece.window == 1]
    )
    scores, _ = case.risks([kept])
    expected = aggregate(np.delete(case.probabilities, 1), case.model.c)
    assert scores[0] == pytest.approx(expected)


def test_a_shortened_window_is_read_once(case, monkeypatch):
    read = []
    own = case.model.runner.logits
    monkeypatch.setattr(
        case.model.runner,
        "logits",
        lambda rows: read.append(len(rows)) or own(rows),
    )
    pieces = sentence_pieces(case.stay)
    shortened = [case.shortened(piece.window, [piece]) for piece in pieces]
    first = case.predict_windows(shortened)
    np.testing.assert_array_equal(case.predict_windows(shortened), first)
    assert len(read) == 2
    assert read[1] == 0


def test_pieces_outside_the_examined_windows_have_no_value(case):
    pieces = sentence_pieces(case.stay)
    values, left_out = occlusion(case, pieces, [1])
    assert not left_out[values == 0].any()
    for piece, value in zip(pieces, values, strict=True):
        assert (value != 0) == (piece.window == 1)
