"""Places on a page: the reference's numbers of how true they are, and labels that never overlap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.terms.layout import layout_terms, place_labels, spread_order

RNG = np.random.default_rng(0)


def clusters(n, *, dimension=16):
    centres = RNG.normal(size=(3, dimension)) * 4
    return np.repeat(centres, -(-n // 3), axis=0)[:n] + RNG.normal(size=(n, dimension))


def test_trustworthiness_is_scikit_learns():
    from sklearn.manifold import trustworthiness

    vectors = RNG.normal(size=(60, 8))
    layout = layout_terms(["t"] * 60, vectors)
    points = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    places = layout.table[["x", "y"]].to_numpy()
    expected = trustworthiness(points, places, n_neighbors=layout.k)
    assert layout.trustworthiness == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("n", [2, 3, 4, 10, 60])
def test_it_works_from_two_terms_on(n):
    terms = [f"term {i}" for i in range(n)]
    layout = layout_terms(terms, clusters(n), categories=["a"] * n)
    assert layout.table["term"].tolist() == terms
    assert np.isfinite(layout.table[["x", "y"]].to_numpy()).all()
    assert len(layout.table[["x", "y"]].drop_duplicates()) == n
    assert layout.k == min(5, (n - 1) // 2)
    if n > 3:
        assert layout.perplexity == pytest.approx(min(30, (n - 1) / 3))
        assert f"perplexity {layout.perplexity:.3g} of {n} terms" in layout.caption()
    else:
        assert layout.perplexity is None
        assert layout.caption().startswith(f"PCA of {n} terms")
    if n > 2:
        assert f"{layout.k} nearest neighbour" in layout.caption()


def test_the_same_seed_gives_the_same_picture_and_clusters_stay_together():
    vectors = clusters(60)
    one, two = (layout_terms(["t"] * 60, vectors, seed=3).table for _ in range(2))
    assert one.equals(two)
    places = one[["x", "y"]].to_numpy().reshape(3, 20, 2)
    spread = places.std(axis=1).max()
    centres = places.mean(axis=1)
    apart = [np.linalg.norm(centres[i] - centres[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert min(apart) > 2 * spread


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(ValueError, match="a picture needs at least two terms, got 1"):
        layout_terms(["a"], np.ones((1, 3)))
    with pytest.raises(ValueError, match="3 terms but 1 categories"):
        layout_terms(list("abc"), np.eye(3), categories=["x"])
    with pytest.raises(ValueError, match="all have the same vector"):
        layout_terms(["a", "b"], np.ones((2, 3)))
    with pytest.raises(ValueError, match="perplexity must be above 0 and below 3"):
        layout_terms(list("abc"), np.eye(3), perplexity=3)


points = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=25)


@given(points=points, widths=st.lists(st.floats(1, 40), min_size=25, max_size=25))
def test_labels_never_overlap_nor_leave_the_page(points, widths):
    points = np.array(points)
    sizes = np.column_stack([widths[: len(points)], np.full(len(points), 6.0)])
    corners = place_labels(
        points, sizes, page=(100, 100), gap=2, rings=3, crowding=1, most=len(points)
    )
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
        crowding=0,
        most=1,
    )
    assert corners.tolist() == [[52, 47]]


def test_no_more_labels_than_asked_for():
    places = RNG.uniform(0, 500, size=(80, 2))
    options = {"page": (500, 500), "gap": 2, "rings": 1, "crowding": 80}
    corners = place_labels(places, np.full((80, 2), 5.0), most=7, **options)
    assert np.isfinite(corners).all(axis=1).sum() == 7


def test_the_order_reaches_every_corner_first():
    square = np.array([[0, 0], [1, 1], [0.5, 0.5], [10, 10], [0, 10], [10, 0]], dtype=float)
    order = spread_order(square)
    assert sorted(order) == list(range(6))
    assert set(order[:4]) == {0, 3, 4, 5}
    assert spread_order(np.zeros((3, 2))).tolist() == [0, 1, 2]
