"""The same numbers whatever the batch size, threads, company, pickling or forking."""

import multiprocessing
import pickle
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from domainbert.models.embedder import Embedder
from domainbert.models.pairs import PairModel

sys.path.insert(0, str(Path(__file__).parent))
from test_fuzz import random_answerer, random_tagger

WORDS = "heart failure renal edema fever insulin pain chest patient stable history of the".split()


def texts_of(seed, count=12):
    """Texts of one word to several windows."""
    chooser = random.Random(seed)
    return [
        " ".join(chooser.choices(WORDS, k=chooser.choice([1, 5, 40, 200])))
        for _ in range(count)
    ]


def risks(model, texts):
    return [
        risk.probability
        for risk in model.predict_many([[text] for text in texts])
    ]


def vectors(model, texts):
    return model.embed(texts).ravel().tolist()


def pair_scores(model, texts):
    return [
        result.score
        for result in model.predict_many([("was it?", text) for text in texts])
    ]


def entity_scores(model, texts):
    return [
        entity.score for found in model.tag_many(texts) for entity in found
    ]


def answer_scores(model, texts):
    found = model.answer_many(
        [("was the patient stable?", text) for text in texts]
    )
    return [answer.score for answers in found for answer in answers]


@pytest.fixture(params=["risk", "vectors", "pairs", "entities", "answers"])
def subject(request, model, new_network, random_network, tokenizer):
    """A model, and the function that reads texts with it."""
    if request.param == "risk":
        return model, risks
    if request.param == "vectors":
        return Embedder(new_network().bert, tokenizer), vectors
    if request.param == "pairs":
        return PairModel(new_network(), tokenizer), pair_scores
    if request.param == "answers":
        return random_answerer(random_network, tokenizer), answer_scores
    return random_tagger(random_network, tokenizer), entity_scores


def assert_same(found, expected):
    assert len(found) == len(expected)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


@pytest.mark.numeric
def test_batch_size_threads_and_company_change_nothing(subject, request):
    model, read = subject
    runner = model.runner
    for seed in range(request.config.getoption("--fuzz")):
        texts = texts_of(seed)
        alone = [number for text in texts for number in read(model, [text])]
        assert_same(read(model, texts), alone)
        usual = runner.batch_tokens
        for budget in (64, 300, 10_000):
            runner.batch_tokens = budget
            assert_same(read(model, texts), alone)
        runner.batch_tokens = usual
        threads = torch.get_num_threads()
        torch.set_num_threads(2)
        assert_same(read(model, texts), alone)
        torch.set_num_threads(threads)


def test_pickling_changes_nothing(subject):
    model, read = subject
    texts = texts_of(0)
    expected = read(model, texts)
    pickled = pickle.dumps(model)
    assert (
        max(texts, key=len).encode() not in pickled
    )  # nothing that was read goes along
    assert_same(read(pickle.loads(pickled), texts), expected)


@pytest.mark.skipif(
    not hasattr(__import__("os"), "fork"), reason="this system cannot fork"
)
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_after_loading_changes_nothing(subject):
    model, read = subject
    texts = texts_of(1)
    expected = read(model, texts)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=lambda: there.send(read(model, texts)))
    child.start()
    assert here.poll(60), "the fork did not answer"
    assert_same(here.recv(), expected)
    child.join(10)
