"""Figures: the curves drawn are the numbers measured, and files are whole and repeatable."""

import sys

import numpy as np
import pytest

from clinical.evaluation.intervals import evaluate
from clinical.report.figures import (
    plot_calibration,
    plot_decision_curve,
    plot_ranking,
    plot_remaining,
    plot_windows,
)
from clinical.risk.reading import Coverage, StayRisk, WindowRisk
from domainbert.errors import UserError
from domainbert.statistics.figures import save_figure


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 4, 500)
    return (rng.random(500) < p).astype(int), {"model": p, "words": p.round(1)}


def curve(axes, label):
    line = next(
        line for line in axes.get_lines() if label in str(line.get_label())
    )
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_roc_is_scikit_learns(scored):
    from sklearn.metrics import roc_curve

    y, scores = scored
    left, _ = plot_ranking(y, scores).axes
    x, height = curve(left, "words")
    expected = roc_curve(y, scores["words"], drop_intermediate=False)
    assert x == pytest.approx(expected[0])
    assert height == pytest.approx(expected[1])
    assert left.get_aspect() == 1
    assert legend(left) == ["model", "words"]


def test_legends_show_areas_with_intervals_when_given(scored):
    y, scores = scored
    found = evaluate(y, scores["model"], patients=range(500), bootstrap=50)
    left, right = plot_ranking(y, scores, evaluations={"model": found}).axes
    assert legend(left) == [f"model: {found.auroc}", "words"]
    assert legend(right) == [f"model: {found.auprc}", "words"]


def test_precision_recall_stands_above_the_prevalence(scored):
    from sklearn.metrics import average_precision_score

    y, scores = scored
    _, right = plot_ranking(y, scores).axes
    x, height = curve(right, "model")
    area = float(
        np.diff(x) @ height[1:]
    )  # steps, as average precision has them
    assert area == pytest.approx(average_precision_score(y, scores["model"]))
    assert y.mean() in [line.get_ydata()[0] for line in right.get_lines()]


def test_calibration_is_square_and_counts_every_stay(scored):
    y, scores = scored
    upper, lower = plot_calibration(y, scores["model"]).axes
    assert upper.get_xlim() == upper.get_ylim() == lower.get_xlim()
    assert sum(patch.get_height() for patch in lower.patches) == 500


def stay(windows, *, score):
    """A risk of windows (note, start, end, probability)."""
    risks = [probability for *_, probability in windows]
    return StayRisk(
        *(
            score,
            score,
            max(risks, default=0.0),
            sum(risks) / max(1, len(risks)),
            False,
        ),
        windows=tuple(WindowRisk(*window) for window in windows),
        coverage=Coverage(0, 0, len(windows)),
        status="ok" if windows else "empty",
    )


def test_windows_follow_one_another_note_by_note():
    figure = plot_windows(
        stay(
            [(0, 0, 100, 0.2), (0, 100, 150, 0.8), (1, 0, 80, 0.5)], score=0.62
        )
    )
    axes = figure.axes[0]
    bars = [(b.get_x(), b.get_width(), b.get_height()) for b in axes.patches]
    assert bars == [(0, 100, 0.2), (100, 50, 0.8), (150, 80, 0.5)]
    assert legend(axes) == ["score 0.62", "P_max 0.80", "P_mean 0.50"]


def test_remaining_risks_are_lines_with_observed_points(comparison):
    (axes,) = plot_remaining(comparison.remaining).axes
    table = comparison.remaining
    assert legend(axes) == table["risk"].unique().tolist()
    predicted = [
        line for line in axes.get_lines() if line.get_linestyle() == "-"
    ]
    first = table[table["risk"] == table["risk"].iloc[0]]
    assert predicted[0].get_ydata() == pytest.approx(first["predicted"])
    (points, _, (bars,)), *_ = axes.containers
    assert points.get_ydata() == pytest.approx(first["observed"])
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert ends == pytest.approx(
        first[["observed_low", "observed_high"]].to_numpy()
    )


def test_names_from_data_are_drawn_as_they_are(scored, comparison, tmp_path):
    odd = "[/evil] $x^{$"
    y, scores = scored
    curve = comparison.curve.rename(columns={"model": odd})
    for number, figure in enumerate(
        (
            plot_ranking(y, {odd: scores["model"]}),
            plot_decision_curve(curve),
        )
    ):
        assert save_figure(figure, tmp_path / f"{number}.svg").is_file()


def test_clear_errors(scored):
    y, scores = scored
    with pytest.raises(
        ValueError, match="y has 500 values and probability has 0"
    ):
        plot_calibration(y, [])
    with pytest.raises(
        ValueError,
        match="0 of 500 stays have the outcome; these curves need both",
    ):
        plot_ranking(np.zeros(500), scores)
    with pytest.raises(
        ValueError, match="no windows to draw; its status is 'empty'"
    ):
        plot_windows(stay([], score=0.1))


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_files_are_the_same_each_time(tmp_path, scored, ending):
    y, scores = scored
    for name in ("one", "two"):
        assert save_figure(
            plot_ranking(y, scores), tmp_path / f"{name}.{ending}"
        ).is_file()
    one, two = (tmp_path / f"{name}.{ending}" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        one.name,
        two.name,
    ]


def test_a_failed_save_leaves_nothing(tmp_path, scored):
    y, scores = scored
    with pytest.raises(ValueError, match="tiffany"):
        save_figure(plot_ranking(y, scores), tmp_path / "roc.tiffany")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="no such folder"):
        save_figure(plot_ranking(y, scores), tmp_path / "absent" / "roc.png")


def test_no_global_figures_are_made():
    import subprocess

    code = (
        "import sys, clinical.report.figures as f; assert 'matplotlib' not in sys.modules;"
        "f.plot_ranking([0, 1], {'m': [0.1, 0.2]}); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
