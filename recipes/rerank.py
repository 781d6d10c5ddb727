"""Train the shipped model `rerank`: a cross-encoder that reads a question beside a passage.

    python -m recipes.rerank ../shared/data --out MODEL

Training starts from the adapters of `qa`, which has learned to read a question beside a text. The
score of a passage is its cosine plus the logit times a weight, which is chosen on the half of
PubMedQA that is not measured.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import typer

from biomed.qa.model import QuestionAnswerer
from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
from biomed.sentences.evaluation import evaluate_retrieval
from biomed.sentences.search import SentenceIndex
from biomed.sentences.training import SentenceRecipe, fit
from domainbert.encoders.adapters import add_lora, set_adapter, trained_adapter
from domainbert.errors import UserError
from domainbert.models.manifest import Scores
from domainbert.models.pooling import unit
from recipes import passages
from recipes.commands import training_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from recipes.passages import Pair

QUESTIONS = {"MedQuAD": 8000, "SQuAD": 4000}  # that are trained on
CHOOSING = 400  # questions of MedQuAD that choose the weights
NEAREST = 20  # passages from which one that looks right is drawn
CANDIDATES = 10  # passages that are reranked
WEIGHTS = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.06, 0.1)
SCORES_NOTE = (
    "Questions that training and the choice of the weight never saw; the 10 best passages of "
    "`terms` are reranked. 95% intervals from 1,000 resamples of questions."
)


def triplets(
    pairs: Sequence[Pair], encoder: SentenceEncoder, *, seed: int
) -> pd.DataFrame:
    """A row for each question: `first, second, negative`.

    The negative of half of the questions is another passage on the same topic, if there is one.
    That of the others is a passage on another topic that is near to the question.
    """
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    questions = [question for question, *_ in pairs]
    texts = [passage[: passages.LONGEST] for _, passage, _ in pairs]
    topics = [topic for *_, topic in pairs]
    texts_of_topic: dict[str, list[str]] = defaultdict(list)
    for topic, text in zip(topics, texts, strict=True):
        texts_of_topic[topic].append(text)
    text_vectors = unit(encoder.embed(texts))
    question_vectors = unit(encoder.embed(questions))
    rows = []
    for number, (question, _, topic) in enumerate(pairs):
        answer = texts[number]
        cosines = text_vectors @ question_vectors[number]
        nearest = [
            passage
            for passage in np.argsort(-cosines)[:NEAREST]
            if texts[passage] != answer
        ]
        candidates = [
            texts[passage] for passage in nearest if topics[passage] != topic
        ]
        if not candidates:
            candidates = [texts[passage] for passage in nearest]
        siblings = [text for text in texts_of_topic[topic] if text != answer]
        if siblings and chooser.random() < 0.5:
            candidates = siblings
        if candidates:
            rows.append((question, answer, chooser.choice(candidates)))
    return pd.DataFrame(rows, columns=["first", "second", "negative"])


def training_pairs(
    data: Path, sides: Mapping[int, list[Pair]], *, seed: int
) -> list[list[Pair]]:
    """The questions of each source that are trained on."""
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    sources = {
        "MedQuAD": passages.training_questions(sides),
        "SQuAD": passages.squad(data),
    }
    drawn = [
        chooser.sample(pairs, min(QUESTIONS[name], len(pairs)))
        for name, pairs in sources.items()
    ]
    return [*drawn, passages.titles(data)]


def started(recipe: SentenceRecipe, folder: Path) -> str:
    """A cross-encoder with the adapters of the recipe's start and a new head, in `folder`."""
    table = recipe.model
    training = recipe.training
    model = CrossEncoder.untrained(
        table.encoder, training=training, labels=("score",)
    )
    network = add_lora(model.network, training.rank)
    answerer = QuestionAnswerer.from_pretrained(table.start, device="cpu")
    if answerer.adapter is None:
        raise UserError(f"{table.start} has no adapter to start from")
    lora = {
        name: tensor
        for name, tensor in answerer.adapter.tensors.items()
        if ".lora_" in name
    }
    fresh = trained_adapter(network, encoder=table.encoder).tensors
    set_adapter(network, fresh | lora)
    model.finished(network, full=False).save_pretrained(folder)
    return str(folder)


def choose_weight(
    model: CrossEncoder,
    encoder: SentenceEncoder,
    pairs: pd.DataFrame,
    weights: Sequence[float] = WEIGHTS,
) -> float:
    """The weight of the logit beside the cosine with the best mean reciprocal rank.

    Args:
        model: the cross-encoder.
        encoder: gives the cosines.
        pairs: `first, second`: questions and the passages that answer them.
        weights: those that are tried.
    """
    texts = pairs["second"].tolist()
    index = SentenceIndex.build(texts, encoder, ids=texts)
    results = index.search(pairs["first"].tolist(), k=CANDIDATES)
    reciprocal_ranks: dict[float, list[float]] = defaultdict(list)
    for question, text, hits in zip(
        pairs["first"], texts, results, strict=True
    ):
        scores = model.predict_many((question, hit.text) for hit in hits)
        logits = np.array([score.logit for score in scores])
        cosines = np.array([hit.score for hit in hits])
        for weight in weights:
            joint_scores = cosines + weight * logits
            order = np.argsort(-joint_scores, kind="stable")
            ranking = [hits[number].id for number in order]
            reciprocal_ranks[weight].append(reciprocal_rank(ranking, text))
    means = {
        weight: float(np.mean(ranks))
        for weight, ranks in reciprocal_ranks.items()
    }
    return max(means, key=means.__getitem__)


def reciprocal_rank(ranking: Sequence[str], text: str) -> float:
    """1 over the rank of a text; of the passages of a text, only the first counts."""
    texts = list(dict.fromkeys(ranking))
    if text not in texts:
        return 0.0
    return 1 / (1 + texts.index(text))


def measure(
    model: CrossEncoder,
    encoder: SentenceEncoder,
    sets: Mapping[str, pd.DataFrame],
) -> dict[str, Any]:
    """MRR@10 and recall@1 by search alone and reranked, a column of the card for each."""
    table: dict[str, Any] = defaultdict(dict)
    for name, pairs in sets.items():
        evaluations = evaluate_retrieval(
            encoder, pairs, rerank=model, candidates=CANDIDATES
        )
        for column, evaluation in evaluations.items():
            for score in passages.SEARCH_SCORES:
                row = f"{score}, {len(pairs)} questions of {name}"
                table[column][row] = asdict(evaluation.scores[score])
    return dict(table)


def finish(model: CrossEncoder, data: Path) -> None:
    """Choose the weight, measure, and write both into the model."""
    encoder = SentenceEncoder.from_pretrained()
    choosing = passages.pubmedqa(data).iloc[1::2].reset_index(drop=True)
    weight = choose_weight(model, encoder, choosing)
    model.settings = model.settings.replaced(weight=weight)
    model.manifest.scores = Scores(
        table=measure(model, encoder, passages.measured_passages(data)),
        note=SCORES_NOTE,
    )


def train_reranker(
    recipe: SentenceRecipe, data: Path, **resuming: Any
) -> CrossEncoder:
    """Train by a recipe, choose the weight, and measure."""
    encoder = SentenceEncoder.from_pretrained()
    sides = passages.medquad_sides(data)
    pairs = training_pairs(data, sides, seed=recipe.training.seed)
    rows = _joined(triplets(part, encoder, seed=0) for part in pairs)
    choosing = triplets(sides[passages.CHOOSING][:CHOOSING], encoder, seed=1)
    with TemporaryDirectory() as work:
        table = recipe.model
        if table.start:
            table = table.replaced(start=started(recipe, Path(work) / "start"))
        trained = fit(
            rows,
            recipe.replaced(model=table),
            validation=choosing,
            model_class=CrossEncoder,
            **resuming,
        )
    if not isinstance(trained, CrossEncoder):
        raise TypeError("the recipe is of a bi-encoder")
    finish(trained, data)
    return trained


def _joined(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(list(tables), ignore_index=True)


main = training_command("rerank", SentenceRecipe, train_reranker)


if __name__ == "__main__":
    typer.run(main)
