"""An evaluation with everything in it, on made-up risks, for the tests of the report."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from clinical.evaluation.after_discharge import remaining_risks
from clinical.evaluation.comparison import measure
from clinical.evaluation.decision import alert_points
from clinical.evaluation.drift import drift, profile
from clinical.report.facts import gather
from clinical.risk.reading import RiskGroup


def made_up(n=900, seed=0):
    """A comparison with everything in it, on made-up risks."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 4, n)
    stays = pd.DataFrame(
        {
            "patient_id": rng.integers(0, n // 2, n),
            "readmitted": (rng.random(n) < p).astype(int),
            "probability": p,
            "sex": rng.choice(["F", "M"], n),
            "age": rng.integers(18, 95, n).astype(float),
            "discharge_time": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(rng.integers(0, 300, n), "D"),
        }
    )
    levels = np.quantile(p, np.arange(1, 100) / 100).tolist()
    points = alert_points(None, levels, source="validation")
    threshold = points["10 alerts per 100"].threshold
    kept = profile({"tokens": rng.normal(900, 50, 500)})
    inputs = drift(kept, {"tokens": rng.normal(1000, 50, n)})
    scores = {"model": p, "TF-IDF": np.clip(p + rng.normal(0, 0.1, n), 0, 1)}
    found = measure(
        stays,
        scores,
        thresholds=dict.fromkeys(scores, threshold),
        points=points,
        caveats=["A caveat."],
        bootstrap=30,
    )
    curve = [
        RiskGroup(above=low, points=[[7, 0.3, 0], [14, 0.5, 0], [30, 1, 0]])
        for low in (0.0, 0.2)
    ]
    days = np.where(p > 0.2, 12 * p, 25 * p)
    remaining = remaining_risks(
        curve, stays.assign(days_to_readmission=days), bootstrap=30
    )
    return dataclasses.replace(
        found,
        remaining=remaining,
        inputs=inputs,
        findings=["Tokens of a stay: a clear change since validation."],
    )


@pytest.fixture(scope="session")
def comparison():
    return made_up()


SUMMARY = {
    "definition": {
        "name": "readmission-30d",
        "version": "1.0.0",
        "label": "readmission-30d 1.0.0",
        "sha256": 64 * "0",
        "horizon_days": 30.0,
        "event": "readmitted within 30 days of discharge",
    },
    "steps": [
        {
            "step": "admissions",
            "reason": "all admissions",
            "removed": 0,
            "left": 1000,
        },
        {"step": "newborn", "reason": "newborn", "removed": 100, "left": 900},
    ],
    "kept": {"stays": 900, "patients": 450, "readmitted": 180},
    "deaths": "Within 30 days of discharge 20.0% came back and 2.0% died before they could.",
    "notes": "discharge",
    "issues": [],
    "caveats": ["Readmissions elsewhere are not counted."],
}


@pytest.fixture
def cohort_summary():
    """The summary of a cohort, as `clinical.Cohort` has it."""
    return SUMMARY


@pytest.fixture(scope="session")
def about(new_network, tokenizer, comparison):
    from clinical import ReadmissionModel

    model = ReadmissionModel(new_network(), tokenizer)
    return gather(model, comparison, name="tiny", summary=SUMMARY)
