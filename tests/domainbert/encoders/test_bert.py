"""The shipped encoder without transformers gives the numbers of Hugging Face's classes."""

import pickle
import subprocess
import sys

import pytest
import torch

import biomed
import clinical
from domainbert.encoders.bert import FastBert, FastTokenizer
from domainbert.models.embedder import Embedder

pytestmark = pytest.mark.encoder

MODELS = {
    "window": (clinical.ReadmissionModel, "readmission-demo"),
    "tokens": (biomed.EntityTagger, "disease-drug"),
    "span": (biomed.QuestionAnswerer, "qa"),
    "none": (Embedder, "all-MiniLM-L6-v2"),
}
TEXTS = ["Chest pain, σ = 3.5 [SEP] naïve. ", "", "No fever! " * 40]


def outputs_of(network, batch):
    with torch.inference_mode():
        output = network(**batch)
    names = ("logits", "start_logits", "end_logits", "last_hidden_state")
    return [getattr(output, name) for name in names if hasattr(output, name)]


@pytest.fixture
def batches():
    """Rows of 1 to 180 tokens, with and without padding and segments."""
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(1000, 30000, (5, 180), generator=generator)
    mask = torch.ones_like(ids)
    for row, length in enumerate([180, 180, 77, 3, 1]):
        mask[row, length:] = 0
    types = (torch.arange(180) > 9).long().expand(5, 180)
    padded = {"input_ids": ids, "attention_mask": mask}
    return [{"input_ids": ids}, padded, padded | {"token_type_ids": types}]


@pytest.mark.numeric
@pytest.mark.parametrize("head", MODELS)
def test_a_shipped_model_has_the_numbers_and_names_of_the_published_class(
    head, batches
):
    model_class, name = MODELS[head]
    model = model_class.from_pretrained(name)
    fast, words = model._network, model._tokenizer
    assert (type(fast), type(words)) == (FastBert, FastTokenizer)
    fingerprint = model.fingerprint()
    theirs, tokenizer = model.network, model.tokenizer
    assert model.network is theirs
    assert type(theirs).__module__ != FastBert.__module__
    assert fast.state_dict().keys() == theirs.state_dict().keys()
    for batch in batches:
        pairs = zip(
            outputs_of(fast, batch), outputs_of(theirs, batch), strict=True
        )
        for ours, published in pairs:
            torch.testing.assert_close(ours, published, rtol=0, atol=1e-5)
    again = type(model)(theirs, tokenizer, settings=model.settings)
    assert again.fingerprint() == fingerprint
    for key in ("num_labels", "id2label", "max_position_embeddings"):
        if head != "none" or key.startswith("max"):
            assert getattr(fast.config, key) == getattr(theirs.config, key)


def test_the_tokenizer_is_the_published_one():
    model = Embedder.from_pretrained()
    ours, theirs = model._tokenizer, model.tokenizer
    names = ("cls", "sep", "pad", "unk")
    for attribute in [f"{name}_token_id" for name in names]:
        assert getattr(ours, attribute) == getattr(theirs, attribute)
    tokens = ["the", "##ing", "[MASK]", "not a token"]
    assert ours.convert_tokens_to_ids(tokens) == (
        theirs.convert_tokens_to_ids(tokens)
    )
    assert ours.get_vocab() == theirs.get_vocab()
    assert ours.do_lower_case == theirs.do_lower_case
    for pair in (False, True):
        assert ours.num_special_tokens_to_add(
            pair=pair
        ) == theirs.num_special_tokens_to_add(pair=pair)
    read = [t.backend_tokenizer.encode_batch(TEXTS) for t in (ours, theirs)]
    assert [e.ids for e in read[0]] == [e.ids for e in read[1]]
    assert [e.offsets for e in read[0]] == [e.offsets for e in read[1]]


@pytest.mark.numeric
def test_a_pickled_model_gives_the_same_and_is_saved_whole(tmp_path):
    model = clinical.ReadmissionModel.from_pretrained("readmission-demo")
    again = pickle.loads(pickle.dumps(model))
    assert type(again._network) is FastBert
    expected = pytest.approx(model.predict(TEXTS[0]).probability, abs=1e-5)
    assert again.predict(TEXTS[0]).probability == expected
    model.save_pretrained(tmp_path / "whole", merged=True)
    whole = clinical.ReadmissionModel.from_pretrained(tmp_path / "whole")
    assert type(whole._network) is not FastBert
    assert whole.predict(TEXTS[0]).probability == expected


def test_scoring_with_shipped_models_imports_no_transformers():
    code = """
import sys
import biomed, clinical
risks = clinical.ReadmissionModel.from_pretrained("readmission-demo")
risks.predict("Chest pain.")
biomed.EntityTagger.from_pretrained().tag("Chest pain.")
slow = ("transformers", "peft", "accelerate", "scipy", "jinja2")
print([name for name in slow if name in sys.modules])
"""
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "[]\n"
