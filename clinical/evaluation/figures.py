"""Figures of risks and outcomes, for a paper or a notebook: each call makes one and returns it.

The figures are plain `matplotlib.figure.Figure`s outside pyplot's registry, so that nothing piles
up in a long job. In a notebook the value of a cell is shown after `%matplotlib inline`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.evaluation.calibration import checked, reliability_curve
from clinical.evaluation.ranking import PRECISION, Ranking, auroc, average_precision, precisions
from domainbert.errors import UserError
from domainbert.figures import COLOURS, DASHES, GREY, new_axes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from clinical.evaluation.measures import Evaluation, Interval

_CROWD = 60  # windows, from which on white gaps would hide them
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
        evaluations: name -> its evaluation, whose AUROC and interval then stand in the legend.

    Raises:
        ValueError: bad input as for `ranking.auroc`, no scores, or one outcome only.
    """
    figure, axes = _square("False positive rate (1 − specificity)", "True positive rate (recall)")
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    for (name, probability), look in zip(scores.items(), _looks(scores), strict=True):
        outcome, risk = _both(y, probability)
        true, false = Ranking(outcome, risk).counts()
        area = _number(evaluations, name, "auroc", auroc(outcome, risk))
        axes.plot(
            np.r_[0, false / false[-1]],
            np.r_[0, true / true[-1]],
            label=f"{name}: AUROC {area}",
            **look,
        )
    _legend(axes, loc="lower right")
    return figure


def plot_precision_recall(
    y: ArrayLike,
    scores: Mapping[str, ArrayLike],
    *,
    evaluations: Mapping[str, Evaluation] | None = None,
) -> Figure:
    """Precision against recall in steps, above the prevalence, which knowing nothing reaches.

    Arguments and errors are those of `plot_roc`. The dotted line is the 80% precision of RP80.
    """
    figure, axes = _square("Recall", "Precision")
    for (name, probability), look in zip(scores.items(), _looks(scores), strict=True):
        outcome, risk = _both(y, probability)
        true, false = Ranking(outcome, risk).counts()
        reached = precisions(true, false)
        area = _number(evaluations, name, "auprc", average_precision(outcome, risk))
        axes.plot(
            np.r_[0, true / true[-1]],
            np.r_[reached[0], reached],
            drawstyle="steps-pre",
            label=f"{name}: AUPRC {area}",
            **look,
        )
    share = float(checked(y, next(iter(scores.values())))[0].mean())
    _level(axes, share, f"prevalence {share:.3f}", below=True, linestyle=(0, (5, 3)))
    _level(axes, PRECISION, "80% precision", below=False, linestyle=(0, (1, 2)))
    _legend(axes, loc="lower right", bbox_to_anchor=(1, 1))  # above: curves may be anywhere
    return figure


def _level(axes: Axes, level: float, text: str, *, below: bool, linestyle: Any) -> None:
    axes.axhline(level, color=GREY, linewidth=0.9, linestyle=linestyle, zorder=1)
    axes.annotate(
        text,
        (1, level),
        (0, -3 if below else 3),
        textcoords="offset points",
        ha="right",
        va="top" if below else "bottom",
        color=GREY,
        size=8,
    )


def plot_calibration(y: ArrayLike, scores: Mapping[str, ArrayLike], *, bins: int = 10) -> Figure:
    """Observed against predicted risk in bins of equally many stays, over a histogram of risks.

    Bars are 95% Wilson intervals of each bin. The axes leave out the highest 0.5% of risks,
    which the last bar of the histogram counts.

    Args:
        y: shape (n,), 0 or 1.
        scores: name -> risks, shape (n,), in [0, 1]; the first is drawn strongest.
        bins: largest number of bins.

    Raises:
        ValueError: bad input as for `clinical.evaluation.calibration.checked`, or no scores.
    """
    curves = [_reliability(y, probability, bins=bins) for probability in scores.values()]
    looks = _looks(scores)
    tails = [np.quantile(np.asarray(risks, dtype=float), 0.995) for risks in scores.values()]
    top = min(1.0, 1.05 * float(max(*tails, *(curve[[0, 3]].max() for curve in curves))))
    # Placed by hand: the upper panel is square, and the lower one has exactly its width.
    figure, (axes, below) = new_axes((4.8, 6.0), (0.15, 0.3, 0.8, 0.64), (0.15, 0.1, 0.8, 0.16))
    axes.plot([0, top], [0, top], color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    for (name, probability), curve, look in zip(scores.items(), curves, looks, strict=True):
        predicted, observed, low, high = curve
        error = np.abs(np.stack([observed - low, high - observed]))
        dots: dict[str, Any] = {"marker": "o", "markersize": 4, "elinewidth": 0.8}
        axes.errorbar(predicted, observed, error, label=name, **dots, **look)
        shown = np.minimum(np.asarray(probability, dtype=float), top)
        below.hist(
            shown,
            bins=np.linspace(0, top, 41).tolist(),
            histtype="step",
            **{**look, "linewidth": 1.2},
        )
    axes.set(xlim=(0, top), ylim=(0, top), ylabel="Observed share readmitted")
    axes.tick_params(labelbottom=False)
    below.set(xlim=(0, top), xlabel="Predicted risk", ylabel="Stays")
    figure.align_ylabels()
    _legend(axes, loc="upper left")
    return figure


def _reliability(y: ArrayLike, probability: ArrayLike, *, bins: int) -> np.ndarray:
    """Shape (4, bins): predicted, observed, low, high."""
    points = reliability_curve(y, probability, bins=bins)
    return np.array([(p.predicted, p.observed, p.low, p.high) for p in points]).T


def plot_windows(
    starts: ArrayLike,
    ends: ArrayLike,
    probabilities: ArrayLike,
    *,
    notes: ArrayLike,
    probability: float,
) -> Figure:
    """The risk along one stay: which passage of which note raised it.

    Args:
        starts: shape (windows,), first character of each window in its note.
        ends: shape (windows,), the character after its last.
        probabilities: shape (windows,), in [0, 1].
        notes: shape (windows,), the number of each window's note; notes follow one another.
        probability: the stay's risk by the rule.

    Raises:
        ValueError: no window, or lengths differ.
    """
    first, last, risks = (np.asarray(a, dtype=float) for a in (starts, ends, probabilities))
    numbers = np.asarray(notes)
    if not len(risks) or not len(first) == len(last) == len(risks) == len(numbers):
        raise UserError("starts, ends, probabilities and notes must be of one length, at least 1")
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
    _stay_lines(axes, risks, probability)
    _note_marks(axes, names, offsets, lengths)
    axes.set(xlim=(0, lengths.sum()), ylim=(0, 1), ylabel="Risk")
    axes.set_xlabel("Characters of the stay's notes")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def _stay_lines(axes: Axes, risks: np.ndarray, probability: float) -> None:
    """The three numbers of a stay, named at the right edge and kept from covering each other."""
    lines = sorted(
        [
            (float(risks.max()), "$P_{max}$", COLOURS[1], (0, (5, 1.5))),
            (float(risks.mean()), "$P_{mean}$", COLOURS[2], (0, (1, 1))),
            (probability, "risk", "#222222", "-"),
        ]
    )
    places = [level for level, *_ in lines]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + _LINE)
    for i in reversed(range(len(places))):
        places[i] = min(places[i], 1 - _LINE * (len(places) - 1 - i))
    for place, (level, name, colour, style) in zip(places, lines, strict=True):
        axes.axhline(level, color=colour, linestyle=style, linewidth=1.3)
        axes.annotate(
            f"{name} {level:.2f}",
            (1, place),
            (5, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            color=colour,
            annotation_clip=False,
        )


def _note_marks(axes: Axes, names: np.ndarray, offsets: np.ndarray, lengths: np.ndarray) -> None:
    """A line where a note begins, and its number where there is room for one."""
    total = float(lengths.sum())
    for name, start, length in zip(names, offsets, lengths, strict=True):
        if start:
            axes.axvline(start, color=GREY, linewidth=0.8, ymax=1.06, clip_on=False)
        if length > 0.08 * total:
            axes.annotate(
                f"note {name}",
                (start + length / 2, 1),
                (0, 3),
                textcoords="offset points",
                ha="center",
                color=GREY,
                size=8,
                annotation_clip=False,
            )


def _square(across: str, up: str) -> tuple[Figure, Axes]:
    figure, (axes,) = new_axes((4.8, 4.8))
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), xlabel=across, ylabel=up, aspect="equal")
    return figure, axes


def _looks(scores: Mapping[str, ArrayLike]) -> list[dict[str, Any]]:
    """Colour, dashes and weight of each set of risks; the first is the one the figure is about."""
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


def _both(y: ArrayLike, probability: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    outcome, risk = checked(y, probability)
    if not 0 < outcome.sum() < len(outcome):
        raise UserError(
            f"{int(outcome.sum())} of {len(outcome)} stays are readmitted; this curve needs both "
            "outcomes"
        )
    return outcome, risk


def _number(
    evaluations: Mapping[str, Evaluation] | None, name: str, measure: str, value: float | None
) -> str:
    if evaluations and name in evaluations:
        interval: Interval = getattr(evaluations[name], measure)
        if interval.low is not None and interval.high is not None:
            return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    return f"{value:.3f}"


def _legend(axes: Axes, **where: Any) -> None:
    axes.legend(handlelength=2.2, fontsize=9, framealpha=1, edgecolor="none", **where)
