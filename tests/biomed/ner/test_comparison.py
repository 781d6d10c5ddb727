import json

import pytest

from experiments.comparison import compare


def write(folder, *, seeds, corpora=("a",), encoder="plain", window=256, sha=None, **training):
    manifest = {
        "training": {"epochs": 4, "seed": len(seeds), **training},
        "augmentation": {"alone": 0.3},
        "corpora": {name: {"repeat": 1} for name in corpora},
        "seeds": [
            {"seed": number, "devel": {"a": f1}, "test": {"a": f1 - 0.1}}
            for number, f1 in enumerate(seeds)
        ],
    }
    config = {"task": "entities", "encoder": encoder, "encoder_sha256": sha, "manifest": manifest}
    config["settings"] = {"window": window}
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"domainbert": config}))
    return folder


def test_what_differs_and_what_it_gave(tmp_path):
    folders = [
        write(tmp_path / "short", seeds=[0.7, 0.8]),
        write(tmp_path / "long", seeds=[0.9], epochs=8, encoder="/far/away/own"),
        write(tmp_path / "more", seeds=[0.75], corpora=("a", "silver")),
    ]
    table = compare(folders)
    assert list(table["model"]) == ["short", "long", "more"]
    assert list(table["epochs"]) == ["4", "8", "4"]
    assert list(table["encoder"]) == ["plain", "own", "plain"]
    assert list(table["silver, times"]) == ["", "", "1"]
    assert list(table["seeds"]) == [2, 1, 1]
    assert list(table["a devel"]) == ["0.750 ± 0.071", "0.900", "0.750"]
    assert list(table["a test"]) == ["0.650 ± 0.071", "0.800", "0.650"]
    assert not {"alone", "seed", "a, times"} & set(table.columns)


def test_models_of_one_name_are_two_rows(tmp_path):
    folders = [
        write(tmp_path / "a" / "model", seeds=[0.7], window=128, encoder="x/enc", sha="12345678ab"),
        write(tmp_path / "b" / "model", seeds=[0.8], encoder="y/enc", sha="87654321ab"),
    ]
    table = compare(folders)
    assert list(table["model"]) == [str(folder) for folder in folders]
    assert list(table["window"]) == ["128", "256"]
    assert list(table["encoder"]) == ["enc 12345678", "enc 87654321"]


def test_a_folder_that_no_training_wrote(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"domainbert": {"task": "qa"}}')
    for name in ("other", "absent"):
        with pytest.raises(ValueError, match=f"{name}: expected a model folder"):
            compare([tmp_path / name])
