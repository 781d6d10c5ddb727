"""The run summary: what was done, beside the output."""

import json
import re
import sys
import time
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from clinical.cli import app
from domainbert.cli import scoring as cli
from domainbert.cli.console import progress
from domainbert.tables import write_table

sys.path.insert(0, str(Path(__file__).parent))
from word_count import WordCount

NOTE = "Patient admitted with chest pain. "


def stays(folder):
    texts = [NOTE * n for n in (1, 2, 9)] + [None, NOTE]
    frame = pd.DataFrame({"stay_id": list("abcde"), "text": texts})
    write_table(frame, folder / "notes.csv")
    return folder / "notes.csv"


def test_the_command_writes_what_it_did(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    words = [str(stays(tmp_path)), "--model", str(tmp_path / "model")]
    words += ["--out", str(tmp_path / "risks.csv")]
    assert CliRunner().invoke(app, ["score", *words]).exit_code == 0
    found = json.loads((tmp_path / "risks.csv.summary.json").read_text())
    assert (found["task"], found["rows"], found["rows_out"]) == ("readmission", 5, 5)
    assert found["items"] == {"ok": 4, "empty": 1}
    assert found["seconds"] > 0
    assert 5e7 < found["peak_memory_bytes"] < 1e11
    assert NOTE[:7] not in json.dumps(found)


def test_a_folder_of_parts_has_its_summary_beside_it(tmp_path):
    cli.score_source(WordCount, stays(tmp_path), tmp_path / "out")
    summary = tmp_path / "out.summary.json"
    first = summary.read_bytes()
    cli.score_source(WordCount, stays(tmp_path), tmp_path / "out")  # complete: nothing to do
    assert summary.read_bytes() == first


def test_progress_shows_the_time_left(monkeypatch, capsys):
    from rich.console import Console

    from domainbert.cli import console

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(
        console, "stderr", Console(stderr=True, force_terminal=True, width=120, highlight=False)
    )
    with progress("rows") as advance:
        for _ in range(4):
            time.sleep(0.05)
            advance(100, 1000)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    assert "400/1000" in shown
    assert re.search(r"left 0:00:0\d", shown)
