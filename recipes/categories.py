"""The vocabulary for our own term vectors, and how well vectors separate its categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from biomed.sentences.evaluation import TextEvaluation, mean_scores
from biomed.terms.names import DATA, medical_terms, percent
from domainbert.errors import UserError
from domainbert.models.pooling import unit
from domainbert.statistics.bootstrap import RESAMPLES
from domainbert.tables import read_table, require_columns

if TYPE_CHECKING:
    import pandas as pd

    from domainbert.models.embedder import Embedder

NEIGHBOURS = 5
HELD_OUT = 20  # percent of the terms


def vocabulary_terms() -> pd.DataFrame:
    """`biomed.medical_terms` with what training needs.

    Returns:
        Its columns; `group`, a finer part of the category, such as "arrhythmia"; `held_out`, never
        trained on: a fifth of all terms, by a hash of their letters.
    """
    terms = medical_terms()
    table = read_table(DATA / "medical_terms.csv")
    group = terms["category"] + "/" + table["group"]
    held_out = [percent(term.casefold()) < HELD_OUT for term in terms["term"]]
    return terms.assign(group=group, held_out=held_out)


def evaluate_categories(
    embedder: Embedder,
    vocabulary: pd.DataFrame,
    *,
    k: int = NEIGHBOURS,
    bootstrap: int = RESAMPLES,
) -> TextEvaluation:
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
        UserError: fewer than k + 1 terms, fewer than two categories among those measured, or a
            term that occurs twice.
    """
    n_repeated = int(vocabulary["term"].str.casefold().duplicated().sum())
    if n_repeated:
        raise UserError(f"{n_repeated} terms of the vocabulary occur twice")
    require_columns(vocabulary.columns, ["category"], source="the vocabulary")
    measured = measured_terms(vocabulary)
    categories = vocabulary["category"].to_numpy(dtype=object)
    n_categories = len(set(categories[measured]))
    if len(vocabulary) <= k or not 1 < n_categories < measured.sum():
        msg = (
            f"{len(vocabulary)} terms, {measured.sum()} measured, of {n_categories} categories; "
            f"expected more than {k} terms, and two categories with more than one term each"
        )
        raise UserError(msg)
    vectors = unit(embedder.embed(vocabulary["term"].tolist()))
    cosines = vectors[measured] @ vectors.T
    cosines[np.arange(len(cosines)), np.flatnonzero(measured)] = -np.inf
    order = np.argsort(-cosines, axis=1, kind="stable")
    nearest = categories[order[:, :k]]
    table = vocabulary.loc[measured, ["term", "category"]]
    table = table.reset_index(drop=True)
    table["found"] = [max(row, key=row.tolist().count) for row in nearest]
    is_right = table["found"] == table["category"]
    is_same = nearest == categories[measured][:, None]
    table["right"] = is_right.astype(float)
    table["purity"] = is_same.mean(axis=1)
    means = mean_scores(table, ["right", "purity"], bootstrap=bootstrap)
    scores = {
        f"category accuracy of {k} neighbours": means["right"],
        f"category purity of {k} neighbours": means["purity"],
    }
    return TextEvaluation(scores, table)


def measured_terms(vocabulary: pd.DataFrame) -> np.ndarray:
    """The held-out terms, where there are any, else all; shape (terms,), bool."""
    if "held_out" in vocabulary.columns and vocabulary["held_out"].any():
        return vocabulary["held_out"].to_numpy(dtype=bool)
    return np.ones(len(vocabulary), dtype=bool)
