"""The reranker's recipe: where training starts, and its negatives."""

import numpy as np
import pytest

from biomed.qa.model import AnswerModel
from biomed.sentences.encoder import CrossEncoder
from biomed.sentences.training import SentenceRecipe
from domainbert.training.recipes import read_recipe
from recipes import rerank


@pytest.mark.encoder
def test_training_starts_from_the_adapters_of_the_question_answerer(tmp_path):
    plan = read_recipe(SentenceRecipe, "recipes/rerank.toml")
    started = CrossEncoder.from_pretrained(rerank.started(plan, tmp_path / "start"))
    answers = AnswerModel.from_pretrained(rerank.START)
    layers = [model.network.bert.encoder.state_dict() for model in (started, answers)]
    assert layers[0].keys() == layers[1].keys()
    assert all(np.array_equal(layers[0][name], layers[1][name]) for name in layers[0])
    assert started.adapter.rank == plan.training.rank


class Letters:
    """A text's vector counts its letters."""

    def embed(self, texts):
        return np.array([[1 + text.count(letter) for letter in "abc"] for text in texts], float)


def test_negatives_are_of_the_same_topic_or_look_right():
    pairs = [(f"{'abc'[n % 3]}?", "abc"[n % 3] * (n + 1), f"topic {n // 2}") for n in range(40)]
    rows = rerank.triplets(pairs, Letters(), seed=0)
    topic = {passage: key for _, passage, key in pairs}
    assert list(rows["first"]) == [question for question, *_ in pairs]
    assert (rows["second"] != rows["negative"]).all()
    same = rows["second"].map(topic) == rows["negative"].map(topic)
    assert 8 <= same.sum() <= 32  # about half of 40
    assert rows.equals(rerank.triplets(pairs, Letters(), seed=0))


def test_topics_are_on_one_side_and_questions_that_are_measured_on_are_not_trained_on(data_folder):
    sides = rerank.medquad(data_folder)
    topics = {side: {key for *_, key in pairs} for side, pairs in sides.items()}
    known = set().union(*(keys for side, keys in topics.items() if side > rerank.CHOOSING))
    assert not known & (topics[rerank.MEASURED] | topics[rerank.CHOOSING])
    held_out = rerank.measured(data_folder, sides[rerank.MEASURED])
    assert {name: len(pairs) for name, pairs in held_out.items()} == {
        "MedQuAD": rerank.QUESTIONS,
        "PubMedQA": 500,
    }
    abstracts = {abstract for _, abstract, _ in rerank.titles(data_folder)}
    assert not abstracts & set(held_out["PubMedQA"]["second"])
