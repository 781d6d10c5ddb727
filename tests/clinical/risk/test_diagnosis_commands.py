"""The commands on a model of diagnoses: a long table, passages of a group, and what is refused."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from clinical import synthesize
from clinical.cli import app
from clinical.cohort.definition import SHIPPED
from clinical.risk.diagnoses import DiagnosisModel, DiagnosisSettings
from domainbert.training.settings import TrainingSettings

run = CliRunner()
GROUPS = ["I50", "R50", "R52"]


@pytest.fixture(scope="module")
def folder(tiny_encoder, tmp_path_factory):
    out = tmp_path_factory.mktemp("groups") / "model"
    model = DiagnosisModel.untrained(
        tiny_encoder,
        training=TrainingSettings(),
        settings=DiagnosisSettings(window=24),
        labels=GROUPS,
    )
    model.finished(model.network, full=True).save_pretrained(out)
    return out


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "notes.csv"
    rows = {"stay_id": ["1", "2"], "text": ["fever and pain. home.", ""]}
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def command(*words):
    return run.invoke(app, list(map(str, words)))


def test_score_writes_a_row_for_each_group(folder, notes, tmp_path):
    out = tmp_path / "groups.csv"
    result = command("score", notes, "--model", folder, "--out", out)
    assert result.exit_code == 0, result.output
    table = pd.read_csv(out)
    assert table["stay_id"].tolist() == [1, 1, 1, 2]
    assert sorted(table["group"].dropna()) == GROUPS
    assert table["status"].tolist() == ["ok"] * 3 + ["empty"]
    again = tmp_path / "top.csv"
    command("score", notes, "--model", folder, "--out", again, "--top", 1)
    assert len(pd.read_csv(again)) == 2


def test_explain_needs_a_group_and_names_it(folder, notes, tmp_path):
    out = tmp_path / "passages.csv"
    words = ("explain", notes, "--model", folder, "--out", out)
    result = command(*words)
    assert result.exit_code == 2
    assert "--outcome" in result.output
    result = command(*words, "--outcome", "R50")
    assert result.exit_code == 0, result.output
    assert set(pd.read_csv(out)["group"]) == {"R50"}
    wrong = tmp_path / "wrong.csv"
    result = command(*words[:-1], wrong, "--outcome", "R5")
    assert result.exit_code == 1
    assert "R50" in result.output


@pytest.mark.parametrize("option", [["--remaining"], ["--format", "meds"]])
def test_options_of_risks_are_refused(option, folder, notes, tmp_path):
    out = tmp_path / "groups.csv"
    result = command("score", notes, "--model", folder, "--out", out, *option)
    assert result.exit_code == 1
    assert not out.exists()


RECIPE = """
[model]
encoder = "{encoder}"
window = 64
min_stays = 1
[training]
epochs = 1
batch_tokens = 2048
evaluations = 1
"""


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    """A folder shaped as MIMIC-IV, and a definition for so few stays."""
    folder = tmp_path_factory.mktemp("hospital")
    synthesize(folder / "mimic4", stays=160, seed=4, brief=True, form="mimic4")
    text = (SHIPPED / "definitions" / "diagnoses.toml").read_text()
    text = text.replace("minimum_stays = 20", "minimum_stays = 5")
    (folder / "groups.toml").write_text(text)
    return folder


def done(*words):
    result = command(*words)
    assert result.exit_code == 0, result.output
    return result.output


def metrics_groups(metrics):
    return {row["group"] for row in metrics["groups"]}


@pytest.mark.slow
def test_from_tables_to_explained_codes(hospital, tiny_encoder, monkeypatch):
    """The commands of docs/codes.md, one after the other."""
    monkeypatch.chdir(hospital)
    recipe = hospital / "recipe.toml"
    recipe.write_text(RECIPE.format(encoder=tiny_encoder))
    done(
        "cohort", "mimic4", "--definition", "groups.toml",  "--out", "codes.parquet",
    )  # fmt: skip
    said = done(
        "train",
        "codes.parquet",
        "--recipe",
        recipe,
        "--out",
        "ours",
        "--forget-patients",
    )
    assert "7 groups" in said
    card = (hospital / "ours" / "README.md").read_text()
    assert "macro AUROC" in card
    assert "TF-IDF" in card
    said = done(
        "evaluate", "codes.parquet", "--model", "ours", "--out", "report",
        "--bootstrap", 30,
    )  # fmt: skip
    assert "micro AUPRC" in said
    metrics = json.loads((hospital / "report" / "metrics.json").read_text())
    assert len(metrics["groups"]) == 7
    assert {"model", "TF-IDF", "prevalence"} == set(metrics["overall"])
    page = (hospital / "report" / "report.html").read_text()
    assert "<script>" in page
    assert "I50" in page
    done("score", "codes.parquet", "--model", "ours", "--out", "all.csv")
    done(
        "evaluate", "codes.parquet", "--scores", "all.csv", "--out", "nightly",
        "--bootstrap", 30,
    )  # fmt: skip
    of_scores = json.loads((hospital / "nightly" / "metrics.json").read_text())
    for name in ("macro AUROC", "micro AUPRC", "recall@5"):
        assert of_scores["overall"]["model"][name] == pytest.approx(
            metrics["overall"]["model"][name]
        )
    assert set(of_scores["overall"]) == {"model", "prevalence"}
    said = done(
        "recalibrate", "codes.parquet", "--model", "ours", "--split", "train",
        "--out", "again",
    )  # fmt: skip
    assert "calibrators for" in said
    done(
        "discharges", "mimic4", "--model", "again", "--definition",
        "groups.toml", "--top", 2, "--out", "groups.csv",
    )  # fmt: skip
    table = pd.read_csv(hospital / "groups.csv")
    assert set(table[table["status"] == "ok"].groupby("stay_id").size()) == {2}
    done(
        "score", "codes.parquet", "--model", "again", "--top", 2, "--format",
        "fhir", "--out", "proposed.csv",
    )  # fmt: skip
    lines = (hospital / "proposed.fhir.ndjson").read_text().splitlines()
    first = json.loads(lines[0])
    assert first["verificationStatus"]["coding"][0]["code"] == "unconfirmed"
    assert first["code"]["coding"][0]["code"] in metrics_groups(metrics)
    assert "percent" in first["note"][0]["text"]
    done(
        "score", "codes.parquet", "--model", "again", "--top", 2, "--format",
        "omop", "--out", "other.csv",
    )  # fmt: skip
    omop = pd.read_csv(hospital / "other.omop.CONDITION_OCCURRENCE.csv")
    assert len(omop) == len(lines)
    assert set(omop["condition_status_concept_id"]) == {32899}
    done(
        "explain", "codes.parquet", "--model", "again", "--outcome", "I50",
        "--with-text", "--out", "passages.csv",
    )  # fmt: skip
    passages = pd.read_csv(hospital / "passages.csv")
    assert set(passages["group"].dropna()) == {"I50"}
    assert passages["text"].notna().any()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "--objective", "stay"), "--objective: for models of one"),
        (("recalibrate", "--columns", "age"), "--columns: for models of one"),
    ],
)
def test_options_of_one_outcome_are_refused(words, message, folder, tmp_path):
    path = tmp_path / "cohort.jsonl"
    rows = {"patient_id": "1", "text": ["fever"], "diagnoses": ["R50"]}
    path.write_text(json.dumps(rows | {"split": "train"}))
    name, *options = words
    if name == "recalibrate":
        options += ["--model", folder]
    result = command(name, path, "--out", tmp_path / "m", *options)
    assert result.exit_code == 1
    assert message in result.output


def test_a_side_without_the_groups_of_the_model_is_told(folder, tmp_path):
    path = tmp_path / "cohort.jsonl"
    row = {"patient_id": "1", "text": ["fever"], "diagnoses": ["R50.9"]}
    path.write_text(json.dumps(row | {"split": "test"}))
    result = command(
        "evaluate", path, "--model", folder, "--out", tmp_path / "report"
    )
    assert result.exit_code == 1
    assert "has a group of the model, such as I50" in result.output
    assert "1 others, such as R50.9" in result.output
