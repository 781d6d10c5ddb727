import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.qa.decisions import DecisionQuestion, folds, read_decisions
from biomed.qa.questions import QuestionError


def pubmedqa(**change):
    one = {"QUESTION": "Is it?", "CONTEXTS": ["a", "b"], "final_decision": "maybe"}
    return {"7": {**one, **change}}


def bioasq(**change):
    snippets = [{"text": "a", "document": "u"}, {"text": "b", "document": "v"}]
    one = {"id": 7, "type": "yesno", "body": "Is it?", "snippets": snippets, "exact_answer": "Yes"}
    factoid = {"id": "8", "type": "factoid", "body": "What?"}
    return {"questions": [{**one, **change}, factoid]}


@pytest.mark.parametrize(
    ("document", "label"),
    [
        (pubmedqa(), "maybe"),
        (pubmedqa(final_decision=None), None),
        (bioasq(), "yes"),
        (bioasq(exact_answer=None), None),
    ],
)
def test_both_formats(tmp_path, document, label):
    (tmp_path / "q.json").write_text(json.dumps(document))
    (only,) = read_decisions(tmp_path / "q.json")
    assert only == DecisionQuestion("7", "Is it?", "a\nb", label)
    assert "Is it" not in repr(only)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (pubmedqa(final_decision="perhaps"), r"q.json\[0\].final_decision is none of yes, no, m"),
        (pubmedqa(QUESTION=" "), r"q.json\[0\].QUESTION is empty"),
        (pubmedqa(CONTEXTS="a"), r"q.json\[0\].CONTEXTS is str, expected list"),
        (pubmedqa(CONTEXTS=[]), r"q.json\[0\] has no text to decide it by"),
        (bioasq(exact_answer=["yes"]), r"questions\[0\].exact_answer is none of"),
        (bioasq(snippets=None), r"questions\[0\] has no text to decide it by"),
        (bioasq(type=None), r"questions\[0\] has no 'type'"),
        ({"questions": []}, "has no yes/no question"),
        ({"questions": bioasq()["questions"] * 2}, "1 ids stand for several questions"),
        ([], "neither PubMedQA nor BioASQ: it holds list"),
        ({"x": 3}, r"q.json\[0\] has no 'CONTEXTS'"),
    ],
)
def test_what_cannot_be_read(tmp_path, document, message):
    (tmp_path / "q.json").write_text(json.dumps(document))
    with pytest.raises(QuestionError, match=message):
        read_decisions(tmp_path / "q.json")


@given(st.lists(st.sampled_from(["yes", "no", "maybe"]), min_size=2, max_size=60), st.data())
def test_folds_share_labels_evenly_and_do_not_depend_on_order(labels, data):
    questions = [DecisionQuestion(str(n), "q", "c", label) for n, label in enumerate(labels)]
    count = data.draw(st.integers(2, len(questions)))
    dealt = folds(questions, count=count)
    assert sorted(q.id for fold in dealt for q in fold) == sorted(q.id for q in questions)
    for label in set(labels):
        each = [Counter(q.label for q in fold)[label] for fold in dealt]
        assert max(each) - min(each) <= 1
    assert folds(questions[::-1], count=count) == dealt


def test_too_many_folds():
    with pytest.raises(ValueError, match="folds must be between 2 and the 1 questions, got 2"):
        folds([DecisionQuestion("1", "q", "c", "yes")], count=2)


@pytest.mark.data
def test_the_shared_file(data_folder):
    questions = read_decisions(data_folder / "qa" / "pubmedqa_labeled.json")
    assert Counter(q.label for q in questions) == {"yes": 552, "no": 338, "maybe": 110}
    assert {len(fold) for fold in folds(questions, count=10)} == {100}
