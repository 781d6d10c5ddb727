import json

import pytest

from biomed.ner.tagger import EntityManifest
from clinical.risk.manifest import DiagnosisManifest, RiskManifest
from domainbert.errors import EncoderError
from domainbert.files import json_text
from domainbert.models.manifest import (
    Manifest,
    Scores,
    Stage,
    Training,
    score_text,
)
from domainbert.models.storage import (
    MANIFEST_FILE,
    manifest_text,
    read_manifest,
    shipped_models,
)
from domainbert.statistics.bootstrap import Interval

KINDS = {
    "diagnoses-codiesp": DiagnosisManifest,
    "readmission-demo": RiskManifest,
    "readmission-diabetes130": RiskManifest,
    "disease-drug": EntityManifest,
}
SHIPPED = shipped_models("clinical") | shipped_models("biomed")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models_keep_what_loading_needs_apart_from_what_was_measured(
    name,
):
    config = (SHIPPED[name] / "config.json").read_text("utf-8")
    groups = json.loads(config)["domainbert"]["labels"]
    assert config.count("\n") < 80 + 3 * len(groups)  # a name, and two numbers
    assert not {"manifest", "scores"} & json.loads(config)["domainbert"].keys()
    kind = KINDS.get(name, Manifest)
    manifest = read_manifest(SHIPPED[name], kind)
    assert manifest.card.name == name
    assert manifest.training.stages[0].epochs > 0
    is_served = name != "rerank"  # the example is the self-test of `serve`
    assert (manifest.example is not None) == is_served
    written = (SHIPPED[name] / MANIFEST_FILE).read_text("utf-8")
    assert manifest_text(manifest) == written


def test_the_base_class_reads_every_manifest():
    for folder in SHIPPED.values():
        assert read_manifest(folder, Manifest).card.title


def test_a_manifest_is_what_was_written(tmp_path):
    manifest = Manifest()
    manifest.training = Training(
        stages=[
            Stage(
                epochs=2, learning_rate=1e-3, batch_tokens=64, seed=0, rank=4
            )
        ],
        facts=[{"data": "a[1]"}],
    )
    manifest.scores.add_row("test", {"f1": Interval(0.5, 0.4, 0.6), "gold": 7})
    (tmp_path / MANIFEST_FILE).write_text(manifest_text(manifest), "utf-8")
    again = read_manifest(tmp_path, Manifest)
    assert again == manifest
    assert again.training.stages[0].model_extra == {"rank": 4}
    assert again.scores.rows() == [
        ["", "f1", "gold"],
        ["test", "0.500 [0.400, 0.600]", "7"],
    ]


def test_a_folder_without_a_manifest_has_an_empty_one(tmp_path):
    assert read_manifest(tmp_path, Manifest) == Manifest()
    assert manifest_text(Manifest()) == "{}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '{"training": {"stages": [{"epochs": "x"}]}}',
            r"training\.stages\.0\.epochs",
        ),
        ('{"data": {"counts": {"a": 1.5}}}', r"data\.counts\.a"),
        ("{", "Invalid JSON"),
    ],
)
def test_a_broken_manifest_is_one_line_with_the_entry(tmp_path, text, problem):
    (tmp_path / MANIFEST_FILE).write_text(text)
    expected = rf"evaluation\.json does not fit this version of domainbert: .*{problem}"
    with pytest.raises(EncoderError, match=expected):
        read_manifest(tmp_path, Manifest)


def test_json_has_short_lists_on_one_line_and_texts_as_they_are():
    document = {
        "a": [1, 2.5, None],
        "b": [["x  [y]\n", "z"], [{"c": []}]],
        "d": [],
    }
    text = json_text(document)
    assert json.loads(text) == document
    assert '"a": [1, 2.5, null]' in text
    assert '"d": []' in text


def test_scores_without_a_value_are_empty_cells():
    scores = Scores(table={"a": {"x": 0.25}, "b": {"y": 3}})
    assert scores.rows() == [
        ["", "a", "b"],
        ["x", "0.250", ""],
        ["y", "", "3"],
    ]
    assert Scores().rows() == []
    assert score_text(None) == ""
