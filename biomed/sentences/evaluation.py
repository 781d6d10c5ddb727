"""Evaluation of text models on rated pairs and on retrieval, with 95% intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from biomed.sentences.search import PassageHit, SentenceIndex
from domainbert.errors import UserError
from domainbert.models.embedder import Embedder
from domainbert.models.pairs import PairModel
from domainbert.models.pooling import unit
from domainbert.statistics.bootstrap import RESAMPLES, Interval, resample

CUTOFF = 10  # of MRR and nDCG
RECALLS = (1, 10, 100)


@dataclass(frozen=True)
class TextEvaluation:
    """The scores of a model, and the items that were scored.

    Attributes:
        scores: measure -> value with its 95% interval, from resampling the rows of `table`.
        table: a row for each pair, query or term.
    """

    scores: dict[str, Interval]
    table: pd.DataFrame = field(repr=False)

    def __str__(self) -> str:
        """For example `MRR@10 0.979 [0.971, 0.986], recall@1 …`."""
        return ", ".join(
            f"{name} {interval}" for name, interval in self.scores.items()
        )


def mean_scores(
    table: pd.DataFrame,
    columns: Sequence[str],
    *,
    bootstrap: int = RESAMPLES,
) -> dict[str, Interval]:
    """The mean of each column, with its interval from resampling rows."""
    values = table[list(columns)].to_numpy(dtype=float)
    means = resample(
        lambda weights: weights @ values / weights.sum(),
        np.arange(len(values)),
        bootstrap=bootstrap,
        fewest=1,
    )
    return {
        name: means[number].interval() for number, name in enumerate(columns)
    }


def evaluate_pairs(
    model: Embedder | PairModel,
    pairs: pd.DataFrame,
    *,
    bootstrap: int = RESAMPLES,
) -> TextEvaluation:
    """Correlate the similarities of pairs with human ratings.

    Args:
        model: an embedder (cosines) or a cross-encoder (scores).
        pairs: `first, second, label`, from `read_pairs`; the label is the rating.
        bootstrap: number of resamples of the pairs.

    Returns:
        The score "Spearman", and the table `first, second, rating, similarity, disagreement`,
        the largest disagreement first. The disagreement is the pair's rank by similarity minus
        its rank by rating, each scaled to [0, 1].

    Raises:
        UserError: a rating that is not a number, a text without a vector, or ratings or
            similarities that are all equal.
    """
    if "label" not in pairs.columns:
        raise UserError(
            "the pairs have no ratings; expected a column `rating` or `score`"
        )
    rating = pd.to_numeric(pairs["label"], errors="coerce").to_numpy(
        dtype=float
    )
    if np.isnan(rating).any():
        row = int(np.isnan(rating).argmax())
        raise UserError(f"row number {row} has a rating that is not a number")
    similarity = _similarities(model, pairs)
    if np.ptp(rating) == 0 or np.ptp(similarity) == 0:
        raise UserError(
            f"ratings or cosines of these {len(pairs)} pairs are all the same: nothing to compare"
        )

    def measure(weights: np.ndarray) -> float:
        rows = np.repeat(np.arange(len(pairs)), weights.astype(int))
        return spearman(similarity[rows], rating[rows])

    resampled = resample(
        measure, np.arange(len(pairs)), bootstrap=bootstrap, fewest=1
    )
    rank_difference = rankdata(similarity) - rankdata(rating)
    table = pairs[["first", "second"]].assign(
        rating=rating,
        similarity=similarity,
        disagreement=rank_difference / max(len(pairs) - 1, 1),
    )
    worst = table.sort_values(
        "disagreement", key=abs, ascending=False, kind="stable"
    )
    return TextEvaluation(
        {"Spearman": resampled.interval()},
        worst.reset_index(drop=True),
    )


def spearman(values: np.ndarray, expected: np.ndarray) -> float:
    """Spearman's rank correlation; NaN if one side does not vary."""
    if np.ptp(values) == 0 or np.ptp(expected) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(values), rankdata(expected))[0, 1])


def _similarities(
    model: Embedder | PairModel, pairs: pd.DataFrame
) -> np.ndarray:
    """Cosines, or scores of a cross-encoder, shape (pairs,)."""
    if not isinstance(model, Embedder):
        rows = zip(pairs["first"], pairs["second"], strict=True)
        return np.array([result.score for result in model.predict_many(rows)])
    vectors = unit(model.embed([*pairs["first"], *pairs["second"]])).astype(
        float
    )
    return (vectors[: len(pairs)] * vectors[len(pairs) :]).sum(axis=1)


def evaluate_retrieval(
    encoder: Embedder,
    pairs: pd.DataFrame,
    *,
    rerank: PairModel | None = None,
    with_words: bool = False,
    candidates: int = 100,
) -> dict[str, TextEvaluation]:
    """Find the second text of each pair among all second texts, with the first text as query.

    Args:
        encoder: gives the vectors.
        pairs: queries and the texts that answer them; a query may have several texts.
        rerank: a cross-encoder that reorders the candidates.
        with_words: also measure BM25, alone and fused with the vectors.
        candidates: number of passages that are reranked.

    Returns:
        Method of search ("meaning", and optionally "meaning, reranked", "words" and "meaning and
        words") -> its scores, see `measure_rankings`.

    Raises:
        UserError: see `SentenceIndex.search`.
    """
    texts = pairs["second"].unique().tolist()
    relevant = pairs.groupby("first", sort=False)["second"].agg(set)
    queries = relevant.index.tolist()
    index = SentenceIndex.build(texts, encoder, ids=texts)
    # Enough passages for as many different texts as the longest recall counts.
    passage_counts = index.vectors.rows(np.arange(len(index)))[
        "id"
    ].value_counts()
    enough = int(passage_counts.head(max(RECALLS) - 1).sum()) + 1
    k = min(max(enough, candidates), len(index))
    results = {"meaning": index.search(queries, k=k)}
    if rerank is not None:
        results["meaning, reranked"] = index.search(
            queries,
            k=k,
            rerank=rerank,
            candidates=candidates,
        )
    if with_words:
        words = index.words()
        results["words"] = index.passages(words.search(queries, k=k))
        results["meaning and words"] = index.search(
            queries,
            k=k,
            words=words,
            candidates=candidates,
        )
    return {
        method: measure_rankings(list(map(_text_ids, hits)), relevant)
        for method, hits in results.items()
    }


def _text_ids(hits: list[PassageHit]) -> list[str]:
    return [hit.id for hit in hits]


def measure_rankings(
    rankings: Sequence[Sequence[str]],
    relevant: pd.Series,
) -> TextEvaluation:
    """Score rankings with sentence-transformers' `InformationRetrievalEvaluator`.

    Args:
        rankings: the ids of texts in order, for each query; only the first of repeated ids counts.
        relevant: query -> the set of its relevant ids.

    Returns:
        The scores "MRR@10" (the mean of 1 / rank of the first relevant text, 0 beyond rank 10),
        "nDCG@10" (the discounted gain, relative to an ideal ranking) and "recall@k" (the share of
        relevant texts among the first k). The table has `query` and these columns.
    """
    from sentence_transformers.sentence_transformer.evaluation import (
        InformationRetrievalEvaluator,
    )

    rows = []
    for ids, (query, relevant_ids) in zip(
        rankings, relevant.items(), strict=True
    ):
        evaluator = InformationRetrievalEvaluator(
            {"": query},
            {},
            {"": relevant_ids},
            precision_recall_at_k=list(RECALLS),
            write_csv=False,
        )
        hits = [
            {"corpus_id": text_id, "score": -rank}
            for rank, text_id in enumerate(dict.fromkeys(ids))
        ]
        measures = evaluator.compute_metrics([hits])
        row = {
            f"MRR@{CUTOFF}": measures["mrr@k"][CUTOFF],
            f"nDCG@{CUTOFF}": measures["ndcg@k"][CUTOFF],
        }
        row |= {f"recall@{k}": measures["recall@k"][k] for k in RECALLS}
        rows.append({"query": query, **row})
    table = pd.DataFrame(rows)
    return TextEvaluation(mean_scores(table, list(table.columns[1:])), table)


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
        encoders: embedders by name.
        sts: rated pairs.
        retrieval: queries and their texts.
        cross: a cross-encoder that reranks and is also scored on `sts`.
        with_words: also measure BM25, alone and fused with the vectors.

    Raises:
        UserError: neither `sts` nor `retrieval`; see also `evaluate_pairs` and
            `evaluate_retrieval`.
    """
    if sts is None and retrieval is None:
        raise UserError(
            "nothing to measure: expected rated pairs (sts) or queries (retrieval)"
        )
    scores: dict[str, dict[str, Interval]] = {name: {} for name in encoders}
    if sts is not None:
        for name, encoder in encoders.items():
            scores[name] = evaluate_pairs(encoder, sts).scores
        if cross is not None:
            scores[cross.name or "cross-encoder"] = evaluate_pairs(
                cross, sts
            ).scores
    if retrieval is not None:
        for name, encoder in encoders.items():
            evaluations = evaluate_retrieval(
                encoder,
                retrieval,
                rerank=cross,
                with_words=with_words,
            )
            scores[name] |= evaluations.pop("meaning").scores
            for method, evaluation in evaluations.items():
                scores[f"{name}, {method}"] = evaluation.scores
    return scores
