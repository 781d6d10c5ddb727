"""Measures of explanations: means over stays with intervals from resampling patients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from clinical.cohort.splits import patient_keys
from clinical.evaluation.resampling import MIN_PATIENTS
from clinical.evidence.case import Case
from domainbert.console import counted
from domainbert.errors import UserError
from domainbert.intervals import EDGES, Interval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from clinical.risk.model import ReadmissionModel

Numbers = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Measured(ABC):
    """Measures by (method, measure), with 95% intervals from resampling patients."""

    stays: int
    patients: int
    intervals: Mapping[tuple[str, str], Interval] = field(repr=False)

    def to_frame(self) -> pd.DataFrame:
        """One row a method and measure: method, measure, value, low, high."""
        import pandas as pd

        rows = [[*key, i.value, i.low, i.high] for key, i in self.intervals.items()]
        return pd.DataFrame(rows, columns=["method", "measure", "value", "low", "high"])

    def to_rows(self, *, without: str = "") -> list[list[str]]:
        """Table of measures by methods as text, a head row first; one method may be left out."""
        kept = [key for key in self.intervals if key[0] != without]
        methods, measures = (list(dict.fromkeys(names)) for names in zip(*kept, strict=True))
        cells = [
            [measure, *(str(self.intervals.get((m, measure), Interval(None))) for m in methods)]
            for measure in measures
        ]
        return [["", *methods], *cells]

    @abstractmethod
    def verdicts(self) -> list[str]:
        """What the numbers say, as sentences."""


def measure_stays(
    model: ReadmissionModel, stays: pd.DataFrame, measure: Callable[[Case], Numbers]
) -> tuple[list[Numbers], list[str]]:
    """What `measure` finds in each stay that can be scored, and the stays' patients.

    Raises:
        UserError: no stay can be scored.
    """
    rows, patients = [], []
    texts = zip(stays["text"], patient_keys(stays["patient_id"]), strict=True)
    for text, patient in counted(texts, what="explaining", total=len(stays)):
        case = Case(model, text)
        if case.risk.status == "ok":
            rows.append(measure(case))
            patients.append(str(patient))
    if not rows:
        raise UserError(f"none of the {len(stays)} stays can be scored")
    return rows, patients


def resampled(
    rows: Sequence[Numbers], patients: Sequence[str], *, bootstrap: int, seed: int
) -> dict[tuple[str, str], np.ndarray]:
    """The mean of each measure over all stays, followed by its means in resamples of patients."""
    names = list(rows[0])
    values = np.array([[row[name] for name in names] for row in rows])
    _, codes = np.unique(np.array(patients), return_inverse=True)
    count = int(codes.max()) + 1
    generator = np.random.default_rng(seed)
    repeats = bootstrap if count >= MIN_PATIENTS else 0
    drawn = generator.multinomial(count, np.full(count, 1 / count), size=repeats)[:, codes]
    means = np.vstack([values.mean(axis=0), drawn @ values / drawn.sum(axis=1, keepdims=True)])
    return dict(zip(names, means.T, strict=True))


def interval(column: np.ndarray) -> Interval:
    """From a value, followed by those of resamples."""
    if len(column) == 1:
        return Interval(float(column[0]))
    low, high = np.nanquantile(column[1:], EDGES)
    return Interval(float(column[0]), float(low), float(high))
