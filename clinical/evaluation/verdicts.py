"""What the numbers show, what they speak against, and what they cannot show, as sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from clinical.evaluation.intervals import Evaluation
    from domainbert.statistics.bootstrap import Interval

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
    (model, own), *baselines = evaluations.items()
    if own.auroc.value is None:
        return [Verdict("not shown", f"{model} was not measured: {own.reason}.")]
    said = [_level(own), _slope(own.calibration_slope), ranking(own.auroc)]
    said += [
        _against_baseline(name, own.minus(other)["auroc"])
        for name, other in baselines
        if other.auroc.value is not None
    ]
    return [*filter(None, said), *sample_size(own)]


def _level(own: Evaluation) -> Verdict | None:
    """Whether the mean risk is right: calibration in the large decides."""
    ratio, shift = own.observed_expected, own.calibration_in_the_large
    if ratio.low is None or ratio.high is None or shift.low is None or shift.high is None:
        return None
    observed = own.prevalence.value or 0.0
    numbers = (
        f"{observed:.1%} had the outcome and {observed / (ratio.value or 1):.1%} were predicted "
        f"(observed / expected {ratio})"
    )
    if LEVEL[0] <= ratio.low and ratio.high <= LEVEL[1]:
        return Verdict("shown", f"The risks are right on average, to within 10%: {numbers}.")
    if shift.low > 0:
        return Verdict("against", f"The risks are too low on average: {numbers}.")
    if shift.high < 0:
        return Verdict("against", f"The risks are too high on average: {numbers}.")
    return Verdict(
        "not shown",
        f"It is not shown that the risks are right on average, to within 10%: {numbers}.",
    )


def _slope(slope: Interval) -> Verdict | None:
    """Whether the risks spread as far as they should."""
    if slope.low is None or slope.high is None:
        return None
    number = f"(calibration slope {slope})"
    if slope.high < 1:
        return Verdict("against", f"High risks are too high and low risks too low {number}.")
    if slope.low > 1:
        return Verdict("against", f"The risks are not extreme enough {number}.")
    if SLOPE[0] <= slope.low and slope.high <= SLOPE[1]:
        return Verdict("shown", f"The risks spread about as far as they should {number}.")
    return Verdict(
        "not shown", f"It is not shown that the risks spread as far as they should {number}."
    )


def ranking(area: Interval) -> Verdict:
    """Whether risks rank stays better than chance."""
    if area.value is not None and area.value < 0.5:
        return Verdict("against", f"The model ranks stays worse than chance (AUROC {area}).")
    if area.high is not None and area.high < NEAR_CHANCE:
        text = f"The model ranks stays at best slightly better than chance (AUROC {area})."
        return Verdict("against", text)
    if area.low is None or area.low <= 0.5:
        return Verdict(
            "not shown", f"It is not shown to rank stays better than chance (AUROC {area})."
        )
    return Verdict("shown", f"The model ranks stays better than chance (AUROC {area}).")


def _against_baseline(name: str, difference: Interval) -> Verdict:
    number = f"(AUROC difference {difference} on the same stays)"
    if difference.low is not None and difference.low > 0:
        return Verdict("shown", f"It ranks stays better than {name} {number}.")
    if difference.high is not None and difference.high < 0:
        return Verdict("against", f"It ranks stays worse than {name} {number}.")
    return Verdict("not shown", f"It is not shown to rank stays better than {name} {number}.")


def sample_size(own: Evaluation) -> list[Verdict]:
    """Below `FEW_EVENTS`, what this number of stays can show of the level of the risks.

    The standard error of ln(observed / expected) of a calibrated model is
    sqrt((1 - prevalence) / events) (Riley et al. 2021, Statistics in Medicine 40:4230).
    """
    events, others = own.n_readmitted, own.n_stays - own.n_readmitted
    if min(events, others) >= FEW_EVENTS or not events:
        return []
    share = 1 - events / own.n_stays
    factor = math.exp(1.96 * math.sqrt(share / events))
    needed = math.ceil(share * (1.96 / math.log(LEVEL[1])) ** 2)
    kind = f"{events} readmissions" if events <= others else f"{others} stays without a readmission"
    return [
        Verdict(
            "not shown",
            f"With only {kind}, no small difference can be shown: observed / expected of a model "
            f"that is right would lie between {1 / factor:.2f} and {factor:.2f} by chance alone. "
            f"To know it to within 10% takes about {needed} readmissions (Riley et al. 2021).",
        )
    ]


def benefit_verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Where the net benefit is above, or below, that of alerting everybody or nobody.

    `table` is `clinical.evaluation.decision.benefit_table`.
    """
    better, worse = table[table["gain_low"] > 0], table[table["gain_high"] < 0]
    said = []
    if len(better):
        best = better.loc[better["gain"].idxmax()]
        said.append(
            Verdict(
                "shown",
                f"Its net benefit exceeds that of alerting everybody and nobody at thresholds of "
                f"{_percents(better)}; most at {best['threshold']:.0%}, by {best['gain']:.3f} "
                f"[{best['gain_low']:.3f}, {best['gain_high']:.3f}] per stay.",
            )
        )
    else:
        text = "Its alerts are not shown to be better than alerting everybody or nobody."
        said.append(Verdict("not shown", text))
    if len(worse):
        text = f"At thresholds of {_percents(worse)}, alerting everybody or nobody is better."
        said.append(Verdict("against", text))
    return said


def _percents(table: pd.DataFrame) -> str:
    return ", ".join(f"{level:.0%}" for level in table["threshold"])
