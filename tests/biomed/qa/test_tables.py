import json

import numpy as np
import pandas as pd
import pytest

from biomed.qa.tables import answer_file, answer_frame
from domainbert.tables import TableError, read_table, write_table

ROWS = {
    "question_id": ["a", "b", "c"],
    "question": ["was it?", "why?", "who?"],
    "context": ["patient on insulin", "patient at home", "x heart failure and insulin"],
}


def test_one_row_an_answer(answerer):
    table = answer_frame(answerer, pd.DataFrame(ROWS), top_k=2)
    assert list(table.columns) == [
        *("question_id", "row", "rank", "answer", "start", "end", "score", "score_kind"),
        *("document", "passage_start", "passage_end"),
    ]
    assert table[["question_id", "rank", "answer", "start", "end"]].to_numpy().tolist() == [
        ["a", 1, "insulin", 11, 18],
        ["b", 1, "", 0, 0],
        ["c", 1, "heart failure", 2, 15],
        ["c", 2, "insulin", 20, 27],
    ]


def test_several_documents_of_a_row(answerer):
    frame = pd.DataFrame({"question": ["was it?"], "context": [["at home", "on insulin"]]})
    assert answer_frame(answerer, frame)["document"].tolist() == [1]


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_file_streams_and_lists_its_rejects(answerer, tmp_path, ending):
    bad = {"question_id": ["d", "e"], "question": ["", "was " * 40], "context": ["x", "y"]}
    frame = pd.concat([pd.DataFrame(ROWS), pd.DataFrame(bad)])
    write_table(frame, tmp_path / f"in.{ending}")
    out, rejects = tmp_path / f"out.{ending}", tmp_path / "r.csv"
    *_, done = answer_file(answerer, tmp_path / f"in.{ending}", out, rejects=rejects)
    assert (done.questions, done.answered, done.rejects) == (3, 2, 2)
    read = read_table(out)
    assert read["question_id"].tolist() == ["a", "b", "c"]
    assert read["start"].tolist() == [11, 0, 2]
    listed = read_table(rejects)
    assert listed["question_id"].tolist() == ["d", "e"]
    assert listed["row"].tolist() == [3, 4]
    assert listed["reason"][0] == "the question is empty"
    assert "it may have 14 at most" in listed["reason"][1]
    list(answer_file(answerer, tmp_path / f"in.{ending}", out, rejects=rejects, top_k=2))
    write_table(pd.DataFrame(ROWS), tmp_path / f"in.{ending}")
    list(answer_file(answerer, tmp_path / f"in.{ending}", out, rejects=rejects))
    assert not rejects.exists()


def test_a_test_file_in_json(answerer, tmp_path):
    snippets = [{"text": "at home", "document": "u"}, {"text": "insulin given", "document": "v"}]
    document = {
        "questions": [
            {"id": "q1", "type": "factoid", "body": "was it?", "snippets": snippets},
            {"id": "q2", "type": "factoid", "body": "was it?"},
        ]
    }
    (tmp_path / "b.json").write_text(json.dumps(document))
    out, rejects = tmp_path / "o.parquet", tmp_path / "r.csv"
    *_, done = answer_file(answerer, tmp_path / "b.json", out, rejects=rejects)
    assert read_table(out)[["id", "answer", "document"]].to_numpy().tolist() == [
        ["q1", "insulin", 1]
    ]
    assert read_table(rejects)[["id", "reason"]].to_numpy().tolist() == [
        ["q2", "the context has no document"]
    ]
    assert done.answered == 1


def test_an_empty_table_has_its_columns(answerer, tmp_path):
    pd.DataFrame(ROWS).iloc[:0].to_parquet(tmp_path / "e.parquet")
    out = tmp_path / "o.parquet"
    list(answer_file(answerer, tmp_path / "e.parquet", out, rejects=tmp_path / "r"))
    assert "answer" in read_table(out).columns


def test_rows_that_cannot_be_asked(answerer):
    frame = pd.DataFrame({**ROWS, "question": ["was it?", None, np.nan]})
    with pytest.raises(TableError, match=r"2 of 3 rows cannot be asked, the first is row 1: the"):
        answer_frame(answerer, frame)
    with pytest.raises(TableError, match="has no column 'context'"):
        answer_frame(answerer, frame[["question"]])
