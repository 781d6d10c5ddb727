import time
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.ner.abbreviations import (
    Abbreviation,
    expanded,
    find_abbreviations,
    with_short_forms,
)
from biomed.ner.entities import Entity
from tests.timing import assert_linear_time


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("He has heart failure (HF).", {"HF": "heart failure"}),
        ("HF (heart failure) is stable", {"HF": "heart failure"}),
        (
            "non-small cell lung cancer (NSCLC)",
            {"NSCLC": "non-small cell lung cancer"},
        ),
        (
            "type 2 diabetes mellitus (T2DM, since 2010)",
            {"T2DM": "type 2 diabetes mellitus"},
        ),
        ("Acute otitis media (AOM)", {"AOM": "Acute otitis media"}),
        (
            "the ataxia-telangiectasia (A-T) gene",
            {"A-T": "ataxia-telangiectasia"},
        ),
        (
            "pain was noted. Multiple sclerosis (MS)",
            {"MS": "Multiple sclerosis"},
        ),
        ("given aspirin (325 mg) and (see Table)", {}),
        ("heart failure (CKD)", {}),
        ("blood pressure (high)", {}),
        ("stable (HF) and then", {}),
        (
            "poly(ADP-ribose) polymerase (PARP)",
            {"PARP": "poly(ADP-ribose) polymerase"},
        ),
        (
            "the 2(alpha)-subunit binding protein (SBP)",
            {"SBP": "subunit binding protein"},
        ),
        (
            "Air and Space Operations Center (ASOC)",
            {"ASOC": "Air and Space Operations Center"},
        ),
        (
            "Ear, nose and throat society (ENTS)",
            {"ENTS": "Ear, nose and throat society"},
        ),
        ("of the aorta and sinus (AS)", {"AS": "aorta and sinus"}),
        ("in vitro fertilization (IVF)", {"IVF": "in vitro fertilization"}),
        ("the Care of Adults (CoA 2002)", {"CoA": "Care of Adults"}),
        (
            "tumor necrosis factor-alpha (TNF-\u03b1)",
            {"TNF-\u03b1": "tumor necrosis factor-alpha"},
        ),
        ("risk (OR 0.65, 95% CI 0.5 to 0.8) of death (OR 0.2)", {}),
        ("of the study (n 2002)", {}),
        ("", {}),
    ],
)
def test_definitions(text, found):
    known = find_abbreviations(text)
    assert {short: entry.long for short, entry in known.items()} == found
    for entry in known.values():
        assert text[: entry.end].endswith(entry.long)


def test_a_long_form_ends_with_its_sentence():
    assert find_abbreviations("He was ill. Failure (HF) came") == {}


def test_names_are_expanded():
    known = find_abbreviations(
        "myocardial infarction (MI) and diabetes mellitus (DM)"
    )
    assert expanded("MI", known) == "myocardial infarction"
    assert expanded("MIs", known) == "myocardial infarction"
    assert expanded("old MI", known) == "old myocardial infarction"
    assert expanded("MID", known) == "MID"
    assert expanded("MI", {}) == "MI"


@given(st.text(alphabet="ab AB(),.-1\n", max_size=60))
def test_any_text(text):
    for short, entry in find_abbreviations(text).items():
        assert text[: entry.end].endswith(entry.long)
        assert len(entry.long) > len(short)


def test_time_is_linear():
    def prepare(count):
        text = "heart failure (HF) " * count + "(" * count
        return partial(find_abbreviations, text)

    assert_linear_time(prepare, 5_000)


def test_short_forms_take_linear_time():
    names = [f"A{number}" for number in range(3000)]
    text = " ".join(names)
    ends = np.cumsum([len(name) + 1 for name in names]) - 1
    entities = [
        Entity(end - len(name), end, name, "Disease", 0.9)
        for name, end in zip(names, ends.tolist(), strict=True)
    ]
    known = {
        f"B{name}": Abbreviation(name, entity.end)
        for name, entity in zip(names, entities, strict=True)
    }
    start = time.process_time()
    found = with_short_forms(" ".join([text, *known]), entities, known)
    assert time.process_time() - start < 2
    assert len(found) == 6000


def test_the_longest_short_form_counts():
    entities = [
        Entity(0, 4, "gout", "Disease", 0.9),
        Entity(6, 10, "rash", "Finding", 0.9),
    ]
    known = {"MI": Abbreviation("gout", 4), "MI-2": Abbreviation("rash", 10)}
    added = with_short_forms("gout, rash: MI-2, MI", entities, known)[2:]
    assert [(e.text, e.label) for e in added] == [
        ("MI-2", "Finding"),
        ("MI", "Disease"),
    ]
