"""Recall at 80% precision, by hand; weighted areas against scikit-learn."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from clinical.evaluation.measures import (
    MEASURES,
    Stays,
    WeightedStays,
    precise_threshold,
)

SCORED = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(np.linspace(0, 1, 9).tolist()),
        st.integers(0, 5),
    ),
    min_size=2,
    max_size=60,
)


def columns(rows):
    y, p, weights = (
        np.array(column, dtype=float) for column in zip(*rows, strict=True)
    )
    assume(0 < weights @ y < weights.sum())
    return y, p, weights


def measured(name, y, p, weights):
    measure = next(measure for measure in MEASURES if measure.field == name)
    return measure.function(WeightedStays(Stays(y, p), weights))


@given(SCORED)
def test_weighted_areas_are_scikit_learns(rows):
    y, p, weights = columns(rows)
    assert measured("auroc", y, p, weights) == pytest.approx(
        roc_auc_score(y, p, sample_weight=weights), abs=1e-12
    )
    assert measured("auprc", y, p, weights) == pytest.approx(
        average_precision_score(y, p, sample_weight=weights), abs=1e-12
    )


@given(SCORED)
def test_weights_count_as_copies(rows):
    y, p, weights = columns(rows)
    copies = np.repeat(np.arange(len(y)), weights.astype(int))
    for measure in MEASURES:
        # The bins of the calibration error are those of the unweighted stays.
        if measure.field == "ece":
            continue
        weighted = measured(measure.field, y, p, weights)
        copied = measured(measure.field, y[copies], p[copies], None)
        assert weighted == pytest.approx(
            copied, abs=1e-6, rel=1e-6, nan_ok=True
        ), measure.field


def test_the_last_threshold_that_is_precise_enough_is_taken():
    # Precision falls to 3/4 and then rises to exactly 4/5, where recall is larger.
    y = [1, 1, 0, 1, 1, 0, 0, 1]
    p = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
    assert precise_threshold(y, p) == 0.5


def test_a_precision_out_of_reach_is_none():
    assert precise_threshold([0, 1, 0], [0.9, 0.8, 0.1]) is None
    assert precise_threshold([0, 0], [0.9, 0.8]) is None


def test_equal_risks_are_never_parted():
    # Two of the three at 0.8 alone would do (precision 1); together they are 2 in 3, too few.
    assert precise_threshold([1, 1, 0], [0.8, 0.8, 0.8]) is None
    y, p = [1, 1, 1, 1, 0, 1, 0], [0.9, 0.8, 0.8, 0.8, 0.8, 0.3, 0.3]
    assert precise_threshold(y, p) == 0.8


def test_of_equal_recall_the_precise_threshold_is_taken():
    y, p = [1, 1, 1, 1, 1, 0], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    assert precise_threshold(y, p) == 0.5


@given(SCORED)
def test_the_recall_is_the_best_that_is_precise_enough(rows):
    y, p, _ = columns(rows)
    assume(0 < y.sum() < len(y))
    best = precise_threshold(y, p)
    reached = {}
    for threshold in set(p):
        alert = p >= threshold
        if y[alert].mean() >= 0.8:
            reached[threshold] = y[alert].sum() / y.sum()
    assert (best is None) == (not reached)
    if reached:
        assert reached[best] == max(reached.values())
