"""The reranker's recipe: what it is trained on, and the weight that it chooses."""

import re

import numpy as np
import pandas as pd
import pytest
import torch

from biomed.qa.model import QuestionAnswerer
from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
from biomed.sentences.training import SentenceRecipe
from domainbert.models.pairs import PairResult
from domainbert.models.pooling import unit
from domainbert.training.recipes import read_recipe, recipe_file
from recipes import passages, rerank
from tests.recipes.conftest import run

WORDS = "heart kidney left right pain edema fever insulin".split()


@pytest.fixture
def encoder(tiny_encoder):
    return SentenceEncoder.from_pretrained(tiny_encoder)


def test_a_negative_is_another_passage(encoder):
    pairs = [
        (f"what of {word}?", f"{word} {number}", str(number // 2))
        for number, word in enumerate(WORDS)
    ]
    rows = rerank.triplets(pairs, encoder, seed=0)
    assert rows["second"].tolist() == [passage for _, passage, _ in pairs]
    assert (rows["second"] != rows["negative"]).all()
    assert set(rows["negative"]) <= set(rows["second"])
    topics = {passage: topic for _, passage, topic in pairs}
    is_sibling = rows["negative"].map(topics) == rows["second"].map(topics)
    assert set(is_sibling) == {True, False}


def test_a_negative_of_another_topic_looks_right(encoder, monkeypatch):
    """Without siblings, it is the passage that is nearest to the question."""
    monkeypatch.setattr(rerank, "NEAREST", 2)
    pairs = [(word, f"{word} pain", word) for word in WORDS]
    rows = rerank.triplets(pairs, encoder, seed=0)
    questions = unit(encoder.embed(WORDS))
    texts = rows["second"].tolist()
    cosines = questions @ unit(encoder.embed(texts)).T
    for row, negative in zip(cosines, rows["negative"], strict=True):
        second_nearest = np.sort(row)[-2]
        assert row[texts.index(negative)] >= second_nearest - 1e-6


def test_training_starts_from_the_adapters_of_qa(
    tiny_encoder, write_adapter, tmp_path
):
    start = write_adapter(QuestionAnswerer, tmp_path / "qa")
    changes = {"model.encoder": str(tiny_encoder), "model.start": str(start)}
    changes |= {"model.window": 32, "training.rank": 16}
    file = recipe_file("rerank")
    recipe = read_recipe(SentenceRecipe, file, overrides=changes)
    folder = rerank.started(recipe, tmp_path / "start")
    model = CrossEncoder.from_pretrained(folder, device="cpu")
    adapter = QuestionAnswerer.from_pretrained(start, device="cpu").adapter
    shared = [name for name in model.adapter.tensors if ".lora_" in name]
    assert shared
    for name in shared:
        tensor = model.adapter.tensors[name]
        assert torch.equal(tensor, adapter.tensors[name]), name


@pytest.mark.parametrize(
    ("answers", "prefers", "weight"),
    [(WORDS, "others", 0.0001), (WORDS[::-1], "answers", 10.0)],
    ids=["cosines are right", "logits are right"],
)
def test_the_weight_is_the_best_of_those_tried(
    answers, prefers, weight, encoder, new_network, tokenizer, monkeypatch
):
    """A word is nearest to itself."""
    cross = CrossEncoder(new_network(labels=1), tokenizer)
    answer_of = dict(zip(WORDS, answers, strict=True))

    def predict_many(pairs):
        for question, passage in pairs:
            is_answer = passage == answer_of[question]
            yield PairResult(float(is_answer == (prefers == "answers")))

    monkeypatch.setattr(cross, "predict_many", predict_many)
    pairs = pd.DataFrame({"first": WORDS, "second": answers})
    weights = (0.0001, 10.0)
    assert rerank.choose_weight(cross, encoder, pairs, weights) == weight


def test_a_rank_counts_texts_and_not_their_passages():
    """As `measure_rankings` does, which gives the scores of the card."""
    assert rerank.reciprocal_rank(["a", "a", "b", "c", "b"], "b") == 1 / 2
    assert rerank.reciprocal_rank(["a", "a"], "b") == 0


@pytest.mark.data
@pytest.mark.slow
def test_the_command_runs_the_shipped_recipe(
    tiny_encoder, data_sample, tmp_path, monkeypatch
):
    sides = passages.medquad_sides(data_sample)
    topics = {
        side: {key for *_, key in pairs} for side, pairs in sides.items()
    }
    apart = topics[passages.MEASURED] | topics[passages.CHOOSING]
    assert apart
    medquad, *_ = rerank.training_pairs(data_sample, sides, seed=0)
    assert apart.isdisjoint(key for *_, key in medquad)
    recipe = recipe_file("rerank").read_text("utf-8")
    recipe = recipe.replace("all-MiniLM-L6-v2", str(tiny_encoder), 1)
    recipe = re.sub(r"(?m)^epochs = .*", "epochs = 0.01", recipe)
    recipe = re.sub(r"(?m)^(start|window) = .*", "", recipe)
    (tmp_path / "rerank.toml").write_text(recipe, "utf-8")
    monkeypatch.setattr(SentenceEncoder, "default", str(tiny_encoder))
    monkeypatch.setattr(passages, "QUESTIONS", 4)
    # The tiny encoder has room for few pieces of a question.
    monkeypatch.setattr(passages, "spaced", lambda text: text[:25])
    pairs = [(word, f"{word} of the patient", word) for word in WORDS]
    monkeypatch.setattr(passages, "squad", lambda _: pairs)
    monkeypatch.setattr(passages, "titles", lambda _: pairs)
    frame = pd.DataFrame([pair[:2] for pair in pairs])
    columns = frame.set_axis(["first", "second"], axis=1)
    monkeypatch.setattr(passages, "pubmedqa", lambda _: columns)
    words = [data_sample, "--recipe", tmp_path / "rerank.toml"]
    run(rerank.main, *words, "--out", tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    assert "MRR@10, 4 questions of MedQuAD" in card
    model = CrossEncoder.from_pretrained(tmp_path / "model")
    assert model.settings.weight in rerank.WEIGHTS
