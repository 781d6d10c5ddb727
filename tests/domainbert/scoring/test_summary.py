"""The run summary: what was done, beside the output."""

import errno
import json
import re
import signal
import sys
import threading
import time
from itertools import islice
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from clinical.cli import app
from domainbert.cli import options as cli
from domainbert.errors import UserError
from domainbert.files import write_json
from domainbert.progress import progress
from domainbert.scoring import store
from domainbert.tables import read_table, write_table

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
    assert (found["task"], found["rows"], found["rows_out"]) == (
        "readmission",
        5,
        5,
    )
    assert found["items"] == {"ok": 4, "empty": 1}
    assert found["seconds"] > 0
    assert (found["model"], found["model_name"]) == (
        model.fingerprint(),
        "model",
    )
    assert {"notes", "version"} <= set(found)
    assert time.time() - 3600 < found["finished"] <= time.time()
    assert NOTE[:7] not in json.dumps(found)


def test_rows_with_undecodable_bytes_are_counted(tmp_path, capsys):
    rows = [b"id,text", b"1,plain words", b"2,caf\xe9 au lait", b"3,th\xe9"]
    (tmp_path / "n.csv").write_bytes(b"\n".join(rows))
    out = tmp_path / "out.csv"
    cli.score_source(WordCount, tmp_path / "n.csv", out)
    remark = "undecodable bytes read as U+FFFD"
    assert f"3 rows in, 2 with {remark}, 3" in capsys.readouterr().err
    summary = json.loads((tmp_path / "out.csv.summary.json").read_text())
    assert summary["remarks"] == {remark: 2}


def test_after_a_resume_message_and_summary_count_the_whole_table(
    tmp_path, capsys
):
    write_table(
        pd.DataFrame({"text": [f"word {n}" for n in range(9)]}),
        tmp_path / "n.csv",
    )
    stopped = WordCount()
    stopped.part_characters = 500
    plain = stopped.run

    def run(items):
        yield from islice(plain(items), 1)
        if stopped.runs >= 3:
            raise KeyboardInterrupt
        yield from plain(items)

    stopped.run = run
    with pytest.raises(KeyboardInterrupt):
        cli.score_source(
            lambda: stopped, tmp_path / "n.csv", tmp_path / "out.csv"
        )
    counts = cli.score_source(
        WordCount, tmp_path / "n.csv", tmp_path / "out.csv"
    )
    assert 0 < counts.done < 9
    found = json.loads((tmp_path / "out.csv.summary.json").read_text())
    assert (found["rows_out"], found["items"]) == (9, {"ok": 9})
    said = " ".join(capsys.readouterr().err.split())
    assert f"9 rows in ({counts.done} done earlier), 9 rows out: 9 ok" in said


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_a_summary_that_could_not_be_written_is_written_by_the_next_run(
    tmp_path, monkeypatch, out
):
    def full(document, path):
        if path.name.endswith(".summary.json"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_json(document, path)

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_json", full)
        with pytest.raises(UserError, match="no space left on device"):
            cli.score_source(WordCount, stays(tmp_path), tmp_path / out)
    counts = cli.score_source(WordCount, stays(tmp_path), tmp_path / out)
    found = json.loads((tmp_path / f"{out}.summary.json").read_text())
    assert (counts.done, counts.made, found["rows_out"]) == (5, 0, 5)
    assert len(read_table(tmp_path / out)) == 5


class Slow(WordCount):
    """A task whose results come late, and all at once."""

    grace_seconds = 0.5

    def run(self, items):
        items = list(items)
        if self.seconds:
            threading.Timer(0.2, signal.raise_signal, [signal.SIGTERM]).start()
            for _ in range(int(self.seconds * 20)):
                time.sleep(0.05)
        yield from super().run(items)


def test_sigterm_ends_a_run_in_time_though_an_item_takes_long(tmp_path):
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as stop:
        cli.score_source(
            lambda: Slow(seconds=60), stays(tmp_path), tmp_path / "out.csv"
        )
    assert time.monotonic() - began < 30
    assert stop.value.args == (signal.SIGTERM,)
    assert (
        cli.score_source(
            WordCount, stays(tmp_path), tmp_path / "out.csv"
        ).items["ok"]
        == 4
    )


def test_parts_end_by_time_too(tmp_path):
    task = WordCount()
    task.part_seconds = 0.0
    task.part_characters = 10_000
    counts = []

    def rows(item, result):
        counts.append(len(list(tmp_path.glob("out.csv.parts/part-*"))))
        return [{"words": result}]

    task.rows = rows
    cli.score_source(lambda: task, stays(tmp_path), tmp_path / "out.csv")
    assert counts == [0, 1, 2, 4]  # the fourth stay is empty


def test_progress_shows_the_time_left(monkeypatch, capsys):
    from rich.console import Console

    from domainbert import progress as bars

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(
        bars,
        "stderr",
        Console(stderr=True, force_terminal=True, width=120, highlight=False),
    )
    with progress("rows") as advance:
        for _ in range(4):
            time.sleep(0.05)
            advance(100, 1000)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    assert re.search(
        r"40% 0:00:0\d +400/1000", shown
    )  # the share, the time left, the rows
