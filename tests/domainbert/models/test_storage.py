"""Model folders: what is saved is loaded, and what is not whole or does not fit is refused."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertForSequenceClassification,
    BertForTokenClassification,
)

from domainbert.encoders.adapters import (
    add_lora,
    merge_adapter,
    trained_adapter,
)
from domainbert.encoders.classifier import CLSClassifier
from domainbert.encoders.loading import (
    ADAPTER_CONFIG,
    ADAPTER_FILE,
    EncoderError,
    find_encoder,
    load_model,
    load_tokenizer,
)
from domainbert.models.manifest import Manifest
from domainbert.models.storage import (
    CONFIG_KEY,
    TaskConfig,
    TaskModel,
    check_replaceable,
    file_hashes,
    load_task_model,
    resolve_model,
    save_task_model,
    write_manifest,
)

COMMAND = "clinical train COHORT --encoder {encoder}"  # an error shows it
MISSING_ENCODER = "models/encoder"  # looks like owner/name on the Hub


def wrapped_model(encoder, *, rank=4, labels=1, seed=1):
    """An encoder with adapters that change it: every trained tensor is random."""
    torch.manual_seed(seed)
    plain = load_model(find_encoder(encoder), CLSClassifier, num_labels=labels)
    wrapped = add_lora(plain, rank)
    for parameter in wrapped.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.1)
    return wrapped


def save(
    folder,
    encoder,
    *,
    full=False,
    labels=1,
    rank=4,
    seed=1,
    card="# A card – ok\n",
):
    """Save a model as it stands after training; returns its network and its config.

    It is saved as an adapter, or with `full` as all weights. The dash of the card is no ASCII.
    """
    wrapped = wrapped_model(encoder, rank=rank, labels=labels, seed=seed)
    origin = find_encoder(encoder)
    adapter = trained_adapter(wrapped, encoder=origin.name)
    model = merge_adapter(wrapped, adapter)
    config = TaskConfig(
        task="readmission",
        labels=tuple(f"label{n}" for n in range(labels)),
        encoder=origin.name,
        encoder_sha256=origin.sha256,
        lower_case=True,
        settings={"window": 64, "calibration": [1.5, -0.25]},
    )
    tokenizer = load_tokenizer(origin)
    adapter = None if full else adapter
    saved = TaskModel(model, tokenizer, config, adapter, Manifest())
    save_task_model(folder, saved, files={"README.md": card})
    return model, config


def load(
    folder,
    *,
    task="readmission",
    labels=1,
    network_class=CLSClassifier,
    as_written=False,
):
    """Load a folder as a model of a task with so many labels; 0 allows any number.

    Unless `as_written`, the hashes of its files are written anew before, so that what a test
    changed is not refused for its hash.
    """
    if not as_written and (Path(folder) / "evaluation.json").is_file():
        write_manifest(Path(folder), Manifest())
    model_class = SimpleNamespace(  # what storage reads of a class such as ReadmissionModel
        also=(),
        task=task,
        labels=("label",) * labels,
        head=None,
        network_class=lambda: network_class,
        train_command=COMMAND,
        manifest_class=Manifest,
    )
    return load_task_model(folder, model_class)


def logits(model):
    """Of three rows, two of them padded."""
    generator = torch.Generator().manual_seed(5)
    # Any words of the tiny vocabulary: the first five tokens are special.
    ids = torch.randint(5, 60, (3, 20), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 12:] = mask[2, 3:] = 0
    with torch.inference_mode():
        return model.eval()(input_ids=ids, attention_mask=mask).logits


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def edit_config(folder, change):
    """Let `change` alter what config.json says under our key."""
    file = folder / "config.json"
    document = json.loads(file.read_text())
    change(document[CONFIG_KEY])
    file.write_text(json.dumps(document))


@pytest.fixture
def folder(tmp_path, tiny_encoder):
    """A saved LoRA model."""
    save(tmp_path / "model", tiny_encoder)
    return tmp_path / "model"


@pytest.fixture
def full_folder(tmp_path, tiny_encoder):
    """A model saved with all its weights."""
    save(tmp_path / "full", tiny_encoder, full=True)
    return tmp_path / "full"


# --- whole or refused


def test_a_model_that_is_not_there_costs_no_import_of_torch(tmp_path):
    code = (
        "import sys\nfrom clinical import ReadmissionModel\n"
        "from domainbert.errors import UserError\n"
        "try:\n    ReadmissionModel.from_pretrained(sys.argv[1])\n"
        "except UserError:\n    sys.exit('torch' in sys.modules)\n"
    )
    for name in ("hub:owner/name", tmp_path / "nowhere"):
        subprocess.run(
            [sys.executable, "-c", code, name], check=True, timeout=60
        )


def remove(file):
    file.unlink()


def break_link(file):
    file.unlink()
    file.symlink_to("nowhere")


def make_folder(file):
    file.unlink()
    file.mkdir()


def make_pipe(file):
    file.unlink()
    os.mkfifo(file)


def change(file):
    # Another number where there is a 64, such as the window, and a byte more in every file.
    file.write_bytes(file.read_bytes().replace(b"64", b"32") + b" ")


def empty(file):
    file.write_bytes(b"")


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "damage", [remove, break_link, make_folder, make_pipe, change, empty]
)
def test_a_folder_is_whole_or_refused(tmp_path, tiny_encoder, full, damage):
    whole = tmp_path / "whole"
    save(whole, tiny_encoder, full=full)
    # The card may be edited, and evaluation.json has the hashes.
    files = file_hashes(whole)
    assert set(files) == set(names_in(whole)) - {
        "README.md",
        "evaluation.json",
    }
    for name in files:
        folder = tmp_path / name
        shutil.copytree(whole, folder)
        damage(folder / name)
        with pytest.raises(
            EncoderError, match=f"is not the whole model: .*{re.escape(name)}"
        ):
            load(folder, as_written=True)
    load(whole, as_written=True)


@pytest.mark.parametrize(
    "damage", [remove, break_link, make_folder, make_pipe]
)
def test_a_folder_without_its_manifest_is_refused(folder, damage):
    damage(folder / "evaluation.json")
    with pytest.raises(EncoderError, match=r"evaluation\.json is missing"):
        load(folder, as_written=True)


def test_a_folder_with_only_its_card_and_adapter_is_refused(
    tmp_path, tiny_encoder
):
    card = "---\nlibrary_name: domainbert\n---\n# A card\n"
    save(tmp_path / "model", tiny_encoder, card=card)
    for name in ("config.json", "evaluation.json"):
        (tmp_path / "model" / name).unlink()
    with pytest.raises(EncoderError, match="is not the whole model"):
        load(tmp_path / "model", as_written=True)


def test_a_file_that_loading_would_read_too_is_refused(folder, full_folder):
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(folder / name, full_folder)
    with pytest.raises(
        EncoderError, match=r"adapter_config\.json is missing, or not as"
    ):
        load(full_folder, as_written=True)


def test_a_folder_may_have_another_card_and_other_files(folder):
    (folder / "README.md").write_text("ours")
    (folder / "notes.txt").write_text("ours")
    load(folder, as_written=True)


@pytest.mark.slow
def test_a_model_from_the_hub_has_its_settings(full_folder, tmp_path):
    revision = "0" * 40  # the hash of a commit
    model = tmp_path / "cache" / "models--someone--model"
    shutil.copytree(full_folder, model / "snapshots" / revision)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(revision)
    code = """
from domainbert.encoders.classifier import CLSClassifier
from domainbert.models.manifest import Manifest
from domainbert.models.storage import load_task_model
class Readmission:
    also, task, labels = (), "readmission", ("readmitted",)
    train_command, manifest_class, head = "", Manifest, None
    network_class = staticmethod(lambda: CLSClassifier)
print(load_task_model("hub:someone/model", Readmission).config.settings)
"""
    settings = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ
        | {"HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"},
    ).stdout
    assert "'window': 64" in settings


# --- there and back


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("labels", [1, 3])
def test_what_is_loaded_is_what_was_saved(
    tmp_path, tiny_encoder, full, labels
):
    model, config = save(
        tmp_path / "model", tiny_encoder, full=full, labels=labels
    )
    loaded = load(tmp_path / "model", labels=labels)
    assert loaded.config == config
    assert not loaded.network.training
    saved, found = model.state_dict(), loaded.network.state_dict()
    assert saved.keys() == found.keys()
    assert all(torch.equal(saved[name], found[name]) for name in saved)
    torch.testing.assert_close(
        logits(loaded.network), logits(model), atol=1e-6, rtol=0
    )
    # Rows differ, so that equality says something.
    assert logits(model).std() > 0.02
    text = "Patient left without medication."
    tokenizer = load_tokenizer(find_encoder(tiny_encoder))
    assert loaded.tokenizer(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert (tmp_path / "model" / "README.md").read_text(
        "utf-8"
    ) == "# A card – ok\n"


def test_an_adapter_is_saved_again_as_it_was_loaded(folder, tmp_path):
    loaded = load(folder)
    save_task_model(tmp_path / "again", loaded, files={"README.md": "again"})
    first, again = (
        load_file(path / ADAPTER_FILE) for path in (folder, tmp_path / "again")
    )
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_an_adapter_folder_holds_five_files_and_no_encoder(
    folder, tiny_encoder
):
    assert names_in(folder) == [
        "README.md",
        ADAPTER_CONFIG,
        ADAPTER_FILE,
        "config.json",
        "evaluation.json",
    ]
    tensors = load_file(folder / ADAPTER_FILE)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    assert not any("embeddings" in name for name in tensors)
    weights = (tiny_encoder / "model.safetensors").stat().st_size
    assert (folder / ADAPTER_FILE).stat().st_size < weights


def test_full_weights_need_no_encoder_and_load_elsewhere(
    tmp_path, tiny_encoder
):
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, encoder)
    model, _ = save(tmp_path / "model", encoder, full=True)
    shutil.rmtree(encoder)
    torch.testing.assert_close(
        logits(load(tmp_path / "model").network), logits(model)
    )
    document = json.loads((tmp_path / "model" / "config.json").read_text())
    assert document["architectures"] == ["BertForSequenceClassification"]
    elsewhere = BertForSequenceClassification.from_pretrained(
        tmp_path / "model"
    )
    torch.testing.assert_close(
        logits(elsewhere), logits(model), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("full", [False, True])
def test_who_may_read_the_configuration_may_read_the_weights(
    tmp_path, tiny_encoder, full
):
    save(tmp_path / "model", tiny_encoder, full=full)
    modes = {path.stat().st_mode for path in (tmp_path / "model").iterdir()}
    assert len(modes) == 1


def test_a_home_folder_is_understood(folder, monkeypatch, full_folder):
    monkeypatch.setenv("HOME", str(folder.parent))
    assert load("~/model").config == load(folder).config
    assert load("~/full").config == load(full_folder).config
    with pytest.raises(FileExistsError):
        check_replaceable("~")


def test_no_weights_are_in_a_repr(folder):
    loaded = load(folder)
    assert "tensor" not in repr(loaded)
    assert len(repr(loaded)) < 600


# --- training


def test_nothing_but_adapters_and_head_trains(tiny_encoder):
    torch.manual_seed(0)
    wrapped = add_lora(
        load_model(find_encoder(tiny_encoder), CLSClassifier, num_labels=1), 16
    )
    before = {
        name: tensor.clone() for name, tensor in wrapped.state_dict().items()
    }
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=0.1)
    # At the first step one factor of each adapter is zero, and so is the other's gradient.
    for _ in range(2):
        wrapped(
            input_ids=torch.randint(5, 60, (4, 12))
        ).logits.square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    after = wrapped.state_dict()
    changed = {
        name for name in before if not torch.equal(before[name], after[name])
    }
    assert changed == {
        n for n in before if "lora_" in n or "modules_to_save" in n
    }
    linear_layers = (
        "query",
        "key",
        "value",
        "attention.output.dense",
        "intermediate.dense",
    )
    for layer in range(2):
        for name in (*linear_layers, f"{layer}.output.dense"):
            assert any(
                f"layer.{layer}." in n and f"{name}.lora_A" in n
                for n in changed
            ), name
    for head in ("classifier", "pooler"):
        assert any(f"{head}.modules_to_save" in name for name in changed), head
    kept = trained_adapter(wrapped, encoder="tiny")
    assert len(kept.tensors) == len(changed)
    assert (kept.rank, kept.settings.base_model_name_or_path) == (16, "tiny")


def test_merging_computes_what_the_wrapped_model_computes(tiny_encoder):
    wrapped = wrapped_model(tiny_encoder)
    # Rounded, because an adapter is kept in half precision.
    with torch.no_grad():
        for parameter in wrapped.parameters():
            if parameter.requires_grad:
                parameter.copy_(parameter.half())
    again = wrapped_model(tiny_encoder, seed=2)
    assert (logits(again) - logits(wrapped)).abs().max() > 0.1  # not yet equal
    merged = merge_adapter(again, trained_adapter(wrapped, encoder="tiny"))
    assert type(merged) is CLSClassifier
    assert not any("lora" in name for name, _ in merged.named_parameters())
    torch.testing.assert_close(
        logits(merged), logits(wrapped), atol=1e-5, rtol=0
    )


# --- what is refused on loading


def test_another_task_is_refused(folder):
    with pytest.raises(
        EncoderError, match=r"model is a model for readmission, not for ner$"
    ):
        load(folder, task="ner")


def test_another_number_of_labels_is_refused(folder, full_folder):
    for path in (folder, full_folder):
        with pytest.raises(
            EncoderError, match=r"has 1 labels; a model for readmission has 3$"
        ):
            load(path, labels=3)
        assert len(load(path, labels=0).config.labels) == 1


@pytest.mark.parametrize(
    ("full", "message"),
    [
        (False, "tensors differ"),
        (True, "its head has 1 outputs, but 2 were expected"),
    ],
)
def test_labels_that_the_weights_do_not_have_are_refused(
    folder, full_folder, full, message
):
    path = full_folder if full else folder
    edit_config(path, lambda ours: ours.update(labels=["a", "b"]))
    with pytest.raises(EncoderError, match=message):
        load(path, labels=0)


def test_another_encoder_under_the_same_name_is_refused(
    tmp_path, tiny_encoder, new_network
):
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, encoder)
    save(tmp_path / "model", encoder)
    load(tmp_path / "model")
    new_network(seed=9).bert.save_pretrained(encoder)
    with pytest.raises(
        EncoderError, match=r"with SHA-256 [0-9a-f]{12}…, but the one here has"
    ):
        load(tmp_path / "model")


def test_an_encoder_folder_that_is_gone_is_not_looked_for_on_the_hub(
    tmp_path, folder, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    edit_config(folder, lambda ours: ours.update(encoder=MISSING_ENCODER))
    with pytest.raises(
        EncoderError,
        match="trained on the encoder folder models/encoder, which",
    ):
        load(folder)


def test_a_hub_encoder_that_a_folder_names_is_never_downloaded(
    folder, monkeypatch, tmp_path
):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    edit_config(folder, lambda ours: ours.update(encoder="hub:someone/model"))
    with pytest.raises(
        EncoderError,
        match="not on this machine; download it with: hf download",
    ):
        load(folder)  # the network is refused to tests, with another error
    for missing in ("someone/model", "https://example.org/model"):
        edit_config(
            folder, lambda ours, name=missing: ours.update(encoder=name)
        )
        with pytest.raises(
            EncoderError, match=r"on the encoder folder .*, which is not here$"
        ):
            load(folder)


@pytest.mark.parametrize(
    "file", ["tokenizer.json", "config.json", "tokenizer_config.json"]
)
def test_an_encoder_with_another_tokenizer_or_configuration_is_refused(
    tmp_path, tiny_encoder, file
):
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, encoder)
    save(tmp_path / "model", encoder)
    load(tmp_path / "model")
    text = (encoder / file).read_text()
    (encoder / file).write_text(text + "\n")
    with pytest.raises(
        EncoderError, match=r"with SHA-256 [0-9a-f]{12}…, but the one here has"
    ):
        load(tmp_path / "model")


def test_an_adapter_without_a_checksum_of_its_encoder_is_refused(folder):
    edit_config(folder, lambda ours: ours.update(encoder_sha256=None))
    with pytest.raises(EncoderError, match="but the one here has"):
        load(folder)


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_an_adapter_without_finite_numbers_is_refused(folder, number):
    tensors = load_file(folder / ADAPTER_FILE)
    next(iter(tensors.values())).view(-1)[3] = float(number)
    save_file(tensors, folder / ADAPTER_FILE)
    with pytest.raises(
        EncoderError, match=r"numbers that are not finite; train again$"
    ):
        load(folder)


# --- names of shipped models


# Package -> shipped model -> its task.
SHELVES = {
    "clinical": {"readmission-demo": "readmission", "risk": "readmission"},
    "biomed": {"disease-drug": "entities", "qa": "qa"},
}


@pytest.fixture
def shelves(tmp_path, monkeypatch):
    """Shipped models of two packages: their configurations are all that is read."""
    folders = {}
    for package, tasks in SHELVES.items():
        folders[package] = {name: tmp_path / name for name in tasks}
        for name, task in tasks.items():
            config = TaskConfig(
                task=task,
                labels=("a",),
                encoder="e",
                encoder_sha256=None,
                lower_case=True,
            )
            (tmp_path / name).mkdir()
            text = json.dumps({CONFIG_KEY: config.model_dump()})
            (tmp_path / name / "config.json").write_text(text)
    points = [SimpleNamespace(module=f"{name}.served") for name in SHELVES]
    monkeypatch.setattr(
        "domainbert.models.storage.entry_points", lambda group: points
    )
    monkeypatch.setattr(
        "domainbert.models.storage.shipped_models", folders.__getitem__
    )
    return tmp_path


# Two classes of models, as far as a name needs them.
RISKS = SimpleNamespace(package="clinical", task="readmission", also=())
ENTITIES = SimpleNamespace(package="biomed", task="entities", also=())


def test_a_name_is_that_of_a_shipped_model_or_left_as_it_is(shelves):
    demo = shelves / "readmission-demo"
    assert resolve_model("readmission-demo", RISKS) == demo
    for name in (str(shelves), "all-MiniLM-L6-v2", "hub:someone/model"):
        assert resolve_model(name, RISKS) == name


@pytest.mark.parametrize(
    ("name", "model_class", "message"),
    [
        (
            "readmision-demo",
            RISKS,
            (
                "no model 'readmision-demo': not a folder here and not shipped "
                "(readmission-demo, risk). Did you mean 'readmission-demo'?"
            ),
        ),
        (
            "someone/model",
            ENTITIES,
            (
                "no model 'someone/model': not a folder here and not shipped "
                "(disease-drug). For the Hugging Face Hub write hub:someone/model."
            ),
        ),
        (
            "readmission-demo",
            ENTITIES,
            (
                "readmission-demo is a model for readmission, not for entities; "
                "shipped for entities: disease-drug"
            ),
        ),
        (
            "qa",
            ENTITIES,
            (
                "qa is a model for qa, not for entities; "
                "shipped for entities: disease-drug"
            ),
        ),
    ],
)
def test_a_wrong_name_lists_the_shipped_models_of_the_task(
    shelves, monkeypatch, name, model_class, message
):
    monkeypatch.chdir(shelves.parent)
    with pytest.raises(EncoderError, match=f"^{re.escape(message)}$"):
        resolve_model(name, model_class)


# --- which adapters and configurations are refused on loading


def test_a_missing_adapter_is_refused(folder):
    (folder / ADAPTER_FILE).unlink()
    with pytest.raises(
        EncoderError, match=r"model lacks adapter_model\.safetensors$"
    ):
        load(folder)


# -10: all but the last ten bytes.
@pytest.mark.parametrize("n_bytes", [0, 4, 100, -10])
def test_a_truncated_adapter_is_refused(folder, n_bytes):
    file = folder / ADAPTER_FILE
    file.write_bytes(file.read_bytes()[:n_bytes])
    with pytest.raises(
        EncoderError,
        match=r"adapter_model\.safetensors is broken .*; copy it again$",
    ):
        load(folder)


def test_an_adapter_of_another_rank_is_refused(folder, tmp_path, tiny_encoder):
    save(tmp_path / "other", tiny_encoder, rank=2)
    shutil.copy(tmp_path / "other" / ADAPTER_FILE, folder)
    # Two layers, six matrices in each, two factors of each matrix.
    with pytest.raises(
        EncoderError, match=r"does not fit its encoder: 24 tensors differ$"
    ):
        load(folder)


def test_an_adapter_that_lacks_a_tensor_or_has_one_too_many_is_refused(folder):
    tensors = load_file(folder / ADAPTER_FILE)
    name = next(name for name in tensors if "classifier" in name)
    extra = {**tensors, "other": torch.zeros(1)}
    for wrong in ({k: v for k, v in tensors.items() if k != name}, extra):
        save_file(wrong, folder / ADAPTER_FILE)
        with pytest.raises(EncoderError, match="1 tensors differ"):
            load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ours: ours.pop("task"), "task: this setting is required"),
        (
            lambda ours: ours.update(nonsense=1),
            "nonsense: no such setting; expected one of encoder, ",
        ),
        (
            lambda ours: ours.update(labels="readmitted"),
            "labels: expected .*, got 'readmitted'",
        ),
    ],
)
def test_config_with_other_keys_or_types_is_refused(folder, change, message):
    edit_config(folder, change)
    with pytest.raises(
        EncoderError, match=f"not fit this version of domainbert: {message}"
    ):
        load(folder)


@pytest.mark.parametrize("ours", [None, [], "x", 3])
def test_config_that_is_no_table_is_refused(folder, ours):
    (folder / "config.json").write_text(json.dumps({"domainbert": ours}))
    with pytest.raises(
        EncoderError, match="does not fit this version of domainbert"
    ):
        load(folder)


@pytest.mark.parametrize("text", ["", "{", '{"domainbert": ', "3", "\xff"])
def test_config_that_is_no_json_object_is_refused(folder, text):
    (folder / "config.json").write_text(text, "latin-1")
    with pytest.raises(
        EncoderError, match=r"config\.json is not a JSON object"
    ):
        load(folder)


def test_a_folder_without_config_is_refused(full_folder, tmp_path):
    (full_folder / "config.json").unlink()
    (tmp_path / "empty").mkdir()
    for path, words in (
        (full_folder, r"not the whole model: config\.json is missing"),
        (tmp_path / "empty", r"holds no model: it has no config\.json"),
    ):
        with pytest.raises(EncoderError, match=words):
            load(path)


# --- what others have published


def publish(
    folder,
    new_network,
    new_tokenizer,
    *,
    network_class,
    labels=1,
    architectures=...,
):
    """A Hugging Face folder as others leave it; returns its network.

    `architectures` replaces the entry of config.json; `...` leaves what transformers wrote.
    """
    torch.manual_seed(7)
    config = new_network(labels=labels).config
    model = network_class(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 2:  # so that the logits of two texts differ
            torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    new_tokenizer().save_pretrained(folder)
    if architectures is not ...:
        file = folder / "config.json"
        document = json.loads(file.read_text()) | {
            "architectures": architectures
        }
        file.write_text(json.dumps(document))
    return model


@pytest.mark.parametrize("architectures", [..., None, ["BertForMaskedLM"]])
def test_a_published_classifier_loads_unchanged(
    tmp_path, new_network, new_tokenizer, architectures
):
    theirs = publish(
        tmp_path,
        new_network,
        new_tokenizer,
        network_class=BertForSequenceClassification,
        architectures=architectures,
    )
    before = names_in(tmp_path)
    loaded = load(tmp_path)
    assert loaded.config is None
    assert loaded.adapter is None
    assert logits(theirs).std() > 0.1
    torch.testing.assert_close(
        logits(loaded.network), logits(theirs), atol=1e-5, rtol=0
    )
    assert names_in(tmp_path) == before


def test_a_published_classifier_with_other_labels_is_refused(
    tmp_path, new_network, new_tokenizer
):
    publish(
        tmp_path,
        new_network,
        new_tokenizer,
        network_class=BertForSequenceClassification,
        labels=3,
    )
    with pytest.raises(
        EncoderError, match=r"has 3 labels; a model for .* has 1$"
    ):
        load(tmp_path)
    assert load(tmp_path, labels=0).network.config.num_labels == 3


def test_a_published_model_for_another_task_is_refused(
    tmp_path, new_network, new_tokenizer
):
    publish(
        tmp_path,
        new_network,
        new_tokenizer,
        network_class=BertForSequenceClassification,
        labels=3,
    )
    with pytest.raises(
        EncoderError,
        match=r"is a BertForSequenceClassification, and this needs a BertForTokenClassification$",
    ):
        load(tmp_path, labels=0, network_class=BertForTokenClassification)


def test_an_encoder_without_a_head_names_the_training_command(tiny_encoder):
    with pytest.raises(EncoderError, match="without a trained head") as caught:
        load(tiny_encoder)
    assert str(caught.value).endswith(
        f": clinical train COHORT --encoder {tiny_encoder}"
    )


# --- what is refused on saving, and left alone


def contents(folder):
    """The bytes of each file, by its path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    "files",
    [
        {"thesis.txt": "years of work"},
        {
            "config.json": '{"model_type": "bert"}',
            "model.safetensors": "weights",
        },
        {"config.json": "no JSON"},
        {"config.json": '["domainbert"]'},
    ],
)
def test_a_folder_that_is_no_model_of_ours_is_left_alone(
    tmp_path, tiny_encoder, files
):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    before = contents(folder)
    with pytest.raises(
        FileExistsError,
        match="exists and is not a model folder; choose another",
    ):
        save(folder, tiny_encoder)
    assert contents(folder) == before
    assert names_in(tmp_path) == ["folder"]


def test_a_file_is_left_alone(tmp_path, tiny_encoder):
    (tmp_path / "model").write_text("a file")
    with pytest.raises(FileExistsError, match="is not a model folder"):
        save(tmp_path / "model", tiny_encoder)
    assert (tmp_path / "model").read_text() == "a file"


@pytest.mark.parametrize(
    "name",
    ["risks.csv", "notes.txt", "evaluation/metrics.json", "vocab.old/a"],
)
def test_a_model_folder_that_holds_other_files_is_left_alone(
    folder, tiny_encoder, name
):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    before = contents(folder)
    with pytest.raises(
        FileExistsError,
        match=f"holds {name.split('/')[0]}, which is not part of",
    ):
        save(folder, tiny_encoder, seed=2)
    assert contents(folder) == before
    assert names_in(folder.parent) == ["model"]


def test_an_empty_folder_and_models_of_ours_are_replaced(
    tmp_path, tiny_encoder
):
    folder = tmp_path / "deep" / "model"
    folder.mkdir(parents=True)
    for number, full in enumerate([False, True, False, True, True]):
        model, _ = save(folder, tiny_encoder, full=full, seed=number)
        torch.testing.assert_close(
            logits(load(folder).network), logits(model), atol=1e-6, rtol=0
        )
        assert (ADAPTER_FILE in names_in(folder)) is not full
        assert names_in(folder.parent) == ["model"]


def test_a_link_to_a_model_stays_a_link(folder, tmp_path, tiny_encoder):
    link = tmp_path / "latest"
    link.symlink_to(folder)
    model, _ = save(link, tiny_encoder, seed=2)
    assert link.is_symlink()
    torch.testing.assert_close(
        logits(load(folder).network), logits(model), atol=1e-6, rtol=0
    )


# --- an interrupted save


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize(
    "where", ["weights", "card", "first rename", "second rename"]
)
def test_an_interrupted_save_leaves_the_old_model(
    folder, tiny_encoder, monkeypatch, where, error
):
    before, outputs = contents(folder), logits(load(folder).network)
    replace_path = type(folder).replace

    def fail(*_, **__):
        raise error

    def fail_at(source, target):
        # A save moves the old folder to a name in -old and the new one into its place; if that
        # fails, it moves the old one back.
        is_first = source == folder
        is_second = target == folder and not source.name.endswith("-old")
        if (is_first and where == "first rename") or (
            is_second and where == "second rename"
        ):
            raise error
        return replace_path(source, target)

    if where == "weights":
        monkeypatch.setattr("safetensors.torch.save_file", fail)
    elif where == "card":
        monkeypatch.setattr("pathlib.Path.write_text", fail)
    else:
        monkeypatch.setattr("pathlib.Path.replace", fail_at)
    with pytest.raises(type(error)):
        save(folder, tiny_encoder, seed=2)
    monkeypatch.undo()
    assert contents(folder) == before
    assert names_in(folder.parent) == ["model"]
    assert torch.equal(logits(load(folder).network), outputs)


# --- PEFT


def test_peft_reads_our_folder(folder, tiny_encoder):
    from peft import PeftModel

    base = BertForSequenceClassification.from_pretrained(
        tiny_encoder, num_labels=1
    )
    theirs = PeftModel.from_pretrained(base, folder)
    torch.testing.assert_close(
        logits(theirs), logits(load(folder).network), atol=1e-5, rtol=0
    )
    assert logits(theirs).std() > 0.02


@pytest.mark.parametrize("labels", [1, 3])
def test_a_folder_that_peft_wrote_loads(tmp_path, tiny_encoder, labels):
    from peft import LoraConfig, PeftModel, get_peft_model

    torch.manual_seed(3)
    base = BertForSequenceClassification.from_pretrained(
        tiny_encoder, num_labels=labels
    )
    # Fewer layers, another rank and another task type than ours.
    config = LoraConfig(
        r=3,
        target_modules=["query", "value"],
        modules_to_save=["pooler"],
        task_type="SEQ_CLS",
    )
    theirs = get_peft_model(base, config)
    for parameter in theirs.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.2)
    theirs.save_pretrained(tmp_path / "theirs")
    loaded = load(tmp_path / "theirs", labels=0)
    assert (loaded.config, loaded.adapter.rank) == (None, 3)
    torch.testing.assert_close(
        logits(loaded.network), logits(theirs), atol=1e-5, rtol=0
    )
    if labels != 1:
        with pytest.raises(
            EncoderError, match=r"has 3 labels; a model for .* has 1"
        ):
            load(tmp_path / "theirs")
    fresh = BertForSequenceClassification.from_pretrained(
        tiny_encoder, num_labels=labels
    )
    loaded.adapter.save(tmp_path)
    again = PeftModel.from_pretrained(fresh, tmp_path)
    torch.testing.assert_close(
        logits(again), logits(theirs), atol=1e-5, rtol=0
    )


def test_an_adapter_of_another_kind_is_refused(tmp_path, tiny_encoder):
    from peft import IA3Config, get_peft_model

    base = BertForSequenceClassification.from_pretrained(
        tiny_encoder, num_labels=1
    )
    get_peft_model(base, IA3Config(task_type="SEQ_CLS")).save_pretrained(
        tmp_path
    )
    with pytest.raises(
        EncoderError, match="holds a IA3 adapter; expected LoRA"
    ):
        load(tmp_path)


def test_a_peft_folder_whose_encoder_is_not_here_never_opens_the_network(
    folder, tmp_path
):
    shutil.copytree(folder, tmp_path / "theirs")
    for name in ("config.json", "evaluation.json"):
        (tmp_path / "theirs" / name).unlink()
    file = tmp_path / "theirs" / ADAPTER_CONFIG
    document = json.loads(file.read_text()) | {
        "base_model_name_or_path": "someone/model"
    }
    file.write_text(json.dumps(document))
    with pytest.raises(
        EncoderError, match="hub:someone/model is not available: it is not on"
    ):
        load(tmp_path / "theirs")
