import pytest

from biomed.corpora.documents import Span, TaggedText
from biomed.ner.dictionaries import Dictionary
from biomed.ner.entities import Entity
from biomed.ner.errors import error_counts, errors_of, frequent_texts
from biomed.ner.evaluation import Prediction, predictions_of_words

TEXT = "ALLERGIES: penicillin.\nASSESSMENT: severe heart failure, gout. No asthma or COPD."


def place(part):
    start = TEXT.index(part)
    return start, start + len(part)


def gold(part, label="Disease", **more):
    return Span(*place(part), label, **more)


def found(part, label="Disease", **more):
    return Entity(*place(part), part, label, 0.9, **more)


def kinds(spans, entities, **options):
    prediction = Prediction(TEXT, tuple(spans), tuple(entities))
    errors = errors_of([prediction], types=["Disease", "Drug"], **options)
    return {error.text: error.kind for error in errors}


def test_each_entity_has_one_kind():
    spans = [
        gold("penicillin"),
        gold("heart failure"),
        gold("gout"),
        gold("COPD"),
    ]
    spans += [gold("asthma", assertion="negated")]
    entities = [found("penicillin", "Drug"), found("severe heart failure")]
    entities += [found("asthma"), found("No"), found("COPD")]
    assert kinds(spans, entities) == {
        "penicillin": "type",
        "heart failure": "boundary",
        "gout": "missed",
        "asthma": "assertion",
        "No": "invented",
    }


def test_parts_of_a_name_are_one_error():
    entities = [found("severe"), found("heart failure")]
    assert kinds([gold("severe heart failure")], entities) == {
        "severe heart failure": "boundary"
    }
    spans = [gold("severe heart failure"), gold("gout")]
    assert kinds(spans, [found("heart"), found("failure, gout")]) == {
        "severe heart failure": "boundary",
        "gout": "boundary",
    }


@pytest.mark.parametrize(
    ("id_", "linked", "kind"),
    [
        ("D1", "MESH:D1", None),
        ("MESH:D9|MESH:D1", "MESH:D1", None),
        ("OMIM:7", "MESH:D1", None),
        ("D1", "MESH:D2", "link: wrong candidate"),
        ("D1", None, "link: no candidate"),
        ("D9", "MESH:D1", "link: no such name"),
        ("", "MESH:D1", None),
    ],
)
def test_links(id_, linked, kind):
    names = [("gout", "MESH:D1"), ("asthma", "MESH:D2")]
    dictionary = Dictionary(names, codes={"MESH:D1": ("OMIM:7",)})
    pair = [gold("gout", id=id_)], [found("gout", id=linked)]
    assert kinds(*pair, dictionary=dictionary) == (
        {"gout": kind} if kind else {}
    )
    assert kinds(*pair) == {}


def test_sections_counts_and_frequent_texts():
    spans = (gold("penicillin"), gold("gout"))
    predictions = [Prediction(TEXT, spans, ())] * 3
    errors = list(errors_of(predictions, types=["Disease"]))
    assert {error.section for error in errors} >= {"allergies"}
    assert error_counts(errors) == {"missed": 6}
    table = frequent_texts(errors)
    assert table["text"].tolist() == ["penicillin", "gout"]
    assert table["count"].tolist() == [3, 3]
    assert "penicillin" not in repr(errors)
    many = [
        Prediction("x", (), (Entity(0, 1, "x", f"t{n}", 1.0),))
        for n in range(30)
    ]
    listed = frequent_texts(
        errors_of(many, types=[f"t{n}" for n in range(30)])
    )
    assert len(listed) == 20


def test_words_become_texts_with_positions():
    texts = [TaggedText(("no", "heart", "failure"), ("O", "B-x", "I-x"))]
    (prediction,) = predictions_of_words(texts, [[(2, 3, "x")]])
    (error,) = errors_of([prediction], types=["x"])
    assert (error.kind, error.text) == ("boundary", "heart failure")
