"""Configurations from strangers: nothing is fetched, and nothing grows without bounds."""

import json
import shutil
import socket
import sys
import tracemalloc
from types import ModuleType

import pytest

from clinical import ReadmissionModel
from domainbert.encoders.adapters import read_adapter
from domainbert.encoders.classifier import CLSClassifier
from domainbert.encoders.configs import read_object
from domainbert.encoders.loading import (
    EncoderError,
    find_encoder,
    load_model,
    load_tokenizer,
)
from domainbert.models.embedder import Embedder


@pytest.fixture
def folder(tiny_encoder, tmp_path):
    return shutil.copytree(tiny_encoder, tmp_path / "copy")


def change(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.fixture
def no_kernels(monkeypatch):
    """A package `kernels` that would fetch compiled code, and no network."""
    asked = []
    kernels = ModuleType("kernels")
    kernels.__getattr__ = lambda name: (
        lambda *args, **_: asked.append((name, args))
    )
    monkeypatch.setitem(sys.modules, "kernels", kernels)
    monkeypatch.setattr(
        "transformers.utils.is_kernels_available", lambda *_: True
    )
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(
            socket.socket, name, lambda *args: asked.append(args)
        )
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *args, **_: asked.append(args)
    )
    return asked


def test_a_config_can_ask_for_no_kernel_and_no_code(folder, no_kernels):
    kernel = "owner/kernel"
    change(
        folder / "config.json",
        _attn_implementation=kernel,
        attn_implementation=kernel,
        _attn_implementation_internal=kernel,
        _experts_implementation=kernel,
        use_kernels=True,
        auto_map={"AutoConfig": "mine.Config"},
        return_dict=False,
    )
    network = load_model(find_encoder(folder), CLSClassifier, num_labels=1)
    assert network.config._attn_implementation == "sdpa"
    load_tokenizer(find_encoder(folder))
    assert Embedder.from_pretrained(folder).embed("pain").shape == (32,)
    assert no_kernels == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"num_labels": 10**9},
            "num_labels = 1000000000; expected finite numbers up to 100,000",
        ),
        (
            {"num_hidden_layers": 10**6},
            "num_hidden_layers = 1000000; expected finite numbers up to",
        ),
        (
            {"vocab_size": 10**7},
            "asks for more weights than the [0-9,]+ bytes of its file hold",
        ),
        ({"hidden_size": 10**6}, "asks for more weights than"),
        ({"hidden_size": -8}, "hidden_size = -8; expected finite numbers"),
        (
            {"hidden_size": 32.5},
            "Field 'hidden_size' expected int, got float .value: 32.5",
        ),
        (
            {"hidden_size": True},
            "Field 'hidden_size' expected int, got bool .value: True",
        ),
        (
            {"layer_norm_eps": float("nan")},
            "is not a JSON object .it has the number NaN",
        ),
        (
            {"layer_norm_eps": float("inf")},
            "is not a JSON object .it has the number Infinity",
        ),
        (
            {"layer_norm_eps": "small"},
            "Field 'layer_norm_eps' expected float, got str",
        ),
        (
            {"hidden_act": ["gelu"]},
            "Field 'hidden_act' expected str, got list",
        ),
        (
            {"id2label": {"0": ["a", ["b"]]}},
            "id2label = .* expected labels by number",
        ),
        ({"id2label": ["a"]}, "id2label = .'a'.; expected labels by number"),
        ({"id2label": {"x": "a"}}, "id2label = .* expected labels by number"),
        (
            {"model_type": ["bert"]},
            "has model_type .'bert'., which the installed transformers",
        ),
    ],
)
def test_a_config_out_of_bounds_is_one_line_and_takes_no_memory(
    folder, changes, message
):
    change(folder / "config.json", **changes)
    tracemalloc.start()
    try:
        for read in (
            load_tokenizer,
            lambda found: load_model(found, CLSClassifier),
        ):
            with pytest.raises(EncoderError, match=message) as caught:
                read(find_encoder(folder))
            assert "\n" not in str(caught.value)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rank", [10**7, -1, 0, "8", 8.5, True, None, [8]])
def test_a_rank_out_of_bounds_is_one_line(write_adapter, tmp_path, rank):
    folder = write_adapter(Embedder, tmp_path / "adapter")
    change(folder / "adapter_config.json", r=rank)
    with pytest.raises(
        EncoderError,
        match=r"r = .* expected|r: expected a whole number|r: this setting is required",
    ):
        read_adapter(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"lora_alpha": "x"},
        {"lora_dropout": [1]},
        {"target_modules": 3},
        {"modules_to_save": 3},
        {"rank_pattern": [1]},
        {"alpha_pattern": {"query": "x"}},
        {"lora_alpha": 10**9},
        {"bias": {"a": "b"}},
    ],
)
def test_an_adapter_of_wrong_types_is_one_line(
    write_adapter, tmp_path, changes
):
    folder = write_adapter(Embedder, tmp_path / "adapter")
    change(folder / "adapter_config.json", **changes)
    with pytest.raises(EncoderError) as caught:
        Embedder.from_pretrained(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": []},
        {"labels": [["a"]]},
        {"labels": "a"},
        {"encoder": 3},
        {"task": []},
    ],
)
def test_our_own_part_of_a_config_is_checked_too(
    write_adapter, tmp_path, changes
):
    folder = write_adapter(Embedder, tmp_path / "adapter")
    document = json.loads((folder / "config.json").read_text())
    change(folder / "config.json", domainbert=document["domainbert"] | changes)
    with pytest.raises(EncoderError, match=r"config\.json"):
        Embedder.from_pretrained(folder)
    change(folder / "config.json", domainbert=[1])
    with pytest.raises(EncoderError, match=r"config\.json"):
        ReadmissionModel.from_pretrained(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
def test_a_device_in_place_of_a_file_is_refused(tmp_path):
    (tmp_path / "config.json").symlink_to("/dev/zero")
    with pytest.raises(
        EncoderError, match=r"config\.json is not a regular file"
    ):
        read_object(tmp_path / "config.json")


# As microsoft/deberta-v3-small and deberta-v2-xlarge have it, but for the sizes.
DEBERTA_V3 = {
    "model_type": "deberta-v2",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
    "relative_attention": True,
    "position_buckets": 16,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "layer_norm_eps": 1e-7,
    "max_relative_positions": -1,
    "position_biased_input": False,
    "type_vocab_size": 0,
}
DEBERTA_V2 = {
    **DEBERTA_V3,
    "conv_kernel_size": 3,
    "conv_act": "gelu",
    "attention_head_size": 8,
}


@pytest.mark.parametrize("release", [DEBERTA_V3, DEBERTA_V2], ids=["v3", "v2"])
def test_what_a_family_reads_and_does_not_declare_is_kept(folder, release):
    import torch
    from transformers import AutoModel, DebertaV2Config, DebertaV2Model

    words = json.loads((folder / "config.json").read_text())["vocab_size"]
    torch.manual_seed(0)
    config = {**release, "vocab_size": words}
    DebertaV2Model(DebertaV2Config(**config)).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))
    ids = torch.randint(5, words, (2, 40))
    with torch.inference_mode():
        wanted = (
            AutoModel.from_pretrained(folder).eval()(ids).last_hidden_state
        )
        model = load_model(find_encoder(folder), AutoModel)
        torch.testing.assert_close(model(ids).last_hidden_state, wanted)


def test_a_tokenizer_without_a_padding_token_is_refused(folder):
    file = folder / "tokenizer_config.json"
    change(file, pad_token=None)
    for other in ("special_tokens_map.json",):
        (folder / other).unlink(missing_ok=True)
    with pytest.raises(
        EncoderError, match="a tokenizer without a padding token"
    ):
        load_tokenizer(find_encoder(folder))
