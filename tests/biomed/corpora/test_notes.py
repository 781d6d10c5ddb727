import json
from collections import Counter
from importlib.resources import files

import pytest

from biomed.corpora import CorpusError, read_gold
from biomed.corpora.notes import SIDES, note_names, notes_gold

ROWS = [json.loads(line) for line in (files("biomed") / "data/notes.jsonl").open(encoding="utf-8")]
ASSERTIONS = {"present", "negated", "possible", "historical", "other"}


def test_offsets_are_exact_and_spans_apart():
    for row in ROWS:
        last = 0
        for entity in row["entities"]:
            assert last <= entity["start"] < entity["end"] <= len(row["text"]), row["id"]
            last = entity["end"]
            part = row["text"][entity["start"] : entity["end"]]
            assert part == part.strip(), row["id"]
            assert any(map(str.isalpha, part)), row["id"]
            # No entity begins or ends inside a word.
            around = row["text"][entity["start"] - 1 : entity["start"] + 1]
            assert entity["start"] == 0 or not around.isalnum(), row["id"]
            assert not row["text"][entity["end"] - 1 : entity["end"] + 1][1:].isalnum(), row["id"]
            assert entity["label"] in {"Disease", "Chemical"}
            assert entity["assertion"] in ASSERTIONS


def test_both_sides_have_a_hundred_texts_and_all_assertions():
    assert len({row["text"] for row in ROWS}) == len({row["id"] for row in ROWS}) == 200
    assert Counter(row["side"] for row in ROWS) == {"dev": 100, "test": 100}
    for side in SIDES:
        mine = [row for row in ROWS if row["side"] == side]
        assert {e["assertion"] for row in mine for e in row["entities"]} == ASSERTIONS
        assert sum(not row["entities"] for row in mine) >= 5
        gold = notes_gold(side)
        assert gold.types == ("Chemical", "Disease")
        assert gold.remarks == ()
        assert sum(len(d.spans) for d in gold.documents) == sum(len(r["entities"]) for r in mine)


def test_labels_are_renamed_and_dropped():
    assert notes_gold("dev", labels={"Chemical": "Drug", "Disease": ""}).types == ("Drug",)


def test_names_are_the_two_lists():
    names = note_names()
    assert Counter(name.kind for name in names) == {"abbreviations": 56, "brands": 54}
    assert len({name.name for name in names}) == 110


def test_json_lines_are_read(tmp_path):
    row = {"text": "no heart failure", "entities": [{"start": 3, "end": 16, "label": "Disease"}]}
    path = tmp_path / "gold.jsonl"
    path.write_text(json.dumps(row) + "\n\n" + json.dumps({"id": 7, "text": "a", "entities": []}))
    gold = read_gold(path)
    assert [(d.id, len(d.spans)) for d in gold.documents] == [("1", 1), ("7", 0)]
    assert gold.texts[0].tags == ("O", "B-Disease", "I-Disease")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]", "line 1: expected an object"),
        ('{"text": "heart"}', "line 1: expected an object"),
        ('{"text": "a", "entities": [{"start": 0, "end": 1}]}', "line 1: expected an object"),
        (
            '{"text": "a", "entities": [{"start": 0, "end": 1, "label": "D", "text": "b"}]}',
            "line 1: the text at characters 0 to 1 differs",
        ),
        (
            '{"text": "a", "entities": [{"start": 5, "end": 6, "label": "D"}]}',
            "line 1: the text at characters 5 to 6 differs",
        ),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    (tmp_path / "gold.jsonl").write_text(line)
    with pytest.raises(CorpusError, match=message):
        read_gold(tmp_path / "gold.jsonl")
