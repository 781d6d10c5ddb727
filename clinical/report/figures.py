"""Figures of risks and outcomes; each function returns a new `matplotlib.figure.Figure`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evaluation.measures import MEASURES, PRECISION, Measure, Stays, precisions
from domainbert.errors import UserError
from domainbert.statistics.calibration import checked, reliability_curve
from domainbert.statistics.figures import COLOURS, DASHES, GREY, new_axes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from clinical.evaluation.intervals import Evaluation
    from clinical.stays.stays import StayRisk

_CROWD = 60  # from this many windows on, white gaps would hide them
_LINE = 0.085  # height of a line of text on the risk axis


def plot_roc(
    y: ArrayLike,
    scores: Mapping[str, ArrayLike],
    *,
    evaluations: Mapping[str, Evaluation] | None = None,
) -> Figure:
    """Receiver operating characteristic of one or several sets of risks.

    Args:
        y: shape (n,), 0 or 1, with both outcomes.
        scores: name -> risks, shape (n,), in [0, 1]; the first is drawn strongest.
        evaluations: name -> its evaluation, for the AUROC and its interval in the legend.

    Raises:
        UserError: bad input, no scores, or one outcome only.
    """
    figure, axes = _square("False positive rate (1 − specificity)", "True positive rate (recall)")
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    for true, false, look in _curves(y, scores, evaluations, MEASURES[0]):
        axes.plot(np.r_[0, false / false[-1]], np.r_[0, true / true[-1]], **look)
    _legend(axes, loc="lower right")
    return figure


def plot_precision_recall(
    y: ArrayLike,
    scores: Mapping[str, ArrayLike],
    *,
    evaluations: Mapping[str, Evaluation] | None = None,
) -> Figure:
    """Precision against recall in steps, with the prevalence, which uninformative risks reach.

    Arguments and errors are those of `plot_roc`. The dotted line is the 80% precision of RP80.
    """
    figure, axes = _square("Recall", "Precision")
    for true, false, look in _curves(y, scores, evaluations, MEASURES[1]):
        reached = precisions(true, false)
        axes.plot(
            np.r_[0, true / true[-1]], np.r_[reached[0], reached], drawstyle="steps-pre", **look
        )
    share = float(np.mean(np.asarray(y)))
    _level(axes, share, f"prevalence {share:.3f}", below=True, linestyle=(0, (5, 3)))
    _level(axes, PRECISION, "80% precision", below=False, linestyle=(0, (1, 2)))
    _legend(axes, loc="lower right", bbox_to_anchor=(1, 1))  # above: curves may be anywhere
    return figure


def _level(axes: Axes, level: float, text: str, *, below: bool, linestyle: Any) -> None:
    axes.axhline(level, color=GREY, linewidth=0.9, linestyle=linestyle, zorder=1)
    offset, side = ((0, -3), "top") if below else ((0, 3), "bottom")
    _note(axes, text, (1, level), offset, ha="right", va=side, color=GREY, size=8)


def _note(
    axes: Axes, text: str, place: tuple[float, float], offset: tuple[int, int], **look: Any
) -> None:
    """A text beside a place, `offset` in points."""
    axes.annotate(text, place, offset, textcoords="offset points", annotation_clip=False, **look)


def plot_calibration(y: ArrayLike, scores: Mapping[str, ArrayLike], *, bins: int = 10) -> Figure:
    """Observed against predicted risk, one panel for each set, over a histogram of the risks.

    Points are bins of equally many stays, at most `bins`, with 95% Wilson intervals. The axes omit
    the highest 0.5% of risks, which the last bar of the histogram counts. For `y` and `scores` see
    `plot_roc`; one outcome alone is enough.
    """
    curves = [reliability_curve(y, risks, bins=bins) for risks in scores.values()]
    looks = _looks(scores)
    tails = [np.quantile(np.asarray(risks, dtype=float), 0.995) for risks in scores.values()]
    top = min(
        1.0, 1.05 * float(max(*tails, *(c[["predicted", "high"]].max(axis=None) for c in curves)))
    )
    # Placed by hand: an upper panel is square, and the lower one has exactly its width.
    columns = len(scores)
    width, margin = 0.8 / columns, 0.15 / columns
    boxes = [
        (margin + number / columns, bottom, width, height)
        for number in range(columns)
        for bottom, height in ((0.28, 0.64), (0.1, 0.14))
    ]
    figure, axes = new_axes((1.2 + 3.6 * columns, 5.6), *boxes)
    for number, (name, probability) in enumerate(scores.items()):
        upper, lower = axes[2 * number : 2 * number + 2]
        _reliability_panel(upper, curves[number], top=top, look=looks[number])
        shown = np.minimum(np.asarray(probability, dtype=float), top)
        lower.hist(shown, bins=np.linspace(0, top, 41).tolist(), color=looks[number]["color"])
        upper.set_title(name, fontsize=10)
        lower.set(xlim=(0, top), xlabel="Predicted risk")
        if not number:
            upper.set_ylabel("Observed share readmitted")
            lower.set_ylabel("Stays")
    return figure


def _reliability_panel(
    axes: Axes, curve: pd.DataFrame, *, top: float, look: dict[str, Any]
) -> None:
    axes.plot([0, top], [0, top], color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    observed = curve["observed"]
    error = np.abs(np.stack([observed - curve["low"], curve["high"] - observed]))
    axes.errorbar(
        curve["predicted"], observed, error, marker="o", markersize=4, elinewidth=0.8, **look
    )
    axes.set(xlim=(0, top), ylim=(0, top))
    axes.tick_params(labelbottom=False)


def plot_windows(risk: StayRisk) -> Figure:
    """Window probabilities along the notes of one stay, one note after the other.

    Raises:
        UserError: the stay has no window.
    """
    if not risk.windows:
        raise UserError(f"the stay has no windows to draw; its status is {risk.status!r}")
    first, last, numbers, risks = (
        np.array([getattr(window, name) for window in risk.windows])
        for name in ("start", "end", "note", "probability")
    )
    names, places = np.unique(numbers, return_inverse=True)
    lengths = np.array([last[places == place].max() for place in range(len(names))])
    offsets = np.r_[0, np.cumsum(lengths)[:-1]]
    figure, (axes,) = new_axes((7.2, 3.0))
    colours = np.where(risks == risks.max(), COLOURS[1], COLOURS[5])
    bars = axes.bar(
        first + offsets[places], risks, width=last - first, align="edge", color=list(colours)
    )
    for bar in bars:
        bar.set(edgecolor="white", linewidth=0.6 if len(risks) < _CROWD else 0)
    _stay_lines(axes, risk)
    _note_marks(axes, names, offsets, lengths)
    axes.set(xlim=(0, lengths.sum()), ylim=(0, 1), ylabel="Window probability")
    axes.set_xlabel("Characters of the stay's notes")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def _stay_lines(axes: Axes, risk: StayRisk) -> None:
    """The three numbers of a stay, with labels at the right edge that do not overlap."""
    lines = sorted(
        [
            (risk.p_max, "$P_{max}$", COLOURS[1], (0, (5, 1.5))),
            (risk.p_mean, "$P_{mean}$", COLOURS[2], (0, (1, 1))),
            (risk.score, "score", "#222222", "-"),
        ]
    )
    places = [level for level, *_ in lines]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + _LINE)
    for i in reversed(range(len(places))):
        places[i] = min(places[i], 1 - _LINE * (len(places) - 1 - i))
    beside = ("axes fraction", "data")
    for place, (level, name, colour, style) in zip(places, lines, strict=True):
        axes.axhline(level, color=colour, linestyle=style, linewidth=1.3)
        text = f"{name} {level:.2f}"
        _note(axes, text, (1, place), (5, 0), xycoords=beside, va="center", color=colour)


def _note_marks(axes: Axes, names: np.ndarray, offsets: np.ndarray, lengths: np.ndarray) -> None:
    """A line at the start of each note, and its number where there is room."""
    total = float(lengths.sum())
    for name, start, length in zip(names, offsets, lengths, strict=True):
        if start:
            axes.axvline(start, color=GREY, linewidth=0.8, ymax=1.06, clip_on=False)
        if length > 0.08 * total:
            middle = (start + length / 2, 1)
            _note(axes, f"note {name}", middle, (0, 3), ha="center", color=GREY, size=8)


def _square(across: str, up: str) -> tuple[Figure, Axes]:
    figure, (axes,) = new_axes((4.8, 4.8))
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), xlabel=across, ylabel=up, aspect="equal")
    return figure, axes


def _looks(scores: Mapping[str, ArrayLike]) -> list[dict[str, Any]]:
    """Colour, dashes and weight of each set of risks; the first is emphasised."""
    if not scores:
        raise UserError("scores is empty; pass at least one set, such as {'model': probability}")
    return [
        {
            "color": COLOURS[i % len(COLOURS)],
            "linestyle": DASHES[i % len(DASHES)],
            "linewidth": 1.4 if i else 2.2,
            "zorder": 2 if i else 3,
        }
        for i in range(len(scores))
    ]


def _curves(
    y: ArrayLike,
    scores: Mapping[str, ArrayLike],
    evaluations: Mapping[str, Evaluation] | None,
    measure: Measure,
) -> Iterator[tuple[np.ndarray, np.ndarray, dict[str, Any]]]:
    """True and false positives by falling threshold, and how to draw each set of risks.

    The label has the area under the curve, with its interval where it was evaluated.
    """
    for (name, probability), look in zip(scores.items(), _looks(scores), strict=True):
        outcome, risk = checked(y, probability)
        if not 0 < outcome.sum() < len(outcome):
            raise UserError(
                f"{int(outcome.sum())} of {len(outcome)} stays are readmitted; this curve needs "
                "both outcomes"
            )
        stays = Stays(outcome, risk).weighted()
        if evaluations and name in evaluations:
            area = str(getattr(evaluations[name], measure.field))
        else:
            area = f"{measure.function(stays):.3f}"
        true, false, _ = stays.curve
        yield true, false, {"label": f"{name}: {measure.name} {area}", **look}


def _legend(axes: Axes, **where: Any) -> None:
    axes.legend(handlelength=2.2, fontsize=9, framealpha=1, edgecolor="none", **where)
