"""Adapters are merged as PEFT merges them, without importing it."""

import subprocess
import sys

import pytest
import torch
from transformers import BertForSequenceClassification

from domainbert.encoders.adapters import apply_adapter, read_adapter
from domainbert.errors import EncoderError


def base_model(tiny_encoder):
    torch.manual_seed(3)
    return BertForSequenceClassification.from_pretrained(
        tiny_encoder, num_labels=1
    )


def written_by_peft(tiny_encoder, folder, **entries):
    """A folder with a random adapter; the model that PEFT merges it into."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        **{"r": 3, "target_modules": ["query", "value"], **entries}
    )
    model = get_peft_model(base_model(tiny_encoder), config)
    for parameter in model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize(
    "entries",
    [
        {},
        {"use_rslora": True, "lora_alpha": 5},
        {"rank_pattern": {"layer.1.attention.self.query": 2}},
        {"alpha_pattern": {"value": 7, r"layer\.0\..*query": 3}},
        {"layers_to_transform": [1]},
        {"layers_to_transform": 0, "layers_pattern": "layer"},
        {"target_modules": r".*(key|dense)", "exclude_modules": ["dense"]},
        {"modules_to_save": ["classifier", "pooler"]},
        {"target_modules": ["dense"], "modules_to_save": ["classifier"]},
    ],
    ids=repr,
)
def test_merged_weights_are_those_of_peft(tiny_encoder, tmp_path, entries):
    theirs = written_by_peft(tiny_encoder, tmp_path, **entries)
    network = apply_adapter(
        base_model(tiny_encoder), read_adapter(tmp_path), name="x"
    )
    ours = network.state_dict()
    before = base_model(tiny_encoder).state_dict()
    merged = theirs.merge_and_unload().state_dict()
    assert merged.keys() == ours.keys()
    for name, tensor in merged.items():
        assert torch.equal(ours[name], tensor), name
    assert any(not torch.equal(ours[name], before[name]) for name in before)
    # As PEFT loads them: torch multiplies weights with gradients by another routine, which gives
    # other last digits.
    assert not any(p.requires_grad for p in network.parameters())


@pytest.mark.parametrize("entries", [{"use_dora": True}, {"bias": "all"}])
def test_what_changes_more_than_linear_layers_is_refused(
    tiny_encoder, tmp_path, entries
):
    written_by_peft(tiny_encoder, tmp_path, **entries)
    with pytest.raises(EncoderError, match="merge_and_unload"):
        read_adapter(tmp_path)


def test_an_adapter_of_fewer_layers_than_it_names_is_refused(
    tiny_encoder, tmp_path
):
    written_by_peft(tiny_encoder, tmp_path)
    adapter = read_adapter(tmp_path)
    name = next(name for name in adapter.tensors if "lora_B" in name)
    del adapter.tensors[name]
    with pytest.raises(EncoderError, match="1 tensors differ"):
        apply_adapter(base_model(tiny_encoder), adapter, name="x")


@pytest.mark.encoder
def test_loading_a_shipped_model_does_not_import_peft():
    code = (
        "import biomed, sys; biomed.EntityTagger.from_pretrained(); "
        "sys.exit('peft' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], check=False)
    assert run.returncode == 0
