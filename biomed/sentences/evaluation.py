"""How good models of texts are: rated pairs and retrieval, with 95% intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.sentences.search import SentenceIndex
from domainbert.errors import UserError
from domainbert.models.embedder import Embedder
from domainbert.models.pooling import unit
from domainbert.statistics.bootstrap import RESAMPLES, Interval, resample

if TYPE_CHECKING:
    import pandas as pd

    from domainbert.models.pairs import PairModel

CUT = 10
RECALLS = (1, 10, 100)


@dataclass(frozen=True)
class Evaluation:
    """Measures of a model, and the items that were measured.

    Attributes:
        scores: measure -> value with its 95% interval, by resampling the rows of `table`.
        table: a row for each pair, query or term.
    """

    scores: dict[str, Interval]
    table: pd.DataFrame = field(repr=False)

    def __str__(self) -> str:
        """As `MRR@10 0.979 [0.971, 0.986], recall@1 …`."""
        return ", ".join(f"{name} {interval}" for name, interval in self.scores.items())


def mean_scores(
    table: pd.DataFrame, columns: Sequence[str], *, bootstrap: int = RESAMPLES
) -> dict[str, Interval]:
    """The mean of each column, with its interval by resampling rows."""
    values = table[list(columns)].to_numpy(dtype=float)
    means = resample(
        lambda weights: weights @ values / weights.sum(),
        np.arange(len(values)),
        bootstrap=bootstrap,
        fewest=1,
    )
    return {name: means[place].interval() for place, name in enumerate(columns)}


def evaluate_pairs(
    model: Embedder | PairModel, pairs: pd.DataFrame, *, bootstrap: int = RESAMPLES
) -> Evaluation:
    """Correlate cosines, or the scores of a cross-encoder, with human ratings.

    Args:
        model: gives the vectors or the scores.
        pairs: `first, second, label`, from `read_pairs`; the label is the rating.
        bootstrap: resamples of pairs.

    Returns:
        The score "Spearman"; the table `first, second, rating, similarity,
        disagreement`, the largest disagreement first. The disagreement is the pair's rank by
        similarity minus its rank by rating, each scaled to [0, 1].

    Raises:
        UserError: ratings that are no numbers, a text without a vector, or ratings or
            similarities that are all the same.
    """
    import pandas as pd
    from scipy.stats import rankdata

    if "label" not in pairs.columns:
        raise UserError(
            "the pairs have no ratings; expected a column `rating` or `score`"
        )
    rating = pd.to_numeric(pairs["label"], errors="coerce").to_numpy(dtype=float)
    if np.isnan(rating).any():
        msg = f"row number {int(np.isnan(rating).argmax())} has a rating that is not a number"
        raise UserError(msg)
    similarity = _similarities(model, pairs)
    if np.ptp(rating) == 0 or np.ptp(similarity) == 0:
        msg = f"ratings or cosines of these {len(pairs)} pairs are all the same: nothing to compare"
        raise UserError(msg)

    def measure(weights: np.ndarray) -> float:
        rows = np.repeat(np.arange(len(pairs)), weights.astype(int))
        return spearman(similarity[rows], rating[rows])

    resampled = resample(measure, np.arange(len(pairs)), bootstrap=bootstrap, fewest=1)
    apart = (rankdata(similarity) - rankdata(rating)) / max(len(pairs) - 1, 1)
    columns = {"rating": rating, "similarity": similarity, "disagreement": apart}
    table = pairs[["first", "second"]].assign(**columns)
    worst = table.sort_values("disagreement", key=abs, ascending=False, kind="stable")
    return Evaluation({"Spearman": resampled.interval()}, worst.reset_index(drop=True))


def spearman(values: np.ndarray, expected: np.ndarray) -> float:
    """Rank correlation; NaN where one side does not vary."""
    from scipy.stats import rankdata

    ranks = rankdata(values), rankdata(expected)
    return float(np.corrcoef(*ranks)[0, 1]) if all(map(np.ptp, ranks)) else float("nan")


def _similarities(model: Embedder | PairModel, pairs: pd.DataFrame) -> np.ndarray:
    """Cosines, or scores of a cross-encoder, shape (pairs,)."""
    if not isinstance(model, Embedder):
        rows = zip(pairs["first"], pairs["second"], strict=True)
        return np.array([result.score for result in model.predict_many(rows)])
    vectors = unit(model.embed([*pairs["first"], *pairs["second"]])).astype(float)
    return (vectors[: len(pairs)] * vectors[len(pairs) :]).sum(axis=1)


def evaluate_retrieval(
    encoder: Embedder,
    pairs: pd.DataFrame,
    *,
    rerank: PairModel | None = None,
    with_words: bool = False,
    candidates: int = 100,
) -> dict[str, Evaluation]:
    """Find each first text's second text among all different second texts.

    Args:
        encoder: gives the vectors.
        pairs: queries and the texts that answer them; a query may have several.
        rerank: a cross-encoder that reorders the candidates.
        with_words: measure BM25 too, alone and joined.
        candidates: passages that are reranked.

    Returns:
        By way of searching ("meaning", and if asked for "meaning, reranked", "words" and "meaning
        and words"): see `measure_rankings`.

    Raises:
        UserError: see `SentenceIndex.search`.
    """
    texts = pairs["second"].unique().tolist()
    right = pairs.groupby("first", sort=False)["second"].agg(set)
    queries = right.index.tolist()
    index = SentenceIndex.build(texts, encoder, ids=texts)
    # So many passages are of at least as many texts as the longest recall counts.
    counts = index.vectors.rows(np.arange(len(index)))["id"].value_counts()
    k = min(max(int(counts.head(max(RECALLS) - 1).sum()) + 1, candidates), len(index))
    found = {"meaning": index.search(queries, k=k)}
    if rerank is not None:
        reranked = index.search(queries, k=k, rerank=rerank, candidates=candidates)
        found["meaning, reranked"] = reranked
    if with_words:
        words = index.words()
        found["words"] = index.passages(words.search(queries, k=k))
        found["meaning and words"] = index.search(
            queries, k=k, words=words, candidates=candidates
        )
    return {
        # A text with several passages ranks where its first passage does.
        way: measure_rankings([[p.id for p in row] for row in passages], right)
        for way, passages in found.items()
    }


def measure_rankings(
    ranked: Sequence[Sequence[str]], right: pd.Series[Any]
) -> Evaluation:
    """Measure rankings by sentence-transformers' `InformationRetrievalEvaluator`.

    Args:
        ranked: ids in order, for each query; of a repeated id the first counts.
        right: query -> the set of its right ids.

    Returns:
        The scores "MRR@10" (the mean of 1 / rank of the first right text, 0 beyond rank 10),
        "nDCG@10" (the discounted gain over that of an ideal ranking) and "recall@k" (the share of
        right texts among k); the table has `query` and these columns.
    """
    import pandas as pd
    from sentence_transformers.sentence_transformer.evaluation import (
        InformationRetrievalEvaluator,
    )

    rows = []
    for names, (query, wanted) in zip(ranked, right.items(), strict=True):
        evaluator = InformationRetrievalEvaluator(
            {"": query},
            {},
            {"": wanted},
            precision_recall_at_k=list(RECALLS),
            write_csv=False,
        )
        hits = [
            {"corpus_id": name, "score": -n}
            for n, name in enumerate(dict.fromkeys(names))
        ]
        measures = evaluator.compute_metrics([hits])
        row = {
            f"MRR@{CUT}": measures["mrr@k"][CUT],
            f"nDCG@{CUT}": measures["ndcg@k"][CUT],
        }
        row |= {f"recall@{k}": measures["recall@k"][k] for k in RECALLS}
        rows.append({"query": query, **row})
    table = pd.DataFrame(rows)
    return Evaluation(mean_scores(table, list(table.columns[1:])), table)


def evaluate_models(
    encoders: Mapping[str, Embedder],
    *,
    sts: pd.DataFrame | None = None,
    retrieval: pd.DataFrame | None = None,
    cross: PairModel | None = None,
    with_words: bool = False,
) -> dict[str, dict[str, Interval]]:
    """The scores of several models: model -> measure -> value with its interval.

    Args:
        encoders: by name.
        sts: rated pairs.
        retrieval: queries and their texts.
        cross: a cross-encoder, which reranks, and is measured on `sts`.
        with_words: measure BM25 too, alone and joined.

    Raises:
        UserError: nothing to measure; or see the single evaluations.
    """
    if sts is None and retrieval is None:
        raise UserError("nothing to measure: name --sts or --retrieval")
    rows: dict[str, dict[str, Interval]] = {name: {} for name in encoders}
    if sts is not None:
        rows = {
            name: evaluate_pairs(encoder, sts).scores
            for name, encoder in encoders.items()
        }
        if cross is not None:
            rows[cross.name or "cross-encoder"] = evaluate_pairs(cross, sts).scores
    if retrieval is not None:
        for name, encoder in encoders.items():
            ways = evaluate_retrieval(
                encoder, retrieval, rerank=cross, with_words=with_words
            )
            rows[name] |= ways.pop("meaning").scores
            rows |= {
                f"{name}, {way}": measured.scores for way, measured in ways.items()
            }
    return rows
