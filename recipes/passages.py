"""Questions with the passages that answer them, to train, choose and measure search.

MedQuAD's topics are split by a hash: a tenth is measured on, a tenth chooses, and the others are
trained on. Half of PubMedQA's questions are measured on, and the other half chooses.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import TYPE_CHECKING

import pandas as pd

from biomed.corpora.pubtator import read_pubtator
from recipes.public_data import medquad_documents, side_number
from recipes.relations import concept_key, spaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

# The sides of topics, see `topic_side`; training reads those with larger numbers.
MEASURED = 0
CHOOSING = 1
LONGEST = 1000  # characters of a passage that is trained on
SHORTEST = 80  # characters of an answer
SHORTEST_ABSTRACT = 200
ANSWERS = 6  # of a topic of MedQuAD at most
QUESTIONS = 300  # of MedQuAD that are measured on
SEARCH_SCORES = ("MRR@10", "recall@1")  # that a card has
SQUAD = "qa/squad_v1.1_dev.json"
PUBMEDQA = "qa/pubmedqa_labeled.json"
ABSTRACTS = (
    "bc5cdr-ids/train",
    "bc5cdr-ids/devel",
    "ncbi-disease-ids/train",
    "biored/train",
)

Pair = tuple[str, str, str]
"""A question, the passage that answers it, and what both are about."""


def topic_side(key: str) -> int:
    """0 to 9, from a hash of a topic; see `MEASURED` and `CHOOSING`."""
    return side_number(key, 10)


def medquad_sides(data: Path) -> dict[int, list[Pair]]:
    """Questions of MedQuAD with their answers, by the side of their topic."""
    sides: dict[int, list[Pair]] = defaultdict(list)
    chooser = random.Random(0)  # noqa: S311  (no secret)
    earlier: set[str] = set()
    for document in medquad_documents(data / "text/medquad.jsonl.gz"):
        answers = {
            spaced(question["question"]): spaced(question["answer"])
            for question in document["questions"]
            if len(question["answer"]) > SHORTEST
            and question["answer"] not in earlier
        }
        earlier |= {question["answer"] for question in document["questions"]}
        key = concept_key(document)
        chosen = chooser.sample(sorted(answers), min(len(answers), ANSWERS))
        sides[topic_side(key)] += [
            (question, answers[question], key) for question in chosen
        ]
    return sides


def training_questions(sides: Mapping[int, list[Pair]]) -> list[Pair]:
    """The pairs of `medquad_sides` whose topics are neither measured on nor choose."""
    return [
        pair
        for side, pairs in sorted(sides.items())
        for pair in pairs
        if side > CHOOSING
    ]


def squad(data: Path) -> list[Pair]:
    """Questions of SQuAD with their paragraphs."""
    text = (data / SQUAD).read_text("utf-8")
    return [
        (question["question"].strip(), paragraph["context"], article["title"])
        for article in json.loads(text)["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


def titles(data: Path) -> list[Pair]:
    """Titles of abstracts with the abstracts."""
    pairs = {}
    for name in ABSTRACTS:
        for document in read_pubtator(data / "ner" / f"{name}.pubtator"):
            title, _, abstract = document.text.partition("\n")
            if len(abstract) > SHORTEST_ABSTRACT:
                pairs[title] = (title, abstract, title)
    return list(pairs.values())


def pubmedqa(data: Path) -> pd.DataFrame:
    """The questions of PubMedQA with their abstracts: `first, second`."""
    text = (data / PUBMEDQA).read_text("utf-8")
    pairs = [
        (row["QUESTION"], " ".join(row["CONTEXTS"]))
        for row in json.loads(text).values()
    ]
    return pd.DataFrame(pairs, columns=["first", "second"])


def measured_passages(data: Path) -> dict[str, pd.DataFrame]:
    """The questions that are measured on, each with all passages to choose from."""
    pairs = sorted(medquad_sides(data)[MEASURED])
    number = min(QUESTIONS, len(pairs))
    chosen = random.Random(0).sample(pairs, number)  # noqa: S311  (no secret)
    return {
        "MedQuAD": _frame(chosen),
        "PubMedQA": pubmedqa(data).iloc[::2].reset_index(drop=True),
    }


def _frame(pairs: Iterable[Pair]) -> pd.DataFrame:
    return pd.DataFrame(
        [pair[:2] for pair in pairs], columns=["first", "second"]
    )
