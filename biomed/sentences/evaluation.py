"""How good sentence models are: rated pairs, retrieval, clusters, and speed."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.sentences.search import SentenceIndex
from biomed.terms.evaluation import evaluate_pairs
from domainbert.errors import UserError
from domainbert.intervals import Interval, bootstrap_interval
from domainbert.pooling import unit
from domainbert.training.sentences import spearman

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from biomed.sentences.data import Examples
    from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
    from biomed.sentences.search import Passage

CUT = 10
SPEED = "texts per second"
ROUNDS, SAMPLE = 3, 256
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
    asked: Collection[str] | None = None,
    rerank: CrossEncoder | None = None,
    with_words: bool = False,
    candidates: int = 100,
) -> dict[str, Retrieval]:
    """Find each first text's second text among all different second texts.

    Args:
        encoder: gives the vectors.
        pairs: queries and the texts that answer them; a query may have several.
        asked: the queries to ask, such as held-out ones; by default all.
        rerank: a cross-encoder that reorders the candidates.
        with_words: measure BM25 too, alone and joined.
        candidates: passages that are reranked.

    Returns:
        By way of searching: "meaning", and if asked for "meaning, reranked", "words" (BM25) and
        "meaning and words".

    Raises:
        UserError: see `SentenceIndex.search`.
    """
    texts = list(dict.fromkeys(pairs.second))
    queries = [query for query in dict.fromkeys(pairs.first) if asked is None or query in asked]
    place = {text: str(number) for number, text in enumerate(texts)}
    right: dict[str, set[str]] = {query: set() for query in queries}
    for query, text in zip(pairs.first, pairs.second, strict=True):
        if query in right:
            right[query].add(place[text])
    index = SentenceIndex.build(texts, encoder)
    # So many passages are of at least as many texts as the longest recall counts.
    counts = Counter(index.vectors.rows(np.arange(len(index)))["id"]).most_common(max(RECALLS) - 1)
    most = max(sum(number for _, number in counts) + 1, candidates)
    options: dict[str, Any] = {"k": max(1, min(most, len(index))), "candidates": candidates}

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


def evaluate_clusters(encoder: SentenceEncoder, texts: Sequence[str], groups: Sequence[str]) -> Any:
    """How well k-means clusters of the vectors match known groups, by V-measure.

    Args:
        encoder: gives the vectors.
        texts: any.
        groups: the group of each; as many clusters are made.

    Returns:
        "V-measure", in [0, 1], with its 95% interval by resampling texts.

    Raises:
        UserError: fewer than two groups, or a text that has no vector.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import v_measure_score

    number, known = len(set(groups)), np.array(groups)
    if number < 2:
        msg = f"clusters need at least two groups, got {number}"
        raise UserError(msg)
    vectors = unit(encoder.encode(list(texts)))
    found = KMeans(number, n_init=5, random_state=0).fit_predict(vectors)
    interval = bootstrap_interval(
        lambda rows: float(v_measure_score(known[rows], found[rows])), n=len(known), bootstrap=200
    )
    return {"V-measure": interval}


def texts_per_second(encoder: SentenceEncoder, texts: Sequence[str]) -> Interval:
    """The median rate of `ROUNDS` rounds over up to `SAMPLE` texts, with the lowest and highest."""
    texts = list(texts)[:SAMPLE]
    encoder.encode(texts[:8])  # the first call is slow
    rates = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        encoder.encode(texts)
        rates.append(len(texts) / (time.perf_counter() - start))
    return Interval(float(np.median(rates)), min(rates), max(rates))


def evaluate_models(
    encoders: Mapping[str, SentenceEncoder],
    *,
    sts: Examples | None = None,
    scale: float = 5.0,
    retrieval: Examples | None = None,
    terms: pd.DataFrame | None = None,
    clusters: Examples | None = None,
    cross: Mapping[str, CrossEncoder] | None = None,
    with_words: bool = False,
) -> dict[str, dict[str, Interval]]:
    """Measure models side by side.

    Args:
        encoders: by name.
        sts: rated pairs, and `scale`, their largest score.
        scale: see `sts`.
        retrieval: queries and their texts.
        terms: rated pairs of terms, from `biomed.terms.evaluation.read_rated_pairs`.
        clusters: texts (`first`) and their groups (`labels`).
        cross: a cross-encoder by name, which reranks, and is measured on `sts`.
        with_words: measure BM25 too, alone and joined.

    Returns:
        Model or way of searching -> measure -> interval; "texts per second" is of encoding the
        texts at hand, with the lowest and highest of three rounds.

    Raises:
        UserError: nothing to measure; or see the single evaluations.
    """
    sources = [part for part in (sts, retrieval, clusters) if part is not None]
    if not sources and terms is None:
        raise UserError("nothing to measure: name --sts, --retrieval, --terms or --clusters")
    texts = [text for part in sources for text in (*part.first[:SAMPLE], *part.second[:SAMPLE])]
    texts = list(dict.fromkeys(texts)) or list(terms["first"])  # type: ignore[index]
    rows: dict[str, dict[str, Interval]] = {}
    (rerank_name, rerank), *_ = [*(cross or {}).items(), (None, None)]
    for name, encoder in encoders.items():
        own = rows.setdefault(name, {})
        if sts is not None:
            own |= evaluate_sts(encoder, sts, scale=scale)
        if retrieval is not None:
            ways = evaluate_retrieval(encoder, retrieval, rerank=rerank, with_words=with_words)
            own |= ways.pop("meaning").scores
            if "words" in ways:
                rows["BM25"] = ways.pop("words").scores
            rows |= {f"{name}, {way}": found.scores for way, found in ways.items()}
        if terms is not None:
            own["Spearman of terms"] = evaluate_pairs(encoder, terms).spearman
        if clusters is not None:
            own |= evaluate_clusters(encoder, clusters.first, clusters.labels)
        own[SPEED] = texts_per_second(encoder, texts)
    if sts is not None and rerank is not None:
        rows[str(rerank_name)] = evaluate_sts(rerank, sts, scale=scale)
    return rows


def plot_models(comparison: pd.DataFrame) -> Figure:
    """Models side by side with 95% intervals; texts per second stand beside the names.

    Args:
        comparison: from `compare`.
    """
    from biomed.plots import plot_comparison

    is_speed = comparison["measure"] == SPEED
    rates = comparison[is_speed].set_index("encoder")["value"]
    names = {name: f"{name} ({rate:,.0f} texts/s)" for name, rate in rates.items()}
    quality = comparison[~is_speed]
    return plot_comparison(quality.assign(encoder=quality["encoder"].replace(names)))


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
