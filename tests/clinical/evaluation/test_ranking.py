"""Ranking: AUROC, average precision and RP80, by hand and against scikit-learn."""

import numpy as np
import pytest
from clinical.evaluation.ranking import (
    OperatingPoint,
    auroc,
    average_precision,
    recall_at_precision,
)
from hypothesis import assume, given
from hypothesis import strategies as st

SCORED = st.lists(
    st.tuples(st.booleans(), st.sampled_from(np.linspace(0, 1, 9).tolist()), st.integers(0, 5)),
    min_size=2,
    max_size=60,
)


def columns(rows):
    y, p, weights = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    assume(0 < weights @ y < weights.sum())
    return y, p, weights


def test_auroc_by_hand():
    # Of the four pairs of a readmitted and another stay, 2 are right, 1 is wrong and 1 is a tie.
    assert auroc([1, 0, 1, 0], [0.9, 0.3, 0.2, 0.2]) == pytest.approx(2.5 / 4)
    assert auroc([0, 1], [0.1, 0.2]) == 1
    assert auroc([1, 0], [0.1, 0.2]) == 0
    assert auroc([1, 0, 0], [0.5, 0.5, 0.5]) == 0.5


def test_average_precision_by_hand():
    # Found at ranks 1 and 3: precisions 1 and 2/3.
    assert average_precision([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1]) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision([1, 0, 0, 0], [0.5] * 4) == 0.25  # all tied: the prevalence


@given(SCORED)
def test_weighted_measures_agree_with_scikit_learn(rows):
    from sklearn.metrics import average_precision_score, roc_auc_score

    y, p, weights = columns(rows)
    expected = roc_auc_score(y, p, sample_weight=weights)
    assert auroc(y, p, weights=weights) == pytest.approx(expected, abs=1e-12)
    expected = average_precision_score(y, p, sample_weight=weights)
    assert average_precision(y, p, weights=weights) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("digits", [2, 16], ids=["ties", "no ties"])
def test_large_sets_agree_with_scikit_learn(digits):
    from sklearn.metrics import average_precision_score, roc_auc_score

    rng = np.random.default_rng(3)
    p = rng.random(5000).round(digits)
    y, weights = rng.random(5000) < p / 3, rng.random(5000) * 4
    assert auroc(y, p, weights=weights) == pytest.approx(
        roc_auc_score(y, p, sample_weight=weights), abs=1e-12
    )
    assert average_precision(y, p, weights=weights) == pytest.approx(
        average_precision_score(y, p, sample_weight=weights), abs=1e-12
    )


@given(SCORED)
def test_weights_count_as_copies(rows):
    y, p, weights = columns(rows)
    copies = np.repeat(np.arange(len(y)), weights.astype(int))
    for measure in (auroc, average_precision):
        copied = measure(y[copies], p[copies])
        assert measure(y, p, weights=weights) == pytest.approx(copied, abs=1e-12)


@given(SCORED)
def test_only_the_order_of_risks_matters(rows):
    y, p, weights = columns(rows)
    for bent in (p**3, 0.2 + p / 2, np.sqrt(p)):
        assert auroc(y, bent, weights=weights) == pytest.approx(auroc(y, p, weights=weights))
    turned = auroc(y, 1 - p, weights=weights)
    assert turned == pytest.approx(1 - auroc(y, p, weights=weights), abs=1e-12)


def test_one_outcome_has_no_ranking():
    assert auroc([1, 1], [0.1, 0.2]) is None
    assert average_precision([0, 0], [0.1, 0.2]) is None
    assert auroc([1, 0], [0.1, 0.2], weights=[1, 0]) is None


def test_bad_weights_raise():
    with pytest.raises(ValueError, match="weights must be 2 numbers, none negative"):
        auroc([0, 1], [0.1, 0.2], weights=[1, -1])
    with pytest.raises(ValueError, match="weights must be 2 numbers"):
        auroc([0, 1], [0.1, 0.2], weights=[1])


def test_recall_at_precision_takes_the_last_threshold_that_is_precise_enough():
    # Precision falls to 3/4 and then rises to exactly 4/5, where recall is larger.
    y = [1, 1, 0, 1, 1, 0, 0, 1]
    p = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
    assert recall_at_precision(y, p) == OperatingPoint(recall=0.8, precision=0.8, threshold=0.5)
    assert recall_at_precision(y, p, precision=1.0) == OperatingPoint(0.4, 1.0, 0.8)


def test_recall_at_precision_out_of_reach_is_none():
    assert recall_at_precision([0, 1, 0], [0.9, 0.8, 0.1]) is None
    assert recall_at_precision([0, 0], [0.9, 0.8]) is None


def test_recall_at_precision_never_parts_equal_risks():
    # Two of the three at 0.8 alone would do (precision 1); together they are 2 in 3, too few.
    assert recall_at_precision([1, 1, 0], [0.8, 0.8, 0.8]) is None
    y, p = [1, 1, 1, 1, 0, 1, 0], [0.9, 0.8, 0.8, 0.8, 0.8, 0.3, 0.3]
    assert recall_at_precision(y, p) == OperatingPoint(0.8, 0.8, 0.8)


def test_recall_at_precision_of_equal_recall_takes_the_precise_threshold():
    y, p = [1, 1, 1, 1, 1, 0], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    assert recall_at_precision(y, p) == OperatingPoint(1.0, 1.0, 0.5)


@given(SCORED)
def test_recall_at_precision_is_what_its_threshold_gives_and_the_best(rows):
    y, p, _ = columns(rows)
    assume(0 < y.sum() < len(y))
    point = recall_at_precision(y, p)
    reached = {}
    for threshold in set(p):
        alert = p >= threshold
        if y[alert].mean() >= 0.8:
            reached[threshold] = y[alert].sum() / y.sum()
    if point is None:
        assert not reached
        return
    alert = p >= point.threshold
    assert point.recall == max(reached.values()) == reached[point.threshold]
    assert point.precision == pytest.approx(y[alert].mean())


@pytest.mark.parametrize("precision", [0, 1.1, float("nan")])
def test_a_precision_out_of_range_raises(precision):
    with pytest.raises(ValueError, match=r"it must lie in \(0, 1\]"):
        recall_at_precision([0, 1], [0.1, 0.2], precision=precision)
