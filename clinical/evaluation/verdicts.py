"""Verdicts: what the numbers show, what they speak against, and what they cannot show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from clinical.evaluation.measures import GROUP_MEASURES

if TYPE_CHECKING:
    import pandas as pd

    from clinical.evaluation.intervals import Evaluation
    from clinical.risk.manifest import RiskMeasures
    from domainbert.statistics.bootstrap import Interval

Row = dict[Any, Any]  # of a table of groups
Status = Literal["shown", "against", "not shown"]

LEVEL = (0.9, 1.1)
"""An interval of observed / expected inside these shows that the level of the risks is right."""

SLOPE = (0.8, 1.2)
"""Likewise for the calibration slope."""

NEAR_CHANCE = 0.6
"""A model whose AUROC lies below this with its interval is hardly better than chance."""

FEW_EVENTS = 100
"""With fewer readmissions (or others), the report says what the sample can show."""


@dataclass(frozen=True)
class Verdict:
    """A sentence about one question, written from a measurement.

    `status` is "shown" where the interval excludes the unfavourable values, "against" where it
    excludes the favourable ones, and "not shown" where it contains both: what was not found to be
    wrong is not thereby right.
    """

    status: Status
    text: str


def verdicts(evaluations: Mapping[str, Evaluation]) -> list[Verdict]:
    """The first set of risks by level, spread and ranking, and against the others, in this order.

    The others are compared by paired differences, so all must be of the same stays.
    """
    (name, evaluation), *baselines = evaluations.items()
    if evaluation.auroc.value is None:
        return [
            Verdict(
                "not shown", f"{name} was not measured: {evaluation.reason}."
            )
        ]
    judged = [
        level(evaluation),
        slope(evaluation.calibration_slope),
        ranking(evaluation.auroc),
    ]
    for baseline, other in baselines:
        if other.auroc.value is not None:
            difference = evaluation.minus(other)["auroc"]
            judged.append(against_baseline(baseline, difference))
    return [*filter(None, [*judged, sample_size(evaluation)])]


def level(own: Evaluation) -> Verdict | None:
    """Whether the risks are right on average; None without intervals."""
    ratio = own.observed_expected
    shift = own.calibration_in_the_large
    if ratio.low is None or shift.low is None:
        return None
    observed = 100 * (own.prevalence.value or 0)
    predicted = observed / (ratio.value or 1)
    numbers = (
        f"{observed:.1f}% had the outcome and {predicted:.1f}% were predicted "
        f"(observed / expected {ratio})."
    )
    if _within(ratio, LEVEL):
        return Verdict(
            "shown",
            f"The risks are right on average, to within 10%: {numbers}",
        )
    if _above(shift, 0):
        return Verdict(
            "against", f"The risks are too low on average: {numbers}"
        )
    if _below(shift, 0):
        return Verdict(
            "against", f"The risks are too high on average: {numbers}"
        )
    doubt = (
        "It is not shown that the risks are right on average, to within 10%"
    )
    return Verdict("not shown", f"{doubt}: {numbers}")


def slope(interval: Interval) -> Verdict | None:
    """Whether the risks spread as far as they should; None without an interval."""
    if interval.low is None:
        return None
    number = f"(calibration slope {interval})."
    if _below(interval, 1):
        return Verdict(
            "against",
            f"High risks are too high and low risks too low {number}",
        )
    if _above(interval, 1):
        return Verdict("against", f"The risks are not extreme enough {number}")
    if _within(interval, SLOPE):
        return Verdict(
            "shown",
            f"The risks spread about as far as they should {number}",
        )
    doubt = "It is not shown that the risks spread as far as they should"
    return Verdict("not shown", f"{doubt} {number}")


def ranking(auroc: Interval) -> Verdict:
    """Whether stays are ranked better than by chance."""
    number = f"(AUROC {auroc})."
    if auroc.value is not None and auroc.value < 0.5:
        return Verdict(
            "against", f"The model ranks stays worse than chance {number}"
        )
    if _below(auroc, NEAR_CHANCE):
        concern = "The model ranks stays at best slightly better than chance"
        return Verdict("against", f"{concern} {number}")
    if _above(auroc, 0.5):
        return Verdict(
            "shown", f"The model ranks stays better than chance {number}"
        )
    return Verdict(
        "not shown",
        f"It is not shown to rank stays better than chance {number}",
    )


def against_baseline(name: str, difference: Interval) -> Verdict:
    """Whether stays are ranked better than by a baseline, by a paired difference of AUROCs."""
    number = f"{name} (AUROC difference {difference} on the same stays)."
    if _above(difference, 0):
        return Verdict("shown", f"It ranks stays better than {number}")
    if _below(difference, 0):
        return Verdict("against", f"It ranks stays worse than {number}")
    return Verdict(
        "not shown", f"It is not shown to rank stays better than {number}"
    )


def sample_size(own: Evaluation) -> Verdict | None:
    """What a sample with few events can show; None for a large one, or one without events.

    The standard error of ln(observed / expected) of a calibrated model is
    sqrt((1 - prevalence) / events) (Riley et al. 2021, Statistics in Medicine 40:4230).
    """
    events = own.n_readmitted
    non_events = own.n_stays - events
    if not events or min(events, non_events) >= FEW_EVENTS:
        return None
    share = non_events / own.n_stays
    factor = math.exp(1.96 * math.sqrt(share / events))
    needed = math.ceil(share * (1.96 / math.log(LEVEL[1])) ** 2)
    rarer = f"{events} stays with the outcome"
    if non_events < events:
        rarer = f"{non_events} stays without the outcome"
    return Verdict(
        "not shown",
        f"With only {rarer}, no small difference can be shown: observed / expected of a model that "
        f"is right would lie between {1 / factor:.2f} and {factor:.2f} by chance alone. To know it "
        f"to within 10% takes about {needed} of them (Riley et al. 2021).",
    )


def monitoring_verdicts(
    now: Evaluation | None,
    validated: RiskMeasures | None,
) -> list[Verdict]:
    """A model in use, against the scores of its test side; None without outcomes.

    Ranking comes first: calibrating again helps only a model that ranks.
    """
    if now is None:
        text = "No outcomes were given: ranking and calibration were not measured."
        return [Verdict("not shown", text)]
    if now.auroc.value is None:
        text = f"Ranking and calibration were not measured: {now.reason}."
        return [Verdict("not shown", text)]
    ranked = ranking(now.auroc)
    if ranked.status != "shown":
        advice = "Find out why before anything else: calibration cannot mend ranking."
        return [Verdict(ranked.status, f"{ranked.text} {advice}")]
    judged = []
    if validated:
        before = validated.measures["auroc"].value or 0
        if _below(now.auroc, before):
            text = f"AUROC is {now.auroc}, below the {before:.3f} of the test side."
            judged.append(Verdict("against", text))
    calibration = [*filter(None, [level(now), slope(now.calibration_slope)])]
    wrong = [verdict for verdict in calibration if verdict.status == "against"]
    if wrong:
        advice = "Calibrate it again on recent stays: clinical recalibrate."
        judged += [*wrong, Verdict("against", advice)]
    return [*judged, *filter(None, [sample_size(now)])]


def benefit_verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Where the net benefit is above, or below, that of alerting everybody or nobody.

    `table` is `clinical.evaluation.decision.benefit_table`.
    """
    better = table[table["gain_low"] > 0]
    worse = table[table["gain_high"] < 0]
    judged = []
    if better.empty:
        text = "Its alerts are not shown to be better than alerting everybody or nobody."
        judged.append(Verdict("not shown", text))
    else:
        best = better.sort_values("gain", kind="stable").iloc[-1]
        text = (
            "Its net benefit exceeds that of alerting everybody and nobody at thresholds of "
            f"{_percents(better['threshold'])}; most at {best.threshold:.0%}, by "
            f"{best.gain:.3f} [{best.gain_low:.3f}, {best.gain_high:.3f}] per stay."
        )
        judged.append(Verdict("shown", text))
    if len(worse):
        thresholds = _percents(worse["threshold"])
        text = f"At thresholds of {thresholds}, alerting everybody or nobody is better."
        judged.append(Verdict("against", text))
    return judged


def group_verdicts(groups: pd.DataFrame) -> list[Verdict]:
    """What the table of `by_group` says: how many differences were tested, which remain, the rest.

    A difference is named if its p-value, corrected for all of the table, is below 0.05.
    """
    names = [measure.field for measure in GROUP_MEASURES]
    low = groups[[f"{name}_difference_low" for name in names]].to_numpy()
    high = groups[[f"{name}_difference_high" for name in names]].to_numpy()
    n_tested = int((low == low).sum())  # NaN where a difference was not tested
    n_chance = int(((low > 0) | (high < 0)).sum())
    rows = groups.to_dict("records")
    judged = [
        Verdict(
            "not shown", "No difference between subgroups could be tested."
        )
    ]
    if n_tested:
        remaining = _differences(rows)
        judged = [_tested(n_tested, n_chance, len(remaining)), *remaining]
    untested = [
        f"{row['column']} {_label(row)} ({row['reason']})"
        for row in rows
        if row["reason"]
    ]
    if untested:
        judged.append(
            Verdict("not shown", f"Not tested: {'; '.join(untested)}.")
        )
    return judged


def _differences(rows: Sequence[Row]) -> list[Verdict]:
    """The differences between groups that remain after correction."""
    judged = []
    for measure in GROUP_MEASURES:
        name = f"{measure.field}_difference"
        for row in rows:
            if row[f"{measure.field}_p_adjusted"] < 0.05:
                interval = (
                    f"[{row[f'{name}_low']:+.3f}, {row[f'{name}_high']:+.3f}]"
                )
                text = (
                    f"{measure.name} differs for {row['column']} {_label(row)}: "
                    f"{row[measure.field]:.3f}, that is {row[name]:+.3f} {interval} against all "
                    "other stays."
                )
                judged.append(Verdict("against", text))
    return judged


def _tested(n_tested: int, n_chance: int, n_remaining: int) -> Verdict:
    """The verdict on groups if no difference remains after correction."""
    excluding = "interval excludes" if n_chance == 1 else "intervals exclude"
    remain = "remains" if n_remaining == 1 else "remain"
    return Verdict(
        "not shown",
        f"{n_tested} differences between a subgroup and the other stays were tested: {n_chance} "
        f"{excluding} 0 (about {0.05 * n_tested:.0f} would by chance alone), and "
        f"{n_remaining or 'none'} of these {remain} after correction for multiple comparisons "
        "(Holm). That no difference remains does not show that there is none.",
    )


def _label(row: Row) -> str:
    return str(row["group"]).replace("\n", " ")


def _percents(thresholds: pd.Series) -> str:
    return ", ".join(f"{threshold:.0%}" for threshold in thresholds)


def _below(interval: Interval, limit: float) -> bool:
    return interval.high is not None and interval.high < limit


def _above(interval: Interval, limit: float) -> bool:
    return interval.low is not None and interval.low > limit


def _within(interval: Interval, limits: tuple[float, float]) -> bool:
    if interval.low is None or interval.high is None:
        return False
    return limits[0] <= interval.low and interval.high <= limits[1]
