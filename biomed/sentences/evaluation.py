"""How good sentence models are: agreement with rated pairs, and retrieval."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.sentences.search import SentenceIndex
from biomed.terms.evaluation import Interval, bootstrap_interval, evaluate_pairs
from domainbert.errors import UserError
from domainbert.training.sentences import spearman

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from biomed.sentences.data import Examples
    from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
    from biomed.sentences.search import Passage

CUT = 10
RECALLS = (1, 10, 100)


@dataclass(frozen=True)
class Retrieval:
    """How high the right texts rank.

    Attributes:
        scores: measure -> value with its 95% interval, by resampling queries. "MRR@10" is the
            mean of 1 / rank of the first right text (0 beyond rank 10), "nDCG@10" the discounted
            gain over that of an ideal ranking, "recall@k" the share of right texts among k.
        ranks: rank of the first right text of each query; 0 where it was not found.
    """

    scores: dict[str, Interval]
    ranks: np.ndarray = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {name: asdict(interval) for name, interval in self.scores.items()}


def evaluate_sts(model: SentenceEncoder | CrossEncoder, pairs: Examples, *, scale: float) -> Any:
    """Spearman's and Pearson's correlation of cosines, or cross-encoder scores, with ratings.

    Returns:
        Measure -> `Interval`.

    Raises:
        UserError: scores that are not numbers from 0 to `scale`, or a text that has no vector.
    """
    from biomed.sentences.encoder import SentenceEncoder

    ratings = np.array(pairs.scores(scale))
    if isinstance(model, SentenceEncoder):
        import pandas as pd

        frame = pd.DataFrame({"first": pairs.first, "second": pairs.second, "rating": ratings})
        found = evaluate_pairs(model, frame)
        return {"Spearman": found.spearman, "Pearson": found.pearson}
    rows = zip(pairs.first, pairs.second, strict=True)
    scores = np.array([result.score for result in model.predict_many(rows)])

    def pearson(index: np.ndarray) -> float:
        return float(np.corrcoef(scores[index], ratings[index])[0, 1])

    return {
        "Spearman": bootstrap_interval(
            lambda index: spearman(scores[index], ratings[index]), n=len(scores)
        ),
        "Pearson": bootstrap_interval(pearson, n=len(scores)),
    }


def evaluate_retrieval(
    encoder: SentenceEncoder,
    pairs: Examples,
    *,
    rerank: CrossEncoder | None = None,
    with_words: bool = False,
    candidates: int = 100,
) -> dict[str, Retrieval]:
    """Find each first text's second text among all different second texts.

    Args:
        encoder: gives the vectors.
        pairs: queries and the texts that answer them; a query may have several.
        rerank: a cross-encoder that reorders the candidates.
        with_words: measure BM25 too, alone and joined.
        candidates: texts that are joined or reranked.

    Returns:
        By way of searching: "meaning", and if asked for "meaning, reranked", "words" (BM25) and
        "meaning and words".

    Raises:
        UserError: see `SentenceIndex.search`.
    """
    texts = list(dict.fromkeys(pairs.second))
    queries = list(dict.fromkeys(pairs.first))
    place = {text: str(number) for number, text in enumerate(texts)}
    right: dict[str, set[str]] = {query: set() for query in queries}
    for query, text in zip(pairs.first, pairs.second, strict=True):
        right[query].add(place[text])
    index = SentenceIndex.build(texts, encoder)
    options: dict[str, Any] = {"k": max(*RECALLS, candidates), "candidates": candidates}

    def measured(found: list[list[Passage]]) -> Retrieval:
        # A text with several passages ranks where its first passage does.
        ranked = [list(dict.fromkeys(passage.id for passage in row)) for row in found]
        return score_rankings(ranked, [right[query] for query in queries])

    results = {"meaning": measured(index.search(queries, **options))}
    if rerank is not None:
        found = index.search(queries, rerank=rerank, **options)
        results["meaning, reranked"] = measured(found)
    if with_words:
        words = index.words()
        results["words"] = measured(index.passages(words.search(queries, k=options["k"])))
        results["meaning and words"] = measured(index.search(queries, words=words, **options))
    return results


def score_rankings(ranked: Sequence[Sequence[str]], right: Sequence[set[str]]) -> Retrieval:
    """Measure rankings.

    Args:
        ranked: ids in order, for each query.
        right: the right ids of each query, at least one.

    Raises:
        UserError: no query, or one without a right id.
    """
    if not ranked or not all(right):
        raise UserError("retrieval needs queries, each with at least one right text")
    hits = [[name in own for name in row] for row, own in zip(ranked, right, strict=True)]
    firsts = np.array([row.index(True) + 1 if True in row else 0 for row in hits])
    gains = 1 / np.log2(np.arange(CUT) + 2)
    columns = {
        f"MRR@{CUT}": np.where((firsts > 0) & (firsts <= CUT), 1 / np.maximum(firsts, 1), 0.0),
        f"nDCG@{CUT}": np.array(
            [
                gains[: len(row[:CUT])][np.array(row[:CUT], dtype=bool)].sum()
                / gains[: len(own)].sum()
                for row, own in zip(hits, right, strict=True)
            ]
        ),
    }
    for k in RECALLS:
        pairs = zip(hits, right, strict=True)
        columns[f"recall@{k}"] = np.array([sum(row[:k]) / len(own) for row, own in pairs])

    def interval(values: np.ndarray) -> Interval:
        return bootstrap_interval(lambda index: float(values[index].mean()), n=len(values))

    return Retrieval({name: interval(values) for name, values in columns.items()}, firsts)


def compare(rows: dict[str, dict[str, Interval]]) -> pd.DataFrame:
    """Models side by side: `encoder, measure, value, low, high`, for `biomed.plot_comparison`.

    Args:
        rows: model -> measure -> interval.
    """
    import pandas as pd

    table = [
        (model, measure, *asdict(interval).values())
        for model, measures in rows.items()
        for measure, interval in measures.items()
    ]
    return pd.DataFrame(table, columns=["encoder", "measure", "value", "low", "high"])
