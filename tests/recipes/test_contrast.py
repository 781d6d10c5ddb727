"""Made-up studies: answers at their offsets, sides apart, the group decides."""

import csv
import gzip
import json
import re
import tomllib
from itertools import combinations

import pytest

from biomed.qa.questions import read_questions
from recipes.contrast import __main__ as contrast
from recipes.contrast.wording import SIDES, WORDING, Wording, abbreviation
from tests.recipes.conftest import run

DRUGS = [
    f"{a}{b}ine"
    for a in ("Lor", "Vam", "Ket", "Sul", "Dor", "Mir")
    for b in ("az", "ep", "id", "ol", "um", "art")
]
DISEASES = [
    f"{a}{b}itis"
    for a in ("Hep", "Neur", "Derm", "Col", "Rhin", "Gast")
    for b in ("al", "er", "ov")
]
COUNT = 40


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Names and abstracts, as the public data has them."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "names").mkdir()
    for file, names in (("drugbank", DRUGS), ("mesh_diseases", DISEASES)):
        path = folder / "names" / f"{file}.csv.gz"
        with gzip.open(path, "wt", encoding="utf-8", newline="") as handle:
            csv.writer(handle).writerows([["name"], *([n] for n in names)])
    (folder / "qa").mkdir()
    abstracts = {
        str(n): {"CONTEXTS": [f"Aim {n}. It was {n}%.", "We saw 7."]}
        for n in range(30)
    }
    file = folder / "qa" / "pubmedqa_labeled.json"
    file.write_text(json.dumps(abstracts))
    return folder


@pytest.fixture(scope="module")
def sides(data):
    return {
        side: contrast.make(side, data=data, count=COUNT) for side in SIDES
    }


def asked(articles):
    for article in articles:
        (paragraph,) = article["paragraphs"]
        for question in paragraph["qas"]:
            yield paragraph["context"], question


def test_answers_are_at_their_offsets(sides):
    for context, question in asked(sides["train"]):
        assert question["is_impossible"] == (not question["answers"])
        for answer in question["answers"]:
            start = answer["answer_start"]
            end = start + len(answer["text"])
            assert context[start:end] == answer["text"] != ""
            # A whole number: no digit of it is left outside.
            assert not re.match(r"\d", context[end:])
            assert not re.search(r"\d\.?\Z", context[:start])
        assert not re.search("[{}|]", context + question["question"])


def test_every_question_is_asked_of_each_group(sides):
    """Few questions can be answered without reading which group they name."""
    n_contrasted = 0
    for article in sides["train"]:
        pairs = [*asked([article])]
        answers = {
            (answer["text"], answer["answer_start"])
            for _, question in pairs
            for answer in question["answers"]
        }
        n_contrasted += len(answers) > 1
        assert len({question["question"] for _, question in pairs}) == len(
            pairs
        )
    assert n_contrasted > 0.9 * COUNT


def test_questions_without_an_answer_are_among_them(sides):
    impossible = [q["is_impossible"] for _, q in asked(sides["train"])]
    assert 0.1 < sum(impossible) / len(impossible) < 0.4


def lists(table):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from lists(value)
        elif key != "kinds" and isinstance(value, list):
            yield value


def test_sides_share_no_wording_and_no_names(sides, data):
    table = tomllib.loads(WORDING.read_text(encoding="utf-8"))
    lengths = [len(lines) for lines in lists(table)]
    assert len(lengths) > 50
    assert min(lengths) >= 6
    parts = {}
    for side in SIDES:
        wording = Wording(side, data)
        parts[side] = {
            "drugs": wording.drugs,
            "diseases": wording.diseases,
            "abstracts": wording.abstracts,
            "lines": wording.lines("families", "event", "two"),
            "texts": [context for context, _ in asked(sides[side])],
        }
        assert all(parts[side].values())
    for first, second in combinations(SIDES, 2):
        for kind, texts in parts[first].items():
            assert set(texts).isdisjoint(parts[second][kind]), kind


def test_a_seed_decides_everything(data, sides):
    assert contrast.make("devel", data=data, count=COUNT) == sides["devel"]
    other = contrast.make("devel", data=data, count=COUNT, seed=1)
    assert other != sides["devel"]


def test_the_files_are_read_as_questions(data, tmp_path, monkeypatch):
    monkeypatch.setattr(contrast, "COUNTS", dict.fromkeys(SIDES, 3))
    out = tmp_path / "new" / "contrast"
    run(contrast.main, out, "--data", data)
    for side in SIDES:
        questions = read_questions(out / f"{side}.json")
        assert len({question.article for question in questions}) == 3
        assert all(
            len(question.answer_spans) == len(question.answers)
            for question in questions
        )


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("best supportive care", "BSC"),
        ("metformin", "MTN"),
        ("placebo", "PLO"),
    ],
)
def test_abbreviations(name, short):
    assert abbreviation(name) == short
