import numpy as np

from clinical.evidence.phrases import GAP, phrases
from clinical.evidence.pieces import LONGEST, sentence_pieces


def test_every_token_is_in_one_piece_of_its_window(case):
    stay = case.stay
    pieces = sentence_pieces(stay)
    for number, (note, window) in enumerate(stay.windows):
        mine = [piece for piece in pieces if piece.window == number]
        covered = [token for piece in mine for token in range(piece.first, piece.last)]
        assert covered == list(range(len(window.input_ids) - 2))
        assert {piece.note for piece in mine} == {note}


def test_pieces_are_sentences(evidence_model):
    stay = evidence_model.read("He lives alone. No fever.\n\nPLAN: Return to clinic.")
    found = [stay.texts[p.note][p.start : p.end] for p in sentence_pieces(stay)]
    assert found == ["He lives alone.", "No fever.", "PLAN: Return to clinic."]


def test_a_long_sentence_is_cut_between_words(model):
    text = "pain and edema " * 40
    stay = model.read(text)
    pieces = sentence_pieces(stay)
    assert max(map(len, pieces)) <= LONGEST
    assert all(not text[p.start].isspace() and text[p.end : p.end + 1] == " " for p in pieces)


def test_strong_words_of_one_sign_are_one_phrase(evidence_model):
    text = "heart failure no fever patient alone pain"
    stay = evidence_model.read(text)
    assert len(stay.windows) == 1
    # heart and failure raise, "no" is weak, fever raises; then two weak words; pain lowers
    values = np.array([1.0, 0.5, 0.01, 0.6, 0.02, 0.03, -0.9])
    assert GAP == 1
    pieces, totals = phrases(stay, {0: values})
    assert [text[p.start : p.end] for p in pieces] == ["heart failure no fever", "pain"]
    np.testing.assert_allclose(totals, [2.11, -0.9])


def test_a_phrase_holds_whole_words(evidence_model):
    text = "xyz heart"
    stay = evidence_model.read(text)
    values = np.array([0.5, 0.6, -0.2, 0.0])  # x ##y ##z heart
    (piece,), _ = phrases(stay, {0: values})
    assert text[piece.start : piece.end] == "xyz"
