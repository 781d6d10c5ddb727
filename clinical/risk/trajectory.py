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
from domainbert.statistics.figures import COLOURS, DASHES, GREY, new_axes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from clinical.risk.model import RiskModel
    from clinical.stays.stays import Status, StayRisk

_BOXES = ((0.1, 0.44, 0.87, 0.46), (0.1, 0.12, 0.87, 0.24))  # left, bottom, width, height
_HOURS = 24.0 * 3  # a longer stay is drawn in days


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
        """The risk over time; see `plot_trajectory`."""
        return plot_trajectory(self.to_frame(), threshold=self.alert_threshold)


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
    columns = (model.calibrated(score), score, largest, mean)
    ends = np.searchsorted([w.note for w in risk.windows], np.arange(notes), side="right")
    threshold, points = model.settings.alert_threshold, []
    for n_notes, end in enumerate(ends.tolist(), start=1):
        now = [float(column[end - 1]) if end else math.nan for column in columns]
        alert = None if threshold is None or not end else now[0] >= threshold
        points.append(
            TrajectoryPoint(
                n_notes, None, now[0], now[1], now[2], now[3], n_windows=end, alert=alert
            )
        )
    return points


def trajectory(model: RiskModel, notes: Sequence[str], times: Sequence[Any] | None) -> Trajectory:
    """The trajectory of one stay; see `clinical.ReadmissionModel.trajectory`."""
    notes = listed(notes)
    if times is not None:
        order = _time_order(times, len(notes))
        notes, times = [notes[i] for i in order], [str(times[i]) for i in order]
    result = next(follow(model, [notes]))
    if result.status != "ok":
        raise UserError(f"this stay cannot be scored: {result.reason}")
    if times is None:
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


def plot_trajectory(table: pd.DataFrame, *, threshold: float | None = None) -> Figure:
    """Draw the risk of one stay over time: a step at each note.

    Time runs from the first note; where a note has no readable time, notes are counted instead.

    Args:
        table: `Trajectory.to_frame()`, or the rows of one stay that `clinical trajectory` wrote.
        threshold: the model's alert threshold, drawn as a line.

    Raises:
        UserError: no row has a probability.
    """
    table = table[table["probability"].notna()]
    if table.empty:
        raise UserError("no note of this stay has a risk, so there is nothing to draw")
    figure, (risk, windows) = new_axes((7.2, 4.6), *_BOXES)
    places, label = _places(table)
    end = places[-1] + (places[-1] - places[0] or 1) * 0.04  # so that the last step shows
    _steps(risk, places, end, table["probability"], "probability", 0)
    if threshold is not None:
        risk.axhline(threshold, color=GREY, linestyle="--", linewidth=1, label="alert threshold")
    _steps(windows, places, end, table["p_max"], "largest window", 1)
    _steps(windows, places, end, table["p_mean"], "mean of windows", 2)
    highest = max(float(table["probability"].max()), threshold or 0.0)
    for axes, name, top in ((risk, "readmission risk", 1.3 * highest), (windows, "windows", 1.02)):
        top = min(1.02, max(top, 0.1))
        axes.set_ylim(-0.02 * top, top)
        axes.set_ylabel(name)
        axes.legend(frameon=False, loc="best", ncols=2, fontsize=8)
    windows.sharex(risk)
    risk.tick_params(labelbottom=False)
    windows.set_xlabel(label)
    notes, count = int(table["n_notes"].iloc[-1]), int(table["n_windows"].iloc[-1])
    risk.set_title(f"{notes} notes, {count} windows", loc="left", fontsize=10)
    return figure


def _steps(
    axes: Axes, places: list[float], end: float, values: pd.Series, label: str, number: int
) -> None:
    line = {"color": COLOURS[number], "linestyle": DASHES[number], "label": label}
    heights = [float(value) for value in values]
    axes.step([*places, end], [*heights, heights[-1]], where="post", linewidth=1.6, **line)
    axes.plot(places, heights, "o", color=COLOURS[number], markersize=3.5)


def _places(table: pd.DataFrame) -> tuple[list[float], str]:
    """Where each note stands on the time axis, and the axis' label."""
    times = note_times(table["chart_time"])
    if times.isna().any() or not times.is_monotonic_increasing:
        return [float(n) for n in table["n_notes"]], "notes"
    hours = (times - times.iloc[0]).dt.total_seconds() / 3600
    if hours.iloc[-1] <= _HOURS:
        return hours.tolist(), "hours since the first note"
    return (hours / 24).tolist(), "days since the first note"
