"""The curve after discharge: its estimator, the remaining risk, and both against known truths."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from lifelines import AalenJohansenFitter

from clinical.cohort.build import step
from clinical.evaluation.after_discharge import (
    DIED,
    READMITTED,
    cumulative_incidence,
    first_events,
    fit_after_discharge,
    record_after_discharge,
    remaining_risks,
)
from clinical.risk.reading import RiskGroup, remaining_risk
from clinical.stays.choice import NoteChoice
from domainbert.errors import UserError

GROUPS = (
    RiskGroup(above=0.0, points=[[7, 0.5, 0.2], [30, 1.0, 0.4]]),
    RiskGroup(above=0.5, points=[[7, 0.2, 0.0], [30, 1.0, 0.0]]),
)


def test_the_estimator_gives_the_values_of_a_worked_example():
    # Of six stays: 1/6 comes back on day 1. One of the five left dies on day 2, when another one's
    # follow-up ends: 5/6 × 1/5. One of the three left comes back on day 3: 4/6 × 1/3.
    days = [1, 2, 2, 3, 5, 5]
    event = [1, 2, 0, 1, 0, 0]
    readmitted, died = cumulative_incidence(days, event, [0.5, 1, 2, 3, 30])
    assert readmitted == pytest.approx([0, 1 / 6, 1 / 6, 7 / 18, 7 / 18])
    assert died == pytest.approx([0, 0, 1 / 6, 1 / 6, 1 / 6])


def test_the_estimator_agrees_with_lifelines():
    random = np.random.default_rng(0)
    # Without ties, which lifelines moves apart at random.
    days = random.exponential(12, 400)
    event = random.integers(0, 3, 400)
    at = [0.1, 3, 7.5, 30, days.max()]
    incidence = cumulative_incidence(days, event, at)
    for row, name in zip(incidence, (READMITTED, DIED), strict=True):
        reference = AalenJohansenFitter(calculate_variance=False)
        reference.fit(days, event, event_of_interest=name)
        expected = reference.predict(at)
        assert row == pytest.approx(expected.to_numpy(), abs=1e-12)


def test_the_estimator_agrees_with_the_flow_of_a_cohort():
    random = np.random.default_rng(0)
    days = np.ceil(random.exponential(12, 400))  # with ties
    event = random.integers(0, 3, 400)
    end = cumulative_incidence(days, event, [days.max()])[:, 0]
    followed = pd.DataFrame({"days": days, "event": event})
    with duckdb.connect() as con:
        con.register("followed", followed)
        con.execute(step("incidence"))
        (row,) = con.table("incidence").fetchall()
    assert end == pytest.approx(row, abs=1e-12)


def test_what_comes_first_within_the_horizon_counts():
    stays = pd.DataFrame(
        {
            "readmitted": [1, 0, 0, 0],
            "days_to_readmission": [4.0, 45.0, None, None],
            "days_to_death": [9.0, None, 2.5, 30.0],
        }
    )
    days, event = first_events(stays, 30)
    assert days.tolist() == [4, 30, 2.5, 30]
    assert event.tolist() == [1, 0, 2, 0]
    days, event = first_events(stays.drop(columns="days_to_death"), 30)
    assert event.tolist() == [1, 0, 0, 0]
    days, event = first_events(stays.assign(days_to_readmission=None), 30)
    assert not event.any()


@pytest.mark.parametrize(
    ("risk", "day", "expected"),
    [
        (0.3, 0, 0.3),
        (0.3, 7, 0.3 * 0.5 / (1 - 0.3 * 0.5 - 0.7 * 0.2)),
        (0.3, 3.5, 0.3 * 0.75 / (1 - 0.3 * 0.25 - 0.7 * 0.1)),
        (0.5, 7, 0.5 * 0.8 / (1 - 0.5 * 0.2)),
        (0.3, 30, 0.0),
        (0.0, 7, 0.0),
        (1.0, 7, 1.0),
        (1.0, 30, 0.0),
    ],
)
def test_the_remaining_risk_is_that_of_the_formula(risk, day, expected):
    assert remaining_risk(GROUPS, risk, day) == pytest.approx(expected)


def test_other_days_and_wrong_shares_are_refused():
    for day in (-1, 30.5, float("nan")):
        with pytest.raises(UserError, match=r"days since discharge, 0 to 30$"):
            remaining_risk(GROUPS, 0.3, day)
    for points in ([[7, 0.2, 1.4]], [[7, 0.2]], []):
        with pytest.raises(UserError, match="points"):
            RiskGroup(above=0.0, points=points)


def drawn(n, *, deaths, seed=0):
    """Stays whose readmissions come evenly from day 1 to 29, and deaths from day 0 to 30."""
    random = np.random.default_rng(seed)
    risk = random.beta(2, 6, n)
    is_back = random.random(n) < risk
    is_dead = ~is_back & (random.random(n) < deaths)
    return pd.DataFrame(
        {
            "patient_id": np.arange(n),
            "readmitted": is_back.astype(int),
            "probability": risk,
            "days_to_readmission": np.where(
                is_back, random.uniform(1, 29, n), np.nan
            ),
            "days_to_death": np.where(
                is_dead, random.uniform(0, 30, n), np.nan
            ),
        }
    )


def test_a_curve_gives_the_true_remaining_risk_with_many_deaths():
    stays = drawn(20_000, deaths=0.4)
    risk = stays["probability"].to_numpy()
    groups = fit_after_discharge(stays, 30.0)
    assert [p[0] for p in groups[0].points] == [1, 3, 7, 14, 21, 30]
    assert len(groups) == 3

    def remaining(groups, day):
        return np.array([remaining_risk(groups, p, day) for p in risk[:500]])

    for day in (1, 3, 7, 14, 21):
        back = (day - 1) / 28
        dead = 0.4 * day / 30
        truth = risk * (1 - back) / (1 - risk * back - (1 - risk) * dead)
        error = remaining(groups, day) - truth[:500]
        assert np.abs(error).max() < 0.03
    # Who ignores deaths has too many at risk: late in the month this is clearly too low.
    ignored = fit_after_discharge(stays.drop(columns="days_to_death"), 30.0)
    lacking = remaining_risk(groups, 0.3, 21) - remaining_risk(
        ignored, 0.3, 21
    )
    assert lacking > 0.02


def test_few_readmissions_make_one_group_or_none():
    stays = drawn(120, deaths=0.0)
    (group,) = fit_after_discharge(stays, 30.0)
    assert group.above == 0
    assert fit_after_discharge(stays.head(8), 30.0) == []


def test_the_table_of_a_report_compares_prediction_and_outcome():
    stays = drawn(3000, deaths=0.1)
    groups = fit_after_discharge(stays, 30.0)
    new = drawn(3000, deaths=0.1, seed=1)
    table = remaining_risks(groups, new, bootstrap=100)
    assert len(table) == 3 * 6
    first = table[table["day"] == 0]
    assert first["n"].sum() == 3000
    inside = table["predicted"].between(
        table["observed_low"] - 0.02, table["observed_high"] + 0.02
    )
    assert inside.all()
    late = table[
        (table["day"] == 21) & (table["risk"] == table["risk"].iloc[-1])
    ]
    is_third = new["probability"] >= groups[2].above
    is_free = is_third & ~(new["days_to_readmission"] <= 21)
    is_free &= ~(new["days_to_death"] <= 21)
    assert late["n"].item() == is_free.sum()
    assert late["observed"].item() == pytest.approx(
        new.loc[is_free, "readmitted"].mean()
    )
    # Groups of fewer than 50 are not shown.
    assert remaining_risks(groups, new.head(200), bootstrap=0)["n"].min() >= 50
    assert remaining_risks(groups, new.head(60), bootstrap=0).empty
    assert remaining_risks(
        groups, new.drop(columns="days_to_readmission"), bootstrap=0
    ).empty


def test_a_model_learns_it_only_if_calibrated_and_for_readmissions(model):
    stays = drawn(200, deaths=0.0)
    risk = stays["probability"].to_numpy()
    outcomes = {
        "readmitted within 14 days of discharge": 14.0,
        "died within 30 days of discharge": None,
        "stayed longer than 7 days": None,
    }
    for event, horizon in outcomes.items():
        choice = NoteChoice(
            notes="discharge",
            summaries=["DISCHARGE SUMMARY"],
            transfer_gap_hours=0.0,
            definition="readmission 1",
            definition_sha256="0" * 64,
            event=event,
        )
        for calibration in (None, (1.0, 0.0)):
            model.settings = model.settings.replaced(
                calibration=calibration, notes=choice
            )
            record_after_discharge(model, stays, risk)
            groups = model.settings.after_discharge
            assert bool(groups) == bool(horizon and calibration)
            if groups:
                days = [point[0] for point in groups[0].points]
                assert days == [1, 3, 7, horizon]
            assert bool(model.manifest.calibration.remaining) == bool(groups)
    model.settings = model.settings.replaced(
        calibration=(1.0, 0.0), notes=None
    )
    record_after_discharge(model, stays, risk)
    assert model.settings.after_discharge[0].horizon == 30
