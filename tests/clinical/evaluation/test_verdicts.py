"""Verdicts: what an interval shows, what it speaks against, and what it leaves open."""

import numpy as np
import pandas as pd
import pytest

from clinical.evaluation.intervals import evaluate
from clinical.evaluation.verdicts import (
    benefit_verdicts,
    judge,
    monitoring_verdicts,
    verdicts,
)
from clinical.risk.manifest import RiskMeasures
from domainbert.statistics.bootstrap import Interval


def hospital(n, *, seed=0):
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-rng.normal(-1, 1.2, n)))
    return (rng.random(n) < p).astype(int), p


def said(y, **risks):
    evaluations = {
        name: evaluate(y, risk, patients=np.arange(len(y)), bootstrap=200)
        for name, risk in risks.items()
    }
    return verdicts(evaluations)


def odds(p, *, shift=0.0, slope=1.0):
    return 1 / (1 + np.exp(-(slope * np.log(p / (1 - p)) + shift)))


def test_the_level_decides_first_and_a_wrong_one_is_no_strength():
    y, p = hospital(3000)
    first = said(y, model=odds(p, shift=-0.6))[0]
    assert first.status == "against"
    assert first.text.startswith("The risks are too low on average: ")
    assert "observed / expected 1." in first.text
    first = said(y, model=odds(p, shift=0.6))[0]
    assert first.text.startswith("The risks are too high on average: ")


def test_what_is_not_found_to_be_wrong_is_not_shown_to_be_right():
    y, p = hospital(120)
    level, slope, *_ = said(y, model=p)
    assert (level.status, slope.status) == ("not shown", "not shown")
    assert level.text.startswith(
        "It is not shown that the risks are right on average"
    )
    y, p = hospital(20_000)
    level, slope, ranking = said(y, model=p)
    assert [one.status for one in (level, slope, ranking)] == ["shown"] * 3


def test_the_slope_and_the_ranking():
    y, p = hospital(2000)
    texts = [
        one.text
        for one in said(y, model=odds(p, slope=3.0))
        if one.status == "against"
    ]
    assert any(
        "High risks are too high and low risks too low (calibration" in t
        for t in texts
    )
    assert any("worse than chance" in one.text for one in said(y, model=1 - p))
    noise = np.random.default_rng(1).permutation(p)
    assert all(
        one.status != "shown"
        for one in said(y, model=noise)
        if "rank" in one.text
    )


def test_ranking_near_chance_is_a_concern_however_sure():
    y, p = hospital(8000)
    noisy = np.where(np.random.default_rng(0).random(8000) < 0.8, p[::-1], p)
    (one,) = [one for one in said(y, model=noisy) if "AUROC" in one.text]
    assert one.status == "against"
    assert one.text.startswith(
        "The model ranks stays at best slightly better than chance"
    )


def test_baselines_are_compared_by_paired_differences():
    y, p = hospital(2000)
    noise = np.random.default_rng(1).permutation(p)
    last = said(y, model=p, TFIDF=noise)[-1]
    assert (last.status, "than TFIDF (AUROC difference 0." in last.text) == (
        "shown",
        True,
    )
    assert said(y, model=noise, TFIDF=p)[-1].status == "against"
    same = said(y, model=p, TFIDF=p)[-1]
    assert same.status == "not shown"
    assert "difference 0.000 [0.000, 0.000]" in same.text


def test_few_events_say_what_the_sample_can_show():
    y, p = hospital(90)
    last = said(y, model=p)[-1]
    assert last.status == "not shown"
    assert f"With only {y.sum()} stays with the outcome" in last.text
    factor = np.exp(1.96 * np.sqrt((1 - y.mean()) / y.sum()))
    assert f"between {1 / factor:.2f} and {factor:.2f} by chance" in last.text
    assert "(Riley et al. 2021)" in last.text
    y, p = hospital(3000)
    assert not any("With only" in one.text for one in said(y, model=p))


def test_one_outcome_is_not_measured():
    (only,) = said(np.zeros(50), model=np.full(50, 0.2))
    assert (
        only.text == "model was not measured: 0 of 50 stays have the outcome."
    )


@pytest.mark.parametrize(
    ("low", "high", "statuses"),
    [
        (0.01, 0.02, ["shown"]),
        (-0.01, 0.02, ["not shown"]),
        (-0.2, -0.1, ["not shown", "against"]),
    ],
)
def test_net_benefit(low, high, statuses):
    row = {
        "threshold": 0.2,
        "gain": (low + high) / 2,
        "gain_low": low,
        "gain_high": high,
    }
    assert [
        one.status for one in benefit_verdicts(pd.DataFrame([row]))
    ] == statuses


@pytest.mark.parametrize(
    ("question", "interval", "status", "text"),
    [
        ("slope", (0.7, 0.5, 0.9), "against", "High risks are too high"),
        ("slope", (1.5, 1.2, 1.9), "against", "not extreme enough"),
        ("slope", (1.0, 0.9, 1.1), "shown", "about as far as they should"),
        (
            "slope",
            (1.0, 0.6, 1.4),
            "not shown",
            "not shown that the risks spread",
        ),
        ("worse", (0.4, 0.3, 0.6), "against", "worse than chance"),
        (
            "ranking",
            (0.55, 0.51, 0.59),
            "against",
            "slightly better than chance",
        ),
        (
            "ranking",
            (0.7, 0.6, 0.8),
            "shown",
            "better than chance (AUROC 0.700 [0.600,",
        ),
        (
            "ranking",
            (0.7, None, None),
            "not shown",
            "not shown to rank stays better",
        ),
    ],
)
def test_an_interval_decides_the_sentence(question, interval, status, text):
    (verdict,) = judge(question, Interval(*interval))
    assert verdict.status == status
    assert text in verdict.text
    (unknown,) = judge("baseline", Interval(None), name="it")
    assert unknown.status == "not shown"


def test_a_model_in_use_is_calibrated_again_only_where_it_ranks():
    y, p = hospital(3000)
    high = evaluate(
        y, odds(p, shift=0.8), patients=np.arange(3000), bootstrap=200
    )
    before = RiskMeasures(
        n_stays=3000,
        n_patients=3000,
        n_readmitted=500,
        measures={"auroc": Interval(0.99)},
    )
    texts = [verdict.text for verdict in monitoring_verdicts(high, before)]
    assert "below the 0.990 of the test side" in texts[0]
    assert texts[1].startswith("The risks are too high on average")
    assert (
        texts[2] == "Calibrate it again on recent stays: clinical recalibrate."
    )
    backwards = evaluate(y, 1 - p, patients=np.arange(3000), bootstrap=200)
    (only,) = monitoring_verdicts(backwards, before)
    assert only.text.endswith("calibration cannot mend ranking.")
    (silent,) = monitoring_verdicts(None, before)
    assert silent.text.startswith("No outcomes were given")
