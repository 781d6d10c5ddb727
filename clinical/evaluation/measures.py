"""How good risks are: ranking, calibration and alerts, with intervals by patient."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evaluation import ranking
from clinical.evaluation.calibration import (
    calibration_error,
    checked,
    equal_mass_bins,
    fit_logistic,
    logit,
)
from clinical.evaluation.ranking import PRECISION, OperatingPoint, recall_at_precision
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Evaluation",
    "Interval",
    "OperatingPoint",
    "evaluate",
    "recall_at_precision",
]

_DEFINED = 0.9  # below this share of resamples that can give a number, it has no interval


@dataclass(frozen=True)
class Interval:
    """A number and its 95% interval; None where the data cannot give it."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """The measured quality of one set of risks.

    `auprc` is average precision; risks that know nothing reach `prevalence`. `rp80` is the recall
    at 80% precision at the best threshold for these very stays (`own_point`), as the paper
    reports it. `recall_at_threshold` and `precision_at_threshold` stand at a `threshold` that was
    chosen beforehand, on validation. Perfect risks have `calibration_slope` 1 and
    `calibration_intercept` 0: y regressed on the logit of the risk, both fitted together,
    unpenalised. `ece` has up to ten bins of equally many stays; chance alone keeps it above 0.

    Intervals come from `bootstrap` resamples of whole patients, of which `skipped` held one
    outcome only. `reason` says why numbers are missing, where the outcome does not vary.
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
        """Plain numbers in nested dicts, ready for JSON, keys in the order of the fields."""
        return asdict(self)

    def to_frame(self) -> pd.DataFrame:
        """One row a number: metric, value, low, high (NaN where there is none)."""
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

    A patient drawn twice brings all of its stays twice. Intervals are percentiles of the
    resamples; that of ECE is reflected about its value, since resampling adds to the error what
    chance had added already, and percentiles would lie above the truth. RP80 counts as 0 in a
    resample where 80% precision is out of reach. A number has no interval when more than one
    resample in ten cannot give it. Where every stay has one outcome, what compares the two is
    None, and Brier, ECE and prevalence are still there.

    Args:
        y: shape (n,), 0 or 1.
        probability: shape (n,), in [0, 1].
        patients: n patient ids, compared as strings.
        threshold: an alert threshold chosen on validation, such as
            `recall_at_precision(y_val, probability_val).threshold`.
        bootstrap: number of resamples; 0 gives values without intervals.
        seed: of the resampling. The same patients and seed give the same resamples.
        progress: called as `progress(done, bootstrap)` after every resample.

    Raises:
        ValueError: lengths differ, y is not 0/1, a probability is missing or outside [0, 1], a
            patient id is missing, or `threshold` or `bootstrap` is out of range.
    """
    outcome, risk = checked(y, probability)
    codes = _patient_codes(patients, n=len(outcome))
    if threshold is not None and not 0 <= threshold <= 1:
        raise UserError(f"threshold is {threshold}; it must lie in [0, 1], or be None")
    if bootstrap < 0:
        raise UserError(f"bootstrap is {bootstrap}; it must be 0 (no intervals) or more")
    stays = _Stays(outcome, risk, threshold=threshold)
    replicates = np.array(list(_resample(stays, codes, bootstrap, seed, progress)))
    positive = int(outcome.sum())
    point = recall_at_precision(outcome, risk) if stays.varies else None
    intervals = _intervals(stays.measure(np.ones_like(risk)), replicates, bootstrap)
    if point is None:
        intervals["rp80"] = Interval(None)
    return Evaluation(
        n_stays=len(outcome),
        n_patients=int(codes.max()) + 1,
        n_readmitted=positive,
        own_point=point,
        threshold=None if threshold is None else float(threshold),
        bootstrap=bootstrap,
        skipped=bootstrap - len(replicates),
        seed=seed,
        reason=None if stays.varies else f"{positive} of {len(outcome)} stays are readmitted",
        **intervals,
    )


_MEASURES = (
    "prevalence",
    "brier",
    "ece",
    "recall_at_threshold",
    "precision_at_threshold",
    "auroc",
    "auprc",
    "rp80",
    "calibration_slope",
    "calibration_intercept",
)


class _Stays:
    """Outcomes and risks with everything that does not depend on the weights done once."""

    def __init__(
        self, y: NDArray[np.float64], risk: NDArray[np.float64], *, threshold: float | None
    ) -> None:
        self.y, self.risk = y, risk
        self.varies = 0 < y.sum() < len(y)
        self.ranking = ranking.Ranking(y, risk)
        self.cells = equal_mass_bins(risk)
        self.squares = (risk - y) ** 2
        self.logits = logit(risk)
        self.alert = None if threshold is None else risk >= threshold
        fitted = fit_logistic(self.logits, y, np.ones_like(y)) if self.varies else None
        self.start = fitted or (0.0, 0.0)

    def measure(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers named in `_MEASURES` for weighted stays; NaN where there is none."""
        positive, total = weights @ self.y, weights.sum()
        missing = (np.nan, np.nan)
        numbers = [
            positive / total,
            weights @ self.squares / total,
            calibration_error(self.y, self.risk, weights, cells=self.cells),
            *(missing if self.alert is None else ranking.at_threshold(self.y, self.alert, weights)),
        ]
        if not 0 < positive < total:
            return np.array(numbers + [np.nan] * (len(_MEASURES) - len(numbers)))
        true, false = self.ranking.counts(weights)
        numbers += [
            ranking.area_under_roc(true, false),
            ranking.area_under_precision_recall(true, false),
            ranking.best_recall(true, false, precision=PRECISION),
            *(fit_logistic(self.logits, self.y, weights, start=self.start) or missing),
        ]
        return np.array(numbers)


def _patient_codes(patients: Iterable[object], *, n: int) -> NDArray[np.intp]:
    import pandas as pd

    ids = pd.Series(list(patients), dtype=object)
    if len(ids) != n:
        raise UserError(f"patients has {len(ids)} ids and y has {n} values; pass one for each")
    if missing := int(ids.isna().sum()):
        raise UserError(f"patients has {missing} missing ids; intervals by patient need them all")
    return np.unique(ids.map(str).to_numpy(dtype=str), return_inverse=True)[1]


def _resample(
    stays: _Stays,
    codes: NDArray[np.intp],
    bootstrap: int,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> Iterable[NDArray[np.float64]]:
    """The measures of every resample of patients, shape (measures,) each."""
    random, patients = np.random.default_rng(seed), int(codes.max()) + 1
    for done in range(1, bootstrap + 1):
        drawn = np.bincount(random.integers(patients, size=patients), minlength=patients)
        weights = drawn[codes].astype(np.float64)
        if not stays.varies or 0 < weights @ stays.y < weights.sum():
            yield stays.measure(weights)
        if progress:
            progress(done, bootstrap)


def _intervals(
    values: NDArray[np.float64], replicates: NDArray[np.float64], bootstrap: int
) -> dict[str, Interval]:
    columns = replicates.reshape(-1, len(_MEASURES)).T
    return {
        name: _interval(float(value), drawn, bootstrap=bootstrap, reflect=name == "ece")
        for name, value, drawn in zip(_MEASURES, values, columns, strict=True)
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
