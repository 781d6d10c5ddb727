"""Evaluation of risks: every measure with its 95% interval, by bootstrapping patients."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evaluation.measures import MEASURES, OperatingPoint, Stays, recall_at_precision
from clinical.evaluation.resampling import (
    DEFINED,
    MIN_PATIENTS,
    patient_codes,
    resampled_weights,
)
from clinical.risk.calibration import checked
from domainbert.errors import UserError
from domainbert.intervals import EDGES, Interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pandas as pd
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Evaluation:
    """The measured quality of one set of risks; see `clinical.evaluation.measures.MEASURES`.

    `rp80` is the recall at 80% precision at the best threshold for these very stays
    (`own_point`), as the paper reports it. `recall_at_threshold` and `precision_at_threshold` use
    a `threshold` chosen beforehand, on validation. The calibration slope and intercept come from
    an unpenalised regression of y on the logit of the risk.

    Intervals come from `bootstrap` resamples of whole patients, of which `skipped` contained one
    outcome only. `reason` says why numbers or intervals are missing.
    """

    n_stays: int
    n_patients: int
    n_readmitted: int
    prevalence: Interval
    auroc: Interval
    auprc: Interval
    rp80: Interval
    own_point: OperatingPoint | None
    recall_at_threshold: Interval
    precision_at_threshold: Interval
    threshold: float | None
    brier: Interval
    calibration_slope: Interval
    calibration_intercept: Interval
    ece: Interval
    bootstrap: int
    skipped: int
    seed: int
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in nested dicts, ready for JSON, in the order of the fields."""
        return asdict(self)

    def to_frame(self) -> pd.DataFrame:
        """One row a measure: metric, value, low, high (NaN where there is none)."""
        import pandas as pd

        rows = [
            {"metric": name, **asdict(value)}
            for name, value in vars(self).items()
            if isinstance(value, Interval)
        ]
        return pd.DataFrame(rows).astype({"value": float, "low": float, "high": float})


def evaluate(
    y: ArrayLike,
    probability: ArrayLike,
    *,
    patients: Iterable[object],
    threshold: float | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """Compare risks with outcomes, with 95% intervals from resampling patients.

    A patient drawn twice contributes all of its stays twice. Intervals are percentiles of the
    resamples. The interval of ECE is reflected about its value, because resampling adds to the
    error what chance has added already, and percentiles would lie above the truth. RP80 counts as
    0 in a resample where 80% precision is not reached. A number has no interval when more than
    one resample in ten cannot give it, or with fewer than `MIN_PATIENTS` patients. Where all
    stays have the same outcome, measures that compare the two outcomes are None.

    Args:
        y: shape (n,), 0 or 1.
        probability: shape (n,), in [0, 1].
        patients: n patient ids, compared by `domainbert.tables.ids.id_key`.
        threshold: an alert threshold chosen on validation, in [0, 1]; see `recall_at_precision`.
        bootstrap: number of resamples; 0 gives values without intervals.
        seed: of the resampling. The same patients and seed give the same resamples.

    Raises:
        UserError: values that are missing or out of range, or lengths that differ.
    """
    outcome, risk = checked(y, probability)
    codes = patient_codes(patients, n=len(outcome))
    if threshold is not None and not 0 <= threshold <= 1:
        raise UserError(f"threshold is {threshold}; it must be in [0, 1], or None")
    if bootstrap < 0:
        raise UserError(f"bootstrap is {bootstrap}; it must be 0 (no intervals) or more")
    stays, n_patients = Stays(outcome, risk, threshold=threshold), int(codes.max()) + 1
    enough = n_patients >= MIN_PATIENTS
    drawn = list(_resample(stays, codes, bootstrap if enough else 0, seed))
    columns = np.array(drawn).reshape(-1, len(MEASURES)).T
    intervals = {
        measure.field: _interval(value, column, at_least=DEFINED * bootstrap, name=measure.field)
        for measure, value, column in zip(MEASURES, _measure(stays), columns, strict=True)
    }
    point = recall_at_precision(outcome, risk) if stays.varies else None
    if point is None:
        intervals["rp80"] = Interval(None)
    positive = int(outcome.sum())
    reasons = []
    if not stays.varies:
        reasons.append(f"{positive} of {len(outcome)} stays are readmitted")
    if bootstrap and not enough:
        reasons.append(f"no intervals: {n_patients} patients, at least {MIN_PATIENTS} are needed")
    return Evaluation(
        n_stays=len(outcome),
        n_patients=n_patients,
        n_readmitted=positive,
        own_point=point,
        threshold=None if threshold is None else float(threshold),
        bootstrap=bootstrap,
        skipped=bootstrap - len(drawn) if enough else 0,
        seed=seed,
        reason="; ".join(reasons) or None,
        **intervals,
    )


def _measure(stays: Stays, weights: NDArray[np.float64] | None = None) -> list[float]:
    """All of `MEASURES` for weighted stays; NaN where there is none."""
    weighted = stays.weighted(weights)
    return [
        measure.function(weighted) if weighted.varies or not measure.both else np.nan
        for measure in MEASURES
    ]


def _resample(
    stays: Stays, codes: NDArray[np.intp], bootstrap: int, seed: int
) -> Iterator[list[float]]:
    """The measures of every resample of patients that contains both outcomes."""
    for weights in resampled_weights(codes, bootstrap=bootstrap, seed=seed):
        if not stays.varies or 0 < weights @ stays.y < weights.sum():
            yield _measure(stays, weights)


def _interval(value: float, drawn: NDArray[np.float64], *, at_least: float, name: str) -> Interval:
    if np.isnan(value):
        return Interval(None)
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn) or len(drawn) < at_least:
        return Interval(value)
    low, high = (float(edge) for edge in np.quantile(drawn, EDGES))
    if name == "ece":
        low, high = max(0.0, 2 * value - high), max(value, 2 * value - low)
    return Interval(value, low, high)


def measure_rows(evaluations: Mapping[str, Evaluation]) -> list[list[str]]:
    """Table of measures by models, as cards and the command line show it; a head row first."""
    rows = [
        [measure.name, *(str(getattr(e, measure.field)) for e in evaluations.values())]
        for measure in MEASURES
        if measure.card
    ]
    return [["", *evaluations], *rows]


def verdicts(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """What the numbers say of the first set of risks against the others; often nothing."""
    (model, own), *baselines = evaluations.items()
    area = own.auroc
    if area.value is None:
        return [f"{model} was not measured: {own.reason}."]
    said = []
    if area.value < 0.5:
        said.append(f"{model} ranks worse than chance (AUROC {area}).")
    elif area.low is None or area.low <= 0.5:
        said.append(f"{model} is not shown to rank better than chance (AUROC {area}).")
    for name, other in baselines:
        theirs = other.auroc.value
        if theirs is None:
            continue
        if area.value <= theirs:
            said.append(
                f"{model} is no better than {name} (AUROC {area.value:.3f} and {theirs:.3f})."
            )
        elif area.low is None or area.low <= theirs:
            said.append(
                f"{model} is not shown to be better than {name}: its interval contains the "
                f"AUROC of {name}, {theirs:.3f}."
            )
    slope = own.calibration_slope
    if slope.low is not None and slope.high is not None and not slope.low <= 1 <= slope.high:
        kind = "too extreme" if slope.high < 1 else "not extreme enough"
        said.append(f"The probabilities of {model} are {kind} (calibration slope {slope}).")
    return said
