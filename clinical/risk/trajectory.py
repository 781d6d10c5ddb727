"""Trajectory: the risk of a stay after each of its notes, from one pass over its windows.

Huang, Altosaar and Ranganath, "ClinicalBERT" (arXiv 1904.05342), predict in this way while a stay
lasts: the windows of a new note join those of the notes before, whose numbers do not change.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.risk.aggregation import aggregate_running
from clinical.risk.calibration import Platt
from clinical.risk.stays import listed
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from clinical.risk.model import ReadmissionModel, ReadmissionSettings
    from clinical.risk.stays import Status, StayRisk


@dataclass(frozen=True)
class TrajectoryPoint:
    """The risk after one note.

    Attributes:
        n_notes: notes so far, this one included.
        chart_time: of this note, as given, else None.
        probability: see `StayRisk`; NaN as long as no note had text, as are the next three.
        score: the value of the readmission rule over all windows so far.
        p_max: largest probability of a window so far.
        p_mean: their mean.
        n_windows: windows so far.
        alert: whether `probability` reaches the model's alert threshold; None without one.
    """

    n_notes: int
    chart_time: str | None
    probability: float
    score: float
    p_max: float
    p_mean: float
    n_windows: int
    alert: bool | None = None


@dataclass(frozen=True)
class Trajectory:
    """The risk of one stay after each of its notes.

    Attributes:
        points: one for each note, in time order.
        calibrated: whether the probabilities are calibrated.
        alert_threshold: of the model, else None.
        status: "ok", "empty" (no note has text) or "error".
        reason: why it is not "ok", else "".
    """

    points: tuple[TrajectoryPoint, ...] = field(repr=False)
    calibrated: bool
    alert_threshold: float | None = None
    status: Status = "ok"
    reason: str = ""

    def to_frame(self) -> pd.DataFrame:
        """One row for each note, with the attributes of `TrajectoryPoint` as columns."""
        import pandas as pd

        names = TrajectoryPoint.__dataclass_fields__
        return pd.DataFrame([asdict(point) for point in self.points], columns=list(names))

    def plot(self) -> Figure:
        """The risk over time; see `clinical.risk.trajectory_figure.plot_trajectory`."""
        from clinical.risk.trajectory_figure import plot_trajectory

        return plot_trajectory(self.to_frame(), threshold=self.alert_threshold)


def follow(model: ReadmissionModel, stays: Iterable[Any]) -> Iterator[Trajectory]:
    """The trajectories of stays (each a note, or its notes in time order), in flat memory.

    Each window is scored once. A model that joins the notes of a stay cuts the joined text anew
    after each note; of its windows, those that a new note left as they were are not scored again.
    """
    if model.settings.join_notes:
        yield from _follow_joined(model, stays)
        return
    counts: deque[int] = deque()

    def counted() -> Iterator[list[Any]]:
        for stay in stays:
            notes = listed(stay)
            counts.append(len(notes))
            yield notes

    for risk in model.predict_many(counted()):
        yield _trajectory(risk, _points(risk, counts.popleft(), model.settings), model.settings)


def _follow_joined(model: ReadmissionModel, stays: Iterable[Any]) -> Iterator[Trajectory]:
    is_last: deque[bool] = deque()

    def prefixes() -> Iterator[list[Any]]:
        for stay in stays:
            notes = listed(stay)
            for end in range(min(1, len(notes)), len(notes) + 1):
                is_last.append(end == len(notes))
                yield notes[:end]

    risks: list[StayRisk] = []
    for risk in model.predict_many(prefixes()):
        risks.append(risk)
        if is_last.popleft():
            points = [_point(n, each) for n, each in enumerate(risks, start=1)]
            yield _trajectory(risk, points, model.settings)
            risks = []


def _point(n_notes: int, risk: StayRisk) -> TrajectoryPoint:
    return TrajectoryPoint(
        n_notes=n_notes,
        chart_time=None,
        probability=risk.probability,
        score=risk.score,
        p_max=risk.p_max,
        p_mean=risk.p_mean,
        n_windows=risk.coverage.windows,
        alert=risk.alert,
    )


def _points(risk: StayRisk, notes: int, settings: ReadmissionSettings) -> list[TrajectoryPoint]:
    """The rule over the windows up to each note."""
    score, largest, mean = aggregate_running(
        np.array([window.probability for window in risk.windows]), c=settings.c
    )
    calibration, threshold = settings.calibration, settings.alert_threshold
    probability = Platt(*calibration).apply(score) if calibration else score
    ends = np.searchsorted([w.note for w in risk.windows], np.arange(notes), side="right")
    points = []
    for n_notes, end in enumerate(ends.tolist(), start=1):
        chance, rule, p_max, p_mean = (
            float(each[end - 1]) if end else math.nan
            for each in (probability, score, largest, mean)
        )
        alert = None if threshold is None or not end else chance >= threshold
        points.append(TrajectoryPoint(n_notes, None, chance, rule, p_max, p_mean, end, alert))
    return points


def _trajectory(
    risk: StayRisk, points: list[TrajectoryPoint], settings: ReadmissionSettings
) -> Trajectory:
    ok = risk.status == "ok"
    return Trajectory(
        points=tuple(points) if ok else (),
        calibrated=settings.calibration is not None,
        alert_threshold=settings.alert_threshold,
        status=risk.status,
        reason=risk.reason,
    )


def trajectory(
    model: ReadmissionModel, notes: Sequence[str], times: Sequence[Any] | None
) -> Trajectory:
    """The trajectory of one stay; see `ReadmissionModel.trajectory`."""
    notes = listed(notes)
    if times is not None:
        order = _time_order(times, len(notes))
        notes, times = [notes[i] for i in order], [str(times[i]) for i in order]
    found = next(follow(model, [notes]))
    if found.status != "ok":
        msg = f"this stay cannot be scored: {found.reason}"
        raise UserError(msg)
    if times is None:
        return found
    points = zip(found.points, times, strict=True)
    return replace(found, points=tuple(replace(p, chart_time=time) for p, time in points))


def _time_order(times: Sequence[Any], notes: int) -> list[int]:
    import pandas as pd

    if len(times) != notes:
        raise UserError(f"{notes} notes and {len(times)} times; expected one time for each note")
    found = pd.to_datetime(
        pd.Series(list(times), dtype=object), errors="coerce", format="ISO8601", utc=True
    )
    if found.isna().any():
        number = int(found.isna().to_numpy().argmax())
        msg = f"times: number {number} is no date; expected ISO dates such as 2026-03-01 08:00"
        raise UserError(msg)
    return [int(i) for i in found.argsort(kind="stable")]
