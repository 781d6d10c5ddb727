"""Figures of risks and outcomes; each function returns a new `matplotlib.figure.Figure`."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from clinical.evaluation.decision import ALL, NONE
from clinical.evaluation.intervals import Evaluation
from clinical.evaluation.measures import (
    PRECISION,
    Stays,
    WeightedStays,
)
from clinical.risk.reading import StayRisk
from domainbert.errors import UserError
from domainbert.statistics.calibration import checked_risks, reliability_curve
from domainbert.statistics.figures import (
    COLOURS,
    DASHES,
    GREY,
    drawing,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_FIRST: dict[str, Any] = {  # how the set of risks that is emphasised looks
    "linewidth": 2.2,
    "zorder": 3,
}
_DOTTED: dict[str, Any] = {
    "color": GREY,
    "linewidth": 0.8,
    "linestyle": ":",
}


@drawing()
def plot_ranking(
    y: ArrayLike,
    risks: Mapping[str, ArrayLike],
    *,
    evaluations: Mapping[str, Evaluation] = {},
) -> "Figure":
    """ROC curves and, beside them, precision against recall, of one or several sets of risks.

    The dashed line is the prevalence, which uninformative risks reach, and the dotted one the 80%
    precision of RP80.

    Args:
        y: shape (n,), 0 or 1, with both outcomes.
        risks: name -> risks, shape (n,), in [0, 1]; the first is drawn strongest.
        evaluations: name -> its evaluation, for the areas with intervals in the legends.

    Raises:
        UserError: bad input, or one outcome only.
    """
    figure, (left, right) = new_axes(
        (9.6, 5.4),
        (0.07, 0.1, 0.4, 0.71),
        (0.57, 0.1, 0.4, 0.71),
    )
    left.plot([0, 1], [0, 1], **_DOTTED)
    look = _FIRST
    for name, probability in risks.items():
        outcome, risk = checked_risks(y, probability)
        if not 0 < outcome.sum() < len(outcome):
            raise UserError(
                f"{int(outcome.sum())} of {len(outcome)} stays have the outcome; these curves need "
                "both outcomes"
            )
        true, alerts = WeightedStays(Stays(outcome, risk)).curve
        false = alerts - true
        precision = true / alerts
        labels = [name, name]
        if name in evaluations:
            areas = (evaluations[name].auroc, evaluations[name].auprc)
            labels = [f"{name}: {area}" for area in areas]
        recall = np.r_[0, true / true[-1]]
        left.plot(np.r_[0, false / false[-1]], recall, label=labels[0], **look)
        right.plot(
            recall,
            np.r_[precision[0], precision],
            drawstyle="steps-pre",
            label=labels[1],
            **look,
        )
        look = {}
    right.axhline(
        float(np.asarray(y).mean()), **(_DOTTED | {"linestyle": "--"})
    )
    right.axhline(PRECISION, **_DOTTED)
    left.set(
        xlabel="False positive rate (1 − specificity)",
        ylabel="True positive rate (recall)",
    )
    right.set(xlabel="Recall", ylabel="Precision")
    for axes, area in ((left, "AUROC"), (right, "AUPRC")):
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        axes.legend(title=area, loc="lower right", bbox_to_anchor=(1, 1.01))
    return figure


@drawing()
def plot_calibration(y: ArrayLike, probability: ArrayLike) -> "Figure":
    """Observed against predicted risk, over a histogram of the risks; both have shape (n,).

    Points are ten bins of equally many stays, with 95% Wilson intervals. The axes omit the highest
    0.5% of risks, which the last bar of the histogram counts.
    """
    curve = reliability_curve(y, probability)
    risks = np.asarray(probability)
    highest = curve[["predicted", "high"]].max(axis=None)
    top = min(1.0, 1.05 * max(np.quantile(risks, 0.995), highest))
    # Placed by hand: the upper panel is square, and the lower one has exactly its width.
    figure, (upper, lower) = new_axes(
        (4.8, 5.6),
        (0.15, 0.28, 0.8, 0.64),
        (0.15, 0.1, 0.8, 0.14),
    )
    upper.plot([0, top], [0, top], **_DOTTED)
    observed = curve["observed"]
    error = curve[["low", "high"]].sub(observed, axis=0).abs().T
    upper.errorbar(
        curve["predicted"], observed, error, marker="o", markersize=4, elinewidth=0.8,
        color=COLOURS[0], linewidth=2.2,
    )  # fmt: skip
    upper.set(xlim=(0, top), ylim=(0, top), ylabel="Observed share")
    upper.tick_params(labelbottom=False)
    lower.hist(
        np.minimum(risks, top),
        bins=np.linspace(0, top, 41).tolist(),
        color=COLOURS[0],
    )
    lower.set(xlim=(0, top), xlabel="Predicted risk", ylabel="Stays")
    return figure


@drawing()
def plot_decision_curve(
    curve: pd.DataFrame, *, points: Sequence[float] = ()
) -> "Figure":
    """Net benefit against the threshold probability; see `decision.decision_curve`.

    `points` are alert thresholds to mark. The axis ends a little after the last threshold at which
    any curve is above 0.
    """
    figure, (axes,) = new_axes((6.4, 4.4))
    curves = curve.set_index("threshold").drop(columns=NONE)
    useful = curves.index[(curves > 0).any(axis=1)]
    right = min(0.99, max([*useful[-1:], *points, 0.1]) + 0.05)
    shown = curves[curves.index <= right]
    axes.plot(shown[ALL], "-", color=GREY, label=ALL)
    axes.axhline(0, color="#222222", linestyle="--", label=NONE)
    look = _FIRST
    for name, benefit in shown.drop(columns=ALL).items():
        axes.plot(benefit, label=name, **look)
        look = {}
    for point in points:
        axes.axvline(point, color=COLOURS[4], linewidth=1, linestyle=":")
    top = shown.max(axis=None)
    axes.set(
        xlim=(0, right),
        ylim=(-0.25 * top, 1.08 * top),
        xlabel="Threshold probability",
        ylabel="Net benefit per stay",
    )
    axes.legend()
    return figure


@drawing()
def plot_remaining(table: pd.DataFrame) -> "Figure":
    """The risk that is left on days after discharge, by group; see `remaining_risks`.

    Lines are predicted, points observed with 95% intervals.
    """
    figure, (axes,) = new_axes((6.4, 4.4))
    groups = table.groupby("risk", sort=False)
    for (name, rows), colour in zip(groups, COLOURS, strict=False):
        ends = rows[["observed_low", "observed_high"]]
        error = ends.sub(rows["observed"], axis=0).abs().T
        axes.plot(rows["day"], rows["predicted"], "-", color=colour)
        axes.errorbar(
            rows["day"],
            rows["observed"],
            error,
            fmt="o",
            label=name,
            color=colour,
        )
    axes.set(
        xlim=(-0.5, None),
        ylim=(0, None),
        xticks=table["day"].unique(),
        xlabel="Days since discharge",
        ylabel="Remaining risk",
    )
    axes.legend(title="Risk at discharge")
    return figure


@drawing()
def plot_groups(
    table: pd.DataFrame, names: Mapping[str, str] | None = None
) -> "Figure":
    """A forest plot: AUROC and average precision of groups of codes, each with its interval.

    Args:
        table: `group, positive`, and `auroc` and `auprc` with `_low` and `_high`, as in
            `DiagnosisEvaluation.by_group`; a row is a line, the first one on top.
        names: what the groups are called.
    """
    height = 0.9 + 0.2 * len(table)
    figure, (axes,) = new_axes((7.6, height))
    rows = np.arange(len(table))[::-1]
    for name, label, colour, marker in (
        ("auroc", "AUROC", COLOURS[0], "o"),
        ("auprc", "Average precision", COLOURS[1], "s"),
    ):
        ends = table[[f"{name}_low", f"{name}_high"]]
        error = ends.sub(table[name], axis=0).abs().T.to_numpy()
        axes.errorbar(
            table[name],
            rows,
            xerr=np.nan_to_num(error),
            fmt=marker,
            markersize=4,
            linestyle="none",
            color=colour,
            label=label,
        )
    labels = []
    for group, positive in zip(table["group"], table["positive"], strict=True):
        title = textwrap.shorten(
            (names or {}).get(group, ""), 34, placeholder=" …"
        )
        labels.append(f"{group} {title} ({positive})".replace("  ", " "))
    axes.axvline(0.5, **_DOTTED)
    axes.set(xlim=(0, 1), ylim=(-0.7, len(table) - 0.3))
    axes.set_yticks(rows, labels)
    axes.legend(loc="lower left")
    return figure


@drawing()
def plot_windows(risk: StayRisk) -> "Figure":
    """Window probabilities along the notes of one stay, one note after the other.

    Raises:
        UserError: the stay has no window.
    """
    if not risk.windows:
        raise UserError(
            f"the stay has no windows to draw; its status is {risk.status!r}"
        )
    windows = pd.DataFrame(map(vars, risk.windows))
    lengths = windows.groupby("note")["end"].max()
    starts = lengths.cumsum() - lengths
    risks = windows["probability"]
    figure, (axes,) = new_axes((7.2, 3.0))
    axes.bar(
        windows["start"] + windows["note"].map(starts),
        risks,
        width=windows["end"] - windows["start"],
        align="edge",
        color=np.where(risks == risks.max(), COLOURS[1], COLOURS[5]),
        edgecolor="white",
        linewidth=0.6 if len(risks) < 60 else 0,
    )
    for start in starts[1:]:
        axes.axvline(
            start, color=GREY, linewidth=0.8, ymax=1.06, clip_on=False
        )
    lines = (
        ("score", risk.score, "#222222", DASHES[0]),
        ("P_max", risk.p_max, COLOURS[1], DASHES[1]),
        ("P_mean", risk.p_mean, COLOURS[2], DASHES[2]),
    )
    for name, level, colour, dash in lines:
        label = f"{name} {level:.2f}"
        axes.axhline(level, color=colour, linestyle=dash, label=label)
    axes.set(
        xlim=(0, lengths.sum()),
        ylim=(0, 1),
        xlabel="Characters of the stay's notes; grey lines part the notes",
        ylabel="Window probability",
    )
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
