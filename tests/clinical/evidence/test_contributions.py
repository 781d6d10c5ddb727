import pytest


def test_contributions_are_what_a_stay_without_the_window_has_less(evidence_model):
    notes = ["He lives alone.", "Chronic renal failure.", "No fever."]  # one window each
    risk = evidence_model.predict(notes)
    for number, window in enumerate(risk.windows):
        less = evidence_model.predict(notes[:number] + notes[number + 1 :])
        assert window.score_contribution == pytest.approx(risk.score - less.score, abs=1e-6)
        change = risk.probability - less.probability
        assert window.probability_contribution == pytest.approx(change, abs=1e-6)
    assert evidence_model.predict("No fever.").windows[0].score_contribution is None
