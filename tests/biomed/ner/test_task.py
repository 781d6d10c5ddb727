import secrets
import subprocess
import sys

import pandas as pd
import pytest

from biomed.ner.task import TagTask
from domainbert.scoring import score_file
from domainbert.tables import ReadOptions, TableError, read_table, write_table
from domainbert.text.windows import LONGEST_TEXT

COLUMNS = [
    "note_id",
    "row",
    "start",
    "end",
    "entity",
    "label",
    "score",
    "score_kind",
]
COLUMNS += [
    "assertion",
    "cue",
    "cue_start",
    "cue_end",
    "cue_rule",
    "section",
    "section_code",
    "entity_id",
    "entity_name",
    "entity_codes",
    "link_score",
]
COLUMNS += [
    "drug_status",
    "drug_dose",
    "drug_unit",
    "drug_route",
    "drug_frequency",
]
COLUMNS += ["drug_duration", "drug_form", "drug_as_needed", "drug_reason"]
COLUMNS += ["drug_reaction", "drug_attributes", "drug_same_as"]
COLUMNS += ["status", "reason"]
TEXTS = ["heart failure", "", "insulin for kidney disease", "stable"]


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "note_id": ["007", "8", "9", "10"],
            "text": TEXTS,
            "age": [1, 2, 3, 4],
        }
    )


def check(table):
    assert list(table.columns) == COLUMNS
    assert list(table["note_id"]) == ["007", "8", "9", "9", "10"]
    assert list(table["row"]) == [0, 1, 2, 2, 3]
    assert list(table["status"]) == ["ok", "empty", "ok", "ok", "ok"]
    assert list(table["reason"].fillna("")) == ["", "no text", "", "", ""]
    found = table[table["label"].fillna("") != ""]
    assert list(found["entity"]) == [
        "heart failure",
        "insulin",
        "kidney disease",
    ]
    assert list(found["label"]) == ["Disease", "Drug", "Disease"]
    assert set(found["score_kind"]) == {"span_probability"}
    for row in found.itertuples():
        assert TEXTS[row.row][int(row.start) : int(row.end)] == row.entity
    nothing = table[table["label"].fillna("") == ""]
    assert nothing[["start", "end", "score"]].isna().all(axis=None)
    assert not nothing["entity"].fillna("").any()


def test_a_frame(tagger, frame):
    check(tagger.score_frame(frame))
    check(tagger.score_frame(frame.set_index("age")))


def test_a_frame_without_entities(tagger, frame):
    found = tagger.score_frame(frame[3:])
    assert list(found.columns) == COLUMNS
    assert list(found["status"]) == ["ok"]
    assert list(tagger.score_frame(frame[:0]).columns) == COLUMNS


def test_a_row_without_a_text_costs_that_row_alone(tagger, frame):
    texts = ["heart", None, 3.5, ["a"], "\ud800 edema", float("nan")]
    found = tagger.score_frame(
        pd.DataFrame({"text": pd.Series(texts, dtype=object)})
    )
    assert list(found["row"]) == [0, 1, 2, 3, 4, 5]
    assert list(found["status"]) == [
        "ok",
        "empty",
        "ok",
        "error",
        "ok",
        "empty",
    ]
    assert found["reason"][3] == "text is list, not text"
    assert list(found["entity"].fillna("")) == [
        "heart",
        "",
        "",
        "",
        "edema",
        "",
    ]
    with pytest.raises(
        TableError, match="has no column 'text'; did you mean 'txt'"
    ):
        tagger.score_frame(frame.rename(columns={"text": "txt"}))


def test_a_text_beyond_the_limit_costs_its_row_alone(tagger):
    found = tagger.score_frame(
        pd.DataFrame({"text": ["heart", "h" * (LONGEST_TEXT + 1)]})
    )
    assert list(found["status"]) == ["ok", "error"]
    assert found["reason"][1].startswith(
        "text has 5,000,001 characters, expected at most 5,000,000"
    )


def test_columns_are_named_and_kept(tagger, frame):
    report = frame.rename(columns={"text": "report"})
    found = tagger.score_frame(report, text="report", keep=["age"])
    assert list(found.columns) == ["note_id", "age", *COLUMNS[1:]]
    assert list(found["age"]) == ["1", "2", "3", "3", "4"]


@pytest.mark.parametrize("source", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("out", [".csv.gz", ".parquet", ".jsonl"])
def test_files(tagger, frame, tmp_path, source, out):
    write_table(frame, tmp_path / f"in{source}")
    counts = score_file(
        TagTask(tagger), tmp_path / f"in{source}", tmp_path / f"out{out}"
    )
    assert (counts.rows, counts.made) == (4, 5)
    whole = dict.fromkeys(("row", "start", "end"), "int")
    check(
        read_table(tmp_path / f"out{out}", schema={**whole, "score": "float"})
    )


def test_a_text_file_is_one_text(tagger, tmp_path):
    (tmp_path / "note.txt").write_bytes(
        "Sjögren \xff\r\n heart\r\nfailure".encode("latin-1")
    )
    score_file(TagTask(tagger), tmp_path / "note.txt", tmp_path / "o.parquet")
    row, item = read_table(
        tmp_path / "o.parquet"
    ).itertuples()  # three short lines are a list
    assert (row.row, row.start, row.end, row.entity) == (0, 12, 17, "heart")
    assert (item.row, item.start, item.end, item.entity) == (
        0,
        19,
        26,
        "failure",
    )
    (tmp_path / "note.txt").write_bytes(b"renal and severe heart\r\nfailure")
    score_file(TagTask(tagger), tmp_path / "note.txt", tmp_path / "p.parquet")
    rows = list(read_table(tmp_path / "p.parquet").itertuples())
    assert [(r.start, r.end, r.entity) for r in rows][1:] == [
        (17, 31, "heart\r\nfailure")
    ]


def test_a_line_that_is_no_row_is_listed(tagger, tmp_path):
    rows = (
        '{"doc_id": 1, "text": "heart"}\n{"doc_id": 2}\n{"doc_id": 3, "text"\n'
    )
    (tmp_path / "in.jsonl").write_text(rows)
    score_file(TagTask(tagger), tmp_path / "in.jsonl", tmp_path / "out.csv")
    found = read_table(tmp_path / "out.csv")
    assert list(found["status"]) == ["ok", "empty", "error"]
    assert list(found["reason"].fillna("")) == [
        "",
        "no text",
        "in.jsonl line 3: not a JSON object",
    ]


def test_pieces_without_entities_fit_pieces_with_them(tagger, tmp_path):
    task = TagTask(tagger)
    task.part_characters = 4
    texts = ["stable"] * 4 + ["heart"] * 3 + ["stable"] * 4
    write_table(pd.DataFrame({"text": texts}), tmp_path / "in.parquet")
    score_file(task, tmp_path / "in.parquet", tmp_path / "out.parquet")
    table = read_table(tmp_path / "out.parquet")
    assert list(table["row"]) == list(range(11))
    assert list(table.index[table["label"].notna()]) == [4, 5, 6]


def test_a_run_does_not_resume_with_another_model(tagger, disease, drug):
    taggers = [tagger, disease, drug]
    taggers.append(drug.with_options(min_score=0.9))
    facts = [TagTask(one).facts() for one in taggers]
    assert all(facts[i] != facts[j] for i in range(4) for j in range(i))
    assert TagTask(drug).facts() == facts[2]


def test_an_empty_table(tagger, tmp_path):
    (tmp_path / "in.csv").write_text("doc_id,text\n")
    counts = score_file(
        TagTask(tagger), tmp_path / "in.csv", tmp_path / "out.parquet"
    )
    assert (counts.rows, counts.made) == (0, 0)
    assert "label" in read_table(tmp_path / "out.parquet").columns


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("absent.txt", "absent.txt: no such file"),
        ("in.csv", "has no column 'text'"),
    ],
)
def test_files_that_cannot_be_read(tagger, tmp_path, source, message):
    (tmp_path / "in.csv").write_text("id,note\n1,a\n")
    with pytest.raises(TableError, match=message):
        score_file(TagTask(tagger), tmp_path / source, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_the_semicolon_and_the_list_of_lines(tagger, tmp_path):
    (tmp_path / "in.csv").write_text("id;text\n1;heart failure\n")
    score_file(
        TagTask(tagger),
        tmp_path / "in.csv",
        tmp_path / "a.csv",
        options=ReadOptions(delimiter=";"),
    )
    assert list(read_table(tmp_path / "a.csv")["entity"]) == ["heart failure"]


def test_several_columns_of_text_have_positions_of_their_own(tagger):
    frame = pd.DataFrame(
        {
            "pmid": [7, 8, 9],
            "title": ["Heart failure", None, None],
            "abstract": ["with heart failure", "insulin medication", " "],
        }
    )
    rows = tagger.score_frame(frame, text=["title", "abstract"])
    assert rows["pmid"].tolist() == ["7", "7", "8", "9"]
    assert rows["field"].tolist()[:3] == ["title", "abstract", "abstract"]
    assert rows["status"].tolist() == ["ok", "ok", "ok", "empty"]
    for row in rows[:3].itertuples():
        cell = frame[row.field][row.row]
        assert cell[int(row.start) : int(row.end)] == row.entity
    with pytest.raises(
        TableError, match=r"join them with `text=\['title', 'abstract'\]`"
    ):
        tagger.score_frame(frame)


# Runs the tagger in forks, which are killed when so many parts are on disk.
KILLED_RUNS = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from biomed import EntityTagger
from biomed.ner.task import TagTask
from domainbert.scoring import score_file

source, whole, out, seed = sys.argv[1:]
torch.set_num_threads(1)
task = TagTask(EntityTagger.from_pretrained(batch_tokens=512))
task.part_seconds = 0.0  # a part for each text


def start(out):
    child = os.fork()
    if child == 0:
        score_file(task, source, out)
        os._exit(0)
    return child


os.waitpid(start(whole), 0)
chooser = random.Random(int(seed))
kills = 0
while not Path(out).exists():
    child = start(out)
    n_parts = len(list(Path(out + ".parts").glob("*.parquet")))
    n_parts += chooser.randrange(10, 50)
    last_part = Path(out + ".parts") / f"part-{n_parts:06d}.parquet"
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if last_part.exists():
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            kills += 1
            break
        time.sleep(0.001)
print(kills)
"""


@pytest.mark.slow
@pytest.mark.encoder
def test_a_killed_run_of_the_shipped_model_ends_with_the_same_bytes(tmp_path):
    sentence = (
        "She has {} and asthma, and took {} mg of metformin for diabetes. "
    )
    illnesses = ["gout", "acute renal failure", "a migraine", "sepsis"]
    texts = [
        sentence.format(illnesses[number % 4], number) * (1 + number % 7)
        for number in range(100)
    ]
    source = tmp_path / "in.csv"
    write_table(pd.DataFrame({"doc_id": range(100), "text": texts}), source)
    whole = tmp_path / "whole.csv"
    out = tmp_path / "out.csv"
    seed = secrets.randbelow(10**9)
    paths = [str(source), str(whole), str(out), str(seed)]
    kills = subprocess.check_output(
        [sys.executable, "-c", KILLED_RUNS, *paths], text=True
    )
    assert int(kills) >= 2, f"seed {seed}"
    assert out.read_bytes() == whole.read_bytes(), f"seed {seed}"
