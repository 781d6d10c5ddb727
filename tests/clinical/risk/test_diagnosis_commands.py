"""The commands on a model of diagnoses: a long table, passages of a group, and what is refused."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from clinical.cli import app
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


@pytest.mark.parametrize("option", [["--remaining"], ["--format", "fhir"]])
def test_options_of_risks_are_refused(option, folder, notes, tmp_path):
    out = tmp_path / "groups.csv"
    result = command("score", notes, "--model", folder, "--out", out, *option)
    assert result.exit_code == 1
    assert not out.exists()
