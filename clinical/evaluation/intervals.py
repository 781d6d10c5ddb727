"""Evaluation of risks: every measure with its 95% interval, by bootstrapping patients."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evaluation.measures import MEASURES, OperatingPoint, Stays, recall_at_precision
from clinical.risk.calibration import checked
from domainbert.errors import UserError
from domainbert.tables.ids import id_key, is_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

MIN_PATIENTS = 20
"""With fewer patients there are no intervals: resampling them says little about others."""

_DEFINED = 0.9  # smallest share of resamples that must give a number for it to have an interval


@dataclass(frozen=True)
class Interval:
    """A number and its 95% interval; None where the data cannot give it."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        """As tables show it: `0.791 [0.697, 0.871]`."""
        return spell(asdict(self))


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

        values = {field.name: getattr(self, field.name) for field in fields(self)}
        rows = [
            {"metric": name, **asdict(value)}
            for name, value in values.items()
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
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Measure risks against outcomes, with 95% intervals by resampling patients.

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
        threshold: an alert threshold chosen on validation, such as
            `recall_at_precision(y_val, probability_val).threshold`.
        bootstrap: number of resamples; 0 gives values without intervals.
        seed: of the resampling. The same patients and seed give the same resamples.
        progress: called as `progress(done, bootstrap)` after every resample.

    Raises:
        UserError: lengths differ, y is not 0/1, a probability is missing or outside [0, 1], a
            patient id is missing, or `threshold` or `bootstrap` is out of range.
    """
    outcome, risk = checked(y, probability)
    codes = _patient_codes(patients, n=len(outcome))
    if threshold is not None and not 0 <= threshold <= 1:
        raise UserError(f"threshold is {threshold}; it must lie in [0, 1], or be None")
    if bootstrap < 0:
        raise UserError(f"bootstrap is {bootstrap}; it must be 0 (no intervals) or more")
    stays, n_patients = Stays(outcome, risk, threshold=threshold), int(codes.max()) + 1
    enough = n_patients >= MIN_PATIENTS
    drawn = list(_resample(stays, codes, bootstrap if enough else 0, seed, progress))
    intervals = _intervals(_measure(stays), np.array(drawn), bootstrap if enough else 0)
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


def _patient_codes(patients: Iterable[object], *, n: int) -> NDArray[np.intp]:
    ids = list(patients)
    if len(ids) != n:
        raise UserError(f"patients has {len(ids)} ids and y has {n} values; pass one for each")
    if missing := sum(map(is_missing, ids)):
        raise UserError(f"patients has {missing} missing ids; intervals by patient need them all")
    return np.unique(np.array([id_key(i) or "" for i in ids], dtype=str), return_inverse=True)[1]


def _resample(
    stays: Stays,
    codes: NDArray[np.intp],
    bootstrap: int,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> Iterator[list[float]]:
    """The measures of every resample of patients that contains both outcomes."""
    random, patients = np.random.default_rng(seed), int(codes.max()) + 1
    outcome = stays.y[np.argsort(stays.order)]
    for done in range(1, bootstrap + 1):
        drawn = np.bincount(random.integers(patients, size=patients), minlength=patients)
        weights = drawn[codes].astype(np.float64)
        if not stays.varies or 0 < weights @ outcome < weights.sum():
            yield _measure(stays, weights)
        if progress:
            progress(done, bootstrap)


def _intervals(
    values: list[float], replicates: NDArray[np.float64], bootstrap: int
) -> dict[str, Interval]:
    columns = replicates.reshape(-1, len(MEASURES)).T
    return {
        measure.field: _interval(value, drawn, bootstrap=bootstrap, reflect=measure.field == "ece")
        for measure, value, drawn in zip(MEASURES, values, columns, strict=True)
    }


def _interval(
    value: float, drawn: NDArray[np.float64], *, bootstrap: int, reflect: bool
) -> Interval:
    if np.isnan(value):
        return Interval(None)
    drawn = drawn[~np.isnan(drawn)]
    if not bootstrap or len(drawn) < _DEFINED * bootstrap:
        return Interval(value)
    low, high = (float(edge) for edge in np.quantile(drawn, [0.025, 0.975]))
    if reflect:
        low, high = max(0.0, 2 * value - high), max(value, 2 * value - low)
    return Interval(value, low, high)


def spell(value: Mapping[str, Any] | None, *, digits: int = 3) -> str:
    """A number with its interval, from the dictionary of an `Interval`."""
    if not value or value["value"] is None:
        return "–"
    if value["low"] is None:
        return f"{value['value']:.{digits}f}"
    return f"{value['value']:.{digits}f} [{value['low']:.{digits}f}, {value['high']:.{digits}f}]"


def measure_rows(evaluations: Mapping[str, Evaluation]) -> list[list[str]]:
    """Table of measures by models, as cards and the command line show it; a head row first."""
    rows = [["", *evaluations]]
    for measure in MEASURES:
        if measure.card:
            found = [getattr(e, measure.field) for e in evaluations.values()]
            rows.append(
                [measure.name, *(spell(asdict(one), digits=measure.digits) for one in found)]
            )
    return rows


def verdicts(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """What the numbers say against the first set of risks, one sentence each; often nothing.

    Args:
        evaluations: the model first, then the baselines, all on the same stays.
    """
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
        if other.auroc.value is None:
            continue
        if area.value <= other.auroc.value:
            said.append(
                f"{model} is no better than {name} (AUROC {area.value:.3f} and "
                f"{other.auroc.value:.3f})."
            )
        elif area.low is None or area.low <= other.auroc.value:
            said.append(
                f"{model} is not shown to be better than {name}: its interval contains the "
                f"AUROC of {name}, {other.auroc.value:.3f}."
            )
    slope = own.calibration_slope
    if slope.low is not None and slope.high is not None and not slope.low <= 1 <= slope.high:
        kind = "too extreme" if slope.high < 1 else "not extreme enough"
        said.append(f"The probabilities of {model} are {kind} (calibration slope {slope}).")
    return said
