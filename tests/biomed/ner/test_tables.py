import pandas as pd
import pytest

from biomed.ner.tables import tag_file, tag_frame
from domainbert.tables import TableError, read_table, write_table

COLUMNS = ["note_id", "row", "start", "end", "text", "label", "score", "score_kind"]
TEXTS = ["heart failure", "", "insulin for kidney disease", "stable"]


@pytest.fixture
def frame():
    return pd.DataFrame({"note_id": ["007", "8", "9", "10"], "text": TEXTS, "age": [1, 2, 3, 4]})


def check(table):
    assert list(table.columns) == COLUMNS
    assert list(table["note_id"]) == ["007", "9", "9"]
    assert list(table["row"]) == [0, 2, 2]
    assert list(table["text"]) == ["heart failure", "insulin", "kidney disease"]
    assert list(table["label"]) == ["Disease", "Drug", "Disease"]
    assert set(table["score_kind"]) == {"span_probability"}
    for row in table.itertuples():
        assert TEXTS[row.row][row.start : row.end] == row.text


def test_a_frame(tagger, frame):
    check(tagger.tag_frame(frame))
    check(tag_frame(tagger, frame.set_index("age")))


def test_a_frame_without_entities(tagger, frame):
    found = tag_frame(tagger, frame[3:])
    assert list(found.columns) == COLUMNS
    assert not len(found)
    assert list(tag_frame(tagger, frame[:0]).columns) == COLUMNS


def test_a_frame_with_rows_that_have_no_text(tagger, frame):
    bad = pd.DataFrame({"text": ["heart", None, 3.0]}, dtype=object)
    with pytest.raises(TableError, match=r"2 of 3 rows have no text \(row 1, 2\); leave them out"):
        tag_frame(tagger, bad)
    with pytest.raises(TableError, match="has no column 'text'; did you mean 'txt'"):
        tag_frame(tagger, frame.rename(columns={"text": "txt"}))


@pytest.mark.parametrize("source", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("out", [".csv.gz", ".parquet", ".jsonl"])
def test_files(tagger, frame, tmp_path, source, out):
    write_table(frame, tmp_path / f"in{source}")
    *_, done = tag_file(
        tagger, tmp_path / f"in{source}", tmp_path / f"out{out}", rejects=tmp_path / "no.csv"
    )
    assert done.entities == 3
    assert done.texts + done.rejects == 4  # a CSV cannot tell an empty text from none
    check(read_table(tmp_path / f"out{out}"))


def test_a_text_file_is_one_text(tagger, tmp_path):
    (tmp_path / "note.txt").write_bytes("Sjögren \xff\r\n heart\r\nfailure".encode("latin-1"))
    *_, done = tag_file(
        tagger, tmp_path / "note.txt", tmp_path / "o.parquet", rejects=tmp_path / "no.csv"
    )
    assert (done.texts, done.entities, done.rejects) == (1, 1, 0)
    (row,) = read_table(tmp_path / "o.parquet").itertuples()
    assert (row.row, row.start, row.end, row.text) == (0, 12, 26, "heart\r\nfailure")


def test_rejects_are_listed_and_an_old_list_goes(tagger, tmp_path):
    rows = '{"doc_id": 1, "text": "heart"}\n{"doc_id": 2}\n{"doc_id": 3, "text": ["a"]}\n'
    (tmp_path / "in.jsonl").write_text(rows)
    names = (tmp_path / "in.jsonl", tmp_path / "out.csv")
    *_, done = tag_file(tagger, *names, rejects=tmp_path / "no.csv")
    assert (done.texts, done.entities, done.rejects) == (1, 1, 2)
    listed = read_table(tmp_path / "no.csv")
    assert listed.astype(str).to_numpy().tolist() == [
        ["2", "1", "no text"],
        ["3", "2", "text is list, not a string"],
    ]
    (tmp_path / "in.jsonl").write_text('{"doc_id": 1, "text": "stable"}\n')
    *_, done = tag_file(tagger, *names, rejects=tmp_path / "no.csv")
    assert (done.texts, done.entities, done.rejects) == (1, 0, 0)
    assert not (tmp_path / "no.csv").exists()
    assert list(read_table(tmp_path / "out.csv").columns)[:2] == ["doc_id", "row"]


def test_pieces_without_entities_fit_pieces_with_them(tagger, tmp_path, monkeypatch):
    monkeypatch.setattr("biomed.ner.tables.OUTPUT_ROWS", 2)
    texts = ["stable"] * 4 + ["heart"] * 3 + ["stable"] * 4
    write_table(pd.DataFrame({"text": texts}), tmp_path / "in.parquet")
    names = (tmp_path / "in.parquet", tmp_path / "out.parquet")
    counts = [done.texts for done in tag_file(tagger, *names, rejects=tmp_path / "no.csv")]
    assert counts == [2, 4, 6, 8, 10, 11, 11]
    table = read_table(tmp_path / "out.parquet")
    assert list(table["row"]) == [4, 5, 6]
    assert str(table["start"].dtype) == "int64"


def test_an_empty_table(tagger, tmp_path):
    (tmp_path / "in.csv").write_text("doc_id,text\n")
    names = (tmp_path / "in.csv", tmp_path / "out.parquet")
    *_, done = tag_file(tagger, *names, rejects=tmp_path / "no.csv")
    assert (done.texts, done.entities) == (0, 0)
    assert "label" in read_table(tmp_path / "out.parquet").columns


@pytest.mark.parametrize(
    ("source", "out", "message"),
    [
        ("absent.txt", "out.csv", "absent.txt: no such file"),
        ("absent.csv", "out.csv", "no such file"),
        ("in.csv", "out.xlsx", "legal endings are .csv"),
        ("in.csv", "out.csv", "has no column 'text'"),
    ],
)
def test_files_that_cannot_be_read_or_written(tagger, tmp_path, source, out, message):
    (tmp_path / "in.csv").write_text("id,note\n1,a\n")
    with pytest.raises(TableError, match=message):
        list(tag_file(tagger, tmp_path / source, tmp_path / out, rejects=tmp_path / "no.csv"))
    assert not (tmp_path / out).exists()
