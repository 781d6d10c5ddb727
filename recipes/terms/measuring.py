"""How good term vectors are: rated pairs, search, categories, and synonyms of held-out terms."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biomed.sentences.data import read_pairs
from biomed.sentences.evaluation import (
    TextEvaluation,
    evaluate_pairs,
    evaluate_retrieval,
    mean_scores,
)
from domainbert.errors import UserError
from domainbert.models.pooling import unit
from domainbert.statistics.bootstrap import RESAMPLES
from recipes import passages
from recipes.categories import evaluate_categories, measured_terms
from recipes.terms.training_sets import STS
from recipes.vocabularies import MEASURED, MESH, held_out

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from biomed.terms.similarity import TermEmbedder
    from recipes.vocabularies import Entry

RATED_PAIRS = "terms/umnsrs_similarity_half.csv"
SCORES_NOTE = (
    "No pair of UMNSRS or of STS-B dev was trained on, and no name, in any spelling, of a "
    "held-out term or of the tenth of MeSH that is held out, and no topic or question that search "
    "is measured on. STS-B dev and UMNSRS also chose the weights, so their scores are optimistic. "
    "95% intervals from 1,000 resamples of pairs, terms, synonyms or questions."
)
OWN_TERM_FIRST = "own term first for a synonym"


def measure(
    embedder: TermEmbedder,
    vocabulary: pd.DataFrame,
    entries: Sequence[Entry],
    data: Path,
) -> dict[str, Any]:
    """The rows of the card's table of scores."""
    umnsrs = read_pairs(data / RATED_PAIRS)
    sts_dev = read_pairs(data / STS.format("dev"))
    evaluations = {
        "pairs rated by physicians": evaluate_pairs(embedder, umnsrs),
        "pairs of STS-B dev": evaluate_pairs(embedder, sts_dev),
    }
    for name, pairs in passages.measured_passages(data).items():
        search = evaluate_retrieval(embedder, pairs)["meaning"]
        scores = {
            score: search.scores[score] for score in passages.SEARCH_SCORES
        }
        evaluation = TextEvaluation(scores, search.table)
        evaluations[f"questions of {name}"] = evaluation
    categories = evaluate_categories(embedder, vocabulary)
    evaluations["held-out terms"] = categories
    mesh = mesh_synonyms(entries)
    first_only = mesh.assign(synonyms=mesh["synonyms"].str[:1])
    tables = {
        "held-out terms": vocabulary,
        "held-out MeSH diseases": mesh,
    }
    for name, table in tables.items():
        evaluation = evaluate_synonyms(embedder, table)
        evaluations[f"synonyms of {name}"] = evaluation
    first = evaluate_synonyms(embedder, first_only)
    evaluations["first synonyms of held-out MeSH diseases"] = first
    return {
        f"{name}, {len(evaluation.table)} {side}": asdict(score)
        for side, evaluation in evaluations.items()
        for name, score in evaluation.scores.items()
    }


def mesh_synonyms(entries: Sequence[Entry]) -> pd.DataFrame:
    """The diseases of MeSH as `evaluate_synonyms` reads them: `term, synonyms, held_out`."""
    measured = set(held_out(entries, MEASURED))
    rows = []
    for entry in entries:
        if entry.source == MESH:
            term, *synonyms = entry.names
            rows.append((term, synonyms, entry in measured))
    return pd.DataFrame(rows, columns=["term", "synonyms", "held_out"])


def evaluate_synonyms(
    embedder: TermEmbedder,
    vocabulary: pd.DataFrame,
    *,
    bootstrap: int = RESAMPLES,
) -> TextEvaluation:
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
    vocabulary = vocabulary.reset_index(drop=True)
    measured = measured_terms(vocabulary)
    synonyms = vocabulary.loc[measured, "synonyms"].explode().dropna()
    if synonyms.empty:
        raise UserError(
            "no term of this vocabulary has a synonym; expected a column synonyms"
        )
    terms = vocabulary["term"].to_numpy(dtype=object)
    synonym_vectors = unit(embedder.embed(synonyms.tolist()))
    term_vectors = unit(embedder.embed(terms.tolist()))
    cosines = synonym_vectors @ term_vectors.T
    own_terms = synonyms.index.to_numpy()
    own_cosines = cosines[np.arange(len(synonyms)), own_terms]
    ranks = 1 + (cosines > own_cosines[:, None]).sum(axis=1)
    is_first = pd.DataFrame({OWN_TERM_FIRST: ranks == 1})
    scores = mean_scores(is_first, [OWN_TERM_FIRST], bootstrap=bootstrap)
    columns = {
        "synonym": synonyms.to_numpy(),
        "term": terms[own_terms],
        "found": terms[cosines.argmax(axis=1)],
        "own_rank": ranks,
    }
    table = pd.DataFrame(columns).sort_values(
        "own_rank", ascending=False, kind="stable", ignore_index=True
    )
    return TextEvaluation(scores, table)
