"""Groups: equal to scikit-learn and fairlearn, pooled when small, compared with the rest."""

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score

from clinical.evaluation.group_measures import GROUP_MEASURES, measure_groups
from clinical.evaluation.groups import (
    SMALLEST_GROUP,
    by_group,
    by_period,
    group_verdicts,
    shifted_dates,
)
from domainbert.tables import TableError

THRESHOLD = 0.4


def hospital(n=600, *, seed=0, per_patient=2, **columns):
    rng = np.random.default_rng(seed)
    p = (1 / (1 + np.exp(-rng.normal(-1, 1.2, n)))).round(2)  # with ties
    frame = {"patient_id": np.arange(n) // per_patient, "readmitted": rng.random(n) < p}
    frame |= {"probability": p, "sex": rng.choice(["F", "M", "X"], n, p=[0.5, 0.4, 0.1])}
    return pd.DataFrame(frame | columns).astype({"readmitted": int})


def rest_of(frame, row):
    inside = frame[row["column"]] == row["group"]
    return frame[inside], frame[~inside]


def test_ranking_and_calibration_equal_scikit_learn():
    frame = hospital()
    for row in by_group(frame, threshold=THRESHOLD, bootstrap=0).to_dict("records"):
        group, rest = rest_of(frame, row)
        areas = [roc_auc_score(part["readmitted"], part["probability"]) for part in (group, rest)]
        assert row["auroc"] == pytest.approx(areas[0], abs=1e-9)
        assert row["auroc_difference"] == pytest.approx(areas[0] - areas[1], abs=1e-9)
        gaps = []
        for part in (group, rest):
            true, predicted = calibration_curve(part["readmitted"], part["probability"], n_bins=1)
            gaps.append(true[0] - predicted[0])
        assert row["calibration"] == pytest.approx(gaps[0], abs=1e-9)
        assert row["calibration_difference"] == pytest.approx(gaps[0] - gaps[1], abs=1e-9)
        assert row["prevalence"] == group["readmitted"].mean()


def test_recall_and_false_positive_rate_equal_fairlearn():
    metrics = pytest.importorskip("fairlearn.metrics")
    frame = hospital()
    alerts = (frame["probability"] >= THRESHOLD).astype(int)
    wanted = {"recall": metrics.true_positive_rate, "false_positive_rate":
              metrics.false_positive_rate}  # fmt: skip
    theirs = metrics.MetricFrame(
        metrics=wanted,
        y_true=frame["readmitted"],
        y_pred=alerts,
        sensitive_features=frame["sex"],
    )
    ours = by_group(frame, threshold=THRESHOLD, bootstrap=0).set_index("group")
    for name, function in wanted.items():
        assert ours[name].to_dict() == pytest.approx(theirs.by_group[name].to_dict(), abs=1e-9)
        for group in ours.index:
            out = frame["sex"] != group
            rest = function(frame.loc[out, "readmitted"], alerts[out])
            difference = theirs.by_group.loc[group, name] - rest
            assert ours.loc[group, f"{name}_difference"] == pytest.approx(difference, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_weights_count_as_repeated_stays(seed):
    rng = np.random.default_rng(seed)
    frame = hospital(40, seed=seed).assign(sex=rng.choice(["F", "M"], 40))
    groups = (frame["sex"] == "M").to_numpy(dtype=int)
    if len(set(groups)) < 2:
        return
    repeats = rng.integers(0, 3, 40)
    again = frame.loc[frame.index.repeat(repeats)].reset_index(drop=True)
    from clinical.evaluation.group_measures import Part

    def measured(table, labels, weights):
        y, risk = table["readmitted"].to_numpy(float), table["probability"].to_numpy(float)
        masks = [labels == 0, labels == 1]
        return [Part(y[m], risk[m], m, THRESHOLD).numbers(weights) for m in masks]

    labels = (again["sex"] == "M").to_numpy(dtype=int)
    if len(set(labels)) == 2:
        ours = measured(frame, groups, repeats.astype(float))
        np.testing.assert_allclose(ours, measured(again, labels, np.ones(len(again))), atol=1e-9)


def test_a_group_the_model_fails_is_named_and_chance_is_not():
    frame = hospital(3000, seed=1)
    (said,) = group_verdicts(by_group(frame, threshold=THRESHOLD, bootstrap=200))
    assert said.status == "not shown"
    assert "12 differences between a subgroup and the other stays were tested" in said.text
    assert "none of these remain after correction" in said.text
    men = frame["sex"] == "M"
    shuffled = frame.loc[men, "probability"].sample(frac=1, random_state=0).to_numpy()
    frame.loc[men, "probability"] = shuffled
    table = by_group(frame, threshold=THRESHOLD, bootstrap=200).set_index("group")
    assert table.loc["M", "auroc_difference_high"] < -0.1
    assert table.loc["M", "auroc_p_adjusted"] < 0.001
    said = " ".join(v.text for v in group_verdicts(table.reset_index()) if v.status == "against")
    assert "AUROC differs for sex M: 0." in said
    assert "against all other stays" in said


def test_corrected_p_values_are_holms():
    from clinical.evaluation.group_measures import _adjusted
    from domainbert.statistics.bootstrap import Resampled

    nan = np.nan
    value, error = np.array([[2.5, 0.1], [2.0, nan]]), np.array([[1.0, 1.0], [1.0, nan]])
    spread = error / np.sqrt(2)  # whose standard deviation is the error
    found = _adjusted(Resampled(value, np.stack([value - spread, value + spread])))
    # p = 0.0124, 0.0455, 0.9203; times 3, 2 and 1.
    assert found.ravel()[:3] == pytest.approx([0.03726, 0.92034, 0.09100], abs=1e-4)
    assert np.isnan(found[1, 1])


def test_intervals_cover_the_truth_and_come_from_the_same_resamples():
    frame = hospital(2000, per_patient=1, seed=3)
    table = by_group(frame, threshold=THRESHOLD, bootstrap=200)
    for name in GROUP_MEASURES:
        assert (table[f"{name}_low"] < table[name]).all()
        assert (table[name] < table[f"{name}_high"]).all()
    halves = by_group(frame.assign(sex=frame["sex"].replace("X", "M")), bootstrap=100)
    women, men = halves.to_dict("records")
    assert women["auroc_difference_low"] == pytest.approx(-men["auroc_difference_high"], abs=1e-9)


def test_small_groups_are_pooled_and_a_small_pool_shows_its_size_only():
    counts = {"A": 300, "B": 40, "C": 30, "D": 230}
    values = np.repeat(list(counts), list(counts.values()))
    frame = hospital(600, ethnicity=values).drop(columns="sex")
    table = by_group(frame, threshold=THRESHOLD, bootstrap=0)
    assert table["group"].tolist() == ["A", "D", "B or C"]
    assert table["n"].tolist() == [300, 230, 70]
    assert (table["reason"] == "").all()
    few = frame[frame["ethnicity"] != "B"]
    last = by_group(few, threshold=THRESHOLD, bootstrap=0).set_index("group").loc["C"]
    assert last["n"] == 30
    assert last["reason"] == f"fewer than {SMALLEST_GROUP} stays"
    assert last[["prevalence", "mean_probability", *GROUP_MEASURES]].isna().all()
    said = group_verdicts(by_group(few, threshold=THRESHOLD, bootstrap=20))[-1]
    assert said.text == "Not tested on their own: ethnicity C (fewer than 50 stays)."
    said = group_verdicts(by_group(frame, threshold=THRESHOLD, bootstrap=20))[-1]
    assert said.status == "not shown"
    assert said.text == "Not tested on their own: ethnicity B or C (only measured together)."
    many = frame.assign(ethnicity=[f"group number {n % 60}" for n in range(600)])
    (pool,) = by_group(many, bootstrap=0)["group"]
    assert pool == "60 smaller groups together"


def test_no_threshold_and_one_outcome_leave_gaps():
    frame = hospital(200, sex=np.repeat(["F", "M"], 100))
    frame.loc[:99, "readmitted"] = 0
    table = by_group(frame, bootstrap=0).set_index("group")
    assert table.loc["F", "reason"] == "0 of 100 stays are readmitted"
    assert np.isnan(table.loc["F", "auroc"])
    assert table.loc["F", "calibration"] == pytest.approx(-frame["probability"][:100].mean())
    assert table[["recall", "false_positive_rate"]].isna().all(axis=None)


def test_periods_are_months_joined_until_they_are_large_enough():
    days = pd.to_timedelta(np.arange(600) * 365 / 600, unit="D")
    frame = hospital(600, discharge_time=pd.Timestamp("2024-01-01") + days)
    table = by_period(frame, threshold=THRESHOLD, bootstrap=20)
    assert table["n"].sum() == 600
    assert (table["n"] >= SMALLEST_GROUP).all()
    assert table["period"].iloc[0] == "2024-01"
    first = frame[frame["discharge_time"] < "2024-02-01"]
    row = table.iloc[0]
    assert row["auroc"] == pytest.approx(roc_auc_score(first["readmitted"], first["probability"]))
    assert row["alerts_per_100"] == 100 * (first["probability"] >= THRESHOLD).mean()
    sparse = frame.assign(discharge_time=pd.Timestamp("2001-01-01") + days * 12)
    joined = by_period(sparse, bootstrap=0)
    assert joined["n"].sum() == 600
    assert (joined["n"] >= SMALLEST_GROUP).all()
    assert " to " in by_period(sparse.head(160), bootstrap=0)["period"].iloc[-1]


def test_periods_leave_out_stays_without_a_date_and_refuse_what_is_none():
    frame = hospital(120, discharge_time=["2024-03-05"] * 100 + [None] * 20)
    assert by_period(frame, bootstrap=0)["n"].tolist() == [100]
    assert by_period(frame.assign(discharge_time=None), bootstrap=0).empty
    with pytest.raises(ValueError, match="discharge_time holds 1 values that are not ISO 8601"):
        by_period(frame.assign(discharge_time=["soon"] + ["2024-03-05"] * 119))
    assert not shifted_dates(frame)
    assert shifted_dates(frame.assign(discharge_time="2151-01-01"))


def test_ages_keep_their_bands_and_gaps():
    from clinical.evaluation.groups import group_labels

    ages = pd.Series([0, 17, 18, 44, 45, 64, 65, 79, 80, 300, None, -1], name="age")
    for kind in (float, "Int16"):
        assert group_labels(ages.astype(kind)).value_counts(sort=False).to_dict() == {
            **dict.fromkeys(["0–17", "18–44", "45–64", "65–79", "80+"], 2),
            "not recorded": 2,
        }
    banded = group_labels(pd.Series(["[70-80)", "[80-90)"], name="age"))
    assert banded.tolist() == ["[70-80)", "[80-90)"]


def test_a_missing_column_is_named():
    with pytest.raises(TableError, match="no column 'gender_'"):
        by_group(hospital(10), columns=["gender_"])
    assert by_group(hospital(10).drop(columns="sex")).empty


def test_a_thousand_resamples_of_ten_thousand_stays_are_quick():
    frame = hospital(10_000)
    groups = np.random.default_rng(0).integers(0, 8, 10_000)
    start = time.process_time()  # others may use the machine too
    measure_groups(frame, groups, threshold=THRESHOLD, bootstrap=1000, seed=0)
    assert time.process_time() - start < 10
