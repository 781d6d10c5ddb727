import pytest
import torch
from transformers import BertForSequenceClassification

from domainbert.encoders.classifier import CLSClassifier


@pytest.fixture
def pair(new_network):
    """Our classifier and Hugging Face's on the same weights, without dropout."""
    ours = new_network(labels=3)
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
        setattr(ours.config, name, 0.0)
    theirs = BertForSequenceClassification(ours.config)
    theirs.load_state_dict(ours.state_dict())
    again = CLSClassifier(ours.config)
    again.load_state_dict(ours.state_dict())
    return again, theirs


@pytest.fixture
def batch(tokenizer):
    """Five rows of 24 tokens, of which 24, 24, 11, 3 and 1 are no padding."""
    torch.manual_seed(3)
    ids = torch.randint(5, len(tokenizer), (5, 24))
    mask = torch.ones_like(ids)
    for row, length in enumerate([24, 24, 11, 3, 1]):
        mask[row, length:] = 0
    types = (torch.arange(24) > 9).long().expand(5, 24)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


INPUTS = [
    ("input_ids",),
    ("input_ids", "attention_mask"),
    ("input_ids", "token_type_ids"),
    ("input_ids", "attention_mask", "token_type_ids"),
]


def test_weights_have_the_same_names_and_shapes(pair):
    ours, theirs = (
        {name: tensor.shape for name, tensor in model.state_dict().items()}
        for model in pair
    )
    assert list(ours) == list(theirs)
    assert ours == theirs


@pytest.mark.parametrize("names", INPUTS)
def test_logits_are_those_of_the_reference(pair, batch, names):
    inputs = {name: batch[name] for name in names}
    with torch.no_grad():
        ours, theirs = (model.eval()(**inputs).logits for model in pair)
    assert ours.shape == (5, 3)
    assert theirs.std(dim=0).min() > 0.1
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("names", INPUTS)
def test_gradients_are_those_of_the_reference(pair, batch, names):
    inputs = {name: batch[name] for name in names}
    for model in pair:
        model.train()
        torch.nn.functional.cross_entropy(
            model(**inputs).logits, torch.tensor([0, 1, 2, 0, 1])
        ).backward()
    ours, theirs = pair
    for (name, mine), (_, other) in zip(
        ours.named_parameters(), theirs.named_parameters(), strict=True
    ):
        assert mine.grad is not None, name
        torch.testing.assert_close(
            mine.grad,
            other.grad,
            atol=1e-5,
            rtol=0,
            msg=lambda m, name=name: f"{name}: {m}",
        )


def test_padding_changes_nothing(pair, batch):
    ours = pair[0].eval()
    with torch.no_grad():
        padded = ours(
            batch["input_ids"], attention_mask=batch["attention_mask"]
        ).logits
        alone = ours(batch["input_ids"][2:3, :11]).logits
    torch.testing.assert_close(padded[2:3], alone, atol=1e-5, rtol=0)


def test_segments_are_read(pair, batch):
    ours = pair[0].eval()
    with torch.no_grad():
        with_types = ours(
            batch["input_ids"], token_type_ids=batch["token_type_ids"]
        ).logits
        without = ours(batch["input_ids"]).logits
    assert (with_types - without).abs().max() > 1e-3


def test_one_layer_is_enough(new_network, batch):
    ours = new_network(layers=1).eval()
    theirs = BertForSequenceClassification(ours.config).eval()
    theirs.load_state_dict(ours.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(
            ours(**batch).logits, theirs(**batch).logits, atol=1e-5, rtol=0
        )


def test_dropout_of_the_head_and_of_the_last_layer_is_on_in_training(
    new_network, batch
):
    ours = new_network().train()
    torch.manual_seed(0)
    first, second = ours(**batch).logits, ours(**batch).logits
    assert (first - second).abs().max() > 1e-3


def test_another_attention_kernel_is_refused(pair, batch):
    ours, _ = pair
    ours.set_attn_implementation("eager")
    with pytest.raises(
        ValueError, match=r"not eager: model.set_attn_implementation\(.sdpa.\)"
    ):
        ours(**batch)
    ours.set_attn_implementation("sdpa")
    assert ours(**batch).logits.shape == (5, 3)
