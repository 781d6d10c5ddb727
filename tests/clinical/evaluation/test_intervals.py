"""Evaluation: numbers by hand, intervals by patient, thresholds from validation."""

import json
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clinical.evaluation.intervals import (
    evaluate,
)
from clinical.evaluation.measures import (
    MEASURES,
    Measure,
    precise_threshold,
)
from domainbert.statistics.bootstrap import MIN_GROUPS, Interval


def hospital(n=600, *, per_patient=1, seed=0):
    """Calibrated risks, outcomes drawn from them, and patients of a few stays each."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-rng.normal(-1, 1.2, n)))
    return (rng.random(n) < p).astype(int), p, np.arange(n) // per_patient


def test_values_agree_with_scikit_learn():
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import (
        average_precision_score,
        brier_score_loss,
        roc_auc_score,
    )

    y, p, patients = hospital()
    found = evaluate(y, p, patients=patients, bootstrap=0)
    logits = np.log(p / (1 - p))[:, None]
    model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(
        logits, y
    )
    assert found.auroc.value == pytest.approx(roc_auc_score(y, p), abs=1e-12)
    assert found.auprc.value == pytest.approx(
        average_precision_score(y, p), abs=1e-12
    )
    assert found.brier.value == pytest.approx(
        brier_score_loss(y, p), abs=1e-12
    )
    assert found.calibration_slope.value == pytest.approx(
        model.coef_[0, 0], abs=1e-5
    )
    assert found.observed_expected.value == pytest.approx(y.sum() / p.sum())
    alert = p >= precise_threshold(y, p)
    assert found.rp80.value == pytest.approx(y[alert].sum() / y.sum())
    assert found.prevalence.value == y.mean()
    assert (found.n_stays, found.n_patients, found.n_readmitted) == (
        600,
        600,
        y.sum(),
    )


def test_values_by_hand():
    y, p = [1, 0, 1, 0], [0.9, 0.8, 0.6, 0.1]
    found = evaluate(y, p, patients=list("abcd"), threshold=0.6, bootstrap=0)
    assert found.brier.value == pytest.approx((0.01 + 0.64 + 0.16 + 0.01) / 4)
    assert found.ece.value == pytest.approx(
        (0.1 + 0.8 + 0.4 + 0.1) / 4
    )  # a bin for each stay
    assert found.auroc == Interval(0.75)
    assert found.recall_at_threshold.value == 1
    assert found.precision_at_threshold.value == pytest.approx(2 / 3)
    assert found.rp80.value == 0.5


def test_the_threshold_of_validation_is_kept_for_the_test():
    y_val, p_val, _ = hospital(seed=1)
    y, p, patients = hospital(seed=2)
    threshold = precise_threshold(y_val, p_val)
    found = evaluate(
        y, p, patients=patients, threshold=threshold, bootstrap=50
    )
    alert = p >= threshold
    assert found.threshold == threshold != precise_threshold(y, p)
    assert found.recall_at_threshold.value == pytest.approx(
        y[alert].sum() / y.sum()
    )
    assert found.precision_at_threshold.value == pytest.approx(y[alert].mean())
    assert found.recall_at_threshold.low < found.recall_at_threshold.value


def test_without_a_threshold_its_pair_is_none():
    y, p, patients = hospital(100)
    found = evaluate(y, p, patients=patients, bootstrap=10)
    nothing = Interval(None, None, None)
    assert found.recall_at_threshold == found.precision_at_threshold == nothing
    silent = evaluate(y, p, patients=patients, threshold=1.0, bootstrap=10)
    assert silent.recall_at_threshold.value == 0
    assert (
        silent.precision_at_threshold == nothing
    )  # no alert, so no share of them is right


def test_rp80_out_of_reach_is_none_with_no_interval():
    y, p = [0, 1, 0, 1, 0, 0] * 5, [0.9, 0.8, 0.7, 0.3, 0.2, 0.1] * 5
    found = evaluate(y, p, patients=range(30), bootstrap=200)
    assert found.rp80 == Interval(None, None, None)


def test_intervals_are_percentiles_of_resampled_patients():
    from sklearn.metrics import average_precision_score, roc_auc_score

    y, p, patients = hospital(200, per_patient=4)
    names = [f"patient {k:02d}" for k in patients]  # sorted as the numbers are
    found = evaluate(y, p, patients=names, bootstrap=60, seed=7)
    rng, areas, averages = np.random.default_rng(7), [], []
    for _ in range(60):
        rows = np.concatenate(
            [np.flatnonzero(patients == k) for k in rng.integers(50, size=50)]
        )
        areas.append(roc_auc_score(y[rows], p[rows]))
        averages.append(average_precision_score(y[rows], p[rows]))
    for interval, drawn in ((found.auroc, areas), (found.auprc, averages)):
        assert [interval.low, interval.high] == pytest.approx(
            np.quantile(drawn, [0.025, 0.975])
        )


def test_clusters_of_patients_widen_the_intervals():
    y, p, patients = hospital(150)
    y, p, patients = (
        np.repeat(column, 6) for column in (y, p, patients)
    )  # six equal stays each
    by_patient = evaluate(y, p, patients=patients, bootstrap=300).auroc
    by_stay = evaluate(y, p, patients=np.arange(len(y)), bootstrap=300).auroc
    assert by_patient.value == by_stay.value
    ratio = (by_patient.high - by_patient.low) / (by_stay.high - by_stay.low)
    assert ratio == pytest.approx(np.sqrt(6), rel=0.25)


def test_the_stays_of_a_patient_travel_together():
    # Every patient has one stay of each kind, so every resample is half readmitted.
    y, p = [0, 1] * 20, [0.2, 0.7] * 20
    found = evaluate(y, p, patients=np.arange(40) // 2, bootstrap=100)
    assert found.prevalence == Interval(0.5, 0.5, 0.5)
    assert found.auroc == Interval(1.0, 1.0, 1.0)
    apart = evaluate(y, p, patients=np.arange(40), bootstrap=100)
    assert apart.prevalence.low < 0.5 < apart.prevalence.high


def test_patients_are_compared_by_one_key():
    y, p, _ = hospital(6)
    ids = [7, "7", "7.0 ", "P8", "p8", "08"]
    assert evaluate(y, p, patients=ids, bootstrap=0).n_patients == 3


def test_the_same_seed_gives_the_same_numbers_and_another_other_ones():
    y, p, patients = hospital(100)
    one = evaluate(y, p, patients=patients, bootstrap=50, seed=3)
    assert one == evaluate(y, p, patients=patients, bootstrap=50, seed=3)
    assert (
        one.auroc
        != evaluate(y, p, patients=patients, bootstrap=50, seed=4).auroc
    )


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_stays_does_not_matter(random):
    y, p, patients = hospital(60, per_patient=2)
    p = p.round(1)
    order = random.sample(range(60), 60)
    one = evaluate(
        y, p, patients=patients, threshold=0.4, bootstrap=20
    ).to_frame()
    two = evaluate(
        y[order],
        p[order],
        patients=patients[order],
        threshold=0.4,
        bootstrap=20,
    )
    pd.testing.assert_frame_equal(one, two.to_frame(), rtol=1e-9)


def test_resamples_of_one_outcome_are_skipped_and_counted():
    y, p = [1] + [0] * 19, np.linspace(0.9, 0.1, 20)
    found = evaluate(y, p, patients=range(20), bootstrap=300)
    assert found.skipped == pytest.approx(
        300 * 0.95**20, abs=40
    )  # the one patient is not drawn
    assert found.auroc == Interval(
        1.0, None, None
    )  # too few resamples are left for an interval
    assert found.reason is None


@pytest.mark.parametrize("outcome", [0, 1])
def test_one_outcome_leaves_brier_and_says_why(outcome):
    risks = np.repeat([0.1, 0.2, 0.3], 10)
    found = evaluate(
        np.full(30, outcome),
        risks,
        patients=range(30),
        threshold=0.2,
        bootstrap=100,
    )
    assert found.reason == f"{30 * outcome} of 30 stays have the outcome"
    assert found.brier.value == pytest.approx(((risks - outcome) ** 2).mean())
    assert found.brier.low < found.brier.value < found.brier.high
    assert found.prevalence.value == outcome
    assert found.skipped == 0
    assert found.ece.value == pytest.approx(abs(0.2 - outcome))
    # Of stays that are all readmitted every alert is right: that is no finding.
    for name in ("auroc", "auprc", "rp80", "calibration_slope"):
        assert getattr(found, name).value is None
    for name in ("recall_at_threshold", "precision_at_threshold"):
        assert getattr(found, name).value is None


def test_few_patients_have_no_intervals_and_the_reason():
    y, p, _ = hospital(60)
    few = evaluate(
        y, p, patients=np.arange(60) % (MIN_GROUPS - 1), bootstrap=50
    )
    assert few.reason == "no intervals: 19 patients, at least 20 are needed"
    assert few.auroc.value is not None
    for measure in MEASURES:
        found = getattr(few, measure.field)
        assert found.low is found.high is None
    enough = evaluate(y, p, patients=np.arange(60) % MIN_GROUPS, bootstrap=50)
    assert enough.reason is None
    assert enough.auroc.low < enough.auroc.high


def test_the_interval_of_ece_reaches_from_its_value_towards_the_0_of_a_perfect_model():
    for seed in range(5):
        y, p, patients = hospital(2000, seed=seed)
        ece = evaluate(y, p, patients=patients, bootstrap=200).ece
        assert 0 <= ece.low < ece.value / 2
        assert 0 < ece.value <= ece.high < 1.5 * ece.value
    off = evaluate(
        y, np.clip(p + 0.2, 0, 1), patients=patients, bootstrap=200
    ).ece
    assert off.low < 0.19 < off.high
    assert off.low > 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"patients": ["a"]}, "patients has 1 ids and y has 2 values"),
        ({"patients": ["a", None]}, "patients has 1 missing ids"),
        ({"patients": ["a", float("nan")]}, "patients has 1 missing ids"),
        ({"threshold": 1.5}, r"threshold is 1.5; it must be in \[0, 1\]"),
        ({"threshold": float("nan")}, "threshold is nan"),
    ],
)
def test_bad_arguments_raise(change, message):
    arguments = {"patients": ["a", "b"]} | change
    with pytest.raises(ValueError, match=message):
        evaluate([0, 1], [0.1, 0.2], **arguments)


def test_as_dict_and_frame():
    y, p, patients = hospital(100)
    found = evaluate(y, p, patients=patients, bootstrap=20)
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert {measure.field for measure in MEASURES} < set(content)
    assert content["n_stays"] == 100
    assert content["auroc"]["value"] == found.auroc.value  # no digit lost
    frame = found.to_frame().set_index("metric")
    assert list(frame.columns) == ["value", "low", "high"]
    assert frame.loc["auroc", "low"] == found.auroc.low
    assert np.isnan(frame.loc["recall_at_threshold", "value"])
    assert f"<td>{found.auroc.value:.3f}</td>" in found._repr_html_()


def test_200_resamples_of_ten_thousand_stays_take_seconds():
    y, p, patients = hospital(10_000, per_patient=2)
    start = time.process_time()  # others may use the machine too
    evaluate(y, p, patients=patients, threshold=0.5, bootstrap=200)
    assert time.process_time() - start < 5  # 1 on an idle core


def test_calibration_in_the_large_holds_the_slope_at_1():
    from scipy.special import expit, logit

    y, p, patients = hospital()
    shift = evaluate(
        y, p, patients=patients, bootstrap=0
    ).calibration_in_the_large.value
    assert expit(logit(p) + shift).sum() == pytest.approx(y.sum())
    low = evaluate(y, expit(logit(p) - 0.7), patients=patients, bootstrap=0)
    assert low.calibration_in_the_large.value == pytest.approx(
        shift + 0.7, abs=1e-6
    )


def test_differences_are_paired():
    y, p, patients = hospital(800)
    noisy = np.clip(p + np.random.default_rng(1).normal(0, 0.02, 800), 0, 1)
    one, two = (
        evaluate(y, risk, patients=patients, bootstrap=200)
        for risk in (p, noisy)
    )
    difference = one.minus(two)["auroc"]
    assert difference.value == pytest.approx(one.auroc.value - two.auroc.value)
    apart = (one.auroc.high - one.auroc.low) / (
        difference.high - difference.low
    )
    assert apart > 3  # the same patients: much narrower than either interval
    assert one.minus(one)["auroc"] == Interval(0.0, 0.0, 0.0)


def test_a_new_measure_takes_one_place(monkeypatch):
    from clinical.evaluation import intervals
    from clinical.evaluation.intervals import measure_rows

    sharpness = Measure(
        "sharpness",
        "Sharpness",
        "",
        lambda stays: float(np.ptp(stays.stays.risk)),
    )
    monkeypatch.setattr(intervals, "MEASURES", (*MEASURES, sharpness))
    y, p, patients = hospital(100)
    found = evaluate(y, p, patients=patients, bootstrap=10)
    assert found.sharpness.value == np.ptp(p)
    assert (
        found.to_dict()["sharpness"]["low"]
        == found.to_frame().set_index("metric").loc["sharpness", "low"]
    )
    assert measure_rows({"m": found})[-1][0] == "Sharpness"
    assert found.minus(found)["sharpness"].value == 0
