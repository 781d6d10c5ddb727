"""Evaluation of risks: every measure with its 95% interval, by bootstrapping patients."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from clinical.evaluation.measures import MEASURES, Stays, measured_values
from clinical.stays.patients import patient_codes
from domainbert.errors import UserError
from domainbert.statistics import Floats
from domainbert.statistics.bootstrap import (
    MIN_GROUPS,
    Interval,
    Resampled,
    resample,
)
from domainbert.statistics.calibration import checked_risks


@dataclass(frozen=True)
class Evaluation:
    """The measured quality of one set of risks.

    Each of `clinical.evaluation.measures.MEASURES` is an attribute, such as `auroc`. `rp80` is the
    recall at 80% precision at the best threshold for these very stays, as the paper reports it.
    Measures of alerts use a `threshold` chosen beforehand, on validation.

    Intervals come from `bootstrap` resamples of whole patients, of which `skipped` contained one
    outcome only. `reason` says why numbers or intervals are missing.
    """

    n_stays: int
    n_patients: int
    n_readmitted: int
    intervals: dict[str, Interval]
    threshold: float | None
    bootstrap: int
    skipped: int
    seed: int
    reason: str | None
    resampled: Resampled = field(repr=False, compare=False)

    def __getattr__(self, name: str) -> Interval:
        """A measure by its name."""
        intervals = self.__dict__.get("intervals", {})
        if name not in intervals:
            raise AttributeError(f"an evaluation has no measure {name!r}")
        return intervals[name]

    def minus(self, other: Self) -> dict[str, Interval]:
        """Paired differences from another set of risks of the same stays, by measure.

        Both must come from the same patients, `bootstrap` and `seed`.
        """
        return _by_measure(self.resampled - other.resampled)

    def to_dict(self) -> dict[str, object]:
        """Plain numbers in nested dicts, ready for JSON; the measures are at the top level."""
        content = vars(self) | {
            name: vars(value) for name, value in self.intervals.items()
        }
        del content["intervals"], content["resampled"]
        return content

    def to_frame(self) -> pd.DataFrame:
        """One row per measure: metric, value, low, high (NaN where there is none)."""
        rows = pd.DataFrame(map(vars, self.intervals.values()), dtype=float)
        rows.insert(0, "metric", list(self.intervals))
        return rows

    def _repr_html_(self) -> str:
        """The measures as a table, for a notebook."""
        return self.to_frame().to_html(
            index=False, float_format="{:.3f}".format
        )


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

    Intervals are percentiles of the resamples. The interval of the calibration error (ECE) is
    mirrored at its value: chance already inflates the value, and resampling inflates it again. RP80
    counts as 0 in a resample where 80% precision is not reached. A number has no interval when
    more than one resample in ten cannot give it, or with fewer than `MIN_GROUPS` patients. Where
    all stays have the same outcome, measures that compare the two outcomes are None.

    Args:
        y: shape (n,), 0 or 1.
        probability: shape (n,), in [0, 1].
        patients: n patient ids, compared by `domainbert.tables.columns.id_key`.
        threshold: an alert threshold chosen on validation, in [0, 1]; see `precise_threshold`.
        bootstrap: number of resamples; 0 gives values without intervals.
        seed: seed of the resampling. The same patients and seed give the same resamples.

    Raises:
        UserError: values that are missing or out of range, or lengths that differ.
    """
    outcome, risk = checked_risks(y, probability)
    codes = patient_codes(patients, n=len(outcome))
    if threshold is not None:
        threshold = float(threshold)
        if not 0 <= threshold <= 1:
            raise UserError(
                f"threshold is {threshold}; it must be in [0, 1], or None"
            )
    if bootstrap < 0:
        raise UserError(
            f"bootstrap is {bootstrap}; it must be 0 (no intervals) or more"
        )
    stays = Stays(outcome, risk, threshold=threshold)

    def measure(weights: Floats) -> list[float]:
        return measured_values(stays, weights, MEASURES)

    measured = resample(measure, codes, bootstrap=bootstrap, seed=seed)
    intervals = _by_measure(measured)
    intervals["ece"] = _mirrored(intervals["ece"])
    if not intervals["rp80"].value:  # the precision is out of reach
        intervals["rp80"] = Interval(None)
    n_patients = int(codes.max()) + 1
    n_readmitted = int(outcome.sum())
    return Evaluation(
        n_stays=len(outcome),
        n_patients=n_patients,
        n_readmitted=n_readmitted,
        intervals=intervals,
        threshold=threshold,
        bootstrap=bootstrap,
        skipped=int(np.isnan(measured.replicates).all(axis=1).sum()),
        seed=seed,
        reason=_why_missing(n_readmitted, len(outcome), n_patients, bootstrap),
        resampled=measured,
    )


def _by_measure(measured: Resampled) -> dict[str, Interval]:
    """The intervals of `MEASURES`, which were measured in their order."""
    return {
        m.field: measured[index].interval() for index, m in enumerate(MEASURES)
    }


def _why_missing(
    n_readmitted: int,
    n_stays: int,
    n_patients: int,
    bootstrap: int,
) -> str | None:
    """Why numbers or intervals are missing."""
    reasons = []
    if n_readmitted in (0, n_stays):
        reasons.append(f"{n_readmitted} of {n_stays} stays have the outcome")
    if bootstrap and n_patients < MIN_GROUPS:
        reasons.append(
            f"no intervals: {n_patients} patients, at least {MIN_GROUPS} are needed"
        )
    return "; ".join(reasons) or None


def _mirrored(ece: Interval) -> Interval:
    """The interval mirrored at its value, and cut at 0, the smallest error."""
    if ece.value is None or ece.low is None or ece.high is None:
        return ece
    value = ece.value
    return Interval(
        value,
        max(0.0, 2 * value - ece.high),
        max(value, 2 * value - ece.low),
    )


def measure_rows(evaluations: Mapping[str, Evaluation]) -> list[list[str]]:
    """Table of measures by models, as cards and the command line show it; a head row first."""
    rows = [["", *evaluations]]
    for measure in MEASURES:
        cells = [
            str(evaluation.intervals[measure.field])
            for evaluation in evaluations.values()
        ]
        rows.append([measure.name, *cells])
    return rows
