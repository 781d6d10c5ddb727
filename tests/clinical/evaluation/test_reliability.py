"""Reliability curves and calibration error, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical.evaluation.reliability import (
    calibration_error,
    equal_mass_bins,
    reliability_curve,
)


def test_bins_hold_equally_many_stays_and_keep_ties_together():
    risks = np.random.default_rng(0).permutation(np.linspace(0, 1, 100))
    cells = equal_mass_bins(risks, bins=10)
    assert np.bincount(cells).tolist() == [10] * 10
    assert (np.diff(cells[np.argsort(risks)]) >= 0).all()
    tied = equal_mass_bins(np.array([0.1] * 70 + [0.2] * 30), bins=10)
    assert np.bincount(tied).tolist() == [70, 30]
    with pytest.raises(ValueError, match="bins is 0; it must be at least 1"):
        equal_mass_bins(risks, bins=0)


@given(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9]), min_size=1, max_size=60))
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
    assert calibration_error(y, p, np.ones(4), cells=cells) == pytest.approx(0.5 * 0.3 + 0.5 * 0.3)
    tripled = calibration_error(y, p, np.array([3.0, 1, 1, 1]), cells=cells)
    assert tripled == pytest.approx((4 * abs(0.6 / 4 - 1 / 4) + 2 * 0.3) / 6)


def test_reliability_by_hand():
    p = [0.1] * 10 + [0.4] * 10
    y = [1] + [0] * 9 + [1] * 10
    first, second = reliability_curve(y, p, bins=2).itertuples()
    assert (first.predicted, first.observed, first.count) == pytest.approx((0.1, 0.1, 10))
    # Wilson's interval of 1 in 10, as published in tables.
    assert (first.low, first.high) == pytest.approx((0.0179, 0.4042), abs=1e-4)
    assert (second.observed, second.high) == (1.0, 1.0)
    assert second.low == pytest.approx(0.7225, abs=1e-4)
