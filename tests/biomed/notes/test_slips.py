from pathlib import Path

import pytest

from biomed.corpora.words import split_words
from biomed.notes.slips import (
    framed_words,
    is_never_entity,
    phrases,
)


@pytest.mark.parametrize(
    ("text", "label", "is_slip"),
    [
        ("father", "Disease", True),
        ("Her FATHER's", "Disease", True),
        ("The infant", "Disease", True),
        ("N", "Disease", True),
        ("y", "Chemical", True),
        ("NO", "Chemical", False),
        ("MEN", "Disease", False),
        ("MEN1 and 2", "Disease", False),
        ("I-125", "Chemical", False),
        ("infant respiratory distress", "Disease", False),
        ("Plasmodium falciparum", "Drug", True),
        ("Plasmodium", "Chemical", True),
        ("Plasmodium falciparum malaria", "Chemical", False),
        ("Plasmodium falciparum", "Disease", False),
        ("aspirin", "Chemical", False),
    ],
)
def test_what_is_never_an_entity(text, label, is_slip):
    assert is_never_entity(text, label) == is_slip


@pytest.mark.parametrize(
    "text", Path(__file__).with_name("unit_words.txt").read_text().splitlines()
)
def test_words_of_units_forms_and_routes_are_no_drugs(text):
    assert is_never_entity(text, "Chemical")
    assert not is_never_entity(text, "Disease")


@pytest.mark.parametrize(
    "text", ["insulin pen", "oral contraceptive", "IV Flagyl", "nicotine gum"]
)
def test_drugs_with_words_of_forms(text):
    assert not is_never_entity(text, "Chemical")


@pytest.mark.parametrize(
    "text",
    [
        "No {}.",
        "{} was excluded.",
        "{}, stable.",
        "{}",
        "PMH:\n- {}\n2) {}",
        "Rule out {} or gout",
        "He was treated for {} last week.",
        "Seen today. {} has been ruled out.",
        "A man with {} presents today.",
        "Woman with {} who fell.",
        "{}: continue home doses",
        "Seen today. {} stable on warfarin.",
    ],
)
@pytest.mark.parametrize("name", ["PE", "RA", "TB", "GERD", "SVT"])
def test_shorthand_that_its_frame_makes_a_disease(text, name):
    full = text.format(name, name)
    words = split_words(full)
    framed = [
        full[slice(*words[number])] for number in framed_words(full, words)
    ]
    assert framed == [name] * full.count(name)


@pytest.mark.parametrize(
    "text",
    [
        "PE: lungs clear",
        "PE: unchanged",
        "Cells were stained with PE - labelled antibodies.",
        "PE shows a soft abdomen.",
        "On RA, 98%.",
        "with PE tubes in place",
        "no PE-related death",
        "No pe.",
    ],
)
def test_shorthand_elsewhere(text):
    assert framed_words(text, split_words(text)).tolist() == []


@pytest.mark.parametrize(
    "text",
    [
        "{} / improving.",
        "{} / stable",
        "We discussed {} and next steps with the family.",
        "Old {}.",
        "Remote {} in 2010.",
        "s/p {}.",
        "new {} on imaging",
        "recent {}, treated.",
        "Chronic {}.",
        "discussed {}.",
    ],
)
@pytest.mark.parametrize("name", ["CVA", "PE", "stroke"])
def test_frames_of_fragments(text, name):
    line = text.format(name)
    words = split_words(line)
    (number,) = framed_words(line, words)
    begin, end = words[number]
    assert line[begin:end] == name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "Acute graft-versus-host disease.",
            ["Acute graft-versus-host disease"],
        ),
        ("graft versus host disease, skin", ["graft versus host disease"]),
        ("chronic graft-vs-host disease", ["chronic graft-vs-host disease"]),
        ("graft vs. host reaction", ["graft vs. host reaction"]),
        ("The graft and the host differ.", []),
    ],
)
def test_phrases(text, names):
    assert [text[start:end] for start, end in phrases(text)] == names
