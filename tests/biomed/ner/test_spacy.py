import importlib
import inspect
import tomllib
from pathlib import Path

import pytest

spacy = pytest.importorskip("spacy")

from biomed.ner.spacy import BiomedComponent, make_component  # noqa: E402

TEXT = "No heart failure today. On insulin."


@pytest.fixture
def pipeline(both, tmp_path):
    both.save_pretrained(tmp_path / "model")
    (tmp_path / "names.csv").write_text(
        "name,id,codes\nheart failure,D1,MESH:1\n"
    )
    nlp = spacy.blank("en")
    config = {
        "model": str(tmp_path / "model"),
        "dictionary": str(tmp_path / "names.csv"),
    }
    nlp.add_pipe("biomed", config=config)
    return nlp


def test_a_pipeline_gives_entities_and_sentences(pipeline):
    doc = pipeline(TEXT)
    assert [(e.text, e.label_, e.kb_id_) for e in doc.ents] == [
        ("heart failure", "Disease", "D1"),
        ("insulin", "Drug", ""),
    ]
    first = doc.ents[0]._
    assert (first.assertion, first.link_score, first.codes) == (
        "negated",
        1.0,
        ("MESH:1",),
    )
    assert [s.text for s in doc.sents] == [
        "No heart failure today.",
        "On insulin.",
    ]
    assert len(doc.spans["biomed"]) == 2


def test_entities_of_an_earlier_component_stay(pipeline):
    ruler = pipeline.add_pipe("entity_ruler", before="biomed")
    ruler.add_patterns(
        [
            {"label": "FINDING", "pattern": "failure today"},
            {"label": "TIME", "pattern": "On"},
        ]
    )
    doc = pipeline(TEXT)
    assert [(e.text, e.label_) for e in doc.ents] == [
        ("failure today", "FINDING"),
        ("On", "TIME"),
        ("insulin", "Drug"),
    ]
    assert [e.text for e in doc.spans["biomed"]] == [
        "heart failure",
        "insulin",
    ]


def test_a_drug_has_its_medication(pipeline):
    drug = pipeline("Hold insulin 10 units at bedtime.").ents[0]
    assert drug._.medication.status == "held"
    assert drug._.medication["dose"] == "10"


def test_many_texts_in_order(pipeline):
    texts = [TEXT, "", "stable", "kidney pain"]
    docs = list(pipeline.pipe(texts, batch_size=2))
    assert [doc.text for doc in docs] == texts
    assert [len(doc.ents) for doc in docs] == [2, 0, 0, 1]


def test_sentences_that_are_there_stay(both):
    nlp = spacy.blank("en")
    doc = nlp("Heart failure. Stable.")
    for token in doc:
        token.is_sent_start = token.i == 0
    assert len(list(BiomedComponent(both)(doc).sents)) == 1


def test_the_factory_is_announced():
    project = tomllib.loads(
        (Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8")
    )
    module, _, name = project["project"]["entry-points"]["spacy_factories"][
        "biomed"
    ].partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_options_are_annotated_by_types():
    """spaCy 3.8.2 cannot read annotations that are strings, as future annotations are."""
    parameters = inspect.signature(make_component).parameters
    assert not any(isinstance(p.annotation, str) for p in parameters.values())
