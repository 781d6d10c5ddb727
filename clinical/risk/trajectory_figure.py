"""The figure of a trajectory: the risk after each note, and the windows behind it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.figures import COLOURS, DASHES, GREY, new_axes, save_figure
from domainbert.tables import STAY, id_key, iter_table, match_columns, table_columns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BOXES = ((0.1, 0.44, 0.87, 0.46), (0.1, 0.12, 0.87, 0.24))  # left, bottom, width, height
_FLOATS, _WHOLE = ("probability", "p_max", "p_mean"), ("n_notes", "n_windows")
_HOURS = 24.0 * 3  # a longer stay is drawn in days


def plot_trajectory(
    table: pd.DataFrame, *, threshold: float | None = None, title: str = ""
) -> Figure:
    """Draw the risk of one stay over time: a step at each note.

    Time runs from the first note; where a note has no readable time, notes are counted instead.

    Args:
        table: `Trajectory.to_frame()`, or the rows of one stay that `clinical trajectory` wrote.
        threshold: the model's alert threshold, drawn as a line.
        title: of the figure.

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
    risk.set_title(title or f"{notes} notes, {count} windows", loc="left", fontsize=10)
    return figure


def draw_stay(
    source: Path, path: Path, *, of: str | None, column: str | None, threshold: float | None
) -> str:
    """Draw one stay of a table that `clinical trajectory` wrote, and return its id.

    Args:
        source: the table; two passes over it, in flat memory.
        path: the figure, .png, .svg or .pdf.
        of: the stay's id; by default the stay with the highest probability of all.
        column: the name of the column with the ids, if not recognised.
        threshold: see `plot_trajectory`.

    Raises:
        UserError: there is no such stay, or it has no risk.
    """
    import pandas as pd

    names = table_columns(source)
    stay = match_columns(names, [STAY], named={"stay_id": column or ""}, source=source.name)[
        "stay_id"
    ]
    schema: dict[str, Any] = {**dict.fromkeys(_FLOATS, "float"), **dict.fromkeys(_WHOLE, "int")}
    read = partial(iter_table, source, columns=[stay, "chart_time", *schema], schema=schema)
    wanted = _riskiest(read(), stay) if of is None else of
    rows = [piece[piece[stay].map(id_key) == id_key(wanted)] for piece in read()]
    if not any(map(len, rows)):
        raise UserError(f"--of {of}: {source.name} has no such stay in its column {stay}")
    table = pd.concat(rows)
    count = f"{int(table['n_notes'].max())} notes" if table["n_notes"].notna().any() else "no notes"
    save_figure(plot_trajectory(table, threshold=threshold, title=f"Stay {wanted}: {count}"), path)
    return wanted


def _riskiest(pieces: Iterator[pd.DataFrame], stay: str) -> str:
    found, highest = "", -1.0
    for piece in pieces:
        known = piece[piece["probability"].notna() & piece[stay].notna()]
        if len(known) and known["probability"].max() > highest:
            highest = known["probability"].max()
            found = str(known.loc[known["probability"].idxmax(), stay])
    if not found:
        raise UserError("no stay has a risk, so there is nothing to draw")
    return found


def _steps(
    axes: Axes, places: list[float], end: float, values: pd.Series, label: str, number: int
) -> None:
    line = {"color": COLOURS[number], "linestyle": DASHES[number], "label": label}
    heights = [float(value) for value in values]
    axes.step([*places, end], [*heights, heights[-1]], where="post", linewidth=1.6, **line)
    axes.plot(places, heights, "o", color=COLOURS[number], markersize=3.5)


def _places(table: pd.DataFrame) -> tuple[list[float], str]:
    """Where each note stands on the time axis, and the axis' label."""
    import pandas as pd

    times = pd.to_datetime(
        table["chart_time"].astype(object), errors="coerce", format="ISO8601", utc=True
    )
    if times.isna().any() or not times.is_monotonic_increasing:
        return [float(n) for n in table["n_notes"]], "notes"
    hours = (times - times.iloc[0]).dt.total_seconds() / 3600
    if hours.iloc[-1] <= _HOURS:
        return hours.tolist(), "hours since the first note"
    return (hours / 24).tolist(), "days since the first note"
