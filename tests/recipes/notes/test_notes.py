import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from biomed.ner.entities import Entity
from domainbert.errors import UserError
from recipes.notes import corpus, evaluate
from recipes.notes.corpus import SIDES, note_names, notes_gold
from recipes.notes.sections import _runs, drawn, real_notes

FOLDER = Path(corpus.__file__).parent / "hand-tagged-notes"
ROWS = [
    json.loads(line)
    for side in SIDES
    for line in (FOLDER / f"{side}.jsonl").read_text("utf-8").splitlines()
]
ASSERTIONS = {
    "present",
    "negated",
    "possible",
    "historical",
    "other",
    "allergy",
}


def test_offsets_are_exact_and_spans_apart():
    for row in ROWS:
        last = 0
        for entity in row["entities"]:
            assert (
                last <= entity["start"] < entity["end"] <= len(row["text"])
            ), row["id"]
            last = entity["end"]
            part = row["text"][entity["start"] : entity["end"]]
            assert part == part.strip(), row["id"]
            assert any(map(str.isalpha, part)), row["id"]
            # No entity begins or ends inside a word.
            around = row["text"][entity["start"] - 1 : entity["start"] + 1]
            assert entity["start"] == 0 or not around.isalnum(), row["id"]
            assert not row["text"][entity["end"] - 1 : entity["end"] + 1][
                1:
            ].isalnum(), row["id"]
            assert entity["label"] in {"Disease", "Chemical"}
            assert entity["assertion"] in ASSERTIONS


def test_both_sides_have_a_hundred_texts_and_all_assertions():
    assert (
        len({row["text"] for row in ROWS})
        == len({row["id"] for row in ROWS})
        == 200
    )
    assert Counter(row["side"] for row in ROWS) == {"dev": 100, "test": 100}
    for side in SIDES:
        mine = [row for row in ROWS if row["side"] == side]
        assertions = {e["assertion"] for row in mine for e in row["entities"]}
        assert assertions | {"allergy"} == ASSERTIONS
        assert sum(not row["entities"] for row in mine) >= 5
        gold = notes_gold(side)
        assert gold.types == ("Chemical", "Disease")
        assert gold.remarks == ()
        assert sum(len(d.spans) for d in gold.documents) == sum(
            len(r["entities"]) for r in mine
        )


def test_labels_are_renamed_and_dropped():
    assert notes_gold(
        "dev", labels={"Chemical": "Drug", "Disease": ""}
    ).types == ("Drug",)


def test_names_are_the_two_lists():
    names = note_names()
    assert Counter(name.name_type for name in names) == {
        "abbreviations": 56,
        "brands": 54,
    }
    assert len({name.name for name in names}) == 110


@pytest.mark.parametrize(("side", "least"), [("dev", 0.98), ("test", 0.9)])
def test_the_rules_for_assertions(side, least):
    """The rules were made on dev; test is for measuring only."""
    assert evaluate.evaluate_assertions(notes_gold(side)).accuracy >= least


def test_real_sections_are_what_was_tagged(data_folder):
    golds = {side: corpus.sections_gold(side, data_folder) for side in SIDES}
    assert {side: len(gold.documents) for side, gold in golds.items()} == {
        "dev": 100,
        "test": 200,
    }
    for gold in golds.values():
        assert gold.types == ("Chemical", "Disease")
    # No section is also a text that recipes learn from.
    learnt = "\n".join(real_notes(data_folder))
    texts = [
        document.text for gold in golds.values() for document in gold.documents
    ]
    assert len(set(texts)) == 300
    assert not [text for text in texts if len(text) >= 60 and text in learnt]


def test_notes_to_train_on_are_tagged_exactly_and_none_is_measured_on(
    data_folder,
):
    documents = corpus.training_documents(data_folder)
    assert len(documents) == 2200 + 579
    assert {span.label for one in documents for span in one.spans} == {
        "Disease",
        "Chemical",
    }
    for one in documents:
        ends = [0, *(span.end for span in one.spans)]
        for span, last in zip(one.spans, ends, strict=False):
            assert last <= span.start < span.end <= len(one.text), one.id
            around = (
                one.text[span.start - 1 : span.start + 1],
                one.text[span.end - 1 :][:2],
            )
            assert not any(
                pair.isalnum() and len(pair) == 2 for pair in around
            ), one.id
    measured = [
        one.text
        for side in SIDES
        for gold in (notes_gold(side), corpus.sections_gold(side, data_folder))
        for one in gold.documents
    ]
    apart = set().union(*map(_runs, measured))
    assert not [one.id for one in documents if _runs(one.text) & apart]


def test_a_changed_section_is_refused(data_folder, monkeypatch):
    changed = [
        replace(section, text=section.text + ".")
        for section in drawn(data_folder)
    ]
    monkeypatch.setattr(corpus, "drawn", lambda _: changed)
    with pytest.raises(UserError, match="is not the text that was tagged"):
        corpus.sections_gold("dev", data_folder)


def test_the_rules_for_assertions_on_real_sections(data_folder):
    score = evaluate.evaluate_assertions(
        corpus.sections_gold("test", data_folder)
    )
    assert score.accuracy >= 0.8


class Knows:
    """Finds one word, as every type that it knows."""

    def __init__(self, *labels):
        self.types = labels

    def tag_many(self, texts):
        for text in texts:
            at = text.find("Lasix")
            yield [
                Entity(at, at + 5, "Lasix", label, 0.9)
                for label in self.types
                if at >= 0
            ]


def test_models_are_scored(tmp_path, monkeypatch):
    app = typer.Typer()
    app.command()(evaluate.main)
    out = tmp_path / "scores.json"

    def run(*labels):
        monkeypatch.setattr(
            evaluate.EntityTagger, "from_pretrained", lambda *_: Knows(*labels)
        )
        options = [
            "--model",
            "m",
            "--label",
            "Chemical=Drug",
            "--json",
            str(out),
        ]
        return CliRunner().invoke(app, options)

    result = run("Disease", "Drug")
    assert result.exit_code == 0, result.output
    scores = json.loads(out.read_text())
    assert scores["hand-tagged-notes dev"]["entities"]["all"]["gold"] == 229
    assert scores["hand-tagged-notes test"]["entities"]["all"]["gold"] == 232
    assert [count for _, count in scores["names"].values()] == [56, 54]
    assert "brands: 1 of 54 found" in result.output
    # Of a model for one type the other type is left out.
    assert run("Disease").exit_code == 0
    assert (
        json.loads(out.read_text())["hand-tagged-notes dev"]["entities"][
            "all"
        ]["gold"]
        == 143
    )
    result = run("Chemical")
    assert (
        result.exit_code,
        "the model finds Chemical. Map them" in result.output,
    ) == (1, True)
