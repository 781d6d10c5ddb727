"""The commands that write corpora of notes and lists of abbreviations run from beginning to end."""

import pytest

from biomed.corpora import read_corpus, read_gold
from biomed.corpora.documents import spans_of
from biomed.ner.entities import Entity
from biomed.ner.tagger import EntityTagger
from biomed.ner.training import fit
from biomed.notes.medications import read_medications
from recipes.notes import generate, lists, medications, real
from tests.recipes.conftest import run
from tests.recipes.test_entities import corpus, recipe


def test_generated_notes_are_a_corpus(tmp_path):
    run(generate.main, tmp_path, "--texts", 40)
    sides = read_corpus(tmp_path).sides
    assert {side: len(gold.texts) for side, gold in sides.items()} == {
        "train": 40,
        "devel": 4,
    }


@pytest.mark.slow
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


class Finds:
    """Finds names with given scores, all as diseases."""

    def __init__(self, scores):
        self.scores = scores

    def tag_many(self, texts):
        for text in texts:
            yield [
                Entity(
                    text.find(name),
                    text.find(name) + len(name),
                    name,
                    "Disease",
                    score,
                )
                for name, score in self.scores.items()
                if name in text
            ]


def test_sentences_on_which_model_and_lists_agree_are_a_corpus(
    tmp_path, monkeypatch
):
    scores = {"gout": 0.7, "quux": 0.95, "grault": 0.5, "corge": 0.1}
    scores |= {"asthma": 0.4, "LLL": 0.95, "DKA": 0.7}
    listed = dict.fromkeys(("gout", "asthma", "heart failure"), "Disease")
    diseases_of_sentences = {
        "The sky was clear on that day": [],
        "A toe with gout, which is listed": ["gout"],
        "Sure of quux, which is not": ["quux"],
        "Hardly any corge was seen there": [],
        "The known abbreviation is DKA here": ["DKA"],
        "No entity is LLL in any note": [],
    }
    left_out = [
        "Not sure of grault, which is not",
        "Not sure of asthma, which is listed",
        "The model has missed heart failure",
    ]
    notes = "\n".join([*diseases_of_sentences, *left_out])
    tagger = Finds(scores)
    abbreviations = ({"Disease": ["DKA"], "Chemical": []}, ["LLL"])
    monkeypatch.setattr(real, "real_notes", lambda _: [notes])
    monkeypatch.setattr(real.open_names, "listed", lambda _: listed)
    monkeypatch.setattr(
        real.open_names, "abbreviations", lambda _: abbreviations
    )
    monkeypatch.setattr(
        real.EntityTagger, "from_pretrained", lambda *_, **__: tagger
    )
    run(real.main, tmp_path, "--data", tmp_path, "--model", "m")
    written = {
        " ".join(text.words).replace(" ,", ","): [
            text.words[start] for start, *_ in spans_of(text.tags)
        ]
        for text in read_gold(tmp_path / "silver" / "train.tsv").texts
    }
    assert written == diseases_of_sentences


def test_facts_of_tags_and_of_the_grammar_are_compared():
    text = "insulin 10 units daily for diabetes"
    drug = {"start": 0, "end": 7, "status": "stopped"}
    row = {"drugs": [drug | {"attributes": [("dose", 8, 10)]}]}
    gold = medications.gold_facts(row)
    assert gold == [(0, "8-10", "dose"), (0, "stopped", "status")]
    entities = [
        Entity(0, 16, "insulin 10 units", "Disease", 0.9),
        Entity(0, 7, "insulin", "Chemical", 0.9),
        Entity(27, 35, "diabetes", "Disease", 0.9),
    ]
    spans = medications.with_gold_drugs(entities, row)
    assert spans == [(0, 7, "Chemical"), (27, 35, "Disease")]
    predicted = medications.predicted_facts(read_medications(text, spans))
    assert (0, "8-10", "dose") in predicted
    lines = medications.compare_lines([gold], [predicted])
    scores = {kind: (f1, count) for kind, f1, *_, count in lines}
    assert scores["dose"] == ("1.000", "1")
    assert scores["status"] == ("0.000", "1")
    assert scores["route"][1] == "0"


def test_attributes_of_drugs_are_scored(data_folder, model):
    output = run(medications.main, "--data", data_folder, "--model", model)
    for kind in ("dose", "route", "frequency", "status"):
        assert kind in output
