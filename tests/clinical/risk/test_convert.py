import json
import pickle
import shutil

import numpy as np
import pytest
import torch

import clinical
from clinical import ReadmissionModel
from clinical.cli import app
from clinical.risk.convert import convert_release
from domainbert.encoders.loading import EncoderError

# Today's endings of parameter names -> the release's.
OLDER = {
    "LayerNorm.weight": "LayerNorm.gamma",
    "LayerNorm.bias": "LayerNorm.beta",
}


@pytest.fixture
def release(network, tokenizer, tmp_path):
    """A folder in the layout of the 2019 release, with its old parameter names."""
    folder = tmp_path / "release"
    folder.mkdir()
    config = network.config.to_dict()
    names = (
        "attention_probs_dropout_prob hidden_act hidden_dropout_prob hidden_size initializer_range "
        "intermediate_size max_position_embeddings num_attention_heads num_hidden_layers "
        "type_vocab_size vocab_size"
    ).split()
    (folder / "bert_config.json").write_text(
        json.dumps({name: config[name] for name in names})
    )
    weights = {}
    for name, tensor in network.state_dict().items():
        for new, old in OLDER.items():
            if name.endswith(new):
                name = name.removesuffix(new) + old
        weights[name] = tensor
    torch.save(weights, folder / "pytorch_model.bin")
    vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    return folder


def test_old_names_are_read_and_the_result_loads_everywhere(
    release, network, tokenizer, tmp_path
):
    converted = convert_release(release)
    converted.save_pretrained(tmp_path / "model")
    note = "Heart failure. Denies chest pain. " * 20
    expected = ReadmissionModel(network, tokenizer).predict(note)
    assert converted.predict(note).probability == pytest.approx(
        expected.probability, abs=1e-6
    )
    loaded = ReadmissionModel.from_pretrained(tmp_path / "model")
    assert loaded.predict(note).probability == pytest.approx(
        expected.probability, abs=1e-6
    )
    assert (tmp_path / "model" / "model.safetensors").is_file()


def test_a_read_only_folder_is_one_line(release, refused_in_one_line):
    refused_in_one_line(app, ["convert", release])


@pytest.mark.parametrize(
    "name", ["bert_config.json", "pytorch_model.bin", "vocab.txt"]
)
def test_a_missing_file_is_named(release, name):
    (release / name).unlink()
    with pytest.raises(EncoderError, match=f"has no {name}"):
        convert_release(release)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda weights: weights.pop("classifier.weight"),
            r"classifier\.weight missing",
        ),
        (
            lambda weights: weights.update(surprise=torch.zeros(1)),
            "1 weights that no part of the model reads",
        ),
        (
            lambda weights: weights.update(
                {"bert.pooler.dense.bias": torch.zeros(1)}
            ),
            "do not fit config.json",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(release, change, message):
    weights = torch.load(release / "pytorch_model.bin", weights_only=True)
    change(weights)
    torch.save(weights, release / "pytorch_model.bin")
    with pytest.raises(EncoderError, match=message):
        convert_release(release)


def test_code_in_the_weights_file_never_runs(release, tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    with (release / "pytorch_model.bin").open("wb") as handle:
        pickle.dump({"classifier.weight": Trap()}, handle)
    with pytest.raises(
        EncoderError,
        match="holds more than weights, and only weights are read",
    ):
        convert_release(release)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.data
def test_parity_with_the_original_code(data_folder, tmp_path):
    folder = tmp_path / "original"
    shutil.copytree(
        data_folder / "original_clinicalbert",
        folder,
        copy_function=shutil.copyfile,
    )
    notes = json.loads((folder / "expected.json").read_text())["notes"]
    model = convert_release(folder)
    for note in notes:
        expected = np.array(
            [window["probability"] for window in note["windows"]]
        )
        got = model.predict_windows(
            [np.array(w["input_ids"]) for w in note["windows"]]
        )
        assert np.abs(got - expected).max() < 1e-5
        assert (
            abs(clinical.aggregate(expected, 2.0) - note["probability_c2"])
            < 1e-9
        )
