import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.corpora import read_corpus
from biomed.corpora.words import (
    split_words,
    starts_after_breaks,
)


def words_of(text):
    return [text[start:end] for start, end in split_words(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t\n", []),
        ("x-linked GSK-3beta", ["x", "-", "linked", "GSK", "-", "3beta"]),
        ("9/7/1992", ["9", "/", "7", "/", "1992"]),
        ("Parkinson's (PD)", ["Parkinson", "'", "s", "(", "PD", ")"]),
        ("snake_case 5±3", ["snake", "_", "case", "5", "±", "3"]),
        ("Sjo\u0308gren", ["Sjo\u0308gren"]),
        ("can\u00adcer", ["can\u00adcer"]),
        ("\u200dcancer\u00ad", ["\u200d", "cancer", "\u00ad"]),
        ("a\u00a0b\x00c\x10", ["a", "b", "\x00", "c", "\x10"]),
        ("心不全 🫀", ["心不全", "🫀"]),
    ],
)
def test_words(text, words):
    assert words_of(text) == words


@given(st.text())
def test_words_are_all_there_is_but_white_space(text):
    words = split_words(text)
    assert (words[:, 0] < words[:, 1]).all()
    assert (words[1:, 0] >= words[:-1, 1]).all()
    covered = {place for start, end in words for place in range(start, end)}
    assert all(
        c.isspace() for place, c in enumerate(text) if place not in covered
    )
    assert not any(
        c.isspace() for place, c in enumerate(text) if place in covered
    )


@given(st.text())
def test_words_parted_by_spaces_are_the_same_words(text):
    words = words_of(text)
    assert words_of(" ".join(words)) == words


def test_a_very_long_word():
    assert split_words("a" * 300_000).tolist() == [[0, 300_000]]


def items(text):
    """The words that start a paragraph or list item."""
    words = split_words(text)
    return [
        text[slice(*words[number])]
        for number in starts_after_breaks(text, words)
    ]


def test_a_blank_line_starts_a_paragraph():
    assert items("\n\none two\nthree\n \t\nfour\r\n\r\nfive\n\n") == [
        "four",
        "five",
    ]
    assert items("one\ntwo") == items("") == items(" \n\n \n") == []


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        (
            "PMH:\nHypertension\nDiabetes mellitus\nCHF",
            ["Hypertension", "Diabetes", "CHF"],
        ),
        (
            "hypertension\r\ndiabetes mellitus\r\nasthma",
            ["diabetes", "asthma"],
        ),
        ("- heart failure\n- asthma", ["-"]),
        ("1. heart failure\n2. asthma", ["2"]),
        ("heart\nfailure", []),
        # Wrapped text: the next word would not have fitted on the line.
        (
            "Known to us for severe congestive heart\nFailure, and now for type\n2 diabetes.",
            ["2"],
        ),
        (
            "The patient has a history of severe congestive heart\nfailure.\nStable.",
            ["Stable"],
        ),
    ],
)
def test_a_line_that_was_not_wrapped_ends_a_list_item(text, starts):
    assert items(text) == starts


WRAPPED = (
    "He is a man of seventy years\nwith chronic obstructive lung\n"
    "disease and with heart failure\nwho denies any pain or chest\ntightness today."
)


@pytest.mark.parametrize(
    "gap", ["\n", "\n    ", "\n\n", "\r\n \r\n", "\n\t\n"]
)
def test_short_wraps_and_double_spacing_are_no_lists(gap):
    assert items(WRAPPED.replace("\n", gap)) == []


def test_double_spaced_lines_of_a_page():
    line = "was admitted with severe pain of the chest and Congestive Heart"
    page = [
        line,
        "Failure. Known Diabetes Mellitus, treated by his Family Doctor",
    ]
    page += [
        line.title(),
        "failure of the kidneys.",
        "Stable.",
        "1. Gout",
        "2. Asthma",
    ]
    assert items("\n\n".join(page)) == ["Stable", "1", "2"]
    assert items("\n\n".join(page).replace("Stable", "\nstable")) == [
        "stable",
        "1",
        "2",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "asthma\n\ncongestive heart failure\n\ngout",
        "Asthma\n\nCongestive heart failure\n\nGout",
        "Discharge diagnosis: congestive heart failure and renal failure\n\nMedications",
        "Asthma and gout\n\nSeen by us in March\nagain and in May",
    ],
)
def test_single_lines_with_blank_lines_between_are_items(text):
    assert len(items(text)) == text.count("\n\n")


def test_a_line_after_a_hyphen_starts_nothing():
    assert items("non-\nHodgkin lymphoma") == items("type-\n2 diabetes") == []


@given(st.text(alphabet="aB1- .\n\r\t\u0085", max_size=60))
def test_breaks_are_words_in_order(text):
    words = split_words(text)
    starts = starts_after_breaks(text, words)
    assert (np.diff(starts) > 0).all()
    assert not len(starts) or (starts[0] > 0 and starts[-1] < len(words))
    for number in starts:
        assert "\n" in text[words[number - 1, 1] : words[number, 0]]


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["ncbi-disease", "bc5cdr-disease", "bc5cdr-chemical"]
)
def test_the_corpora_are_cut_like_this(data_folder, name):
    """Also from running text: spaces beside a mark come and go, words stay."""
    corpus = read_corpus(data_folder / "ner" / name)
    draw = random.Random(0)
    for gold in (corpus.train, corpus.devel, corpus.test):
        for text in gold.texts if gold else ():
            assert tuple(words_of(" ".join(text.words))) == text.words
            assert tuple(words_of(detokenised(text.words, draw))) == text.words


def detokenised(words, draw):
    text = ""
    for word in words:
        parted = text[-1:].isalnum() and word[0].isalnum()
        text += (" " if parted or draw.random() < 0.5 else "") + word
    return text
