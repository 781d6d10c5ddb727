"""A task of fifty lines from outside the packages gets files, frames, statuses and resume."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from domainbert import files
from domainbert.cli import options as cli
from domainbert.cli.options import ScoringOptions, score_source
from domainbert.errors import UserError
from domainbert.files import locked
from domainbert.scoring import score_file, score_frame
from domainbert.scoring.task import make_plan
from domainbert.tables import (
    ReadOptions,
    TableError,
    csv_files,
    databases,
    read_table,
    rows,
    write_table,
)

sys.path.insert(0, str(Path(__file__).parent))
from word_count import PatientWords, WordCount


def with_parts(task, characters):
    task.part_characters = characters
    return task


def notes(number=100):
    texts = [" ".join(["word"] * (i % 7)) or None for i in range(number)]
    return pd.DataFrame(
        {"visit_id": [f"0{i}" for i in range(number)], "text": texts}
    )


def blank(frame):
    """Text columns with "" for a missing cell: CSV does not tell them apart."""
    return frame.assign(
        **{
            name: frame[name].fillna("")
            for name in ("visit_id", "reason")
            if name in frame
        }
    )


def scored(source, out, task=None, **options):
    counts = score_file(task or WordCount(), source, out, **options)
    return counts, read_table(out)


def test_a_frame_has_a_row_for_every_row():
    frame = pd.DataFrame(
        {"id": [1, 2.0, "x"], "text": ["two words", None, "13"], "other": 1}
    )
    result = score_frame(WordCount(), frame)
    assert result.columns.tolist() == [
        "id",
        "row",
        "words",
        "status",
        "reason",
    ]
    assert result["id"].tolist() == ["1", "2", "x"]
    assert result["words"].tolist() == [2, pd.NA, pd.NA]
    assert result["status"].tolist() == ["ok", "empty", "error"]
    assert result["reason"].tolist() == ["", "no text", "unlucky"]


@pytest.mark.parametrize(
    "value",
    [5, b"bytes", [1], np.array(["a", "b"]), {"a": 1}, pd.NA, float("nan")],
)
def test_strange_values_cost_their_row_alone(value):
    frame = pd.DataFrame(
        {"text": pd.Series(["a b", value, "c"], dtype=object)}
    )
    result = score_frame(WordCount(), frame)
    assert result["status"].iloc[[0, 2]].tolist() == ["ok", "ok"]
    assert len(result) == 3


@pytest.mark.parametrize(
    "ending", [".csv", ".csv.gz", ".tsv", ".jsonl", ".parquet"]
)
@pytest.mark.parametrize("result", [".csv", ".jsonl", ".parquet"])
def test_files_give_what_frames_give(tmp_path, ending, result):
    frame = notes()
    write_table(frame, tmp_path / f"notes{ending}")
    out = tmp_path / f"out{result}"
    counts = score_file(WordCount(), tmp_path / f"notes{ending}", out)
    expected = score_frame(WordCount(), frame)
    schema = {"row": "int", "words": "int"}
    found = read_table(out, schema=schema).astype(expected.dtypes.to_dict())
    pd.testing.assert_frame_equal(blank(found), blank(expected))
    assert counts.rows == counts.made == 100
    assert counts.items == {"ok": 85, "empty": 15}
    assert str(counts) == "100 rows in, 100 rows out: 15 empty, 85 ok"


def test_a_line_that_is_no_row_is_a_row_with_its_reason(tmp_path):
    (tmp_path / "n.csv").write_text('id,text\n1,a b\n2,"open\n3,c\n4,"d"\n5\n')
    _, found = scored(tmp_path / "n.csv", tmp_path / "out.csv")
    assert found["id"].fillna("").tolist() == ["1", "", "3", "4", ""]
    assert found["status"].tolist() == ["ok", "error", "ok", "ok", "error"]
    assert (
        found["reason"]
        .iloc[1]
        .startswith("n.csv line 3: line that is not a row")
    )


def test_columns_are_recognised_named_and_kept(tmp_path):
    frame = pd.DataFrame({"NICK": ["p"], "Body": ["a b c"], "ward": ["7"]})
    result = score_frame(
        WordCount(), frame, named={"text": "Body"}, keep=["ward"]
    )
    assert result.columns.tolist() == [
        "NICK",
        "ward",
        "row",
        "words",
        "status",
        "reason",
    ]
    assert result.iloc[0].tolist() == ["p", "7", 0, 3, "ok", ""]
    with pytest.raises(TableError, match="has no column 'text'"):
        score_frame(WordCount(), frame)
    with pytest.raises(
        TableError, match="a column 'words', a name that the result needs"
    ):
        score_frame(
            WordCount(),
            pd.DataFrame({"text": ["a"], "words": [1]}),
            keep=["words"],
        )


def test_kept_columns_and_named_ids_are_no_formulas_in_csv(tmp_path):
    (tmp_path / "n.csv").write_text("Who,Body,ward\n=1+1,a b,@home\n-2,c,7\n")
    named = {"text": "Body", "name": "Who"}
    score_file(
        WordCount(),
        tmp_path / "n.csv",
        tmp_path / "out.csv",
        named=named,
        keep=["ward"],
    )
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["'=1+1", "'@home"],
        ["'-2", "7"],
    ]


def test_a_remark_on_a_row_stays_where_the_task_adds_one():
    plan = make_plan(WordCount(), ["text"], source="notes.csv")
    plain = rows.Row(0, {}, "notes.csv line 2")
    remarked = rows.Row(1, {}, "notes.csv line 3", remark="read as U+FFFD")
    item = [plain, remarked, remarked]
    assert plan.finished(item, {})["reason"] == "read as U+FFFD"
    reason = plan.finished(item, {"reason": "in 2 windows"})["reason"]
    assert reason == "read as U+FFFD; in 2 windows"


def test_a_likely_id_column_that_is_not_used_is_refused():
    frame = pd.DataFrame({"hadm_idx": [1], "text": ["a"]})
    with pytest.raises(
        TableError,
        match=r"'hadm_idx' that looks like stay_id.*named=\{'stay_id': 'hadm_idx'\}",
    ):
        score_frame(PatientWords(), frame)


@pytest.mark.parametrize("kind", ["frame", ".csv", ".parquet"])
def test_rows_of_a_group_come_together_from_anywhere(tmp_path, kind):
    frame = pd.DataFrame(
        {
            "HADM_ID": ["2", "1", None, "2 ", "1", None],
            "text": ["a", "b c", "x", "d e", None, "y y"],
        }
    )
    if kind == "frame":
        found = score_frame(PatientWords(), frame)
    else:
        write_table(frame, tmp_path / f"n{kind}")
        _, found = scored(
            tmp_path / f"n{kind}", tmp_path / "out.parquet", PatientWords()
        )
    assert found["HADM_ID"].fillna("").tolist() == ["2", "1", "", ""]
    assert found["words"].tolist() == [3, 2, 1, 2]
    assert "row" not in found.columns


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
@pytest.mark.parametrize("task", [WordCount, PatientWords])
def test_a_run_that_was_stopped_resumes(tmp_path, out, task):
    frame = pd.concat([notes(60), notes(5)])
    frame["stay_id"] = [f"s{i // 3}" for i in range(65)]
    frame = pd.concat([frame, frame.iloc[:1]])  # its stay's rows lie apart
    source = tmp_path / "n.csv"
    write_table(frame, source)
    source.write_text(source.read_text() + 'x,"open\n')  # not a row
    parts = tmp_path / f"{out}.parts"
    stopped = task()
    stop_after(stopped, 12)
    with pytest.raises(KeyboardInterrupt):
        score_file(stopped, source, tmp_path / out)
    done = len(read_table(parts))
    assert 0 < done < 21

    counts, found = scored(source, tmp_path / out, task())
    assert counts.done > 0
    assert counts.rows == 67
    assert counts.made == len(found) - done
    whole = tmp_path / f"whole{Path(out).suffix}"
    _, expected = scored(source, whole, task())
    pd.testing.assert_frame_equal(found, expected)
    assert "n.csv line 68: " in found.to_csv()
    assert not parts.exists()


def test_rows_in_another_order_are_another_input(tmp_path):
    task = WordCount()
    stop_after(task, 12)
    write_table(notes(), tmp_path / "n.csv")
    with pytest.raises(KeyboardInterrupt):
        score_file(task, tmp_path / "n.csv", tmp_path / "out.csv")
    write_table(notes().iloc[::-1], tmp_path / "n.csv")
    with pytest.raises(UserError, match="holds a run with another input"):
        score_file(WordCount(), tmp_path / "n.csv", tmp_path / "out.csv")


class Passes:
    """Counts how often files are read to their end, by wrapping their readers."""

    def __init__(self, monkeypatch):
        self.count = 0
        for ending, reader in rows.READERS.items():
            monkeypatch.setitem(
                rows.READERS,
                ending,
                reader._replace(cells=self.counted(reader)),
            )

    def counted(self, reader):
        def cells(*arguments):
            yield from reader.cells(*arguments)
            self.count += 1

        return cells


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("task", [WordCount, PatientWords])
def test_a_file_is_read_once_to_survey_and_once_to_score(
    tmp_path, monkeypatch, ending, task
):
    frame = notes(2000)
    frame["stay_id"] = [f"s{i % 900}" for i in range(2000)]
    write_table(frame, tmp_path / f"n{ending}")
    passes = Passes(monkeypatch)
    summary = score_source(
        lambda: with_parts(task(), 250_000),
        tmp_path / f"n{ending}",
        tmp_path / "out.parquet",
    )
    assert (summary.rows, passes.count) == (2000, 2)


def test_a_json_column_that_begins_late_is_carried(tmp_path):
    lines = ['{"text": "a b"}'] * 1500 + ['{"text": "c", "doc_id": 7}']
    (tmp_path / "n.jsonl").write_text("\n".join(lines))
    _, found = scored(tmp_path / "n.jsonl", tmp_path / "out.parquet")
    assert found.columns[0] == "doc_id"
    assert found["doc_id"].dropna().tolist() == ["7"]


def test_a_kept_column_of_json_lines_may_begin_late(tmp_path):
    lines = ['{"text": "a b"}'] * 1500 + ['{"text": "c", "site": "x"}']
    (tmp_path / "n.jsonl").write_text("\n".join(lines))
    _, found = scored(
        tmp_path / "n.jsonl", tmp_path / "out.parquet", keep=["site"]
    )
    assert found["site"].dropna().tolist() == ["x"]
    with pytest.raises(TableError, match="no column 'ward'"):
        scored(tmp_path / "n.jsonl", tmp_path / "out.csv", keep=["ward"])


def test_a_query_runs_once(tmp_path, monkeypatch):
    pytest.importorskip("adbc_driver_sqlite")
    with closing(sqlite3.connect(tmp_path / "h.db")) as con, con:
        notes(50).to_sql("notes", con, index=False)
    asked, plain = [], databases.query_batches
    monkeypatch.setattr(
        databases,
        "query_batches",
        lambda *query: asked.append(query) or plain(*query),
    )
    options = ReadOptions(query="SELECT visit_id, text FROM notes")
    out = tmp_path / "out.parquet"
    counts = score_file(
        WordCount(), f"sqlite:///{tmp_path}/h.db", out, options=options
    )
    assert (counts.rows, len(asked)) == (50, 1)
    expected = score_frame(WordCount(), notes(50))["words"]
    assert (
        read_table(out)["words"].fillna(-1).tolist()
        == expected.fillna(-1).tolist()
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "h.db",
        "out.parquet",
    ]


def test_a_new_format_is_one_reader_and_one_line(tmp_path, monkeypatch):
    def cells(path, options, columns):
        for number, line in enumerate(path.read_text().split("|")):
            yield {"text": line}, f"{path.name} field {number}", "", ""

    reader = rows.Reader(lambda path, options: [["text"]], cells)
    monkeypatch.setitem(rows.READERS, ".pipes", reader)
    (tmp_path / "n.pipes").write_text("a b|c|d e f")
    _, found = scored(tmp_path / "n.pipes", tmp_path / "out.parquet")
    assert found["words"].tolist() == [2, 1, 3]
    assert read_table(tmp_path / "n.pipes")["text"].tolist() == [
        "a b",
        "c",
        "d e f",
    ]


def test_a_source_that_changes_while_it_is_read_is_refused(tmp_path):
    for name in ("a.csv", "b.csv"):
        write_table(notes(), tmp_path / name)
    task = WordCount()

    def facts():  # asked between the two passes
        write_table(notes(7), tmp_path / "b.csv")
        return {}

    task.facts = facts
    with pytest.raises(
        UserError, match="the input changed while it was read; start over"
    ):
        score_file(task, str(tmp_path / "?.csv"), tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_a_part_that_was_damaged_is_redone(tmp_path, out):
    write_table(notes(), tmp_path / "n.csv")
    task = WordCount()
    stop_after(task, 40)
    with pytest.raises(KeyboardInterrupt):
        score_file(task, tmp_path / "n.csv", tmp_path / out)
    part = tmp_path / f"{out}.parts" / "part-000001.parquet"
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(
        UserError,
        match=r"part-000001\.parquet is damaged; delete it and repeat",
    ):
        score_file(WordCount(), tmp_path / "n.csv", tmp_path / out)
    part.unlink()
    _, found = scored(tmp_path / "n.csv", tmp_path / out)
    _, whole = scored(
        tmp_path / "n.csv", tmp_path / f"whole{Path(out).suffix}"
    )
    pd.testing.assert_frame_equal(found, whole)


def stopped_run(folder):
    """A run on n.csv that was stopped; its parts."""
    write_table(notes(), folder / "n.csv")
    task = WordCount()
    stop_after(task, 40)
    with pytest.raises(KeyboardInterrupt):
        score_file(task, folder / "n.csv", folder / "out.csv")
    return folder / "out.csv.parts"


def test_a_damaged_manifest(tmp_path):
    folder = stopped_run(tmp_path)
    manifest = folder / "manifest.json"
    sound = json.loads(manifest.read_text())
    changes = [{"salt": None}, {"salt": "ab"}, {"salt": 7}, {"format": 3}]
    for text in (
        "{",
        "[]",
        "7",
        *(json.dumps({**sound, **change}) for change in changes),
    ):
        manifest.write_text(text)
        for restart in (False, True):
            with pytest.raises(
                UserError,
                match=r"json is damaged; delete .*out.csv.parts and re",
            ):
                score_file(
                    WordCount(),
                    tmp_path / "n.csv",
                    tmp_path / "out.csv",
                    restart=restart,
                )
    shutil.rmtree(folder)
    assert (
        score_file(WordCount(), tmp_path / "n.csv", tmp_path / "out.csv").made
        == 100
    )


def stop_after(task, runs, *, by=signal.SIGINT):
    plain = task.run

    def run(items):
        for result in plain(items):
            if task.runs >= runs:
                os.kill(os.getpid(), by)
                task.runs = -1000
            yield result

    task.run = run


def test_a_run_of_something_else_is_refused(tmp_path):
    write_table(notes(), tmp_path / "n.csv")
    task = WordCount()
    stop_after(task, 20)
    with pytest.raises(KeyboardInterrupt):
        score_file(task, tmp_path / "n.csv", tmp_path / "out.csv")
    write_table(notes(99), tmp_path / "m.csv")
    with pytest.raises(
        UserError, match=r"a run with another input; .* `restart=True`"
    ):
        score_file(WordCount(), tmp_path / "m.csv", tmp_path / "out.csv")
    other = WordCount()
    other.facts = lambda: {"version": 2}
    with pytest.raises(UserError, match="with another task"):
        score_file(other, tmp_path / "n.csv", tmp_path / "out.csv")
    counts, found = scored(
        tmp_path / "m.csv", tmp_path / "out.csv", restart=True
    )
    assert (counts.done, len(found)) == (0, 99)


def test_the_digest_of_an_input_is_salted(tmp_path):
    """A known input is not recognised by its digest."""
    digests = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        manifest = json.loads(
            (stopped_run(tmp_path / name) / "manifest.json").read_text()
        )
        digests.add(manifest["input"]["digest"])
    assert len(digests) == 2


def test_parts_and_input_are_compared_before_the_table_is_written(tmp_path):
    folder = stopped_run(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(
        json.dumps({**manifest, "salt": "00" * 16})
    )
    with pytest.raises(UserError, match="holds a run with another input"):
        score_file(WordCount(), tmp_path / "n.csv", tmp_path / "out.csv")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    last = max(folder.glob("part-*"))
    for number in range(int(last.stem[5:]) + 1, 40):
        shutil.copy(last, folder / f"part-{number:06d}.parquet")
    with pytest.raises(
        UserError,
        match=r"has \d+ items and the input 100; start over with `restart=True`",
    ):
        score_file(WordCount(), tmp_path / "n.csv", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("out", ["out", "."])
def test_an_output_without_an_ending_is_refused(tmp_path, out):
    write_table(notes(3), tmp_path / "n.csv")
    with pytest.raises(
        TableError, match=r"expected a table that ends in \.csv, "
    ):
        score_file(WordCount(), tmp_path / "n.csv", tmp_path / out)
    assert [path.name for path in tmp_path.iterdir()] == ["n.csv"]


@pytest.mark.parametrize("restart", [False, True])
def test_hidden_files_of_others_stay(tmp_path, restart):
    write_table(notes(3), tmp_path / "n.csv")
    folder = tmp_path / "out.csv.parts"
    for name in (".rows-mine/a", ".part-mine", ".hidden"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    before = sorted(folder.rglob("*"))
    with pytest.raises(
        UserError, match="holds other files; write to another file"
    ):
        score_file(
            WordCount(),
            tmp_path / "n.csv",
            tmp_path / "out.csv",
            restart=restart,
        )
    assert sorted(folder.rglob("*")) == before


def test_files_that_come_to_a_folder_of_parts_later_stay(tmp_path):
    folder = stopped_run(tmp_path)
    (folder / ".hidden").write_text("mine")
    score_file(
        WordCount(), tmp_path / "n.csv", tmp_path / "out.csv", restart=True
    )
    assert [path.read_text() for path in folder.iterdir()] == ["mine"]


@pytest.mark.parametrize("restart", [False, True])
def test_parts_that_are_the_input_are_never_deleted(tmp_path, restart):
    parts = tmp_path / "out.csv.parts"
    parts.mkdir()
    write_table(notes(3), parts / "part-000000.parquet")
    (parts / "manifest.json").write_text("{}")
    before = (parts / "part-000000.parquet").read_bytes()
    with pytest.raises(UserError, match="holds the input"):
        score_file(WordCount(), parts, tmp_path / "out.csv", restart=restart)
    assert (parts / "part-000000.parquet").read_bytes() == before


def test_an_input_is_never_written_over(tmp_path):
    write_table(notes(3), tmp_path / "n.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "n.csv")
    os.link(tmp_path / "n.csv", tmp_path / "hard.csv")
    before = (tmp_path / "n.csv").read_bytes()
    for out in ("n.csv", "link.csv", "hard.csv", "x/../n.csv"):
        with pytest.raises(UserError, match="is an input of this command"):
            score_file(WordCount(), tmp_path / "n.csv", tmp_path / out)
    assert (tmp_path / "n.csv").read_bytes() == before


def test_restart_deletes_no_file_that_is_not_ours(tmp_path):
    write_table(notes(3), tmp_path / "n.csv")
    lake = tmp_path / "lake.csv.parts"
    lake.mkdir()
    write_table(notes(3), lake / "part-00000.parquet")
    with pytest.raises(UserError, match="holds other files"):
        score_file(
            WordCount(),
            tmp_path / "n.csv",
            tmp_path / "lake.csv",
            restart=True,
        )
    assert len(read_table(lake / "part-00000.parquet")) == 3


def test_a_result_within_the_folder_that_is_read_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    write_table(notes(3), tmp_path / "in" / "part-00000.parquet")
    with pytest.raises(UserError, match="is in the folder that is read"):
        score_file(
            WordCount(),
            tmp_path / "in",
            tmp_path / "in" / "out.csv",
            restart=True,
        )
    assert [path.name for path in (tmp_path / "in").iterdir()] == [
        "part-00000.parquet"
    ]


def test_scattered_stays_may_be_larger_than_memory(tmp_path):
    """All texts are 20 MB, in long words: the memory of short ones is slow to trace."""
    stays = [f"s{n % 400}" for n in range(800)]
    texts = [f"{n:01000d} " * 25 for n in range(800)]
    frame = pd.DataFrame({"stay_id": stays, "text": texts})
    write_table(frame, tmp_path / "n.csv")
    del frame, texts
    tracemalloc.start()
    counts, found = scored(
        tmp_path / "n.csv", tmp_path / "out.parquet", PatientWords()
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 << 20
    assert (counts.rows, counts.made) == (800, 400)
    assert found["stay_id"].tolist() == stays[:400]
    assert set(found["words"]) == {50}


def test_sorted_rows_are_on_disk_beside_the_result_alone_and_go_with_the_next_run(
    tmp_path,
):
    frame = pd.DataFrame({"stay_id": ["1", "2", "1"], "text": ["a", "b", "c"]})
    write_table(frame, tmp_path / "n.csv")
    folder = tmp_path / "out.csv.parts"
    task, seen = PatientWords(), []

    def run(items):
        seen.extend(folder.glob(".rows.partial-*"))
        assert [path.stat().st_mode & 0o077 for path in seen] == [0]
        shutil.copytree(seen[0], tmp_path / "kept")
        raise RuntimeError

    task.run = run
    with pytest.raises(RuntimeError):
        score_file(task, tmp_path / "n.csv", tmp_path / "out.csv")
    assert list(folder.glob(".rows.partial-*")) == []
    started = files._started(os.getpid())
    killed = folder / seen[0].name.replace(
        f"-{started}-", "-1-"
    )  # of a process that is gone
    (tmp_path / "kept").rename(killed)
    task = PatientWords()

    def check(items):
        assert not killed.exists()
        return PatientWords.run(task, items)

    task.run = check
    score_file(task, tmp_path / "n.csv", tmp_path / "out.csv")
    assert not folder.exists()


def test_a_stop_tells_its_signal(tmp_path):
    write_table(notes(), tmp_path / "n.csv")
    task = WordCount()
    stop_after(task, 20, by=signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt) as stop:
        score_file(task, tmp_path / "n.csv", tmp_path / "out.csv")
    assert stop.value.args == (signal.SIGTERM,)


def test_half_a_surrogate_pair_is_no_end_of_a_job():
    frame = pd.DataFrame({"id": ["\ud800x"], "text": ["a"]}, dtype=object)
    assert score_frame(WordCount(), frame)["id"].tolist() == ["\ufffdx"]


def test_an_output_of_another_kind_is_refused(tmp_path):
    write_table(notes(3), tmp_path / "n.csv")
    with pytest.raises(TableError, match="save the sheet as CSV"):
        score_file(WordCount(), tmp_path / "n.csv", tmp_path / "out.xlsx")
    assert [path.name for path in tmp_path.iterdir()] == ["n.csv"]


def test_two_runs_on_one_output(tmp_path):
    write_table(notes(3), tmp_path / "n.csv")
    task = WordCount()

    def run(items):
        with pytest.raises(UserError, match="is in use by another process"):
            score_file(WordCount(), tmp_path / "n.csv", tmp_path / "out.csv")
        return WordCount.run(task, items)

    task.run = run
    assert score_file(task, tmp_path / "n.csv", tmp_path / "out.csv").made == 3


def test_folders_patterns_and_text_files(tmp_path):
    (tmp_path / "in").mkdir()
    write_table(notes(3), tmp_path / "in" / "a[1].csv")
    write_table(notes(4), tmp_path / "in" / "a1.csv")
    (tmp_path / "in" / "b.txt").write_text("one\ntwo\n")
    counts, _ = scored(tmp_path / "in", tmp_path / "all.csv")
    assert counts.rows == 8
    counts, _ = scored(tmp_path / "in" / "a[1].csv", tmp_path / "one.csv")
    assert counts.rows == 3  # a path that exists is no pattern
    counts, _ = scored(str(tmp_path / "in" / "*.csv"), tmp_path / "two.csv")
    assert counts.rows == 7
    options = ReadOptions(lines=True)
    counts, found = scored(
        tmp_path / "in" / "b.txt", tmp_path / "three.csv", options=options
    )
    assert found["words"].tolist() == ["1", "1"]


@pytest.mark.parametrize("apart", [False, True])
def test_memory_does_not_grow_with_the_input(tmp_path, monkeypatch, apart):
    task = with_parts(PatientWords(), 50_000)
    monkeypatch.setattr(
        csv_files, "LONGEST_ROW", 1 << 14
    )  # it reads this much of the file

    def peak(stays):
        texts = ["word " * (20 + i % 50) for i in range(2 * stays)]
        ids = [f"s{i % stays if apart else i // 2}" for i in range(2 * stays)]
        write_table(
            pd.DataFrame({"stay_id": ids, "text": texts}), tmp_path / "n.csv"
        )
        tracemalloc.start()
        score_file(task, tmp_path / "n.csv", tmp_path / f"{stays}.csv")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(300)
    small, large = peak(600), peak(3000)
    assert large <= 1.1 * small + 12 * 2 * 2400


def test_a_folder_that_goes_while_it_is_locked_is_made_again(
    tmp_path, monkeypatch
):
    folder, make, calls = tmp_path / "out.parts", os.mkdir, []

    def mkdir(path, *options):
        calls.append(path)
        if len(calls) == 1:  # another process had it, and removes it now
            raise FileExistsError(path)
        make(path, *options)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with locked(folder):
        assert (folder / ".lock").exists()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(FileExistsError), locked(tmp_path / name):
            pass


def test_two_processes_never_hold_one_output_while_the_first_tidies_up(
    tmp_path,
):
    code = (
        "import sys\nfrom pathlib import Path\nfrom domainbert.errors import UserError\n"
        "from domainbert.files import locked, release_empty\n"
        "folder, mark = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "held = 0\n"
        "while held < 300:\n"
        "    try:\n"
        "        with locked(folder):\n"
        "            mark.touch(exist_ok=False)\n"
        "            mark.unlink()\n"
        "            release_empty(folder)\n"
        "            held += 1\n"
        "    except UserError:\n"
        "        pass\n"
    )
    command = [
        sys.executable,
        "-c",
        code,
        str(tmp_path / "out.parts"),
        str(tmp_path / "mark"),
    ]
    running = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]


def test_ctrl_c_tells_the_command_that_resumes(tmp_path, capsys, monkeypatch):
    write_table(notes(), tmp_path / "n.csv")
    task = WordCount()
    stop_after(task, 20)
    monkeypatch.setattr(
        sys, "argv", ["/bin/words", "score", "my notes.csv", "--restart"]
    )
    with pytest.raises(KeyboardInterrupt):
        cli.score_source(
            lambda: task,
            tmp_path / "n.csv",
            tmp_path / "out.csv",
            ScoringOptions(restart=True),
        )
    assert "resume with: words score 'my notes.csv'" in capsys.readouterr().err
    monkeypatch.setattr(
        sys, "argv", ["words", "score", "postgresql://me:secret@host/db"]
    )
    assert "secret" not in cli._command()


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_a_table_of_another_library_is_told_how_to_convert(library):
    module = pytest.importorskip(library)
    build = {"polars": "DataFrame", "pyarrow": "table"}[library]
    table = getattr(module, build)({"text": ["no fever"]})
    with pytest.raises(UserError, match=rf"got {library}.*to_pandas\(\)"):
        score_frame(WordCount(), table)
