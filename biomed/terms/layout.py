"""Where terms and their labels stand in a picture, and how faithful the picture is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from domainbert.errors import UserError
from domainbert.models.pooling import unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

PERPLEXITY = 30.0
LEAST_FOR_TSNE = 4  # fewer terms are placed by PCA
NEIGHBOURS = 5
# Positions of a label: right, left, above, below, then the corners.
_DIRECTIONS = np.array(
    [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)], dtype=float
)


@dataclass(frozen=True)
class TermLayout:
    """Terms in a picture.

    Attributes:
        table: `term, category` (where categories were given), `x, y`.
        perplexity: of t-SNE, None with PCA.
        k: neighbours per term behind the next number; 0 for two terms.
        trustworthiness: in [0, 1]; 1 means that no term has a false neighbour in the picture
            (Venna and Kaski 2001, by scikit-learn); NaN for two terms.
    """

    table: pd.DataFrame = field(repr=False)
    perplexity: float | None
    k: int
    trustworthiness: float

    def caption(self) -> str:
        """Method and trustworthiness of the picture."""
        terms = f"{len(self.table):,} terms"
        how = "PCA" if self.perplexity is None else f"t-SNE, perplexity {self.perplexity:.3g}"
        if not self.k:
            return f"{how} of {terms}."
        plural = "s" if self.k > 1 else ""
        return (
            f"{how} of {terms}; trustworthiness of the {self.k} nearest neighbour{plural}: "
            f"{self.trustworthiness:.2f} (1 is best)."
        )


def layout_terms(
    terms: Sequence[str],
    vectors: np.ndarray,
    *,
    categories: Sequence[str] | None = None,
    perplexity: float | None = None,
    seed: int = 0,
) -> TermLayout:
    """Place terms in two dimensions so that terms with a high cosine are close.

    Args:
        terms: two or more.
        vectors: theirs, shape (terms, dimension).
        categories: one for each term.
        perplexity: effective number of neighbours in t-SNE, above 0 and below the number of
            terms; by default 30, or a third of the terms if there are few, and principal
            components in place of t-SNE for fewer than four.
        seed: of t-SNE.

    Raises:
        UserError: fewer than two terms, identical vectors, a wrong number of categories, or a
            perplexity out of range.
    """
    import pandas as pd
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE, trustworthiness

    number = len(terms)
    _check(terms, vectors, categories)
    points = unit(np.asarray(vectors, dtype=np.float32))
    if perplexity is None and number >= LEAST_FOR_TSNE:
        perplexity = min(PERPLEXITY, (number - 1) / 3)
    if perplexity is None:
        # t-SNE of two or three points says nothing, and needs a perplexity below 1.
        places = PCA(n_components=2, svd_solver="full").fit_transform(points)
    elif 0 < perplexity < number:
        places = TSNE(perplexity=perplexity, random_state=seed).fit_transform(points)
    else:
        msg = f"perplexity must be above 0 and below {number}, the terms; got {perplexity:g}"
        raise UserError(msg)
    k = min(NEIGHBOURS, (number - 1) // 2)
    trust = float(trustworthiness(points, places, n_neighbors=k)) if k else float("nan")
    table = pd.DataFrame({"term": list(terms)})
    if categories is not None:
        table["category"] = list(categories)
    table[["x", "y"]] = places
    return TermLayout(table, perplexity, k, trust)


def _check(terms: Sequence[str], vectors: np.ndarray, categories: Sequence[str] | None) -> None:
    number = len(terms)
    if number < 2:
        raise UserError(f"a picture needs at least two terms, got {number}")
    if categories is not None and len(categories) != number:
        msg = f"{number} terms but {len(categories)} categories; give one for each term"
        raise UserError(msg)
    if not np.ptp(vectors, axis=0).any():
        msg = f"these {number} terms all have the same vector; there is nothing to place"
        raise UserError(msg)


def place_labels(
    points: np.ndarray,
    sizes: np.ndarray,
    *,
    page: tuple[float, float],
    gap: float,
    rings: int,
    crowding: int,
    most: int,
) -> np.ndarray:
    """Choose a place beside each point for its label, or none.

    Points far apart are labelled first, so that every region gets some labels. Each label takes
    the position that covers the fewest points, the nearest of equals. No two labels overlap, and
    no label leaves the page. All lengths have the same unit, such as typographic points.

    Args:
        points: shape (n, 2), with the page's lower left corner at (0, 0).
        sizes: width and height of each label, shape (n, 2).
        page: its width and height.
        gap: between a point's centre and a label beside it.
        rings: distances to try, in steps of the label's height; 1 is directly beside the point.
        crowding: other points that a label may cover.
        most: maximum number of labels.

    Returns:
        Lower left corners, shape (n, 2); NaN where a label is left out.
    """
    corners = np.full((len(points), 2), np.nan)
    dots = np.hstack([points - gap / 2, points + gap / 2])  # a point is as wide as the gap
    placed = np.empty((0, 4))
    for i in spread_order(points):
        if len(placed) >= most:
            break
        far = gap + sizes[i, 1] * np.arange(rings).repeat(len(_DIRECTIONS))[:, None]
        ways = np.tile(_DIRECTIONS, (rings, 1))
        low = points[i] + far * ways + (ways - 1) / 2 * sizes[i]
        boxes = np.hstack([low, low + sizes[i]])
        inside = (low >= 0).all(axis=1) & (boxes[:, 2:] <= page).all(axis=1)
        free = inside & ~_overlaps(boxes, placed).any(axis=1)
        covered = np.where(free, _overlaps(boxes, dots).sum(axis=1), np.inf)
        best = int(covered.argmin())
        if covered[best] <= crowding:
            corners[i] = low[best]
            placed = np.vstack([placed, boxes[best]])
    return corners


def spread_order(points: np.ndarray) -> np.ndarray:
    """Order of points, each as far as possible from those before it, shape (n,)."""
    order = np.zeros(len(points), dtype=np.int64)
    far = np.full(len(points), np.inf)
    for position in range(1, len(points)):
        far = np.minimum(far, ((points - points[order[position - 1]]) ** 2).sum(axis=1))
        far[order[:position]] = -1
        order[position] = int(far.argmax())
    return order


def _overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether boxes (left, bottom, right, top) share any area, shape (boxes, others)."""
    a, b = boxes[:, None], others[None]
    apart = (a[..., :2] >= b[..., 2:]) | (b[..., :2] >= a[..., 2:])
    return np.logical_not(apart.any(axis=2))
