"""Vectors -> positions in a picture, and how well it keeps their neighbourhoods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from domainbert.errors import UserError
from domainbert.pooling import unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

Method = Literal["tsne", "pca"]
METHODS = ("tsne", "pca")
PERPLEXITY = 30.0
LEAST_FOR_TSNE = 4  # fewer terms are placed by PCA
NEIGHBOURS = 5
_ROWS = 512  # distances to all terms held at a time, for this many terms


@dataclass(frozen=True)
class TermLayout:
    """Terms in a picture.

    Attributes:
        table: `term, category` (where categories were given), `x, y`.
        method: "tsne" or "pca".
        perplexity: of t-SNE, None with PCA.
        k: neighbours per term behind the next two numbers; 0 for two terms.
        kept: share of the k nearest neighbours by cosine that are among the k in the picture.
        trustworthiness: in [0, 1]; 1 means that no term has a false neighbour in the picture
            (Venna and Kaski 2001, as in scikit-learn). Both are NaN for two terms.
    """

    table: pd.DataFrame = field(repr=False)
    method: Method
    perplexity: float | None
    k: int
    kept: float
    trustworthiness: float

    def caption(self) -> str:
        """Method and faithfulness of the picture, in one or two sentences."""
        terms = f"{len(self.table):,} terms"
        how = "PCA" if self.perplexity is None else f"t-SNE, perplexity {self.perplexity:.3g}"
        if not self.k:
            return f"{how} of {terms}."
        plural = "s" if self.k > 1 else ""
        return (
            f"{how} of {terms}. The picture keeps {self.kept:.0%} of each term's {self.k} nearest "
            f"neighbour{plural} (trustworthiness {self.trustworthiness:.2f})."
        )


def layout_terms(
    terms: Sequence[str],
    vectors: np.ndarray,
    *,
    categories: Sequence[str] | None = None,
    method: Method = "tsne",
    perplexity: float | None = None,
    seed: int = 0,
) -> TermLayout:
    """Place terms in two dimensions so that terms with a high cosine are close.

    Args:
        terms: two or more.
        vectors: theirs, shape (terms, dimension).
        categories: one for each term.
        method: "tsne" (scikit-learn, initialised with PCA; fewer than four terms use PCA alone)
            or "pca".
        perplexity: effective number of neighbours in t-SNE, above 0 and below the number of
            terms; by default 30, or a third of the terms if there are few.
        seed: of t-SNE.

    Raises:
        UserError: fewer than two terms, identical vectors, a wrong number of vectors or
            categories, an unknown method, or a perplexity out of range.
    """
    import pandas as pd

    number = len(terms)
    _check(terms, vectors, categories, method)
    points = unit(np.asarray(vectors, dtype=np.float32))
    if method == "tsne" and number < LEAST_FOR_TSNE and perplexity is None:
        method = "pca"  # t-SNE of two or three points says nothing, and needs a perplexity below 1
    if method == "tsne":
        perplexity = min(PERPLEXITY, (number - 1) / 3) if perplexity is None else perplexity
        places = _tsne(points, perplexity=perplexity, seed=seed)
    else:
        perplexity, places = None, _pca(points)
    k = min(NEIGHBOURS, (number - 1) // 2)
    kept, trust = faithfulness(points, places, k=k) if k else (float("nan"), float("nan"))
    table = pd.DataFrame({"term": list(terms)})
    if categories is not None:
        table["category"] = list(categories)
    table[["x", "y"]] = places
    return TermLayout(table, method, perplexity, k, kept, trust)


def faithfulness(points: np.ndarray, places: np.ndarray, *, k: int) -> tuple[float, float]:
    """How well a picture keeps neighbourhoods, in memory linear in the number of terms.

    Args:
        points: shape (terms, dimension).
        places: shape (terms, 2).
        k: neighbours, 1 <= k < terms / 2.

    Returns:
        The share of the k nearest points that are among the k nearest in the picture, and the
        picture's trustworthiness.
    """
    number, kept, penalty = len(points), 0, 0
    for start in range(0, number, _ROWS):
        rows = slice(start, start + _ROWS)
        true, shown = _distances(points, rows), _distances(places, rows)
        near = np.argpartition(shown, k, axis=1)[:, :k]
        ranks = np.stack(
            [(true < np.take_along_axis(true, near[:, [i]], axis=1)).sum(axis=1) for i in range(k)]
        )
        kept += int((ranks < k).sum())
        penalty += int(np.maximum(ranks + 1 - k, 0).sum())
    worst = number * k * (2 * number - 3 * k - 1) / 2
    return kept / (number * k), 1 - penalty / worst


def _distances(points: np.ndarray, rows: slice) -> np.ndarray:
    """Squared distances of some rows to all points, infinite to themselves."""
    points = np.asarray(points, dtype=np.float64)
    some = points[rows]
    squares = (points**2).sum(axis=1)
    distances = squares[rows, None] + squares - 2 * some @ points.T
    distances[np.arange(len(some)), np.arange(rows.start, rows.start + len(some))] = np.inf
    return distances


def _check(
    terms: Sequence[str], vectors: np.ndarray, categories: Sequence[str] | None, method: str
) -> None:
    if method not in METHODS:
        msg = f"method must be one of {', '.join(METHODS)}; got {method!r}"
        raise UserError(msg)
    if len(terms) < 2:
        msg = f"a picture needs at least two terms, got {len(terms)}"
        raise UserError(msg)
    for name, values in (("vectors", vectors), ("categories", categories)):
        if values is not None and len(values) != len(terms):
            msg = f"{len(terms)} terms but {len(values)} {name}; give one for each term"
            raise UserError(msg)
    if not np.ptp(vectors, axis=0).any():
        msg = f"these {len(terms)} terms all have the same vector; there is nothing to place"
        raise UserError(msg)


def _tsne(points: np.ndarray, *, perplexity: float, seed: int) -> np.ndarray:
    from sklearn.manifold import TSNE

    if not 0 < perplexity < len(points):
        msg = f"perplexity must be above 0 and below {len(points)}, the terms; got {perplexity:g}"
        raise UserError(msg)
    tsne = TSNE(perplexity=perplexity, init="pca", learning_rate="auto", random_state=seed)
    return tsne.fit_transform(points)


def _pca(points: np.ndarray) -> np.ndarray:
    from sklearn.decomposition import PCA

    return PCA(n_components=2, svd_solver="full").fit_transform(points)
