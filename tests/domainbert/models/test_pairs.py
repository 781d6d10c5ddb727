"""Pairs: every token read once, and the numbers of a plain forward pass."""

import numpy as np
import pytest
import torch

from domainbert.errors import UserError
from domainbert.models.pairs import PairModel, PairSettings, PairWindower
from domainbert.text.windows import LONGEST_TEXT

LONG = "patient with heart failure at home, " * 6


@pytest.fixture
def pair_model(new_network, tokenizer):
    return PairModel(new_network(labels=1), tokenizer)


def plain_logits(network, windows):
    """One forward pass a window, without batches or padding."""
    rows = []
    for window in windows:
        ids, segments = (
            torch.tensor(window.input_ids)[None],
            torch.tensor(window.segments)[None],
        )
        with torch.inference_mode():
            rows.append(network(ids, token_type_ids=segments).logits.item())
    return np.array(rows)


def test_windows_hold_the_first_text_and_every_token_of_the_second(tokenizer):
    windows = PairWindower(tokenizer, window=24).split("was it?", LONG)
    assert len(windows) >= 3
    head = tokenizer("was it?")["input_ids"]
    body = tokenizer(LONG, add_special_tokens=False)["input_ids"]
    seen = []
    for window in windows:
        ids = window.input_ids.tolist()
        assert len(ids) <= 24
        assert ids[: len(head)] == head
        assert ids[-1] == tokenizer.sep_token_id
        assert window.segments.tolist() == [0] * len(head) + [1] * (
            len(ids) - len(head)
        )
        seen += ids[len(head) : -1]
    assert seen == body


def test_a_pair_has_the_special_tokens_of_its_tokenizer():
    """RoBERTa separates two texts by </s></s> and has no segments; ours had one </s> and two."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import RobertaTokenizerFast

    names = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        "<mask>",
        *sorted(ByteLevel.alphabet()),
    ]
    tokenizer = RobertaTokenizerFast(
        vocab={n: i for i, n in enumerate(names)}, merges=[]
    )
    windows = PairWindower(tokenizer, window=16).split("ab", "fever and pain")
    expected = tokenizer("ab", "fever and ")
    assert windows[0].input_ids.tolist() == expected["input_ids"]
    assert len(windows) == 2
    assert not any(window.segments.any() for window in windows)


def test_special_tokens_and_half_characters_in_a_text_are_text(tokenizer):
    (window,) = PairWindower(tokenizer, window=64).split(
        "[SEP] pain", "fever \ud800"
    )
    assert (window.input_ids == tokenizer.sep_token_id).sum() == 2


def test_a_logit_is_the_largest_of_its_windows(new_network, tokenizer):
    network = new_network(labels=1)
    model = PairModel(network, tokenizer, settings=PairSettings(window=24))
    windows = model.windower.split("was it?", LONG)
    rows = plain_logits(network, windows)
    result = model.predict("was it?", LONG)
    assert len(windows) >= 3
    assert result.logit == pytest.approx(rows.max(), abs=1e-5)


@pytest.mark.parametrize("batch_tokens", [1, 50, 4096])
def test_company_and_batch_size_do_not_matter(
    new_network, tokenizer, batch_tokens
):
    model = PairModel(
        new_network(labels=1), tokenizer, batch_tokens=batch_tokens
    )
    pairs = [("was it?", LONG), ("pain", "at home"), ("fever", "x " * 90)]
    together = list(model.predict_many(pairs * 3))
    for pair, result in zip(pairs * 3, together, strict=True):
        assert result.logit == pytest.approx(
            model.predict(*pair).logit, abs=1e-5
        )


def test_a_score_is_the_sigmoid_of_the_only_logit(new_network, tokenizer):
    model = PairModel(new_network(labels=1), tokenizer)
    result = model.predict("pain", "fever")
    assert result.score == pytest.approx(1 / (1 + np.exp(-result.logit)))
    with pytest.raises(
        UserError, match="of pairs has one output, a score; this one has 3"
    ):
        PairModel(new_network(labels=3), tokenizer)


def test_numbers_are_those_of_sentence_transformers(
    new_network, tokenizer, tmp_path
):
    from sentence_transformers import CrossEncoder

    new_network(labels=1).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    pairs = [
        ("pain in the chest", "fever"),
        ("edema", "heart failure and kidney disease"),
    ]
    theirs = CrossEncoder(
        str(tmp_path), device="cpu", local_files_only=True
    ).predict(pairs)
    ours = [
        r.score
        for r in PairModel.from_pretrained(
            tmp_path, device="cpu"
        ).predict_many(pairs)
    ]
    assert ours == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("", "text"), "the first text of pair number 0 is empty"),
        (
            ("was it?", None),
            "the second text of pair number 0 is NoneType, expected a string",
        ),
        (
            ("text", "\x00"),
            "the second text of pair number 0 has no character the model reads",
        ),
        (
            ("was " * 70, "text"),
            "has 70 tokens, expected 1 to 60 in windows of 64 tokens",
        ),
    ],
)
def test_bad_pairs_are_one_line(pair_model, pair, message):
    with pytest.raises(UserError, match=message):
        pair_model.predict(*pair)


def test_a_short_last_window_does_not_lower_a_passage(new_network, tokenizer):
    """The mean of both windows, one of them a few words, ruined reranking: MRR 0.966 to 0.355."""
    model = PairModel(
        new_network(labels=1), tokenizer, settings=PairSettings(window=24)
    )
    passage = "heart failure " * 10 + "at home"
    rows = plain_logits(
        model.network, model.windower.split("was it?", passage)
    )
    assert len(rows) == 2
    assert model.predict("was it?", passage).logit == pytest.approx(
        rows.max(), abs=1e-5
    )


def test_a_text_beyond_the_limit_is_refused(pair_model):
    with pytest.raises(
        UserError,
        match="the second text of pair number 0 has 5,000,001 characters",
    ):
        pair_model.predict("was it?", "e" * (LONGEST_TEXT + 1))
