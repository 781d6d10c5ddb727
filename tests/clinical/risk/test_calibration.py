"""Calibration: Platt's correction against scikit-learn, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical.risk.calibration import (
    MIN_EVENTS,
    Platt,
    checked,
    fit_logistic,
    fit_platt,
    logit,
    sigmoid,
)
from domainbert.errors import UserError


def draw(n, *, slope=1.0, intercept=0.0, seed=0):
    """Outcomes whose log-odds are `intercept + slope * logit(p)`."""
    rng = np.random.default_rng(seed)
    p = sigmoid(rng.normal(-1.5, 1.2, n))
    y = (rng.random(n) < sigmoid(intercept + slope * logit(p))).astype(int)
    return y, p


def test_platt_agrees_with_unpenalised_regression():
    from sklearn.linear_model import LogisticRegression

    y, p = draw(2000, slope=0.6, intercept=-0.4)
    found = fit_platt(y, p)
    model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(logit(p)[:, None], y)
    assert found.slope == pytest.approx(model.coef_[0, 0], abs=1e-5)
    assert found.intercept == pytest.approx(model.intercept_[0], abs=1e-5)


def test_platt_recovers_a_known_distortion_and_undoes_it():
    y, p = draw(200_000, slope=0.5, intercept=0.7)
    found = fit_platt(y, p)
    assert (found.slope, found.intercept) == pytest.approx((0.5, 0.7), abs=0.03)
    again = fit_platt(y, found.apply(p))
    assert (again.slope, again.intercept) == pytest.approx((1, 0), abs=1e-6)


def test_weights_count_as_copies():
    y, p = draw(300)
    weights = np.random.default_rng(1).integers(0, 4, 300)
    copies = np.repeat(np.arange(300), weights)
    weighed = fit_logistic(logit(p), y.astype(float), weights.astype(float))
    copied = fit_platt(y[copies], p[copies])
    assert weighed == pytest.approx((copied.slope, copied.intercept), abs=1e-9)


def test_a_poor_start_gives_the_same_fit():
    y, p = draw(500)
    x = logit(p)
    good = fit_logistic(x, y.astype(float), np.ones(500))
    for start in ((-8.0, 30.0), (0.0, 0.0), (3.0, 2.0)):
        assert fit_logistic(x, y.astype(float), np.ones(500), start=start) == pytest.approx(
            good, abs=1e-6
        )


def test_saturated_probabilities_stay_finite():
    y, p = draw(1000)
    p[:20], p[20:40] = 0.0, 1.0
    found = fit_platt(y, p)
    assert np.isfinite([found.slope, found.intercept]).all()
    assert np.isfinite(logit([0.0, 1.0])).all()
    assert ((found.apply([0.0, 1.0]) > 0) & (found.apply([0.0, 1.0]) < 1)).all()


@pytest.mark.parametrize(
    ("y", "p"),
    [
        ([0, 1, 0], [0.2, 0.2, 0.2]),
        ([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4]),
        ([0, 0, 1, 1], [0.1, 0.2, 0.2, 0.4]),  # separated but for a tie
        ([1, 1, 0, 0], [0.1, 0.2, 0.3, 0.4]),
    ],
    ids=["one risk", "separated", "almost separated", "separated backwards"],
)
def test_platt_says_when_no_fit_exists(y, p):
    y, p = np.repeat(y, MIN_EVENTS), np.repeat(p, MIN_EVENTS)
    with pytest.raises(UserError, match=rf"these {len(y)} stays .* calibrate on more stays"):
        fit_platt(y, p)


def test_too_few_events_are_refused_with_the_minimum():
    y, p = draw(400, seed=2)
    few = np.r_[np.flatnonzero(y == 1)[: MIN_EVENTS - 1], np.flatnonzero(y == 0)]
    message = f"{len(few)} stays with 19 readmitted are too few .* at least 20 readmitted and 20"
    with pytest.raises(UserError, match=message):
        fit_platt(y[few], p[few])
    with pytest.raises(UserError, match="at least 20 readmitted and 20 others"):
        fit_platt(1 - y[few], p[few])
    enough = np.r_[few, np.flatnonzero(y == 1)[MIN_EVENTS - 1]]
    assert fit_platt(y[enough], p[enough]).slope > 0


def test_an_inverted_calibrator_is_refused():
    y, p = draw(600, slope=-0.9, seed=1)
    with pytest.raises(
        UserError, match=r"slope on 600 stays is -0\.\d\d: .* no better than chance"
    ):
        fit_platt(y, p)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.floats(0.1, 3), st.floats(-3, 3))
def test_platt_keeps_the_order(risks, slope, intercept):
    risks = np.sort(risks)
    moved = Platt(slope=slope, intercept=intercept).apply(risks)
    assert (np.diff(moved) >= 0).all()
    assert ((moved >= 0) & (moved <= 1)).all()


def test_platt_of_slope_one_is_the_identity():
    p = np.array([0.01, 0.3, 0.999])
    assert Platt(slope=1.0, intercept=0.0).apply(p) == pytest.approx(p, abs=1e-12)


@pytest.mark.parametrize(
    ("y", "p", "message"),
    [
        ([0, 1], [0.5], "y has 2 values and probability has 1"),
        ([], [], "empty; pass at least one stay"),
        ([0, 2, 3], [0.1, 0.2, 0.3], "y holds 2 values that are not 0 or 1"),
        ([0, None], [0.1, 0.2], "y holds 1 values that are not 0 or 1"),
        ([0, 1], [0.1, float("nan")], "1 values that are missing or outside"),
        ([0, 1], [-0.1, 1.1], "2 values that are missing or outside"),
        ([[0, 1]], [0.1, 0.2], r"y has shape \(1, 2\)"),
    ],
)
def test_bad_input_is_counted(y, p, message):
    with pytest.raises(ValueError, match=message):
        checked(y, p)


def test_a_text_column_passed_by_mistake_is_not_quoted():
    with pytest.raises(ValueError, match="probability is not numeric") as caught:
        checked([0, 1], ["CANARY was admitted", "0.5"])
    error = caught.value
    assert "CANARY" not in repr([error, error.__cause__, error.__context__])
