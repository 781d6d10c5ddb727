"""Does a cross-encoder improve the search? Train one on medical questions, and rerank with it.

Questions of MedQuAD and PubMedQA with the texts that answer them, and hard negatives mined by the
bi-encoder, train the recipe `rerank`. Questions that no training saw are then searched among all
abstracts of PubMedQA, with and without reranking the best, and with BM25.

    python experiments/reranker.py --model sentences --out runs/rerank
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import typer

from biomed import SentenceEncoder
from biomed.sentences import medical
from biomed.sentences.data import Examples
from biomed.sentences.evaluation import evaluate_retrieval
from biomed.sentences.negatives import mine_negatives
from biomed.sentences.training import SentenceRecipe, train_from_recipe
from biomed.terms.vocabulary import percent
from domainbert.training.recipes import read_recipe

LONGEST = 800  # characters of a passage in training
VALIDATION = 100


def pairs_of(rows: list[tuple[str, str]], *, count: int) -> Examples:
    """A random choice of questions and the openings of their answers."""
    chosen = random.Random(0).sample(rows, min(count, len(rows)))  # noqa: S311
    firsts = [question for question, _ in chosen]
    return Examples(firsts, [medical.opening(text, LONGEST) for _, text in chosen], [], [])


def main() -> None:
    """Train the cross-encoder and print the scores of each way to search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="the bi-encoder that searches")
    parser.add_argument("--out", type=Path, required=True, help="folder of the cross-encoder")
    parser.add_argument("--questions", type=int, default=1000, help="of MedQuAD (1,000)")
    parser.add_argument("--asked", type=int, default=200, help="questions of the test (200)")
    parser.add_argument("--epochs", type=float, default=1.0)
    asked = parser.parse_args()
    encoder = SentenceEncoder.from_pretrained(asked.model)
    abstracts = [
        (question, " ".join(parts)) for question, parts in medical.read_abstracts(asked.data)
    ]
    held = [question for question, _ in abstracts if percent(question) < medical.PUBMEDQA_TEST]
    answers = list(medical.read_answers(asked.data))
    train = pairs_of(
        [(q, a) for key, q, a in answers if percent(key) >= medical.VALIDATION],
        count=asked.questions,
    ).joined(pairs_of([row for row in abstracts if row[0] not in held], count=len(abstracts)))
    validation = medical.questions_and_answers(asked.data, side="validation")
    rows = list(zip(validation.first, validation.second, strict=True))
    model = train_from_recipe(
        read_recipe(SentenceRecipe, "rerank", {"training.epochs": asked.epochs}),
        mine_negatives(train, encoder),
        mine_negatives(pairs_of(rows, count=VALIDATION), encoder),
    )
    model.save_pretrained(asked.out)
    found = evaluate_retrieval(
        encoder,
        Examples([q for q, _ in abstracts], [text for _, text in abstracts], [], []),
        asked=set(held[: asked.asked]),
        rerank=model,
        with_words=True,
    )
    for way, result in found.items():
        scores = ", ".join(f"{name} {score}" for name, score in result.scores.items())
        typer.echo(f"{way}: {scores}")


if __name__ == "__main__":
    main()
