import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import BertForPreTraining

from domainbert.encoders.loading import EncoderError
from domainbert.pretraining.examples import IGNORED
from domainbert.pretraining.model import load_start, start_output_layer
from domainbert.pretraining.settings import TrainingPlan

PLAN = TrainingPlan(length=64)


@pytest.fixture
def start(tiny_encoder):
    return load_start(tiny_encoder, plan=PLAN)


@pytest.fixture
def batch(tokenizer):
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, len(tokenizer), (6, 20), generator=generator)
    mask = torch.ones_like(ids)
    mask[2, 12:] = 0
    labels = torch.where(
        torch.rand(ids.shape, generator=generator) < 0.2, ids, IGNORED
    )
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "token_type_ids": (torch.arange(20) > 9).long().expand(6, 20),
        "labels": torch.where(mask.bool(), labels, IGNORED),
        "next_sentence_label": torch.tensor([0, 1, 0, 1, 1, 0]),
    }


def test_its_numbers_are_those_of_the_reference(start, batch):
    reference = BertForPreTraining(start.network.config).eval()
    reference.load_state_dict(start.network.state_dict())
    wanted = reference(**batch)
    found = start.network(**batch)
    hidden = batch["labels"] != IGNORED
    torch.testing.assert_close(found.loss, wanted.loss, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        found.prediction_logits,
        wanted.prediction_logits[hidden],
        atol=1e-5,
        rtol=0,
    )
    torch.testing.assert_close(
        found.seq_relationship_logits, wanted.seq_relationship_logits
    )


def test_without_masked_words_pairs_alone_count(start, batch):
    batch["labels"].fill_(IGNORED)
    output = start.network(**batch)
    wanted = cross_entropy(
        output.seq_relationship_logits, batch["next_sentence_label"]
    )
    torch.testing.assert_close(output.loss, wanted)


def test_an_encoder_without_heads_gets_new_ones(tiny_encoder):
    plan = TrainingPlan(length=64, dropout=0.2)
    start = load_start(tiny_encoder, plan=plan)
    assert start.fresh_head
    assert start.name == str(tiny_encoder)
    assert len(start.sha256) == 64
    assert start.dropout == (0.1, 0.1)
    config = start.network.config
    assert (
        config.hidden_dropout_prob,
        config.attention_probs_dropout_prob,
    ) == (
        0.2,
        0.0,
    )
    output, words = (
        start.network.cls.predictions.decoder,
        start.network.bert.embeddings,
    )
    assert output.weight is words.word_embeddings.weight
    again = load_start(tiny_encoder, plan=plan).network
    other = load_start(
        tiny_encoder, plan=TrainingPlan(length=64, seed=1)
    ).network
    dense = "cls.predictions.transform.dense.weight"
    assert torch.equal(
        again.state_dict()[dense], start.network.state_dict()[dense]
    )
    assert not torch.equal(
        other.state_dict()[dense], start.network.state_dict()[dense]
    )


def test_trained_heads_are_kept(start, tokenizer, tmp_path):
    start_output_layer(start.network, np.arange(len(tokenizer)))
    start.network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = load_start(tmp_path, plan=PLAN)
    assert not again.fresh_head
    for name, tensor in start.network.state_dict().items():
        assert torch.equal(tensor, again.network.state_dict()[name])


def test_a_new_output_layer_starts_at_the_words_frequencies(start, tokenizer):
    counts = np.random.default_rng(0).integers(0, 1000, len(tokenizer))
    start_output_layer(start.network, counts)
    bias = start.network.cls.predictions.decoder.bias.detach()
    share = bias.double().softmax(dim=0).numpy()
    wanted = (counts + 1) / (counts.sum() + len(counts))
    np.testing.assert_allclose(share, wanted, rtol=1e-4)
    assert (
        start.network.cls.predictions.bias
        is start.network.cls.predictions.decoder.bias
    )
    assert torch.equal(
        start.network.cls.predictions.transform.dense.weight, torch.eye(32)
    )


def test_a_tokenizer_needs_its_special_tokens(
    tmp_path, new_network, tokenizer
):
    tokenizer.save_pretrained(tmp_path)
    new_network().save_pretrained(tmp_path)
    assert load_start(tmp_path, plan=PLAN).tokenizer.mask_token_id is not None
    for name in ("tokenizer.json", "tokenizer_config.json"):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(
            text.replace("BertTokenizer", "PreTrainedTokenizerFast")
        )
    config = (tmp_path / "tokenizer_config.json").read_text()
    (tmp_path / "tokenizer_config.json").write_text(
        config.replace('"mask_token": "[MASK]",', "").replace(
            '"mask_token": "[MASK]"', '"x": 1'
        )
    )
    with pytest.raises(
        EncoderError, match=r"lacks \[CLS\], \[SEP\] or \[MASK\]"
    ):
        load_start(tmp_path, plan=PLAN)
