"""Quality of term vectors: agreement with human ratings, and separation of categories."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.intervals import RESAMPLES, Interval, bootstrap_interval
from domainbert.pooling import unit
from domainbert.tables import TableError, read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from biomed.terms.embedder import TermEmbedder
    from domainbert.embedding import Embedder

UMNSRS_COLUMNS = ("Term1", "Term2", "Mean")
PAIR_COLUMNS = ("first", "second", "rating")
NEIGHBOURS = 5


@dataclass(frozen=True)
class PairAgreement:
    """Agreement of cosines with human ratings of pairs.

    Attributes:
        spearman: rank correlation of cosine and rating, with an interval by resampling pairs.
        pearson: linear correlation, likewise.
        table: `first, second, rating, cosine`, and `disagreement`: the pair's rank by cosine
            minus its rank by rating, each scaled to [0, 1].
    """

    spearman: Interval
    pearson: Interval
    table: pd.DataFrame = field(repr=False)

    def worst(self, n: int = 10) -> pd.DataFrame:
        """The n pairs with the largest disagreement."""
        order = self.table["disagreement"].abs().sort_values(ascending=False, kind="stable")
        return self.table.loc[order.index[:n]].reset_index(drop=True)


@dataclass(frozen=True)
class CategorySeparation:
    """Separation of a vocabulary's categories.

    Attributes:
        accuracy: share of terms whose category is the most common among their nearest neighbours
            (ties go to the nearest), with an interval by resampling terms.
        purity: mean share of neighbours with the term's category, likewise.
        silhouette: mean over the terms, by cosine distance, in [-1, 1].
        k: neighbours per term, from the whole vocabulary without the term itself.
        table: `term, category, found` (the most common category), `purity`.
    """

    accuracy: Interval
    purity: Interval
    silhouette: float
    k: int
    table: pd.DataFrame = field(repr=False)

    def by_category(self) -> pd.DataFrame:
        """Each category's `terms`, `accuracy` and `purity`."""
        right = self.table["found"] == self.table["category"]
        grouped = self.table.assign(right=right).groupby("category", sort=False)
        return grouped.agg(
            terms=("term", "size"), accuracy=("right", "mean"), purity=("purity", "mean")
        ).reset_index()


@dataclass(frozen=True)
class SynonymSearch:
    """How often a synonym's nearest term is its own, by vectors alone.

    Attributes:
        first: share of the synonyms whose own term is nearest, with an interval by resampling.
        table: `synonym, term, found` (the nearest term), `cosine` of both, `own_rank` (from 1) and
            `own_cosine` of the own term.
    """

    first: Interval
    table: pd.DataFrame = field(repr=False)

    def worst(self, n: int = 10) -> pd.DataFrame:
        """The n synonyms whose own term is the furthest behind the term that was found."""
        behind = (self.table["cosine"] - self.table["own_cosine"]).sort_values(ascending=False)
        return self.table.loc[behind.index[:n]].reset_index(drop=True)


def read_rated_pairs(path: str | Path) -> pd.DataFrame:
    """Read rated pairs: UMNSRS's own columns, or any table of three columns.

    Args:
        path: .csv, .parquet or .jsonl with `Term1, Term2, Mean`; with `first, second, rating`; or
            with three columns, two of text and then one of numbers.

    Returns:
        `first, second, rating`; rows in which one is missing are left out.

    Raises:
        TableError: other columns, or fewer than three whole pairs.
    """
    import pandas as pd

    path = Path(path)
    table = read_table(path)
    for names in (UMNSRS_COLUMNS, PAIR_COLUMNS, tuple(table.columns)):
        if len(names) == len(PAIR_COLUMNS) and set(names) <= set(table.columns):
            pairs = table[list(names)].set_axis(list(PAIR_COLUMNS), axis=1)
            break
    else:
        msg = (
            f"{path.name}: expected the columns {', '.join(UMNSRS_COLUMNS)}, or three columns "
            f"(term, term, rating); got {len(table.columns)}"
        )
        raise TableError(msg)
    pairs["rating"] = pd.to_numeric(pairs["rating"], errors="coerce")
    whole = pairs.dropna().reset_index(drop=True)
    if len(whole) < len(PAIR_COLUMNS):
        msg = f"{path.name}: {len(whole)} of {len(pairs)} rows have two terms and a number"
        raise TableError(msg)
    return whole


def evaluate_pairs(
    embedder: Embedder, pairs: pd.DataFrame, *, bootstrap: int = RESAMPLES, seed: int = 0
) -> PairAgreement:
    """Correlate cosines with ratings.

    Args:
        embedder: gives the vectors.
        pairs: `first, second, rating`, from `read_rated_pairs`.
        bootstrap: resamples of pairs.
        seed: of the resamples.

    Raises:
        UserError: a term cannot be embedded, or ratings or cosines do not vary.
    """
    from scipy.stats import rankdata

    terms = list(dict.fromkeys([*pairs["first"], *pairs["second"]]))
    place = {term: row for row, term in enumerate(terms)}
    vectors = unit(embedder.embed(terms))
    rows = [[place[term] for term in pairs[side]] for side in ("first", "second")]
    cosine = np.einsum("ij,ij->i", vectors[rows[0]], vectors[rows[1]]).astype(float)
    rating = pairs["rating"].to_numpy(dtype=float)
    if np.ptp(rating) == 0 or np.ptp(cosine) == 0:
        msg = f"ratings or cosines of these {len(pairs)} pairs are all the same: nothing to compare"
        raise UserError(msg)

    def pearson(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) and np.ptp(b) else float("nan")

    def spearman(index: np.ndarray) -> float:
        return pearson(rankdata(cosine[index]), rankdata(rating[index]))

    places = (rankdata(cosine) - rankdata(rating)) / (len(pairs) - 1)
    return PairAgreement(
        spearman=bootstrap_interval(spearman, n=len(pairs), bootstrap=bootstrap, seed=seed),
        pearson=bootstrap_interval(
            lambda index: pearson(cosine[index], rating[index]),
            n=len(pairs),
            bootstrap=bootstrap,
            seed=seed,
        ),
        table=pairs[list(PAIR_COLUMNS)].assign(cosine=cosine, disagreement=places),
    )


def evaluate_categories(
    embedder: TermEmbedder,
    vocabulary: pd.DataFrame,
    *,
    k: int = NEIGHBOURS,
    bootstrap: int = RESAMPLES,
    seed: int = 0,
) -> CategorySeparation:
    """How often a term's nearest neighbours are of its own clinical category.

    Args:
        embedder: gives the vectors.
        vocabulary: `term, category`; with a column `held_out` only held-out terms are measured,
            but their neighbours may be any terms.
        k: neighbours.
        bootstrap: resamples of terms.
        seed: of the resamples.

    Raises:
        UserError: fewer than k + 1 terms, or fewer than two categories among those measured.
    """
    import pandas as pd
    from sklearn.metrics import silhouette_score

    measured = np.ones(len(vocabulary), dtype=bool)
    if "held_out" in vocabulary.columns and vocabulary["held_out"].any():
        measured = vocabulary["held_out"].to_numpy(dtype=bool)
    category = vocabulary["category"].to_numpy(dtype=object)
    count = len(set(category[measured]))
    if len(vocabulary) <= k or not 1 < count < measured.sum():
        msg = (
            f"{len(vocabulary)} terms, {measured.sum()} measured, of {count} categories; needed "
            f"are more than {k} terms, and two categories with more than one term each"
        )
        raise UserError(msg)
    vectors = unit(embedder.embed(vocabulary["term"].tolist()))
    cosines = vectors[measured] @ vectors.T
    cosines[np.arange(len(cosines)), np.flatnonzero(measured)] = -np.inf
    nearest = category[np.argsort(-cosines, axis=1, kind="stable")[:, :k]]
    own = category[measured]
    found = np.array([_vote(row) for row in nearest], dtype=object)
    right, purity = found == own, (nearest == own[:, None]).mean(axis=1)
    options = {"n": len(own), "bootstrap": bootstrap, "seed": seed}
    terms = vocabulary.loc[measured, ["term", "category"]].reset_index(drop=True)
    return CategorySeparation(
        accuracy=bootstrap_interval(lambda index: float(right[index].mean()), **options),
        purity=bootstrap_interval(lambda index: float(purity[index].mean()), **options),
        silhouette=float(silhouette_score(vectors[measured], own.astype(str), metric="cosine")),
        k=k,
        table=terms.assign(found=pd.Series(found, dtype="str"), purity=purity),
    )


def evaluate_synonyms(
    embedder: Embedder, vocabulary: pd.DataFrame, *, bootstrap: int = RESAMPLES, seed: int = 0
) -> SynonymSearch:
    """Search each synonym among all terms by its vector; see `SynonymSearch`.

    Args:
        embedder: gives the vectors.
        vocabulary: `term, synonyms`; with a column `held_out` only the synonyms of held-out terms
            are searched, among all terms.
        bootstrap: resamples of synonyms.
        seed: of the resamples.

    Raises:
        UserError: no term has a synonym.
    """
    rows = vocabulary.reset_index(drop=True)
    if "held_out" in rows.columns and rows["held_out"].any():
        rows = rows[rows["held_out"]]
    pairs = rows["synonyms"].explode().dropna()
    if pairs.empty:
        raise UserError("no term of this vocabulary has a synonym; expected a column synonyms")
    terms = vocabulary["term"].to_numpy(dtype=object)
    cosines = unit(embedder.embed(pairs.tolist())) @ unit(embedder.embed(terms.tolist())).T
    each, own = np.arange(len(pairs)), pairs.index.to_numpy()
    ranks = 1 + (cosines > cosines[each, own][:, None]).sum(axis=1)
    best = cosines.argmax(axis=1)
    table = pairs.rename("synonym").reset_index(drop=True).to_frame()
    return SynonymSearch(
        first=bootstrap_interval(
            lambda index: float((ranks[index] == 1).mean()),
            n=len(pairs),
            bootstrap=bootstrap,
            seed=seed,
        ),
        table=table.assign(
            term=terms[own],
            found=terms[best],
            cosine=cosines[each, best],
            own_rank=ranks,
            own_cosine=cosines[each, own],
        ),
    )


def compare_encoders(
    embedders: Iterable[TermEmbedder],
    *,
    pairs: pd.DataFrame | None = None,
    vocabulary: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Several encoders side by side.

    Args:
        embedders: told apart by their `name`.
        pairs: from `read_rated_pairs`.
        vocabulary: from `medical_terms` or `read_vocabulary`.

    Returns:
        One row an encoder and measure: `encoder, measure, value, low, high`.

    Raises:
        UserError: neither pairs nor vocabulary, or two encoders of one name.
    """
    import pandas as pd

    if pairs is None and vocabulary is None:
        raise UserError("nothing to measure: give pairs=read_rated_pairs(FILE) or a vocabulary")
    embedders = list(embedders)
    names = [embedder.name for embedder in embedders]
    if twice := [name for name in names if names.count(name) > 1]:
        msg = f"two encoders are called {twice[0]!r}; give one another name: embedder.name = …"
        raise UserError(msg)
    rows: list[tuple[Any, ...]] = []
    for embedder in embedders:
        measured: dict[str, Interval] = {}
        if pairs is not None:
            agreement = evaluate_pairs(embedder, pairs)
            measured |= {"Spearman": agreement.spearman, "Pearson": agreement.pearson}
        if vocabulary is not None:
            separation = evaluate_categories(embedder, vocabulary)
            measured |= {
                f"category accuracy of {separation.k} neighbours": separation.accuracy,
                f"category purity of {separation.k} neighbours": separation.purity,
            }
            if "synonyms" in vocabulary.columns and vocabulary["synonyms"].str.len().any():
                found = evaluate_synonyms(embedder, vocabulary)
                measured["own term first for a synonym"] = found.first
        rows += [(embedder.name, name, *asdict(i).values()) for name, i in measured.items()]
    return pd.DataFrame(rows, columns=["encoder", "measure", "value", "low", "high"])


def _vote(categories: Sequence[str]) -> str:
    """The most common category; of equals the first."""
    names, first, counts = np.unique(
        np.asarray(categories, dtype=str), return_index=True, return_counts=True
    )
    return str(names[np.lexsort((first, -counts))[0]])
