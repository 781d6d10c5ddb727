"""Quality of term vectors: separation of clinical categories, synonyms, and rated pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from biomed.sentences.evaluation import (
    Evaluation,
    evaluate_pairs,
    mean_scores,
)
from domainbert.errors import UserError
from domainbert.models.pooling import unit
from domainbert.statistics.bootstrap import RESAMPLES
from domainbert.tables import require_columns

if TYPE_CHECKING:
    import pandas as pd

    from domainbert.models.embedder import Embedder

NEIGHBOURS = 5


def evaluate_categories(
    embedder: Embedder,
    vocabulary: pd.DataFrame,
    *,
    k: int = NEIGHBOURS,
    bootstrap: int = RESAMPLES,
) -> Evaluation:
    """How often a term's nearest neighbours are of its own clinical category.

    Args:
        embedder: gives the vectors.
        vocabulary: `term, category`; with a column `held_out` only held-out terms are measured,
            but their neighbours may be any terms.
        k: neighbours by cosine, from the whole vocabulary without the term itself.
        bootstrap: resamples of terms.

    Returns:
        The scores "category accuracy of K neighbours" (the share of terms whose category is the
        most common one among their neighbours; of equally common ones the nearest) and "category
        purity of K neighbours" (the mean share of neighbours with the term's category); the table
        `term, category, found` (the most common category), `right` and `purity`.

    Raises:
        UserError: fewer than k + 1 terms, or fewer than two categories among those measured.
    """
    measured = _measured(vocabulary)
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
    table = vocabulary.loc[measured, ["term", "category"]].reset_index(drop=True)
    table["found"] = [max(row, key=row.tolist().count) for row in nearest]
    table["right"] = (table["found"] == table["category"]).astype(float)
    table["purity"] = (nearest == category[measured][:, None]).mean(axis=1)
    means = mean_scores(table, ["right", "purity"], bootstrap=bootstrap)
    names = {"right": "accuracy", "purity": "purity"}
    scores = {f"category {names[n]} of {k} neighbours": score for n, score in means.items()}
    return Evaluation(scores, table)


def evaluate_synonyms(
    embedder: Embedder, vocabulary: pd.DataFrame, *, bootstrap: int = RESAMPLES
) -> Evaluation:
    """Search each synonym among all terms by its vector.

    Args:
        embedder: gives the vectors.
        vocabulary: `term, synonyms`; with a column `held_out` only the synonyms of held-out terms
            are searched, among all terms.
        bootstrap: resamples of synonyms.

    Returns:
        The score "own term first for a synonym" (the share of synonyms whose own term is
        nearest); the table `synonym, term, found` (the nearest term) and `own_rank` (of the own
        term, from 1), the worst synonyms first.

    Raises:
        UserError: no term has a synonym.
    """
    import pandas as pd

    rows = vocabulary.reset_index(drop=True)
    pairs = rows.loc[_measured(rows), "synonyms"].explode().dropna()
    if pairs.empty:
        raise UserError("no term of this vocabulary has a synonym; expected a column synonyms")
    terms = rows["term"].to_numpy(dtype=object)
    cosines = unit(embedder.embed(pairs.tolist())) @ unit(embedder.embed(terms.tolist())).T
    each, own = np.arange(len(pairs)), pairs.index.to_numpy()
    ranks = 1 + (cosines > cosines[each, own][:, None]).sum(axis=1)
    columns = {"synonym": pairs.to_numpy(), "term": terms[own]}
    table = pd.DataFrame({**columns, "found": terms[cosines.argmax(axis=1)], "own_rank": ranks})
    name = "own term first for a synonym"
    scores = mean_scores(pd.DataFrame({name: ranks == 1}), [name], bootstrap=bootstrap)
    table = table.sort_values("own_rank", ascending=False, kind="stable", ignore_index=True)
    return Evaluation(scores, table)


def _measured(vocabulary: pd.DataFrame) -> np.ndarray:
    """The held-out terms, where there are any, else all; shape (terms,), bool."""
    if "held_out" in vocabulary.columns and vocabulary["held_out"].any():
        return vocabulary["held_out"].to_numpy(dtype=bool)
    return np.ones(len(vocabulary), dtype=bool)


def evaluate_terms(
    embedder: Embedder,
    *,
    pairs: pd.DataFrame | None = None,
    vocabulary: pd.DataFrame | None = None,
) -> dict[str, Evaluation]:
    """All measures that the data allow: "pairs", "categories" and "synonyms".

    Args:
        embedder: gives the vectors.
        pairs: rated pairs, from `biomed.sentences.data.read_pairs`.
        vocabulary: from `medical_terms` or `read_vocabulary`.

    Raises:
        UserError: neither pairs nor a vocabulary, or a term that occurs twice.
    """
    if pairs is None and vocabulary is None:
        raise UserError("nothing to measure: give pairs=read_pairs(FILE) or a vocabulary")
    measured = {}
    if pairs is not None:
        measured["pairs"] = evaluate_pairs(embedder, pairs)
    if vocabulary is not None:
        if twice := int(vocabulary["term"].str.casefold().duplicated().sum()):
            raise UserError(f"{twice} terms of the vocabulary occur twice")
        require_columns(vocabulary.columns, ["category"], source="the vocabulary")
        measured["categories"] = evaluate_categories(embedder, vocabulary)
        if "synonyms" in vocabulary.columns and vocabulary["synonyms"].str.len().any():
            measured["synonyms"] = evaluate_synonyms(embedder, vocabulary)
    return measured
