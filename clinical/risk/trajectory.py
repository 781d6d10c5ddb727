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
from clinical.stays.stays import listed, note_times
from domainbert.errors import UserError
from domainbert.statistics.figures import COLOURS, DASHES, GREY, drawing, new_axes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from clinical.risk.model import RiskModel
    from clinical.stays.stays import Status, StayRisk


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
        reason: why it is not "ok"; else a remark, or "".
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

    @drawing
    def plot(self) -> Figure:
        """The risk after each note, over the days since the first one where all have times."""
        table = self.to_frame().dropna(subset=["probability"])
        if table.empty:
            raise UserError("no note of this stay has a risk, so there is nothing to draw")
        figure, (axes,) = new_axes((7.2, 3.6), (0.1, 0.15, 0.87, 0.75))
        times = note_times(table["chart_time"])
        is_timed = times.notna().all()
        days = (times - times.iloc[0]).dt.total_seconds() / 86_400
        places = days if is_timed else table["n_notes"]
        lines = {"probability": "risk", "p_max": "largest window", "p_mean": "mean of windows"}
        for name, colour, dash in zip(lines, COLOURS, DASHES, strict=False):
            style = {"color": colour, "linestyle": dash, "marker": "o", "markersize": 3.5}
            axes.step(places, table[name], where="post", label=lines[name], **style)
        if self.alert_threshold is not None:
            axes.axhline(self.alert_threshold, color=GREY, linewidth=1, label="alert threshold")
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel("days since the first note" if is_timed else "notes")
        axes.legend(frameon=False, ncols=2, fontsize=8)
        return figure


def follow(model: RiskModel, stays: Iterable[Any]) -> Iterator[Trajectory]:
    """The trajectories of stays (each a note, or its notes in time order), in flat memory.

    Each window is scored once. A model that joins the notes of a stay cuts the joined text anew
    after each note; of its windows, those that a new note left as they were are not scored again.
    """
    # What is scored for a stay: all its notes at once, or every beginning of them.
    parts: deque[list[int]] = deque()

    def asked() -> Iterator[list[Any]]:
        for stay in stays:
            notes = listed(stay)
            first = min(1, len(notes)) if model.settings.join_notes else len(notes)
            parts.append(list(range(first, len(notes) + 1)))
            yield from (notes[:end] for end in parts[-1])

    risks: list[StayRisk] = []
    for risk in model.predict_many(asked()):
        risks.append(risk)
        if len(risks) < len(parts[0]):
            continue
        ends = parts.popleft()
        if risk.status != "ok":
            points = []
        elif model.settings.join_notes:
            points = [_point(end, each) for end, each in zip(ends, risks, strict=True)]
        else:
            points = _points(model, risk, notes=ends[-1])
        yield Trajectory(
            points=tuple(points),
            calibrated=model.settings.calibration is not None,
            alert_threshold=model.settings.alert_threshold,
            status=risk.status,
            reason=risk.reason,
        )
        risks = []


def _point(n_notes: int, risk: StayRisk) -> TrajectoryPoint:
    names = ("probability", "score", "p_max", "p_mean", "alert")
    numbers = {name: getattr(risk, name) for name in names}
    return TrajectoryPoint(n_notes, None, n_windows=risk.coverage.windows, **numbers)


def _points(model: RiskModel, risk: StayRisk, *, notes: int) -> list[TrajectoryPoint]:
    """The rule over the windows up to each note."""
    values = np.array([window.probability for window in risk.windows])
    score, largest, mean = aggregate_running(values, c=model.c)
    columns = np.stack((model.calibrated(score), score, largest, mean), axis=1)
    ends = np.searchsorted([w.note for w in risk.windows], np.arange(notes), side="right")
    threshold, points = model.settings.alert_threshold, []
    for n_notes, end in enumerate(ends.tolist(), start=1):
        now: list[Any] = columns[end - 1].tolist() if end else [math.nan] * 4
        alert = None if threshold is None or not end else now[0] >= threshold
        points.append(TrajectoryPoint(*(n_notes, None, *now, end, alert)))
    return points


def trajectory(model: RiskModel, notes: Sequence[str], times: Sequence[Any] | None) -> Trajectory:
    """The trajectory of one stay; see `clinical.ReadmissionModel.trajectory`."""
    notes = listed(notes)
    if times is not None:
        order = _time_order(times, len(notes))
        notes, times = [notes[i] for i in order], [str(times[i]) for i in order]
    result = next(follow(model, [notes]))
    if result.status == "error":
        raise UserError(f"this stay cannot be scored: {result.reason}")
    if times is None or result.status != "ok":
        return result
    points = zip(result.points, times, strict=True)
    return replace(result, points=tuple(replace(p, chart_time=time) for p, time in points))


def _time_order(times: Sequence[Any], notes: int) -> list[int]:
    if len(times) != notes:
        raise UserError(f"{notes} notes and {len(times)} times; expected one time for each note")
    read = note_times(times)
    if read.isna().any():
        number = int(read.isna().to_numpy().argmax())
        msg = f"times: number {number} is no date; expected ISO dates such as 2026-03-01 08:00"
        raise UserError(msg)
    return [int(i) for i in read.argsort(kind="stable")]
