"""Verdicts: what the numbers show, what they speak against, and what they cannot show."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from clinical.evaluation.intervals import Evaluation
from clinical.evaluation.measures import GROUP_MEASURES
from clinical.risk.manifest import RiskMeasures
from domainbert.files import JsonObject, read_toml
from domainbert.statistics.bootstrap import Interval

Row = dict[Hashable, Any]  # of a table of groups
Status = Literal["shown", "against", "not shown"]

FEW_EVENTS = 100
"""With fewer readmissions (or others), the report says what the sample can show."""

_QUESTIONS: dict[str, list[JsonObject]] = read_toml(__file__, "verdicts.toml")
_UNKNOWN = Interval(None)


@dataclass(frozen=True)
class Verdict:
    """A sentence about one question, written from a measurement.

    `status` is "shown" where the interval excludes the unfavourable values, "against" where it
    excludes the favourable ones, and "not shown" where it contains both: what was not found to be
    wrong is not thereby right.
    """

    status: Status
    text: str


def judge(
    question: str, interval: Interval = _UNKNOWN, **facts: object
) -> list[Verdict]:
    """The verdict on a question of `verdicts.toml`; none if no entry holds for the interval."""
    for entry in _QUESTIONS[question]:
        above = entry.get("above", -math.inf)
        below = entry.get("below", math.inf)
        holds = math.isinf(above) and math.isinf(below)
        if interval.low is not None and interval.high is not None:
            holds = interval.low > above and interval.high < below
        if holds:
            text = entry["text"].format(interval=interval, **facts)
            return [Verdict(entry["status"], text)]
    return []


def verdicts(evaluations: Mapping[str, Evaluation]) -> list[Verdict]:
    """Verdicts on the calibration and ranking of the first set of risks, then on the others.

    The first is compared with each of the others by paired differences, so all must be risks of
    the same stays.
    """
    (name, first), *baselines = evaluations.items()
    if first.auroc.value is None:
        return judge("unmeasured", name=name, reason=first.reason)
    judged = [*calibration(first), *ranking(first.auroc)]
    for baseline, other in baselines:
        if other.auroc.value is not None:
            difference = first.minus(other)["auroc"]
            judged += judge("baseline", difference, name=baseline)
    return [*judged, *sample_size(first)]


def calibration(evaluation: Evaluation) -> list[Verdict]:
    """Whether the risks are right on average, and whether they spread as far as they should.

    Without intervals, nothing is said.
    """
    judged: list[Verdict] = []
    ratio = evaluation.observed_expected
    shift = evaluation.calibration_in_the_large
    if ratio.low is not None and shift.low is not None:
        observed = 100 * (evaluation.prevalence.value or 0)
        predicted = observed / (ratio.value or 1)
        numbers = (
            f"{observed:.1f}% had the outcome and {predicted:.1f}% were predicted "
            f"(observed / expected {ratio})."
        )
        judged = judge("level", ratio, numbers=numbers)
        judged = judged or judge("shift", shift, numbers=numbers)
    if evaluation.calibration_slope.low is not None:
        judged += judge("slope", evaluation.calibration_slope)
    return judged


def ranking(auroc: Interval) -> list[Verdict]:
    """Whether stays are ranked better than by chance."""
    if auroc.value is not None and auroc.value < 0.5:
        return judge("worse", auroc)
    return judge("ranking", auroc)


def sample_size(evaluation: Evaluation) -> list[Verdict]:
    """What a sample with few events can show; nothing for a large one, or one without events.

    The standard error of ln(observed / expected) of a calibrated model is
    sqrt((1 - prevalence) / events) (Riley et al. 2021, Statistics in Medicine 40:4230).
    """
    events = evaluation.n_readmitted
    non_events = evaluation.n_stays - events
    if not events or min(events, non_events) >= FEW_EVENTS:
        return []
    share = non_events / evaluation.n_stays
    factor = math.exp(1.96 * math.sqrt(share / events))
    rarer = f"{events} stays with the outcome"
    if non_events < events:
        rarer = f"{non_events} stays without the outcome"
    return judge(
        "sample_size",
        rarer=rarer,
        low=1 / factor,
        high=factor,
        needed=math.ceil(share * (1.96 / math.log(1.1)) ** 2),
    )


def monitoring_verdicts(
    now: Evaluation | None,
    validated: RiskMeasures | None,
) -> list[Verdict]:
    """How a model in use compares with its test side; `now` is None without outcomes.

    Ranking comes first: calibrating again helps only a model that ranks.
    """
    if now is None:
        return judge("unlabelled")
    if now.auroc.value is None:
        return judge("one_outcome", reason=now.reason)
    (ranked,) = ranking(now.auroc)
    if ranked.status != "shown":
        advice = "Find out why before anything else: calibration cannot mend ranking."
        return [Verdict(ranked.status, f"{ranked.text} {advice}")]
    judged: list[Verdict] = []
    if validated:
        before = validated.measures["auroc"].value or 0
        if now.auroc.high is not None and now.auroc.high < before:
            judged = judge("lower", now.auroc, before=before)
    wrong = [
        verdict for verdict in calibration(now) if verdict.status == "against"
    ]
    if wrong:
        judged += [*wrong, *judge("recalibrate")]
    return [*judged, *sample_size(now)]


def benefit_verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Where the net benefit is above, or below, that of alerting everybody or nobody.

    `table` is `clinical.evaluation.decision.benefit_table`.
    """
    better = table[table["gain_low"] > 0]
    worse = table[table["gain_high"] < 0]
    judged = judge("no_benefit")
    if len(better):
        best = better.sort_values("gain", kind="stable").iloc[-1]
        thresholds = _percents(better["threshold"])
        judged = judge("benefit", thresholds=thresholds, best=best)
    if len(worse):
        judged += judge("harm", thresholds=_percents(worse["threshold"]))
    return judged


def group_verdicts(groups: pd.DataFrame) -> list[Verdict]:
    """What the table of `by_group` says: how many differences were tested, which remain, the rest.

    A difference is named if its p-value, corrected for all of the table, is below 0.05.
    """
    low = groups.filter(like="_difference_low").to_numpy()
    high = groups.filter(like="_difference_high").to_numpy()
    n_tested = int((low == low).sum())  # NaN where a difference was not tested
    n_excluding = int(((low > 0) | (high < 0)).sum())
    rows = groups.to_dict("records")
    judged = judge("no_groups")
    if n_tested:
        remaining = _differences(rows)
        n_remaining = len(remaining)
        tested = judge(
            "groups",
            n_tested=n_tested,
            n_excluding=n_excluding,
            excluding="interval excludes"
            if n_excluding == 1
            else "intervals exclude",
            expected=0.05 * n_tested,
            n_remaining=n_remaining or "none",
            remain="remains" if n_remaining == 1 else "remain",
        )
        judged = tested + remaining
    untested = [
        f"{row['column']} {_label(row)} ({row['reason']})"
        for row in rows
        if row["reason"]
    ]
    if untested:
        judged += judge("untested", names="; ".join(untested))
    return judged


def _differences(rows: Sequence[Row]) -> list[Verdict]:
    """The differences between groups that remain after correction."""
    judged = []
    for measure in GROUP_MEASURES:
        name = f"{measure.field}_difference"
        for row in rows:
            if row[f"{measure.field}_p_adjusted"] < 0.05:
                judged += judge(
                    "group",
                    measure=measure.name,
                    row=row,
                    label=_label(row),
                    value=row[measure.field],
                    difference=row[name],
                    low=row[f"{name}_low"],
                    high=row[f"{name}_high"],
                )
    return judged


def _label(row: Row) -> str:
    return str(row["group"]).replace("\n", " ")


def _percents(thresholds: pd.Series) -> str:
    return ", ".join(f"{threshold:.0%}" for threshold in thresholds)
