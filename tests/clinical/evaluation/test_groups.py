"""Groups: equal to scikit-learn and fairlearn, left out when small, compared with the rest."""

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score

from clinical.evaluation.groups import (
    SMALLEST_GROUP,
    by_group,
    by_period,
    holm,
)
from clinical.evaluation.measures import GROUP_MEASURES, Stays, measured_values
from clinical.evaluation.verdicts import group_verdicts
from domainbert.statistics.bootstrap import Resampled
from domainbert.tables import TableError

THRESHOLD = 0.4


def hospital(n=600, *, seed=0, per_patient=2, **columns):
    rng = np.random.default_rng(seed)
    p = (1 / (1 + np.exp(-rng.normal(-1, 1.2, n)))).round(2)  # with ties
    frame = {
        "patient_id": np.arange(n) // per_patient,
        "readmitted": rng.random(n) < p,
    }
    frame |= {
        "probability": p,
        "sex": rng.choice(["F", "M", "X"], n, p=[0.5, 0.4, 0.1]),
    }
    return pd.DataFrame(frame | columns).astype({"readmitted": int})


def rest_of(frame, row):
    inside = frame[row["column"]] == row["group"]
    return frame[inside], frame[~inside]


def test_ranking_and_calibration_equal_scikit_learn():
    frame = hospital()
    for row in by_group(frame, threshold=THRESHOLD, bootstrap=0).to_dict(
        "records"
    ):
        group, rest = rest_of(frame, row)
        areas = [
            roc_auc_score(part["readmitted"], part["probability"])
            for part in (group, rest)
        ]
        assert row["auroc"] == pytest.approx(areas[0], abs=1e-9)
        assert row["auroc_difference"] == pytest.approx(
            areas[0] - areas[1], abs=1e-9
        )
        gaps = []
        for part in (group, rest):
            true, predicted = calibration_curve(
                part["readmitted"], part["probability"], n_bins=1
            )
            gaps.append(true[0] - predicted[0])
        assert row["observed_minus_predicted"] == pytest.approx(
            gaps[0], abs=1e-9
        )
        assert row["observed_minus_predicted_difference"] == pytest.approx(
            gaps[0] - gaps[1], abs=1e-9
        )
        assert row["prevalence"] == group["readmitted"].mean()


def test_recall_and_false_positive_rate_equal_fairlearn():
    metrics = pytest.importorskip("fairlearn.metrics")
    frame = hospital()
    alerts = (frame["probability"] >= THRESHOLD).astype(int)
    wanted = {"recall_at_threshold": metrics.true_positive_rate, "false_positive_rate":
              metrics.false_positive_rate}  # fmt: skip
    theirs = metrics.MetricFrame(
        metrics=wanted,
        y_true=frame["readmitted"],
        y_pred=alerts,
        sensitive_features=frame["sex"],
    )
    ours = by_group(frame, threshold=THRESHOLD, bootstrap=0).set_index("group")
    for name, function in wanted.items():
        assert ours[name].to_dict() == pytest.approx(
            theirs.by_group[name].to_dict(), abs=1e-9
        )
        for group in ours.index:
            out = frame["sex"] != group
            rest = function(frame.loc[out, "readmitted"], alerts[out])
            difference = theirs.by_group.loc[group, name] - rest
            assert ours.loc[group, f"{name}_difference"] == pytest.approx(
                difference, abs=1e-9
            )


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

    def measured(table, labels, weights):
        y, risk = (
            table["readmitted"].to_numpy(float),
            table["probability"].to_numpy(float),
        )
        parts = [
            (m, Stays(y[m], risk[m], THRESHOLD))
            for m in (labels == 0, labels == 1)
        ]
        return [
            measured_values(part, weights[m], GROUP_MEASURES)
            for m, part in parts
        ]

    labels = (again["sex"] == "M").to_numpy(dtype=int)
    if len(set(labels)) == 2:
        ours = measured(frame, groups, repeats.astype(float))
        theirs = np.array(measured(again, labels, np.ones(len(again))))
        # A resample with one outcome of a group that has both gives no number.
        theirs[np.isnan(ours)] = np.nan
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_a_group_the_model_fails_is_named_and_chance_is_not():
    frame = hospital(3000, seed=1)
    (said,) = group_verdicts(
        by_group(frame, threshold=THRESHOLD, bootstrap=200)
    )
    assert said.status == "not shown"
    assert (
        "12 differences between a subgroup and the other stays were tested"
        in said.text
    )
    assert "none of these remain after correction" in said.text
    men = frame["sex"] == "M"
    shuffled = (
        frame.loc[men, "probability"].sample(frac=1, random_state=0).to_numpy()
    )
    frame.loc[men, "probability"] = shuffled
    table = by_group(frame, threshold=THRESHOLD, bootstrap=200).set_index(
        "group"
    )
    assert table.loc["M", "auroc_difference_high"] < -0.1
    assert table.loc["M", "auroc_p_adjusted"] < 0.001
    said = " ".join(
        v.text
        for v in group_verdicts(table.reset_index())
        if v.status == "against"
    )
    assert "AUROC differs for sex M: 0." in said
    assert "against all other stays" in said


def test_corrected_p_values_are_holms():
    nan = np.nan
    value, error = (
        np.array([[2.5, 0.1], [2.0, nan]]),
        np.array([[1.0, 1.0], [1.0, nan]]),
    )
    spread = error / np.sqrt(2)  # whose standard deviation is the error
    found = holm(Resampled(value, np.stack([value - spread, value + spread])))
    # p = 0.0124, 0.0455, 0.9203; times 3, 2 and 1.
    assert found.ravel()[:3] == pytest.approx(
        [0.03726, 0.92034, 0.09100], abs=1e-4
    )
    assert np.isnan(found[1, 1])


def test_intervals_cover_the_truth_and_come_from_the_same_resamples():
    frame = hospital(2000, per_patient=1, seed=3)
    table = by_group(frame, threshold=THRESHOLD, bootstrap=200)
    for name in [measure.field for measure in GROUP_MEASURES]:
        assert (table[f"{name}_low"] < table[name]).all()
        assert (table[name] < table[f"{name}_high"]).all()
    halves = by_group(
        frame.assign(sex=frame["sex"].replace("X", "M")), bootstrap=100
    )
    women, men = halves.to_dict("records")
    assert women["auroc_difference_low"] == pytest.approx(
        -men["auroc_difference_high"], abs=1e-9
    )


def test_small_groups_show_their_size_only_and_are_said_to_be_untested():
    counts = {"A": 300, "B": 40, "C": 30, "D": 230}
    values = np.repeat(list(counts), list(counts.values()))
    frame = hospital(600, ethnicity=values).drop(columns="sex")
    table = by_group(frame, threshold=THRESHOLD, bootstrap=20)
    assert table["group"].tolist() == ["A", "D", "B, C"]
    assert table["n"].tolist() == [300, 230, 70]
    last = table.iloc[-1]
    assert last["reason"] == f"fewer than {SMALLEST_GROUP} stays each"
    assert (
        last[
            ["prevalence", "mean_probability", "auroc", "recall_at_threshold"]
        ]
        .isna()
        .all()
    )
    said = group_verdicts(table)[-1]
    assert said.status == "not shown"
    assert (
        said.text == "Not tested: ethnicity B, C (fewer than 50 stays each)."
    )
    few = by_group(
        frame[frame["ethnicity"] != "B"], threshold=THRESHOLD, bootstrap=20
    )
    assert (
        group_verdicts(few)[-1].text
        == "Not tested: ethnicity C (fewer than 50 stays)."
    )
    many = frame.assign(
        ethnicity=[f"group number {n % 60}" for n in range(600)]
    )
    (rest,) = by_group(many, bootstrap=0)["group"]
    assert rest == "60 small groups"


def test_no_threshold_and_one_outcome_leave_gaps():
    frame = hospital(200, sex=np.repeat(["F", "M"], 100))
    frame.loc[:99, "readmitted"] = 0
    table = by_group(frame, bootstrap=0).set_index("group")
    assert table.loc["F", "reason"] == "0 of 100 stays have the outcome"
    assert np.isnan(table.loc["F", "auroc"])
    assert table.loc["F", "observed_minus_predicted"] == pytest.approx(
        -frame["probability"][:100].mean()
    )
    assert (
        table[["recall_at_threshold", "false_positive_rate"]]
        .isna()
        .all(axis=None)
    )


def test_periods_are_months_quarters_or_years_by_the_number_of_stays():
    days = pd.to_timedelta(np.arange(1200) * 365 / 1200, unit="D")
    frame = hospital(1200, discharge_time=pd.Timestamp("2024-01-01") + days)
    table, _ = by_period(frame, threshold=THRESHOLD, bootstrap=20)
    assert table["period"].tolist() == [
        f"2024-{month:02d}" for month in range(1, 13)
    ]
    assert table["n"].sum() == 1200
    first = frame[frame["discharge_time"] < "2024-02-01"]
    area = roc_auc_score(first["readmitted"], first["probability"])
    assert table["auroc"][0] == pytest.approx(area)
    assert by_period(frame[::5], bootstrap=0)[0]["period"].tolist() == [
        *("2024Q1", "2024Q2", "2024Q3", "2024Q4")
    ]
    sparse = frame.assign(
        discharge_time=pd.Timestamp("2001-01-01") + days * 12
    )
    assert by_period(sparse, bootstrap=0)[0]["period"].tolist() == [
        str(2001 + k) for k in range(12)
    ]


def test_periods_leave_out_stays_without_a_date():
    frame = hospital(120, discharge_time=["2024-03-05"] * 100 + [None] * 20)
    assert by_period(frame, bootstrap=0)[0]["n"].tolist() == [100]
    assert by_period(frame.assign(discharge_time=None), bootstrap=0)[0].empty
    wrong = frame.assign(discharge_time=["soon"] + ["2024-03-05"] * 119)
    table, remark = by_period(wrong, bootstrap=0)
    assert table["n"].tolist() == [119]
    assert remark.startswith(
        "1 stays have a discharge_time that is not an ISO 8601"
    )
    table, why = by_period(
        frame.assign(discharge_time="2151-01-01"), bootstrap=0
    )
    assert table.empty
    assert "shifted to protect patients" in why


def test_ages_keep_their_bands_and_gaps():
    from clinical.evaluation.groups import group_labels

    ages = pd.Series(
        [0, 17, 18, 44, 45, 64, 65, 79, 80, 300, None, -1], name="age"
    )
    for kind in (float, "Int16"):
        assert group_labels(ages.astype(kind)).value_counts(
            sort=False
        ).to_dict() == {
            **dict.fromkeys(["0–17", "18–44", "45–64", "65–79", "80+"], 2),
            "not recorded": 2,
        }
    banded = group_labels(pd.Series(["[70-80)", "[80-90)"], name="age"))
    assert banded.tolist() == ["[70-80)", "[80-90)"]


def test_a_missing_column_is_named():
    with pytest.raises(TableError, match="no column 'gender_'"):
        by_group(hospital(10), columns=["gender_"])
    assert by_group(hospital(10).drop(columns="sex")).empty


def test_200_resamples_of_eight_groups_take_seconds():
    frame = hospital(
        10_000, sex=np.random.default_rng(0).integers(0, 8, 10_000).astype(str)
    )
    start = time.process_time()  # others may use the machine too
    by_group(frame, threshold=THRESHOLD, bootstrap=200)
    assert time.process_time() - start < 3
