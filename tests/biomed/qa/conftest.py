"""Question answerers made in code: one whose answers are known beforehand, and random ones."""

from __future__ import annotations

import numpy as np
import pytest

from biomed.qa.questions import Question, QuestionSet

FILLER = "patient home stable clinic was not the of and with".split()
ANSWERS = "heart kidney renal pneumonia edema insulin furosemide".split()
# (start logit, end logit) of a word wherever it stands; every other word has (0, 0).
LOGITS = {
    "insulin": (6.0, 6.0),
    "heart": (6.0, 0.0),
    "failure": (0.0, 6.0),
    "kidney": (1.8, 1.8),
    "renal": (4.0, 4.0),
}
NULL = "[CLS]"


def make_known(tokenizer, *, null=2.5, positions=64):
    """A network whose logits depend on the word alone: nothing it computes mixes tokens."""
    import torch
    from transformers import BertConfig, BertForQuestionAnswering

    known = {**LOGITS, NULL: (null, null)}
    other, balance = len(known), len(known) + 1
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=positions,
        layer_norm_eps=1e-12,
        attn_implementation="sdpa",
    )
    network = BertForQuestionAnswering(config).eval()
    with torch.no_grad():
        for parameter in network.bert.encoder.parameters():
            if parameter.dim() == 2:
                parameter.zero_()
        embeddings = network.bert.embeddings
        embeddings.position_embeddings.weight.zero_()
        embeddings.token_type_embeddings.weight.zero_()
        one_hot, words = torch.eye(8), embeddings.word_embeddings.weight
        words.copy_(one_hot[other].expand_as(words))
        weight = torch.zeros(2, 8)
        # A one-hot row of 8 leaves the layer norm with 3.0237 between its one and its zeros.
        for row, (word, logits) in enumerate(known.items()):
            words[tokenizer.convert_tokens_to_ids(word)] = one_hot[row]
            weight[:, row] = torch.tensor(logits) / 3.0237
        # Weights that add up to 0 leave nothing of the row's mean.
        weight[:, balance] = -weight.sum(dim=1)
        network.qa_outputs.weight.copy_(weight)
        network.qa_outputs.bias.zero_()
    return network


def made_up(count, *, name, words=20, seed=0):
    """Questions with one article each, by a rule to learn: the answer follows `treated`."""
    generator = np.random.default_rng(seed)
    questions = []
    for number in range(count):
        text = [str(word) for word in generator.choice(FILLER, words)]
        at = int(generator.integers(words - 1))
        text[at : at + 2] = "treated", str(generator.choice(ANSWERS))
        start = len(" ".join(text[: at + 1])) + 1
        place = (start, start + len(text[at + 1]))
        asked = (
            f"{name}{number}",
            "treated?",
            " ".join(text),
            f"{name} {number}",
        )
        questions.append(
            Question(*asked, answers=(text[at + 1],), answer_spans=(place,))
        )
    return QuestionSet(name, tuple(questions))


@pytest.fixture(scope="session")
def new_known():
    """`make_known`, for tests that need their own."""
    return make_known


@pytest.fixture(scope="session")
def new_random(random_network):
    """Makes random question answerers."""

    def make(tokenizer, **settings):
        from transformers import BertForQuestionAnswering

        return random_network(
            BertForQuestionAnswering, tokenizer, head="qa_outputs", **settings
        )

    return make


@pytest.fixture(scope="session")
def answerer(tokenizer):
    """Finds "insulin" and "heart … failure"; windows of 24 tokens, answers of at most 6."""
    from biomed import QuestionAnswerer
    from biomed.qa.model import QuestionSettings

    settings = QuestionSettings(window=24)
    return QuestionAnswerer(
        make_known(tokenizer), tokenizer, settings=settings
    )
