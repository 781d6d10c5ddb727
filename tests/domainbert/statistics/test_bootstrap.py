"""Resampling of groups: against a loop by hand, what is undefined, and paired differences."""

import numpy as np
import pytest

from domainbert.statistics.bootstrap import (
    MIN_GROUPS,
    Interval,
    Resampled,
    ratio_interval,
    resample,
)


def test_an_interval_is_spelled_with_what_is_known():
    assert str(Interval(0.7912, 0.697, 0.871)) == "0.791 [0.697, 0.871]"
    assert str(Interval(0.5)) == "0.500"
    assert str(Interval(None)) == "–"


def test_intervals_are_quantiles_over_whole_groups():
    values, codes = (
        np.random.default_rng(0).normal(size=90),
        np.repeat(np.arange(30), 3),
    )
    found = resample(
        lambda w: w @ values / w.sum(), codes, bootstrap=50, seed=7
    )
    random, drawn = np.random.default_rng(7), []
    for _ in range(50):
        rows = np.concatenate(
            [np.flatnonzero(codes == g) for g in random.integers(30, size=30)]
        )
        drawn.append(values[rows].mean())
    assert found.replicates == pytest.approx(drawn)
    assert found.spread[:2] == pytest.approx(
        np.quantile(drawn, [0.025, 0.975])
    )
    assert found.spread[2] == pytest.approx(np.std(drawn, ddof=1))


def test_a_paired_difference_has_a_narrow_interval():
    easy = np.random.default_rng(0).normal(size=200)
    both = resample(
        lambda w: np.array([w @ easy, w @ (easy + 0.1)]) / w.sum(),
        np.arange(200),
    )
    assert (both[1] - both[0]).interval() == Interval(
        *[pytest.approx(0.1)] * 3
    )
    assert both.spread[1, 0] - both.spread[0, 0] > 0.1


def test_numbers_that_few_resamples_can_give_have_no_interval():
    often, seldom = np.arange(40) < 39, np.arange(40) < 1
    found = resample(
        lambda w: np.array(
            [1.0 if w @ often else np.nan, 1.0 if w @ seldom else np.nan]
        ),
        np.arange(40),
        bootstrap=100,
    )
    assert found[0].interval() == Interval(1.0, 1.0, 1.0)
    assert found[1].interval() == Interval(1.0)
    assert resample(
        lambda w: np.nan, np.arange(40), bootstrap=5
    ).interval() == Interval(None)


@pytest.mark.parametrize("groups", [1, MIN_GROUPS - 1])
def test_few_groups_have_no_intervals(groups):
    codes = np.arange(60) % groups
    assert resample(lambda w: w.sum(), codes).interval() == Interval(60)
    assert (
        len(
            resample(
                lambda w: w.sum(), codes, fewest=1, bootstrap=9
            ).replicates
        )
        == 9
    )


def test_the_interval_of_a_ratio():
    above, below = np.arange(50) % 2, np.ones(50)
    interval = ratio_interval(above, below)
    assert 0.3 < interval.low < interval.value == 0.5 < interval.high < 0.7
    nothing = Interval(0, 0, 0)
    assert ratio_interval(above[:0], below[:0]) == nothing
    assert ratio_interval(np.zeros(9), np.zeros(9)) == nothing


def test_parts_keep_their_replicates():
    values = np.arange(6.0).reshape(2, 3)
    found = Resampled(values, np.stack([values - 1, values + 1]))
    assert found[1, 2].columns("x")["x"] == 5
    assert found[0].value.tolist() == [0, 1, 2]
    assert found[:, 1].spread[2] == pytest.approx([2**0.5] * 2)
