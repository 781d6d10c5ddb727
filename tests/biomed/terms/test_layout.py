"""Places on a page: the reference's numbers of how true they are, and labels that never overlap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.terms.plots import layout_terms, place_labels

RNG = np.random.default_rng(0)


def clusters(n, *, dimension=16):
    centres = RNG.normal(size=(3, dimension)) * 4
    return np.repeat(centres, -(-n // 3), axis=0)[:n] + RNG.normal(
        size=(n, dimension)
    )


def test_trustworthiness_is_scikit_learns():
    from sklearn.manifold import trustworthiness

    vectors = RNG.normal(size=(60, 8))
    layout = layout_terms(["t"] * 60, vectors)
    points = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    places = layout.table[["x", "y"]].to_numpy()
    expected = trustworthiness(points, places, n_neighbors=5)
    assert f"trustworthiness of neighbours: {expected:.2f} " in layout.caption


@pytest.mark.parametrize("n", [4, 10, 60])
def test_it_works_from_four_terms_on(n):
    terms = [f"term {i}" for i in range(n)]
    layout = layout_terms(terms, clusters(n), categories=["a"] * n)
    assert layout.table["term"].tolist() == terms
    assert np.isfinite(layout.table[["x", "y"]].to_numpy()).all()
    assert len(layout.table[["x", "y"]].drop_duplicates()) == n
    assert (
        f"perplexity {min(30, (n - 1) / 3):.3g} of {n} terms" in layout.caption
    )


def test_the_same_seed_gives_the_same_picture_and_clusters_stay_together():
    vectors = clusters(60)
    one, two = (
        layout_terms(["t"] * 60, vectors, seed=3).table for _ in range(2)
    )
    assert one.equals(two)
    places = one[["x", "y"]].to_numpy().reshape(3, 20, 2)
    spread = places.std(axis=1).max()
    centres = places.mean(axis=1)
    apart = [
        np.linalg.norm(centres[i] - centres[j])
        for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    assert min(apart) > 2 * spread


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(
        ValueError, match="a picture needs at least 4 terms, got 1"
    ):
        layout_terms(["a"], np.ones((1, 3)))
    with pytest.raises(
        ValueError, match="4 terms but 1 categories; give one for each"
    ):
        layout_terms(list("abcd"), np.eye(4), categories=["x"])
    with pytest.raises(ValueError, match="all have the same vector"):
        layout_terms(list("abcd"), np.ones((4, 3)))
    with pytest.raises(
        ValueError, match=r"above 0 and below the number of terms \(4\); got 4"
    ):
        layout_terms(list("abcd"), np.eye(4), perplexity=4)


points = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=25
)


@given(
    points=points, widths=st.lists(st.floats(1, 40), min_size=25, max_size=25)
)
def test_labels_never_overlap_nor_leave_the_page(points, widths):
    points = np.array(points)
    sizes = np.column_stack([widths[: len(points)], np.full(len(points), 6.0)])
    corners = place_labels(points, sizes, page=(100, 100), gap=2, rings=3)
    shown = np.isfinite(corners).all(axis=1)
    low, high = corners[shown], (corners + sizes)[shown]
    assert (low >= 0).all()
    assert (high <= 100).all()
    for i in range(len(low)):
        for j in range(i):
            apart = (low[i] >= high[j]) | (low[j] >= high[i])
            assert apart.any()


def test_a_lonely_point_has_its_label_to_the_right():
    corners = place_labels(
        np.array([[50.0, 50]]),
        np.array([[20.0, 6]]),
        page=(100, 100),
        gap=2,
        rings=1,
    )
    assert corners.tolist() == [[52, 47]]
