import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical.risk.aggregation import aggregate, without_each

PROBABILITIES = st.lists(st.floats(0, 1), min_size=2, max_size=40)


@given(PROBABILITIES, st.floats(0.01, 500))
def test_the_arithmetic_is_the_rule_without_the_window(values, c):
    left = [aggregate(values[:i] + values[i + 1 :], c) for i in range(len(values))]
    np.testing.assert_allclose(without_each(np.array(values), c=c), left, atol=1e-9)


@given(PROBABILITIES)
def test_a_riskier_window_contributes_more(values):
    left = without_each(np.array(values))
    order = np.argsort(values, kind="stable")
    assert (np.diff(left[order]) <= 1e-9).all()


def test_nothing_is_left_without_the_only_window():
    assert np.isnan(without_each(np.array([0.7]))).all()


def test_contributions_are_what_a_stay_without_the_window_has_less(evidence_model):
    notes = ["He lives alone.", "Chronic renal failure.", "No fever."]  # one window each
    risk = evidence_model.predict(notes)
    for number, window in enumerate(risk.windows):
        less = evidence_model.predict(notes[:number] + notes[number + 1 :])
        assert window.score_contribution == pytest.approx(risk.score - less.score, abs=1e-6)
        change = risk.probability - less.probability
        assert window.probability_contribution == pytest.approx(change, abs=1e-6)
    assert evidence_model.predict("No fever.").windows[0].score_contribution is None
