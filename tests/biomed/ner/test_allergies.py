"""The shipped tagger on sentences about allergies, in the text file beside this one."""

from pathlib import Path

import pytest

from biomed.ner.allergies import with_allergens
from biomed.ner.entities import Entity
from biomed.ner.tagger import EntityTagger

_FILE = Path(__file__).with_name("drug_allergies.txt")
LINES = [
    tuple(part.strip() for part in line.split("=>"))
    for line in _FILE.read_text("utf-8").splitlines()
]


@pytest.fixture(scope="module")
def tagger():
    return EntityTagger.from_pretrained()


@pytest.mark.parametrize(("text", "expected"), LINES)
def test_a_drug_in_the_name_of_an_allergy(tagger, text, expected):
    """It is a drug with the assertion of the allergy, and no disease covers it."""
    drugs = [e for e in tagger.tag(text) if e.label == "Chemical"]
    told = [f"{drug.text}:{drug.assertion}" for drug in drugs]
    if not expected:
        assert not [e for e in drugs if e.assertion == "allergy"]
        return
    assert told == expected.split("; ")


def test_a_drug_takes_the_place_of_a_disease():
    text = "PCN allergy, gout"
    disease = Entity(0, 11, text[:11], "Disease", 0.7)
    gout = Entity(13, 17, "gout", "Disease", 0.9)
    drug, other = with_allergens(
        text, [disease, gout], ("Chemical", "Disease")
    )
    assert (drug.text, drug.label, drug.score) == ("PCN", "Chemical", 0.7)
    assert other == gout
    # A model that knows no drugs adds none.
    entities = [disease, gout]
    assert with_allergens(text, entities, ("Disease",)) == entities
