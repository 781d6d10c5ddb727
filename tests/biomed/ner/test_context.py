"""Sections, assertions and medications of what a tagger finds."""

import pandas as pd
import pytest

import biomed
from domainbert.errors import UserError

NOTE = "heart pain\nAllergies: insulin\nFamily history: kidney disease\n"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ((), ["heart pain", "insulin", "kidney disease"]),
        (("allergies",), ["insulin"]),
        (("48765-2", "family_history"), ["insulin", "kidney disease"]),
        (("-family_history",), ["heart pain", "insulin"]),
        (("allergies", "-allergies"), []),
    ],
)
def test_entities_of_chosen_sections(both, chosen, expected):
    tagger = both.with_options(sections=chosen)
    entities = tagger.tag(NOTE)
    assert [entity.text for entity in entities] == expected


def test_an_entity_tells_which_words_decided_its_assertion(both):
    text = "No pneumonia.\nSurgical history: kidney disease\n"
    negated, other = both.tag(text)
    assert (negated.cue, negated.cue_rule) == ("No", "before")
    assert (other.cue, other.cue_rule) == ("Surgical history:", "section")
    for entity in (negated, other):
        assert text[entity.cue_start : entity.cue_end] == entity.cue
    table = both.score_frame(pd.DataFrame({"text": [text, "pneumonia"]}))
    assert list(table["cue"].fillna("")) == ["No", "Surgical history:", ""]
    assert list(table["cue_start"].fillna(-1)) == [0, 14, -1]


def test_a_wrong_section_is_refused(both):
    with pytest.raises(
        UserError, match="unknown section 'alergies'; did you mean"
    ):
        both.with_options(sections=["-alergies"])


def test_tables_have_the_section_and_its_code(both):
    table = both.score_frame(pd.DataFrame({"text": [NOTE]}))
    assert list(table["section"].fillna("")) == [
        "",
        "allergies",
        "family_history",
    ]
    assert list(table["section_code"].fillna("")) == ["", "48765-2", "10157-6"]
    assert list(table["assertion"]) == ["present", "allergy", "other"]


def test_a_tagger_takes_cues_and_tells_them_in_its_facts(both):
    row = {"assertion": "negated", "words": "xyz"}
    tagger = both.with_options(assertion_rules=[row])
    assert [e.assertion for e in tagger.tag("xyz heart failure")] == [
        "negated"
    ]
    assert tagger.context_facts["assertion_rules"][0]["words"] == "xyz"
    assert both.context_facts == {}


def test_a_tagger_gives_drugs_their_medication(tagger):
    text = "No pneumonia. Continue insulin 10 units at bedtime."
    disease, drug = tagger.tag(text)
    assert disease.medication is None
    assert drug.medication["frequency"] == "at bedtime"
    assert drug.medication.status == "continued"
    assert biomed.medications(text, tagger=tagger) == [drug.medication]


def test_tables_have_the_attributes_of_drugs(both):
    frame = pd.DataFrame({"text": ["insulin 10 units nightly for edema"]})
    rows = both.score_frame(frame)
    drug, disease = rows.to_dict("records")
    assert drug["drug_dose"] == "10"
    assert drug["drug_unit"] == "units"
    assert drug["drug_reason"] == "edema"
    assert '"start": 8, "end": 10' in drug["drug_attributes"]
    assert pd.isna(disease["drug_attributes"])
