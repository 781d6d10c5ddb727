"""Net benefit equals dcurves; thresholds come from validation; burden by hand."""

import numpy as np
import pandas as pd
import pytest

from clinical.evaluation.decision import (
    ALL,
    CAPACITIES,
    GRID,
    NONE,
    Point,
    alert_burden,
    alert_points,
    benefit_table,
    decision_curve,
)


def hospital(n=500, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 4, n).round(3)
    return (rng.random(n) < p).astype(int), p


def stays(y, p):
    return pd.DataFrame(
        {"patient_id": range(len(y)), "readmitted": y, "probability": p}
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_net_benefit_equals_dcurves(seed):
    dcurves = pytest.importorskip("dcurves")
    y, p = hospital(seed=seed)
    other = hospital(seed=seed + 10)[1]
    table = pd.DataFrame({"y": y, "model": p, "other": other})
    theirs = dcurves.dca(
        data=table,
        outcome="y",
        modelnames=["model", "other"],
        thresholds=list(GRID),
    )
    ours = decision_curve(y, {"model": p, "other": other})
    names = {"model": "model", "other": "other", "all": ALL, "none": NONE}
    for name, column in names.items():
        expected = theirs[theirs["model"] == name]["net_benefit"].to_numpy()
        assert np.abs(ours[column].to_numpy() - expected).max() < 1e-9


def test_net_benefit_by_hand():
    y, p = [1, 0, 1, 0], [0.9, 0.8, 0.2, 0.1]
    found = decision_curve(y, {"m": p}).set_index("threshold")["m"]
    assert found[[0.5, 0.2]].tolist() == pytest.approx(
        [(1 - 1 * 1.0) / 4, (2 - 1 * 0.25) / 4]
    )


def test_the_gain_is_over_the_better_default_with_an_interval():
    y, p = hospital(2000)
    table = benefit_table(stays(y, p), bootstrap=100).set_index("threshold")
    curve = decision_curve(y, {"m": p}).set_index("threshold")
    for level, row in table.iterrows():
        assert row["net_benefit"] == pytest.approx(curve.loc[level, "m"])
        assert row["alert_all"] == pytest.approx(curve.loc[level, ALL])
        best = max(curve.loc[level, ALL], 0.0)
        assert row["gain"] == pytest.approx(curve.loc[level, "m"] - best)
        assert row["gain_low"] <= row["gain"] <= row["gain_high"]
    noise = np.random.default_rng(5).permutation(p)
    useless = benefit_table(stays(y, noise), bootstrap=100)
    assert not (useless["gain_low"] > 0).any()


def test_burden_by_hand():
    y, p = [1, 0, 1, 0, 0], [0.9, 0.8, 0.6, 0.2, 0.1]
    points = {"a": Point(0.6, "validation"), "b": Point(0.95, "validation")}
    table = alert_burden(stays(y, p), points, bootstrap=0).set_index("point")
    assert table.loc["a", "alerts_per_100"] == pytest.approx(60)
    assert table.loc[
        "a", ["recall", "precision", "per_find"]
    ].tolist() == pytest.approx([1.0, 2 / 3, 1.5])
    assert table.loc["b", "alerts_per_100"] == 0
    assert table.loc["b", "recall"] == 0
    assert np.isnan(table.loc["b", "precision"])


def test_capacities_are_thresholds_of_the_validation_risks_whatever_the_test_brings():
    validation = hospital(4000, seed=1)[1]
    levels = np.quantile(validation, np.arange(1, 100) / 100)
    points = alert_points(None, levels.tolist(), source="validation")
    for capacity in CAPACITIES:
        level = points[f"{capacity} alerts per 100"].threshold
        assert 100 * (validation >= level).mean() == pytest.approx(
            capacity, abs=0.5
        )
    y, p = hospital(1000, seed=2)
    # Risks that have drifted up give more alerts: nothing is chosen on the test.
    higher = alert_burden(
        stays(y, np.clip(p + 0.2, 0, 1)), points, bootstrap=0
    )
    assert (higher["alerts_per_100"] > [2 * c for c in CAPACITIES]).all()
    assert alert_points(None, [], source="validation") == {}
    assert list(alert_points(0.4, [], source="validation")) == [
        "the model's alert threshold"
    ]
