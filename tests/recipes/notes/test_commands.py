"""The commands that write corpora of notes and lists of abbreviations run from beginning to end."""

import pytest
import typer
from typer.testing import CliRunner

from biomed.corpora import read_corpus, read_gold
from biomed.ner.tagger import EntityTagger
from biomed.ner.training import fit
from recipes.notes import generate, lists, medications, real
from tests.recipes.test_entities import corpus, recipe


def run(main, *words):
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.output


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


@pytest.fixture(scope="module")
def model(tiny_encoder, tmp_path_factory):
    """The folder of a tiny model of diseases."""
    folder = tmp_path_factory.mktemp("tagger") / "model"
    fit([corpus("Disease")], recipe(tiny_encoder)).save_pretrained(folder)
    return folder


def test_a_model_gets_the_abbreviations(data_folder, model, tmp_path):
    devel = tmp_path / "small" / "devel.tsv"
    devel.parent.mkdir()
    devel.write_text("heart\tB-Disease\nfailure\tI-Disease\nwas\tO\n")
    words = [model, devel, "--data", data_folder]
    run(lists.main, *words, "--out", tmp_path / "out")
    tagger = EntityTagger.from_pretrained(tmp_path / "out")
    assert {"COPD", "DVT"} <= set(tagger.settings.abbreviations["Disease"])
    assert "small devel" in tagger.manifest.scores.table["f1"]


def test_sentences_on_which_model_and_lists_agree_are_a_corpus(
    data_folder, model, tmp_path, monkeypatch
):
    notes = ["The sky was clear on that day.", "He came with heart failure."]
    monkeypatch.setattr(real, "real_notes", lambda _: notes)
    run(real.main, tmp_path, "--data", data_folder, "--model", model)
    assert "clear" in (tmp_path / "silver" / "train.tsv").read_text()


def test_attributes_of_drugs_are_scored(data_folder, model):
    output = run(medications.main, "--data", data_folder, "--model", model)
    for kind in ("dose", "route", "frequency", "status"):
        assert kind in output
