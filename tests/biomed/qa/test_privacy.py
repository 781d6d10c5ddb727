"""A canary goes through every public call with logging at DEBUG and errors forced."""

import json
import logging
import warnings

import pandas as pd
import pytest
from typer.testing import CliRunner

import biomed.qa.commands
from biomed.qa.evaluation import evaluate
from biomed.qa.model import QuestionAnswerer
from biomed.qa.questions import (
    Question,
    QuestionSet,
    read_questions,
    split_by_article,
)
from biomed.qa.task import AskTask
from biomed.qa.training import (
    QuestionModelTable,
    QuestionRecipe,
    QuestionTraining,
    fit,
)
from domainbert.scoring import score_file
from domainbert.tables import read_table, write_table

CANARY = "zebrafinch"
TEXT = f"Patient {CANARY} with heart failure. " * 8


@pytest.fixture
def files(tmp_path):
    qa = {
        "id": 1,
        "question": f"{CANARY}?",
        "answers": [{"text": CANARY, "answer_start": 3}],
    }
    contents = {
        "a.json": f'{{"data": [\n{CANARY}',
        "b.json": json.dumps({"data": [{CANARY: 1}]}),
        "c.json": json.dumps(
            {"data": [{"paragraphs": [{"context": TEXT, "qas": [qa, qa]}]}]}
        ),
        "d.json": json.dumps(
            {"data": [{"paragraphs": [{"context": [TEXT], "qas": [qa]}]}]}
        ),
        "e.json": json.dumps({CANARY: CANARY}),
        "f.csv": f"note\n{CANARY}\n",
        "g.csv": f"question,context,answer,answer_start\n{CANARY},,x,1\n",
        "h.csv": f"question,context,answer,answer_start\n{CANARY},{CANARY},x,{CANARY}\n",
        "i.jsonl": f'{{"question": "{CANARY}"\n',
        "j.csv": f"id,question,context\n1,{CANARY},x\n1,y,{CANARY}\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    rows = {"question": [f"{CANARY} " * 40, ""], "context": [TEXT, TEXT]}
    write_table(pd.DataFrame(rows), tmp_path / "k.csv")
    return [tmp_path / name for name in (*contents, "k.csv")]


def reasons(folder):
    """The reasons in all tables of answers."""
    tables = [read_table(path) for path in folder.glob("*.o.csv")]
    assert tables
    return [str(reason) for table in tables for reason in table["reason"]]


def test_nothing_says_what_it_read(
    answerer, tiny_encoder, files, tmp_path, caplog, capsys
):
    said: list[str] = []

    def attempt(call, *args, **kwargs):
        try:
            result = call(*args, **kwargs)
            if hasattr(result, "__next__"):
                result = list(result)
            if not isinstance(result, list):
                said.append(repr(result))
        except Exception as error:
            while error is not None:
                said.append(f"{error!r} {error}")
                error = error.__cause__ or error.__context__

    asked = Question("1", f"{CANARY}?", TEXT, "a", (CANARY,), ((8, 18),))
    questions = QuestionSet("q", tuple(asked for _ in range(3)))
    other = QuestionSet("v", (Question("1", CANARY, CANARY, "b", (CANARY,)),))
    quick = QuestionTraining(epochs=1, batch_tokens=64)
    with (
        warnings.catch_warnings(record=True) as caught,
        caplog.at_level(logging.DEBUG),
    ):
        warnings.simplefilter("always")
        for question in (
            f"{CANARY}?",
            CANARY * 40,
            f"{CANARY} " * 40,
            "",
            None,
            [CANARY],
        ):
            for context in (
                TEXT,
                [TEXT],
                [TEXT, ""],
                TEXT.encode(),
                {"x": TEXT},
                [],
                None,
            ):
                attempt(answerer.answer, question, context)
                attempt(answerer.pair_tokenizer.pair, question, context)
                attempt(answerer.answer_many, [(question, context)])
        for path in files:
            attempt(read_questions, path)
            attempt(
                score_file,
                AskTask(answerer),
                path,
                tmp_path / f"{path.name}.o.csv",
            )
            out = ("--out", str(tmp_path / "o.csv"))
            for arguments in (
                ("ask", str(path), *out),
                ("evaluate", str(path)),
            ):
                result = CliRunner().invoke(
                    biomed.qa.commands.app, [*arguments, "--model", "nowhere"]
                )
                said.append(result.output)
            result = CliRunner().invoke(
                biomed.qa.commands.app,
                [
                    "train",
                    str(path),
                    "--out",
                    str(tmp_path / "m"),
                    "--encoder",
                    "nowhere",
                ],
            )
            said.append(result.output)
        said += reasons(tmp_path)
        attempt(evaluate, answerer, questions)
        attempt(split_by_article, questions, share=1)
        model = QuestionModelTable(encoder=str(tiny_encoder), window=40)
        recipe = QuestionRecipe(model=model, training=quick)
        attempt(fit, recipe, [questions], validation=other)
        attempt(fit, recipe, [other], validation=questions)
        said += map(
            repr, (questions, asked, answerer, AskTask(answerer), recipe)
        )
    said += [str(warning.message) for warning in caught]
    said += [caplog.text, *capsys.readouterr()]
    assert any("at most 14 are possible" in line for line in said)
    assert not [line for line in said if CANARY in line]


def test_an_answer_is_the_result_itself(answerer):
    assert "heart failure" in repr(answerer.answer("was it?", TEXT))
    assert CANARY in str(answerer.show("was it?", TEXT))
    with pytest.raises(
        ValueError, match="pair 0: the context is NoneType, expected a string"
    ):
        QuestionAnswerer.show(answerer, "was it?", None)
