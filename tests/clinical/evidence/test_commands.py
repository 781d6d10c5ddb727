import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from clinical import ReadmissionModel
from clinical.cli import app
from clinical.evidence.explain import explain
from domainbert.models.shipped import shipped_models


@pytest.fixture
def folder(evidence_model, tmp_path):
    evidence_model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def table(notes, tmp_path):
    rows = [("1", notes[0]), ("1", notes[1]), ("a/b", notes[3]), ("3", "")]
    frame = pd.DataFrame(rows, columns=["stay_id", "text"])
    frame.to_csv(tmp_path / "notes.csv", index=False)
    return tmp_path / "notes.csv"


def run(*words):
    return CliRunner().invoke(app, ["explain", *map(str, words)])


def test_every_stay_has_passages_or_a_reason(folder, table, notes, tmp_path):
    out = tmp_path / "passages.csv"
    pages = tmp_path / "pages"
    result = run(table, "--model", folder, "--out", out, "--top", 2, "--pages", pages)
    assert result.exit_code == 0, result.output
    found = pd.read_csv(out, dtype={"stay_id": str}, keep_default_na=False)
    assert set(found["stay_id"]) == {"1", "a/b", "3"}
    assert "furosemide" not in out.read_text() + result.output
    model = ReadmissionModel.from_pretrained(folder)
    expected = explain(model, notes[:2], top=2).passages
    mine = found[found["stay_id"] == "1"]
    assert list(zip(mine["note"].astype(int), mine["start"].astype(int), strict=True)) == [
        (passage.note, passage.start) for passage in expected
    ]
    assert set(mine["direction"]) <= {"raises", "lowers"}
    assert found.set_index("stay_id").loc["3", "status"] == "empty"
    assert sorted(path.name for path in pages.iterdir()) == ["1.html", "a%2Fb.html"]


def test_the_words_are_written_only_if_asked(folder, table, tmp_path):
    out = tmp_path / "passages.jsonl"
    assert run(table, "--model", folder, "--out", out, "--with-text").exit_code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert any(row["text"] and "failure" in row["text"] for row in rows)


def test_evaluation_of_a_cohort_goes_into_the_card(folder, notes, tmp_path):
    texts = [notes[0], notes[1], notes[3] + " He lives alone. No fever."]
    cohort = pd.DataFrame(
        {
            "patient_id": [str(i) for i in range(4)],
            "text": [[texts[i % 3]] for i in range(4)],
            "readmitted": [i % 2 for i in range(4)],
            "split": ["test"] * 3 + ["val"],
        }
    )
    cohort.to_parquet(tmp_path / "cohort.parquet")
    out = tmp_path / "evidence.json"
    words = (tmp_path / "cohort.parquet", "--model", folder, "--out", out, "--evaluate")
    result = run(*words, "--record")
    assert result.exit_code == 0, result.output
    found = json.loads(out.read_text())
    assert (found["stays"], found["patients"], found["side"]) == (3, 3, "test")
    by = {m["method"]: m for m in found["measures"]}
    assert by["occlusion"]["measure"] == "comprehensiveness 5%"
    assert by["random"]["low"] is None  # too few patients
    card = (folder / "README.md").read_text()
    assert "## Evidence" in card
    assert "comprehensiveness 5%" in card
    assert "furosemide" not in card + out.read_text() + result.output


def test_a_shipped_model_is_not_changed(tmp_path):
    words = ("cohort.parquet", "--model", "readmission-demo", "--out", tmp_path / "e", "--evaluate")
    before = {
        path: path.stat().st_mtime_ns
        for path in shipped_models("clinical")["readmission-demo"].iterdir()
    }
    result = run(*words, "--record")
    assert result.exit_code == 1
    assert "readmission-demo is no folder of yours; pass the folder of a model" in result.output
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_side_that_is_not_there(folder, tmp_path):
    cohort = pd.DataFrame(
        {"patient_id": ["1"], "text": [["No fever."]], "readmitted": [0], "split": ["val"]}
    )
    cohort.to_parquet(tmp_path / "cohort.parquet")
    result = run(
        tmp_path / "cohort.parquet", "--model", folder, "--out", tmp_path / "e", "--evaluate"
    )
    assert result.exit_code == 1
    assert "the cohort has no stays on the side 'test'" in result.output
