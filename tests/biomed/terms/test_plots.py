"""Figures of terms: what is drawn is what was measured, for four terms as for thousands."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from biomed.terms.plots import TermLayout, plot_layout, plot_terms
from biomed.terms.similarity import TermEmbedder
from domainbert.statistics.figures import save_figure

RNG = np.random.default_rng(0)


@pytest.fixture
def embedder(new_network, tokenizer):
    return TermEmbedder(new_network().bert, tokenizer)


def crowd(n, *, categories=14):
    terms = [f"term number {i}" for i in range(n)]
    names = [f"category {i % categories}" for i in range(n)]
    table = pd.DataFrame({"term": terms, "category": names})
    table[["x", "y"]] = RNG.normal(size=(n, 2))
    return TermLayout(table, "made up")


def labels(figure):
    """Boxes of the terms' labels on the page, in pixels."""
    figure.canvas.draw()
    texts = [
        text
        for text in figure.axes[0].texts
        if text.get_text().startswith("term")
    ]
    return [text.get_window_extent() for text in texts]


@pytest.mark.parametrize("n", [4, 20, 300, 1000])
def test_labels_do_not_overlap_on_the_page(n):
    figure = plot_layout(crowd(n))
    boxes = labels(figure)
    assert len(boxes) >= min(n, 15)
    corners = np.array([[b.x0, b.y0, b.x1, b.y1] for b in boxes])
    area = figure.axes[0].get_window_extent()
    assert (corners[:, :2] >= (area.x0 - 1, area.y0 - 1)).all()
    assert (corners[:, 2:] <= (area.x1 + 1, area.y1 + 1)).all()
    for i, box in enumerate(corners):
        others = np.delete(corners, i, axis=0)
        across = np.minimum(box[2], others[:, 2]) - np.maximum(
            box[0], others[:, 0]
        )
        up = np.minimum(box[3], others[:, 3]) - np.maximum(
            box[1], others[:, 1]
        )
        assert not ((across > 1) & (up > 1)).any()


def test_few_terms_all_have_labels():
    assert len(labels(plot_layout(crowd(20)))) == 20


def test_terms_and_categories_are_drawn_as_they_are_written():
    layout = crowd(3)
    odd = TermLayout(
        layout.table.assign(term="term [/evil] $x^{$", category="$y^{$"),
        "made up",
    )
    assert len(labels(plot_layout(odd))) == 3


def test_every_term_is_a_dot_and_every_category_a_look_of_its_own():
    layout = crowd(70)
    axes = plot_layout(layout).axes[0]
    assert sum(len(dots.get_offsets()) for dots in axes.collections) == 70
    looks = {
        (
            tuple(dots.get_facecolor()[0]),
            dots.get_paths()[0].vertices.tobytes(),
        )
        for dots in axes.collections
    }
    assert len(looks) == 14
    assert len(axes.get_figure().legends[0].get_texts()) == 14


def test_the_dots_stand_where_the_table_says():
    layout = crowd(30, categories=1)
    axes = plot_layout(layout).axes[0]
    assert np.asarray(axes.collections[0].get_offsets()) == pytest.approx(
        layout.table[["x", "y"]].to_numpy()
    )
    across, up = (
        np.ptp(limits) for limits in (axes.get_xlim(), axes.get_ylim())
    )
    box = axes.get_window_extent()
    assert across / box.width == pytest.approx(up / box.height)


def test_one_call_draws_terms(embedder):
    terms = ["heart failure", "chest pain", "insulin", "edema"]
    figure = plot_terms(terms, ["a", "a", "b", "b"], embedder=embedder)
    assert set(terms) <= {text.get_text() for text in figure.axes[0].texts}
    caption = figure.axes[0].get_xlabel()
    assert caption.startswith(
        "t-SNE, perplexity 1 of 4 terms; trustworthiness of neighbours: "
    )
    assert not plot_terms(terms, embedder=embedder).legends
    with pytest.raises(
        ValueError, match="a picture needs at least 4 terms, got 1"
    ):
        plot_terms(["edema"], embedder=embedder)
    with pytest.raises(ValueError, match="got one string; write"):
        plot_terms("edema", embedder=embedder)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_files_are_the_same_each_time(tmp_path, ending):
    layout = crowd(12)
    one, two = (
        save_figure(
            plot_layout(layout), tmp_path / f"{n}.{ending}"
        ).read_bytes()
        for n in "ab"
    )
    assert one == two


def test_matplotlib_waits_until_it_is_needed():
    code = (
        "import sys, biomed.terms.plots; sys.exit('matplotlib' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False).returncode
        == 0
    )


def test_a_name_is_text_not_a_formula(embedder, tmp_path):
    """A dollar sign ended the command."""
    terms = ["$x^{$ [/b]", "chest $pain$", "edema", "fever"]
    figure = plot_terms(
        terms, ["[/evil] $x^{$", "a", "a", "b"], embedder=embedder
    )
    save_figure(figure, tmp_path / "terms.png")
    assert terms[0] in [text.get_text() for text in figure.axes[0].texts]
