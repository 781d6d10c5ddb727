"""Platt scaling against scikit-learn, calibration error and reliability curves by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domainbert.errors import UserError
from domainbert.statistics.calibration import (
    calibrated,
    calibration_error,
    checked_risks,
    equal_mass_bins,
    fit_logistic,
    fit_platt,
    logit,
    platt,
    reliability_curve,
    sigmoid,
)


def draw(n, *, slope=1.0, intercept=0.0, seed=0):
    """Outcomes whose log-odds are `intercept + slope * logit(p)`."""
    rng = np.random.default_rng(seed)
    p = sigmoid(rng.normal(-1.5, 1.2, n))
    y = (rng.random(n) < sigmoid(intercept + slope * logit(p))).astype(int)
    return y, p


def test_platt_agrees_with_unpenalised_regression():
    from sklearn.linear_model import LogisticRegression

    y, p = draw(2000, slope=0.6, intercept=-0.4)
    slope, intercept = fit_platt(logit(p), y)
    model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(
        logit(p)[:, None], y
    )
    assert slope == pytest.approx(model.coef_[0, 0], abs=1e-5)
    assert intercept == pytest.approx(model.intercept_[0], abs=1e-5)


def test_platt_recovers_a_known_distortion_and_undoes_it():
    y, p = draw(200_000, slope=0.5, intercept=0.7)
    found = fit_platt(logit(p), y)
    assert found == pytest.approx((0.5, 0.7), abs=0.03)
    assert fit_platt(logit(calibrated(p, *found)), y) == pytest.approx(
        (1, 0), abs=1e-6
    )


def test_weights_count_as_copies():
    y, p = draw(300)
    weights = np.random.default_rng(1).integers(0, 4, 300)
    copies = np.repeat(np.arange(300), weights)
    weighed = fit_logistic(logit(p), y.astype(float), weights.astype(float))
    copied = fit_platt(logit(p[copies]), y[copies])
    assert weighed == pytest.approx(copied, abs=1e-9)


def test_values_far_from_zero_have_the_same_slope():
    y, p = draw(300)
    slope, intercept = fit_platt(logit(p), y)
    found = fit_platt(logit(p) + 10_000, y)
    assert found == pytest.approx((slope, intercept - 10_000 * slope))


def test_saturated_probabilities_stay_finite():
    y, p = draw(1000)
    p[:20], p[20:40] = 0.0, 1.0
    found = fit_platt(logit(p), y)
    assert np.isfinite(found).all()
    assert np.isfinite(logit([0.0, 1.0])).all()
    ends = calibrated([0.0, 1.0], *found)
    assert ((ends > 0) & (ends < 1)).all()


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
    y, p = np.repeat(y, 20), np.repeat(p, 20)
    with pytest.raises(
        UserError, match=rf"these {len(y)} values .* calibrate on more data"
    ):
        fit_platt(logit(p), y)


def test_an_inverted_calibrator_is_refused():
    y, p = draw(600, slope=-0.9, seed=1)
    with pytest.raises(
        UserError,
        match=r"slope on 600 values is -0\.\d\d: .* no better than chance",
    ):
        fit_platt(logit(p), y)


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=30),
    st.floats(0.1, 3),
    st.floats(-3, 3),
)
def test_platt_keeps_the_order(risks, slope, intercept):
    risks = np.sort(risks)
    moved = calibrated(risks, slope, intercept)
    assert (np.diff(moved) >= 0).all()
    assert ((moved >= 0) & (moved <= 1)).all()


def test_platt_of_slope_one_is_the_identity():
    p = np.array([0.01, 0.3, 0.999])
    assert calibrated(p, 1.0, 0.0) == pytest.approx(p, abs=1e-12)


@pytest.mark.parametrize(
    ("y", "p", "message"),
    [
        ([0, 1], [0.5], "y has 2 values and probability has 1"),
        ([], [], "empty; pass at least one row"),
        ([0, 2, 3], [0.1, 0.2, 0.3], "y holds 2 values that are not 0 or 1"),
        ([0, None], [0.1, 0.2], "y holds 1 values that are not 0 or 1"),
        ([0, 1], [0.1, float("nan")], "1 values that are missing or outside"),
        ([0, 1], [-0.1, 1.1], "2 values that are missing or outside"),
        ([[0, 1]], [0.1, 0.2], r"y has shape \(1, 2\)"),
    ],
)
def test_bad_input_is_counted(y, p, message):
    with pytest.raises(ValueError, match=message):
        checked_risks(y, p)


def test_a_text_column_passed_by_mistake_is_not_quoted():
    with pytest.raises(
        ValueError, match="probability is not numeric"
    ) as caught:
        checked_risks([0, 1], ["CANARY was admitted", "0.5"])
    error = caught.value
    assert "CANARY" not in repr([error, error.__cause__, error.__context__])


def test_bins_hold_equally_many_stays_and_keep_ties_together():
    risks = np.random.default_rng(0).permutation(np.linspace(0, 1, 100))
    cells = equal_mass_bins(risks, bins=10)
    assert np.bincount(cells).tolist() == [10] * 10
    assert (np.diff(cells[np.argsort(risks)]) >= 0).all()
    tied = equal_mass_bins(np.array([0.1] * 70 + [0.2] * 30), bins=10)
    assert np.bincount(tied).tolist() == [70, 30]


@given(
    st.lists(
        st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9]), min_size=1, max_size=60
    )
)
def test_bins_are_used_and_never_part_equal_risks(risks):
    risks = np.array(risks)
    cells = equal_mass_bins(risks)
    assert set(cells) == set(range(cells.max() + 1))
    for value in set(risks):
        assert len(set(cells[risks == value])) == 1


def test_error_by_hand():
    # Bin one: predicted .1 and .3, observed 0 and 1, so .2 against .5: errors within a bin cancel.
    # Bin two: predicted .6 and .8, observed 1 and 1.
    p, y = np.array([0.1, 0.3, 0.6, 0.8]), np.array([0.0, 1, 1, 1])
    cells = equal_mass_bins(p, bins=2)
    assert calibration_error(y, p, np.ones(4), cells=cells) == pytest.approx(
        0.5 * 0.3 + 0.5 * 0.3
    )
    assert calibration_error(y == 1, p) == pytest.approx(
        (0.1 + 0.7 + 0.4 + 0.2) / 4
    )  # a bin each
    tripled = calibration_error(y, p, np.array([3.0, 1, 1, 1]), cells=cells)
    assert tripled == pytest.approx((4 * abs(0.6 / 4 - 1 / 4) + 2 * 0.3) / 6)


def test_reliability_by_hand():
    p = [0.1] * 10 + [0.4] * 10
    y = [1] + [0] * 9 + [1] * 10
    first, second = reliability_curve(y, p, bins=2).itertuples()
    assert (first.predicted, first.observed, first.count) == pytest.approx(
        (0.1, 0.1, 10)
    )
    # Wilson's interval of 1 in 10, as published in tables.
    assert (first.low, first.high) == pytest.approx((0.0179, 0.4042), abs=1e-4)
    assert (second.observed, second.high) == (1.0, 1.0)
    assert second.low == pytest.approx(0.7225, abs=1e-4)


def test_platt_is_the_logistic_function_of_a_line():
    assert platt(2.0, 0.5, -1.0) == 0.5
    assert platt([0.0, 4.0], 0.5, 0.0) == pytest.approx(
        [0.5, 1 / (1 + np.exp(-2))]
    )
