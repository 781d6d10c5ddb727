import json

import numpy as np
import pandas as pd
import pytest

from biomed.qa.model import QuestionAnswerer, QuestionSettings
from biomed.qa.task import AskTask
from domainbert.errors import UserError
from domainbert.scoring import score_file, score_frame
from domainbert.tables import TableError, read_table, write_table

ROWS = {
    "question_id": ["a", "b", "c"],
    "question": ["was it?", "why?", "who?"],
    "context": [
        "patient on insulin",
        "patient at home",
        "x heart failure and insulin",
    ],
}
BAD = {
    "question_id": ["d", "007", "f"],
    "question": [None, "was " * 40, "who?"],
    "context": ["x", "y", None],
}


def test_one_row_an_answer(answerer):
    table = score_frame(AskTask(answerer, top_k=2), pd.DataFrame(ROWS))
    assert list(table.columns) == [
        *("question_id", "row", "rank", "answer", "score", "probability"),
        *("start", "end", "document"),
        *("sentence", "sentence_start", "sentence_end", "status", "reason"),
    ]
    names = ["question_id", "row", "rank", "answer", "start", "end", "status"]
    assert table[names].fillna(-1).to_numpy().tolist() == [
        ["a", 0, 1, "insulin", 11, 18, "ok"],
        ["b", 1, 1, "", -1, -1, "ok"],
        ["c", 2, 1, "heart failure", 2, 15, "ok"],
        ["c", 2, 2, "insulin", 20, 27, "ok"],
    ]
    assert table["sentence"].fillna("").tolist() == [
        *("patient on insulin", ""),
        *["x heart failure and insulin"] * 2,
    ]
    assert table["probability"].isna().all()
    # Without an answer the score is that of the best rejected candidate.
    assert table["score"].round(2).tolist() == [7.0, -5.0, 7.0, 7.0]


def test_several_documents_of_a_row(answerer):
    frame = pd.DataFrame(
        {
            "question": ["was it?"] * 2,
            "context": [["at home", "on insulin"]] * 2,
        }
    )
    frame.loc[1, "context"] = np.array(["insulin"])
    assert score_frame(AskTask(answerer), frame)["document"].tolist() == [1, 0]


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_every_row_of_a_file_comes_out(answerer, tmp_path, ending):
    frame = pd.concat([pd.DataFrame(ROWS), pd.DataFrame(BAD)])
    write_table(frame, tmp_path / f"in.{ending}")
    out = tmp_path / f"out.{ending}"
    counts = score_file(AskTask(answerer), tmp_path / f"in.{ending}", out)
    assert (counts.rows, dict(counts.items)) == (
        6,
        {"ok": 3, "empty": 2, "error": 1},
    )
    read = read_table(out, schema={"start": "int"})
    assert read["question_id"].tolist() == ["a", "b", "c", "d", "007", "f"]
    assert read["start"].fillna(-1).tolist() == [11, -1, 2, -1, -1, -1]
    assert read["status"].tolist() == [
        "ok",
        "ok",
        "ok",
        "empty",
        "error",
        "empty",
    ]
    reasons = read["reason"].fillna("").tolist()
    assert reasons[3] == "the question is empty"
    assert "40 tokens; with windows of 24 at most 14" in reasons[4]
    assert reasons[5] == "the context is empty"
    assert "was" not in reasons[4].split()


def test_a_context_that_spells_a_missing_value_is_read(answerer, tmp_path):
    (tmp_path / "q.csv").write_text(
        "id,question,context\n007,was it?,NA\n038,None,insulin\n"
    )
    score_file(AskTask(answerer), tmp_path / "q.csv", tmp_path / "o.csv")
    read = read_table(tmp_path / "o.csv")
    assert read["id"].tolist() == ["007", "038"]
    assert read["status"].tolist() == ["ok", "ok"]
    assert read["answer"].tolist()[1] == "insulin"


def test_one_question_about_a_table_of_notes(answerer, tmp_path):
    notes = {"hadm_id": ["1", "2", "3"], "text": ["on insulin", "at home", ""]}
    write_table(pd.DataFrame(notes), tmp_path / "notes.csv")
    task = AskTask(answerer, question="was it?")
    score_file(task, tmp_path / "notes.csv", tmp_path / "o.parquet")
    read = read_table(tmp_path / "o.parquet")
    assert read["hadm_id"].tolist() == ["1", "2", "3"]
    assert read["status"].tolist() == ["ok", "ok", "empty"]
    assert read["answer"].fillna("").tolist() == ["insulin", "", ""]


def test_a_broken_output_is_an_error_row(tokenizer, new_known):
    network = new_known(tokenizer)
    forward, broken = (
        network.forward,
        tokenizer.convert_tokens_to_ids("kidney"),
    )

    def forward_with_nan(**inputs):
        output = forward(**inputs)
        output.end_logits[(inputs["input_ids"] == broken).any(dim=1)] = float(
            "nan"
        )
        return output

    network.forward = forward_with_nan
    answerer = QuestionAnswerer(
        network, tokenizer, settings=QuestionSettings(window=24)
    )
    frame = pd.DataFrame(
        {"question": "was it?", "context": ["insulin", "kidney", "insulin"]}
    )
    table = score_frame(AskTask(answerer), frame)
    assert table["status"].tolist() == ["ok", "error", "ok"]
    assert table["reason"].tolist()[1] == "the model's output is not a number"


def test_another_model_or_question_does_not_resume(
    answerer, tokenizer, new_random, tmp_path
):
    notes = pd.DataFrame({"text": ["on insulin", "at home"]})
    write_table(notes, tmp_path / "notes.csv")
    first = AskTask(answerer, question="was it?").facts()
    assert (
        json.loads(json.dumps(first))
        == AskTask(answerer, question="was it?").facts()
    )
    settings = QuestionSettings(window=24)
    other = QuestionAnswerer(
        new_random(tokenizer), tokenizer, settings=settings
    )
    others = [
        AskTask(other, question="was it?"),
        AskTask(answerer, question="why?"),
        AskTask(answerer, question="was it?", top_k=2),
        AskTask(answerer, question="was it?", threshold=1.0),
    ]
    assert all(task.facts() != first for task in others)


def test_rows_are_resumed_not_asked_again(answerer, tmp_path, monkeypatch):
    """A run that is stopped within its second part keeps the first."""

    def task():
        task = AskTask(answerer)
        task.part_characters = 40
        return task

    rows = {
        "question": ["was it?"] * 6,
        "context": [f"insulin {n}" for n in range(6)],
    }
    write_table(pd.DataFrame(rows), tmp_path / "q.csv")
    score_file(task(), tmp_path / "q.csv", tmp_path / "whole.csv")
    asked = []
    pair = answerer.pair_tokenizer.pair

    def failing(question, context):
        asked.append(context)
        if len(asked) == 4:
            raise RuntimeError
        return pair(question, context)

    monkeypatch.setattr(answerer.pair_tokenizer, "pair", failing)
    with pytest.raises(RuntimeError):
        score_file(task(), tmp_path / "q.csv", tmp_path / "o.csv")
    counts = score_file(task(), tmp_path / "q.csv", tmp_path / "o.csv")
    assert counts.done > 0
    assert counts.items.total() == 6  # of the whole table
    assert (tmp_path / "o.csv").read_text() == (
        tmp_path / "whole.csv"
    ).read_text()


def test_an_empty_table_has_its_columns(answerer, tmp_path):
    pd.DataFrame(ROWS).iloc[:0].to_parquet(tmp_path / "e.parquet")
    out = tmp_path / "o.parquet"
    score_file(AskTask(answerer), tmp_path / "e.parquet", out)
    assert "answer" in read_table(out).columns


def test_what_is_refused(answerer, tmp_path):
    frame = pd.DataFrame(ROWS)
    with pytest.raises(TableError, match="has no column 'context'"):
        score_frame(AskTask(answerer), frame[["question"]])
    with pytest.raises(TableError, match="has no column 'text'"):
        score_frame(AskTask(answerer, question="was it?"), frame)
    write_table(frame, tmp_path / "q.csv")
    with pytest.raises(UserError, match=r"q\.csv is an input"):
        score_file(AskTask(answerer), tmp_path / "q.csv", tmp_path / "q.csv")
    for question in ("", " \n"):
        with pytest.raises(UserError, match="the question is empty"):
            AskTask(answerer, question=question)
