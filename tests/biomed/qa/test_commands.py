import gzip
import json
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

from biomed.qa.commands import app
from biomed.qa.training import QuestionRecipe
from domainbert.models.manifest import Manifest
from domainbert.models.storage import read_manifest
from domainbert.tables import read_table, write_table
from domainbert.training.recipes import read_recipe, recipe_file

from .conftest import made_up

run = CliRunner()


@pytest.fixture
def saved(answerer, tmp_path):
    answerer.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def squad(questions):
    """A set of questions as SQuAD JSON."""
    data = []
    for q in questions:
        given = zip(q.answers, q.answer_spans, strict=True)
        answers = [
            {"text": text, "answer_start": start} for text, (start, _) in given
        ]
        qa = {"id": q.id, "question": q.text, "answers": answers}
        data.append(
            {
                "title": q.article,
                "paragraphs": [{"context": q.context, "qas": [qa]}],
            }
        )
    return json.dumps({"version": "1.1", "data": data})


def test_every_command_has_help():
    for name in ("train", "ask", "evaluate"):
        result = run.invoke(app, [name, "--help"])
        assert result.exit_code == 0
        assert "--model" in result.output or "--out" in result.output


def test_help_waits_for_no_torch():
    code = "import sys; from biomed.qa.commands import app; sys.exit('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False).returncode
        == 0
    )


def test_ask_one_question_of_texts(saved, tmp_path):
    (tmp_path / "a.txt").write_text("patient at home")
    (tmp_path / "b.txt").write_bytes(
        "\ufeffgave\r\ninsulin [b]now[/b]".encode()
    )
    files = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    result = run.invoke(
        app, ["ask", *files, "--question", "was it?", "--model", saved]
    )
    assert result.exit_code == 0, result.output
    assert "b.txt, characters 6 to 13, score 7.00" in result.output
    assert "[insulin](answer) [b]now[/b]" in result.output
    result = run.invoke(
        app, ["ask", files[0], "--question", "was it?", "--model", saved]
    )
    assert "No answer was found." in result.output


def test_the_text_of_a_file_in_another_encoding(saved, tmp_path):
    text = "Ménière, at home, on insulin,\n[1] not renal,"
    (tmp_path / "a.txt").write_bytes(text.encode("latin-1"))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text.encode()))
    arguments = ["--question", "was it?", "--model", saved]
    plain = run.invoke(app, ["ask", str(tmp_path / "a.txt"), *arguments])
    assert (
        "a.txt: undecodable bytes read as U+FFFD; name its encoding"
        in plain.output
    )
    named = run.invoke(
        app,
        ["ask", str(tmp_path / "a.txt"), *arguments, "--encoding", "latin-1"],
    )
    packed = run.invoke(app, ["ask", str(tmp_path / "b.txt.gz"), *arguments])
    assert "Ménière" in named.output
    assert "undecodable" not in named.output
    assert packed.output == named.output.replace("a.txt", "b.txt.gz")
    assert "characters 21 to 28" in packed.output


def test_ask_a_table(saved, tmp_path):
    rows = {
        "id": ["1", "2", "3"],
        "question": ["was it?", "why?", ""],
        "context": ["insulin"] * 3,
    }
    write_table(pd.DataFrame(rows), tmp_path / "q.csv")
    out = tmp_path / "answers.parquet"
    result = run.invoke(
        app,
        ["ask", str(tmp_path / "q.csv"), "--model", saved, "--out", str(out)],
    )
    assert result.exit_code == 0, result.output
    assert "3 rows in, 3 rows out: 1 empty, 2 ok; written to" in result.output
    read = read_table(out)
    assert list(read["id"]) == ["1", "2", "3"]
    assert list(read["answer"].fillna("")) == ["insulin", "insulin", ""]
    assert list(read["reason"].fillna("")) == ["", "", "the question is empty"]
    assert not list(tmp_path.glob("*.rejects.*"))


def test_ask_one_question_of_a_table(saved, tmp_path):
    notes = {
        "HADM_ID": ["7", "8"],
        "words": ["on insulin", "at home"],
        "ward": ["a", "b"],
    }
    write_table(pd.DataFrame(notes), tmp_path / "notes.csv")
    out = tmp_path / "answers.csv"
    arguments = [
        "ask",
        str(tmp_path / "notes.csv"),
        "--question",
        "was it?",
        "--model",
        saved,
    ]
    arguments += ["--out", str(out), "--text", "words", "--keep", "ward"]
    result = run.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    read = read_table(out)
    assert read[["HADM_ID", "ward"]].to_numpy().tolist() == [
        ["7", "a"],
        ["8", "b"],
    ]
    assert list(read["answer"].fillna("")) == ["insulin", ""]


@pytest.mark.parametrize("option", ["--keep", "--query", "--stay"])
def test_options_of_tables_are_refused_where_answers_are_shown(
    saved, tmp_path, option
):
    (tmp_path / "a.txt").write_text("on insulin")
    arguments = [
        "ask",
        str(tmp_path / "a.txt"),
        "--question",
        "was it?",
        "--model",
        saved,
    ]
    result = run.invoke(app, [*arguments, option, "x"])
    assert result.exit_code == 2
    assert f"{option}: no effect on answers that are shown" in " ".join(
        result.output.split()
    )


def test_evaluate(saved, tmp_path):
    questions = made_up(30, name="q", words=40)
    (tmp_path / "q.json").write_text(squad(questions))
    arguments = [
        "evaluate",
        str(tmp_path / "q.json"),
        "--model",
        saved,
        "--held-out",
        "0.5",
    ]
    arguments += ["--json", str(tmp_path / "s.json")]
    result = run.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    scores = json.loads((tmp_path / "s.json").read_text())
    held = scores["questions"]
    assert 5 < held < 25
    assert scores["file"] == "q.json"
    assert f"{held} questions of held-out articles" in result.output
    assert 0 < scores["f1"] < 1


def test_train(tiny_encoder, tmp_path):
    (tmp_path / "general.json").write_text(squad(made_up(30, name="g")))
    (tmp_path / "special.json").write_text(
        squad(made_up(30, name="s", words=40, seed=1))
    )
    (tmp_path / "r.toml").write_text(
        '[card]\nname = "small"\ntitle = "Small"\n[model]\nwindow = 32\n'
        "[training]\nlearning_rate = 0.01\n[stages]\nnegatives = [0, 2]\nepochs = [1, 2]\n"
        "[validation]\nshare = 0.3\nchoosing = 3\n"
    )
    arguments = [
        *(
            "train",
            str(tmp_path / "general.json"),
            str(tmp_path / "special.json"),
        ),
        *(
            "--recipe",
            str(tmp_path / "r.toml"),
            "--encoder",
            str(tiny_encoder),
        ),
        *("--out", str(tmp_path / "model"), "--seed", "3"),
    ]
    result = run.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "held-out articles: F1 0." in result.output
    training = read_manifest(tmp_path / "model", Manifest).training
    assert [stage.epochs for stage in training.stages] == [1, 2]
    assert {stage.seed for stage in training.stages} == {3}
    card = (tmp_path / "model" / "README.md").read_text()
    assert "# Small" in card
    assert "questions of special.json" in card
    assert "is below 0.3" in card
    assert 'QuestionAnswerer.from_pretrained("small")' in card
    assert (
        "\n1.0, then 2.0 epochs, learning rate 0.01, at most 4096 tokens per step, seed 3\n"
        in card
    )
    # The number of the card comes again from its command.
    arguments = [
        "evaluate",
        str(tmp_path / "special.json"),
        "--model",
        str(tmp_path / "model"),
    ]
    arguments += ["--held-out", "0.3", "--json", str(tmp_path / "s.json")]
    assert run.invoke(app, arguments).exit_code == 0
    scores = json.loads((tmp_path / "s.json").read_text())
    assert {**scores, **training.validation} == scores


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ask", "absent.txt", "--question", "was it?"], "absent.txt"),
        (["ask", "test.json", "--out", "o.xlsx"], "o.xlsx"),
        (
            ["ask", "bad.csv", "--out", "o.csv"],
            "bad.csv has no column 'context'",
        ),
        (
            ["ask", "empty.txt", "--question", "was it?"],
            "the context, document 0 is empty",
        ),
        (
            ["ask", "q.csv", "--question", "", "--out", "o.csv"],
            "the question is empty",
        ),
        (
            ["ask", "q.csv", "--question", "a?"],
            "name --out to ask the question of a table",
        ),
        (
            ["evaluate", "bad.json"],
            "bad.json line 2: not SQuAD JSON; expected data",
        ),
        (
            ["evaluate", "test.json"],
            "1 questions without answers; training and scoring need them",
        ),
        (
            ["train", "test.json", "--out", "o"],
            "without answers; training and scoring need them",
        ),
        (["train", "absent.json", "--out", "o"], "absent.json: no such file"),
        (["train", "q.csv", "--out", "."], "choose another name"),
        (
            ["train", "q.csv", "--out", "o", "--resume"],
            "run without it, or name them with --checkpoints",
        ),
        (
            ["train", "x", "--out", "o", "--recipe", "r.toml"],
            "[validation] shares: no such setting; expected one of c",
        ),
        (
            ["train", "q.csv", "--out", "o", "--recipe", "s.toml"],
            "epochs has 2 values for 1 files",
        ),
    ],
)
def test_a_failure_is_one_line_and_exit_code_1(
    saved, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    rows = {
        "question": ["a?"] * 30,
        "context": [f"{n} b" for n in range(30)],
        "answer": ["b"] * 30,
    }
    write_table(pd.DataFrame(rows), tmp_path / "q.csv")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "bad.csv").write_text("question\nsecret\n")
    (tmp_path / "bad.json").write_text('{"data":\nsecret}')
    (tmp_path / "test.json").write_text(
        '{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": 1, "question": "a?"}]}]}]}'
    )
    (tmp_path / "r.toml").write_text("[validation]\nshares = 1\n")
    (tmp_path / "s.toml").write_text("[stages]\nepochs = [1, 2]\n")
    if arguments[0] != "train":
        arguments = [*arguments, "--model", saved]
    result = run.invoke(app, arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_what_to_ask_must_be_clear(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    result = run.invoke(app, ["ask", str(tmp_path / "a.txt")])
    assert result.exit_code == 2
    assert "--question" in result.output
    several = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    result = run.invoke(
        app, ["ask", *several, "--out", str(tmp_path / "o.csv")]
    )
    assert result.exit_code == 2
    assert "one file of questions" in result.output


def test_the_recipe(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text(
        '[model]\nencoder = "here"\nwindow = 128\nthreshold = 1.5\n[training]\nrank = 4\n'
        "[stages]\nepochs = [1.0, 2.0]\nnegatives = [0.5, 3]\n[validation]\nshare = 0.1\n"
    )
    recipe = read_recipe(
        QuestionRecipe, path, {"training.seed": 5, "model.encoder": None}
    )
    table = recipe.model
    assert (table.encoder, table.window, table.threshold) == ("here", 128, 1.5)
    stages = recipe.each_stage(2)
    assert [training.negatives for training in stages] == [0.5, 3]
    assert [training.epochs for training in stages] == [1.0, 2.0]
    assert {(training.rank, training.seed) for training in stages} == {(4, 5)}
    with pytest.raises(ValueError, match="epochs has 2 values for 1 files"):
        recipe.each_stage(1)
    for text, message in [
        (
            "[stages]\nepochs = 3\n",
            r"\[stages\] epochs: expected a list, got 3",
        ),
        (
            "[validation]\nshare = 0\n",
            r"\[validation\] share: expected a number above 0, got 0",
        ),
        (
            "[stages]\nepochs = [-1, 1]\n",
            "epochs: expected a number above 0, got -1",
        ),
    ]:
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_recipe(QuestionRecipe, path).each_stage(2)


def test_the_shipped_recipe():
    recipe = read_recipe(QuestionRecipe, recipe_file("qa"))
    stages = recipe.each_stage(2)
    assert [training.negatives for training in stages] == [0.25, 2.5]
    assert [training.attention for training in stages] == ["eager", "sdpa"]
    assert recipe.card.name == "qa"
    assert not any(
        read_recipe(QuestionRecipe, "qa").card.model_dump().values()
    )
