import json
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

from biomed.ner.commands import app
from biomed.ner.tagger import EntityManifest
from biomed.ner.training import EntityRecipe, EntityTable
from domainbert.models.storage import read_manifest
from domainbert.tables import read_table, write_table
from domainbert.training.recipes import read_recipe, recipe_file

run = CliRunner()
IOB = "heart\tB-Disease\nfailure\tI-Disease\n\ninsulin\tO\n\nkidney\tB-Disease\nwas\tO\n"
PUBTATOR = "1|t|Heart failure\n1|a|no pneumonia\n1\t0\t13\tHeart failure\tDisease\tD1\n"


@pytest.fixture
def saved(both, disease, tmp_path):
    disease.save_pretrained(tmp_path / "disease")
    both.save_pretrained(tmp_path / "both")
    return [str(tmp_path / "disease"), str(tmp_path / "both")]


def test_every_command_has_help():
    for name in ("train", "tag", "evaluate"):
        result = run.invoke(app, [name, "--help"])
        assert result.exit_code == 0
        assert (
            "MODEL" in result.output
            or "--out" in result.output
            or "--model" in result.output
        )


def test_help_waits_for_no_torch():
    code = "import sys; from biomed.ner.commands import app; sys.exit('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False).returncode
        == 0
    )


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_tag_writes_entities_and_a_row_for_every_text(saved, tmp_path, ending):
    texts = pd.DataFrame(
        {"doc_id": ["a", "b"], "text": ["insulin for heart failure", None]}
    )
    write_table(texts, tmp_path / f"in{ending}")
    out = tmp_path / "entities.parquet"
    command = [
        "tag",
        str(tmp_path / f"in{ending}"),
        "--model",
        saved[1],
        "--device",
        "cpu",
    ]
    result = run.invoke(app, [*command, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "2 rows in, 3 rows out: 1 empty, 1 ok" in result.output
    table = read_table(out)
    assert list(table["entity"].fillna("")) == ["insulin", "heart failure", ""]
    assert list(table["doc_id"]) == ["a", "a", "b"]
    assert list(table["status"]) == ["ok", "ok", "empty"]
    names = sorted(path.name for path in tmp_path.glob("*.*"))
    assert names == [
        "entities.parquet",
        "entities.parquet.summary.json",
        f"in{ending}",
    ]


def test_tag_takes_options(saved, tmp_path):
    (tmp_path / "in.csv").write_text("MRN;report;age\n7;heart failure;60\n")
    command = [
        "tag",
        str(tmp_path / "in.csv"),
        "--model",
        saved[0],
        "--min-score",
        "1",
    ]
    command += ["--text", "report", "--delimiter", ";", "--keep", "age"]
    result = run.invoke(app, [*command, "--out", str(tmp_path / "out.csv")])
    assert result.exit_code == 0, result.output
    table = read_table(tmp_path / "out.csv")
    assert list(table)[:3] == ["MRN", "age", "row"]
    assert table["label"].isna().all()
    result = run.invoke(app, [*command[:-2], "--min-score", "0"])
    assert result.exit_code == 0, result.output
    assert "[heart failure](Disease)" in result.output


def test_tag_takes_sections_and_rules(saved, tmp_path):
    (tmp_path / "note.txt").write_text(
        "Plan: insulin\nFH: xyz heart failure\n", "utf-8"
    )
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[cue]]\nassertion = "negated"\nwords = "xyz"\n', "utf-8"
    )
    options = [
        "--model",
        saved[1],
        "--assertion-rules",
        str(rules),
        "--section",
    ]
    out = tmp_path / "entities.csv"
    for section, expected in (("plan", "insulin"), ("-plan", "heart failure")):
        arguments = [
            "tag",
            str(tmp_path / "note.txt"),
            "--out",
            str(out),
            "--restart",
        ]
        result = run.invoke(app, [*arguments, *options, section])
        assert result.exit_code == 0, result.output
        assert list(read_table(out)["entity"]) == [expected]


def test_tag_never_writes_over_its_input(saved, tmp_path):
    (tmp_path / "in.csv").write_text("text\nheart failure\n")
    path = str(tmp_path / "in.csv")
    result = run.invoke(app, ["tag", path, "--model", saved[0], "--out", path])
    assert result.exit_code == 1
    assert "is an input of this command" in result.output
    assert (tmp_path / "in.csv").read_text() == "text\nheart failure\n"


def test_tag_shows_a_text(saved, tmp_path):
    (tmp_path / "note.txt").write_text("Patient with [b]heart failure[/b].")
    result = run.invoke(
        app, ["tag", str(tmp_path / "note.txt"), "--model", saved[0]]
    )
    assert result.exit_code == 0, result.output
    assert "[b][heart failure](Disease)[/b]" in result.output


def test_evaluate_words(saved, tmp_path):
    (tmp_path / "gold.tsv").write_text(IOB)
    arguments = ["evaluate", str(tmp_path / "gold.tsv"), "--model", saved[0]]
    arguments += ["--json", str(tmp_path / "scores.json")]
    result = run.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["texts"] == 3
    assert scores["unit"] == "words"
    assert scores["scores"]["all"] == {
        "precision": 1.0,
        "recall": 1.0,
        "f1": 1.0,
        "correct": 2,
        "predicted": 2,
        "gold": 2,
    }


def test_scores_are_never_written_over_an_input(saved, tmp_path):
    (tmp_path / "gold.tsv").write_text(IOB)
    path = str(tmp_path / "gold.tsv")
    result = run.invoke(
        app, ["evaluate", path, "--model", saved[0], "--json", path]
    )
    assert result.exit_code == 1
    assert "gold.tsv is an input of this command" in result.output
    assert (tmp_path / "gold.tsv").read_text() == IOB


def test_evaluate_documents(saved, tmp_path):
    (tmp_path / "gold.txt").write_text(PUBTATOR)
    arguments = ["evaluate", str(tmp_path / "gold.txt"), "--model", saved[0]]
    result = run.invoke(
        app, [*arguments, "--json", str(tmp_path / "scores.json")]
    )
    assert result.exit_code == 0, result.output
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["unit"] == "characters"
    assert scores["scores"]["Disease"]["precision"] == 0.5
    result = run.invoke(app, [*arguments, "--label", "Disease=Sickness"])
    assert (
        "the model finds Disease. Rename them, or drop them with an empty name: --label Sickness="
        in result.output
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tag", "absent.txt"], "absent.txt: no such file"),
        (["tag", "in.csv"], "has no column 'text'"),
        (
            ["tag", "good.csv", "--device", "gpu", "--out", "o.csv"],
            "no device 'gpu'; this machine has: cpu",
        ),
        (["tag", "in.csv", "--out", "o.csv"], "has no column 'text'"),
        (
            ["evaluate", "bad.tsv"],
            "bad.tsv, line 1: expected a word and a tag",
        ),
        (
            ["evaluate", "bad.tsv", "--label", "x"],
            "--label: expected OLD=NEW, got 'x'",
        ),
        (
            ["train", "absent", "--out", "o"],
            "absent: no such folder; expected a folder",
        ),
        (["train", "absent", "--out", "."], "choose another name"),
        (
            ["train", "absent", "--out", "o", "--resume"],
            "name them with --checkpoints",
        ),
        (
            ["train", ".", "--out", "o", "--recipe", "r.toml"],
            "corpora: no such setting; expected one of",
        ),
    ],
)
def test_a_failure_is_one_line_and_exit_code_1(
    saved, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("txt\nheart\n")
    (tmp_path / "good.csv").write_text("text\nheart\n")
    (tmp_path / "bad.tsv").write_text("secret\n")
    (tmp_path / "r.toml").write_text("[corpora]\nshares = 1\n")
    if arguments[0] != "train":
        arguments = [*arguments, "--model", saved[0]]
    result = run.invoke(app, arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_train_reports_its_scores(tiny_encoder, tmp_path):
    corpus = tmp_path / "small"
    corpus.mkdir()
    for side, count in {"train": 40, "devel": 5, "test": 5}.items():
        lines = [f"{side}\tO\n{number}\tO\n{IOB}" for number in range(count)]
        (corpus / f"{side}.tsv").write_text("\n".join(lines))
    (tmp_path / "r.toml").write_text(
        '[card]\ntitle = "Small"\n[training]\nlearning_rate = 0.01\n'
    )
    arguments = [
        *(
            "train",
            str(corpus),
            "--out",
            str(tmp_path / "model"),
            "--epochs",
            "1",
            "--seed",
            "4",
        ),
        *(
            "--recipe",
            str(tmp_path / "r.toml"),
            "--encoder",
            str(tiny_encoder),
        ),
    ]
    result = run.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    manifest = read_manifest(tmp_path / "model", EntityManifest)
    f1 = manifest.scores.test["small"]["all"]["f1"]
    assert f"small test: F1 {f1:.3f}" in result.output
    assert manifest.training.stages[0].seed == 4
    card = (tmp_path / "model" / "README.md").read_text()
    assert "# Small" in card
    assert "| small test |" in card


def test_the_card_of_a_shipped_recipe_is_that_of_its_model(
    tiny_encoder, tmp_path, monkeypatch
):
    """By name a recipe gives settings only: its card tells of data that this run did not read."""
    corpus = tmp_path / "small"
    corpus.mkdir()
    for side in ("train", "devel"):
        (corpus / f"{side}.tsv").write_text(f"{side}\tO\n{IOB}")
    (tmp_path / "ours.toml").write_text(
        '[card]\ntitle = "Ours"\nlicence = "mit"\n'
    )
    shipped = {"ours": tmp_path / "ours.toml"}
    monkeypatch.setattr(
        "domainbert.training.recipes.shipped_recipes", lambda: shipped
    )
    cards = {}
    for name in ("ours", str(tmp_path / "ours.toml")):
        out = tmp_path / f"model{len(cards)}"
        command = [
            "train",
            str(corpus),
            "--out",
            str(out),
            "--epochs",
            "1",
            "--recipe",
            name,
        ]
        result = run.invoke(app, [*command, "--encoder", str(tiny_encoder)])
        assert result.exit_code == 0, result.output
        cards[name] = (out / "README.md").read_text()
    by_name, by_path = cards.values()
    assert "Ours" not in by_name
    assert "license" not in by_name
    assert "| small, texts for training |" in by_name
    assert "# Ours" in by_path
    assert "license: mit" in by_path


def test_the_recipe(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text(
        '[model]\nencoder = "here"\nwindow = 128\n[training]\nepochs = 2\n[card]\nname = "n"\n'
    )
    overrides = {
        "training.epochs": 3.0,
        "training.seed": None,
        "model.encoder": None,
    }
    recipe = read_recipe(EntityRecipe, path, overrides)
    assert recipe.model == EntityTable(encoder="here", window=128)
    assert recipe.training.epochs == 3.0
    assert recipe.card.name == "n"
    assert (
        read_recipe(
            EntityRecipe, None, {"model.encoder": "there"}
        ).model.encoder
        == "there"
    )


@pytest.mark.parametrize(
    ("name", "epochs", "rank"),
    [
        ("entities", 8, 32),
        ("small", 60, 64),
        ("disease-drug-start", 4, 64),
        ("disease-drug-silver", 1, 64),
        ("disease-drug-tagged", 2, 64),
    ],
)
def test_shipped_recipes_go_by_name(name, epochs, rank):
    recipe = read_recipe(EntityRecipe, recipe_file(name))
    found = (recipe.training.epochs, recipe.training.rank, recipe.model.window)
    assert found == (epochs, rank, 128 if name == "small" else 256)


def test_types_are_renamed_in_training(tiny_encoder, tmp_path):
    """What a failed `ner train` advises: an option that it has."""
    corpus = tmp_path / "small"
    corpus.mkdir()
    (corpus / "train.tsv").write_text(f"train\tO\n{IOB}")
    (corpus / "devel.tsv").write_text(
        "heart\tB-Sickness\nfailure\tI-Sickness\n"
    )
    command = [
        "train",
        str(corpus),
        "--out",
        str(tmp_path / "model"),
        "--epochs",
        "1",
    ]
    command += ["--encoder", str(tiny_encoder)]
    result = run.invoke(app, command)
    assert result.exit_code == 1
    assert (
        "Rename them, or drop them with an empty name: --label Sickness="
        in result.output
    )
    result = run.invoke(app, [*command, "--label", "Sickness=Disease"])
    assert result.exit_code == 0, result.output
    assert "small devel" in result.output


@pytest.mark.parametrize(
    ("form", "header", "option"),
    [
        ("fhir", "note_id,text", "--patient NAME"),
        ("fhir", "id,note_text", "--patient NAME"),
        ("fhir", "hadm_id,text", "--patient NAME"),
        ("omop", "patient_id,text", "--note NAME"),
    ],
)
def test_an_export_without_its_id_is_refused_before_a_model_is_loaded(
    form, header, option, tmp_path
):
    """A model that does not exist is not what the message is about."""
    table = tmp_path / "n.csv"
    table.write_text(f"{header}\n1,She had fever.\n")
    result = run.invoke(
        app,
        [
            *("tag", str(table), "--format", form, "--model", "no-such-model"),
            *("--out", str(tmp_path / "out.csv")),
        ],
    )
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert option in line
    assert "did you mean" not in line
