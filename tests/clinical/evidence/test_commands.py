import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from clinical import ReadmissionModel
from clinical.cli import app
from clinical.evidence.explain import explain


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
    result = run(table, "--model", folder, "--out", out, "--top", 2)
    assert result.exit_code == 0, result.output
    found = pd.read_csv(out, dtype={"stay_id": str}, keep_default_na=False)
    assert set(found["stay_id"]) == {"1", "a/b", "3"}
    assert "furosemide" not in out.read_text() + result.output
    model = ReadmissionModel.from_pretrained(folder)
    expected = explain(model, notes[:2], top=2).passages
    mine = found[found["stay_id"] == "1"]
    assert list(
        zip(mine["note"].astype(int), mine["start"].astype(int), strict=True)
    ) == [(passage.note, passage.start) for passage in expected]
    assert set(mine["direction"]) <= {"raises", "lowers"}
    assert found.set_index("stay_id").loc["3", "status"] == "empty"


def test_the_words_are_written_only_if_asked(folder, table, tmp_path):
    out = tmp_path / "passages.jsonl"
    assert (
        run(table, "--model", folder, "--out", out, "--with-text").exit_code
        == 0
    )
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert any(row["text"] and "failure" in row["text"] for row in rows)
