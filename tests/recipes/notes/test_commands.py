"""The commands that write corpora of notes and lists of abbreviations run from beginning to end."""

import typer
from typer.testing import CliRunner

from biomed.corpora import read_corpus, read_gold
from biomed.ner.tagger import EntityTagger
from biomed.ner.training import fit
from recipes.notes import generate, lists, real
from tests.recipes.test_entities import corpus, recipe


def run(main, *words):
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output


def test_generated_notes_are_a_corpus(tmp_path):
    run(generate.main, tmp_path, "--texts", 40)
    sides = read_corpus(tmp_path).sides
    assert {side: len(gold.texts) for side, gold in sides.items()} == {
        "train": 40,
        "devel": 4,
    }


def test_abstracts_and_tagged_notes_are_corpora(data_folder, tmp_path):
    run(real.main, tmp_path, "--data", data_folder)
    for name in (*real.CORPORA, "tagged"):
        assert "Disease" in read_gold(tmp_path / name / "train.tsv").types


def test_a_model_gets_the_abbreviations(data_folder, tiny_encoder, tmp_path):
    fit([corpus("Disease")], recipe(tiny_encoder)).save_pretrained(
        tmp_path / "model"
    )
    devel = tmp_path / "small" / "devel.tsv"
    devel.parent.mkdir()
    devel.write_text("heart\tB-Disease\nfailure\tI-Disease\nwas\tO\n")
    words = [tmp_path / "model", devel, "--data", data_folder]
    run(lists.main, *words, "--out", tmp_path / "out")
    model = EntityTagger.from_pretrained(tmp_path / "out")
    assert {"COPD", "DVT"} <= set(model.settings.abbreviations["Disease"])
    assert "small devel" in model.manifest.scores.table["f1"]
