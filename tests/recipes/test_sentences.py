"""What the shipped model of sentences is trained on: nothing that is held out."""

import gzip
import json

import pytest

from domainbert.tables import TableError
from domainbert.training.recipes import read_recipe, recipe_file
from recipes import sentences
from recipes.sentences import (
    MedicalRecipe,
    neighbours,
    opening,
    percent,
    questions_and_answers,
    train_medical,
    training_rows,
)


@pytest.fixture
def data(tmp_path):
    """A small copy of the public data sets, in their formats."""
    for name in ("text", "qa", "readmission"):
        (tmp_path / name).mkdir()
    documents = [
        {
            "source": "GARD",
            "focus": f"Disease {n}",
            "cuis": [f"C{n:07d}"],
            "synonyms": [f"Morbus {n}"],
            "questions": [
                {
                    "type": "information",
                    "question": f"What is  Disease {n} ?",
                    "answer": f"Disease {n} is a disease of the kidney. It causes pain and fever.",
                },
                {"type": "causes", "question": f"Why {n}?", "answer": ""},
            ],
        }
        for n in range(120)
    ]
    # A concept that is held out and one that is not have one answer.
    held, other = (
        next(d for d in documents if (percent(d["cuis"][0]) < 5) is side) for side in (True, False)
    )
    twin = other | {"questions": [other["questions"][0] | held["questions"][0]]}
    twin["questions"][0]["question"] = "What is the twin?"
    documents.append(twin)
    with gzip.open(tmp_path / "text" / "medquad.jsonl.gz", "wt") as handle:
        handle.write("\n".join(map(json.dumps, documents)))
    sentence = "The patient has a fever and pain in the left chest , number {}"
    with gzip.open(tmp_path / "text" / "pubmed_sentences.txt.gz", "wt") as handle:
        handle.write("\n".join([sentence.format(n) for n in range(30)] + ["", "short", "x" * 500]))
    contexts = [[f"Fever {n}.", "Two."] for n in range(40)]
    entries = {
        str(n): {"QUESTION": f"Is it {n}?", "CONTEXTS": parts} for n, parts in enumerate(contexts)
    }
    (tmp_path / "qa" / "pubmedqa_labeled.json").write_text(json.dumps(entries))
    titles = "0010 Cholera due to vibrio cholerae\n0011 Cholera due to el tor\n"
    (tmp_path / "readmission" / "icd9_diagnosis_long_titles.txt").write_text(titles)
    return tmp_path


def test_no_held_out_question_or_concept_is_trained_on(data):
    recipe = read_recipe(MedicalRecipe, overrides={"sources.neighbours": 1.0})
    rows = training_rows(recipe, data)
    assert all(rows[name] for name in ("answers", "abstracts", "neighbours", "names"))
    test, validation = (questions_and_answers(data, side=s) for s in ("test", "validation"))
    assert len(test) > 2
    assert len(validation) > 2
    trained = {text for part in rows.values() for *both, _ in part for text in both}
    assert not trained & {
        *test["first"],
        *validation["first"],
        *test["second"],
        *validation["second"],
    }
    assert not set(test["first"]) & set(validation["first"])
    assert len(rows["answers"]) == 120 - len(test) - len(validation)
    for question, text, _ in rows["abstracts"]:
        assert percent(question) >= 50
        assert text in (question.replace("Is it", "Fever").replace("?", "."), "Two.")
    held = {f"C{n:07d}" for n in range(120) if percent(f"C{n:07d}") < 10}
    for name in ("names", "definitions", "answers"):
        assert not held & {key for *_, key in rows[name]}


def test_neighbours_are_consecutive_and_share_keys(data):
    rows = list(neighbours(data))
    assert len(rows) == 15
    for first, second, _ in rows:
        assert int(second.split()[-1]) == int(first.split()[-1]) + 1
    assert [key for *_, key in rows[:11]] == ["pubmed 0"] * 10 + ["pubmed 1"]


def test_the_opening_ends_at_a_sentence():
    text = "One is here. Two is there. Three is nowhere."
    assert opening(text, 30) == "One is here. Two is there."
    assert opening(text, 5) == "One i"
    assert opening(text, 999) == text


def test_a_missing_file_is_one_line(data):
    (data / "qa" / "pubmedqa_labeled.json").unlink()
    with pytest.raises(TableError, match=r"pubmedqa_labeled.json: no such file; see the data"):
        training_rows(read_recipe(MedicalRecipe), data)


def test_the_recipe_trains_on_the_folder(data, tiny_encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(sentences, "CHOOSING", 4)
    changes = {"sources.synonyms": 0.1, "sources.groups": 0.0, "sources.names": 0.2}
    changes |= {"model.encoder": str(tiny_encoder), "training.epochs": 0.2}
    model = train_medical(read_recipe(MedicalRecipe, overrides=changes), data)
    (plain, this) = model.manifest["scores"].values()
    assert list(plain) == list(this)
    assert len(this) == 4
    (row, *_) = [name for name in this if name.startswith("PubMedQA")]
    held = sum(percent(f"Is it {n}?") < 50 for n in range(40))
    assert row == f"PubMedQA, {held} questions among 40 abstracts: MRR@10"
    assert "mrr" in model.manifest["validation"]
    assert model.manifest["counts"]["training rows, answers"] > 90


@pytest.mark.data
@pytest.mark.slow
def test_the_shipped_recipe_runs_on_real_text(tiny_encoder, some_data, tmp_path):
    changes = {"model.encoder": str(tiny_encoder), "training.epochs": 0.01}
    model = train_medical(read_recipe(MedicalRecipe, recipe_file("sentences"), changes), some_data)
    model.save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    for part in ("# Vectors", "MRR@10", "training rows, definitions", "224 pairs"):
        assert part in card
