"""The run summary: what was done, beside the output, and for Prometheus."""

import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from clinical.cli import app
from domainbert.cli import scoring as cli
from domainbert.cli.console import progress
from domainbert.cli.options import ScoringOptions
from domainbert.errors import UserError
from domainbert.scoring.cache import WindowCache
from domainbert.tables import write_table
from domainbert.text.meter import count_batch, metered, stage, timed

sys.path.insert(0, str(Path(__file__).parent))
from word_count import WordCount

NOTE = "Patient admitted with chest pain. "
STAGES = {"load", "survey", "read", "prepare", "model", "write", "assemble", "other"}


def test_stages_add_up_and_count_for_themselves():
    with metered() as meter:
        with stage("outer"):
            time.sleep(0.02)
            with stage("inner"):
                time.sleep(0.05)
        for _ in timed(iter([1, 2]), "waiting"):
            time.sleep(0.01)
    seconds = meter.seconds
    assert 0.02 <= seconds["outer"] < seconds["inner"]
    assert seconds["waiting"] < 0.02 <= seconds["other"]
    count_batch(windows=1, tokens=1, cells=1)
    assert meter.windows == 0  # over


def test_a_stage_that_fails_ends():
    with metered() as meter, pytest.raises(KeyError), stage("a"):
        raise KeyError
    assert set(meter.seconds) == {"a", "other"}


def stays(folder):
    texts = [NOTE * n for n in (1, 2, 9)] + [None, NOTE]
    frame = pd.DataFrame({"stay_id": list("abcde"), "text": texts})
    write_table(frame, folder / "notes.csv")
    return folder / "notes.csv"


def test_the_command_writes_what_it_did(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    words = [str(stays(tmp_path)), "--model", str(tmp_path / "model")]
    words += ["--out", str(tmp_path / "risks.csv"), "--cache", str(tmp_path / "cache.db")]
    words += ["--metrics", str(tmp_path / "run.prom")]
    assert CliRunner().invoke(app, ["score", *words]).exit_code == 0
    found = json.loads((tmp_path / "risks.csv.summary.json").read_text())
    ids = [window for stay in model.token_ids([NOTE, NOTE * 2, NOTE * 9]) for window in stay]
    different = {window.tobytes(): len(window) for window in ids}
    assert (found["task"], found["rows"], found["rows_out"]) == ("readmission", 5, 5)
    assert found["items"] == {"ok": 4, "empty": 1}
    assert found["windows"] == len(different)
    assert found["tokens"] == sum(different.values())
    assert found["cache_hits"] == len(ids) + 1 - len(different)
    assert 0 < found["padding_share"] < 1
    assert set(found["seconds_by_stage"]) == STAGES
    assert found["seconds"] == pytest.approx(sum(found["seconds_by_stage"].values()))
    assert 5e7 < found["peak_memory_bytes"] < 1e11
    assert NOTE[:7] not in json.dumps(found)
    samples = check_prometheus((tmp_path / "run.prom").read_text())
    name = "domainbert_scoring_"
    assert samples[f'{name}items{{status="ok",task="readmission"}}'] == 4
    assert samples[f'{name}windows{{task="readmission"}}'] == len(different)
    assert (tmp_path / "run.prom").stat().st_mode & 0o044 == 0o044
    # The same again does nothing but score the table anew from the cache.
    (tmp_path / "risks.csv").unlink()
    assert CliRunner().invoke(app, ["score", *words]).exit_code == 0
    again = json.loads((tmp_path / "risks.csv.summary.json").read_text())
    assert (again["windows"], again["cache_hits"]) == (0, len(ids) + 1)


def check_prometheus(text):
    """The samples of a text in Prometheus' exposition format."""
    assert text.endswith("\n")
    samples, declared = {}, set()
    for line in text.splitlines():
        if line.startswith("#"):
            match = re.fullmatch(r"# (HELP|TYPE) ([a-z_]+) (.+)", line)
            assert match, line
            assert match[1] == "HELP" or match[3] == "gauge"
            declared.add(match[2])
            continue
        match = re.fullmatch(r'(([a-z_]+)\{[a-z]+="\w+"(?:,[a-z]+="\w+")*\}) (\S+)', line)
        assert match, line
        assert match[2] in declared
        samples[match[1]] = float(match[3])
    return samples


def test_a_folder_of_parts_has_its_summary_beside_it(tmp_path):
    cli.score_source(WordCount, stays(tmp_path), tmp_path / "out")
    summary = tmp_path / "out.summary.json"
    first = summary.read_bytes()
    assert json.loads(first)["windows"] == 0
    cli.score_source(WordCount, stays(tmp_path), tmp_path / "out")  # complete: nothing to do
    assert summary.read_bytes() == first


def test_metrics_that_nobody_would_read_are_refused_first(tmp_path):
    def never():
        raise AssertionError

    def run(path):
        cli.score_source(never, stays(tmp_path), tmp_path / "o.csv", ScoringOptions(metrics=path))

    with pytest.raises(UserError, match=r"run.txt: expected a name that ends in \.prom"):
        run(tmp_path / "run.txt")
    with pytest.raises(UserError, match=r"no folder .*; make it first"):
        run(tmp_path / "x" / "run.prom")


def test_windows_in_a_cache_are_hits(tmp_path):
    windows = [np.array([1, 2]), np.array([3]), np.array([1, 2])]
    cache = WindowCache(tmp_path / "c.db", model="m")
    with metered() as meter:
        for _ in range(2):
            cache.logits(windows, lambda some: np.zeros(len(some)))
    assert meter.cache_hits == 1 + 3


def test_progress_shows_rate_and_time_left(monkeypatch, capsys):
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
    assert re.search(r"[\d,]+/s", shown)
