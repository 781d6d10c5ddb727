"""Platt scaling, expected calibration error and reliability diagrams."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FLATTEST = 1e-4  # slope: the order of the values stays


def platt(values: np.ndarray | float, slope: float, intercept: float) -> np.ndarray:
    """1 / (1 + exp(-(slope · value + intercept))), elementwise."""
    return np.asarray(expit(slope * np.asarray(values, dtype=np.float64) + intercept))


def fit_platt(values: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Slope and intercept that make values the probabilities of being right (Platt 1999).

    Where larger values are less often right, the map is nearly flat at the share of right ones.

    Args:
        values: shape (n,), any real numbers.
        right: shape (n,), bool, with both kinds.
    """
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1e4).fit(np.asarray(values)[:, None], right)
    slope, intercept = float(fitted.coef_[0, 0]), float(fitted.intercept_[0])
    if slope < _FLATTEST:
        slope = _FLATTEST
        intercept = float(logit(np.mean(right)) - slope * np.mean(values))
    return round(slope, 4), round(intercept, 4)


def bins_of(scores: np.ndarray, right: np.ndarray, *, bins: int = 10) -> list[tuple[float, ...]]:
    """Mean score, share of right ones and count in each of equally wide bins that has any."""
    place = np.minimum((scores * bins).astype(int), bins - 1)
    rows: dict[int, list[int]] = defaultdict(list)
    for number, bin_ in enumerate(place.tolist()):
        rows[bin_].append(number)
    return [
        (float(scores[n].mean()), float(right[n].mean()), len(n)) for _, n in sorted(rows.items())
    ]


def calibration_error(scores: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error over ten bins: the mean distance of score and share, weighted."""
    total = max(len(scores), 1)
    return sum(n * abs(mean - share) for mean, share, n in bins_of(scores, right)) / total


def plot_reliability(curves: Mapping[str, tuple[np.ndarray, np.ndarray]], path: str | Path) -> None:
    """Draw the share of right ones against the score, a line for each {name: (scores, right)}.

    The area of a point grows with the number in its bin.
    """
    from domainbert.figures import COLOURS, DASHES, GREY, new_axes, save_figure

    figure, (axes,) = new_axes((5, 4.2))
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    for number, (name, (scores, right)) in enumerate(curves.items()):
        mean, share, count = map(np.array, zip(*bins_of(scores, right), strict=True))
        colour = COLOURS[number % len(COLOURS)]
        error = calibration_error(scores, right)
        axes.plot(
            mean,
            share,
            color=colour,
            linestyle=DASHES[number % len(DASHES)],
            label=f"{name} (error {error:.3f})",
        )
        axes.scatter(mean, share, s=8 + 120 * count / count.max(), color=colour, alpha=0.7)
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="score", ylabel="share that is right")
    axes.legend(loc="upper left", frameon=False)
    save_figure(figure, path)
