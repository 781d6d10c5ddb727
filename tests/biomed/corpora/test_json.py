import json

import pytest

from biomed.corpora import CorpusError, read_gold


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
