import time

import hypothesis
import pytest
from hypothesis import strategies as st

from domainbert.text.sentences import sentence_spans, split_sentences

NOTE = """Admission Date:  [**2151-7-16**]              Discharge Date:  [**2151-8-4**]

CHIEF COMPLAINT: Shortness of breath
History of Present Illness:
78 yo F with PMH of CHF (EF 30%), s/p CABG in [**2144**], who presents with
three days of worsening dyspnea. She was seen by Dr. Smith in clinic and her
lasix was increased to 40 mg b.i.d. without effect. No fevers
Allergies:
Penicillins / Sulfa
Medications on Admission:
1. Aspirin 81 mg p.o. daily
2. Lisinopril 10 mg daily
- metoprolol 25 mg twice a day, hold for heart rate below 55 or
  systolic below 90
heparin gtt
vitamin D
"""


LONG = """
78 yo F with PMH of CHF (EF 30%), s/p CABG in [**2144**], who presents with three days of \
worsening dyspnea.
She was seen by Dr. Smith in clinic and her lasix was increased to 40 mg b.i.d. without effect.
"""


def test_a_note_with_wraps_lists_and_no_full_stops():
    assert split_sentences(NOTE) == [
        "Admission Date: [**2151-7-16**] Discharge Date: [**2151-8-4**]",
        "CHIEF COMPLAINT: Shortness of breath",
        "History of Present Illness:",
        *LONG.strip().splitlines(),
        "No fevers",
        "Allergies:",
        "Penicillins / Sulfa",
        "Medications on Admission:",
        "1. Aspirin 81 mg p.o. daily",
        "2. Lisinopril 10 mg daily",
        "- metoprolol 25 mg twice a day, hold for heart rate below 55 or systolic below 90",
        "heparin gtt",
        "vitamin D",
    ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Stable. Home!  Well?", ["Stable.", "Home!", "Well?"]),
        ('"Call us." Then home.', ['"Call us."', "Then home."]),
        (
            "Gave 3.5 mg at 4 p.m. Then home.",
            ["Gave 3.5 mg at 4 p.m.", "Then home."],
        ),
        (
            "Seen by J. Jones vs. Dr. Who et al. Fine.",
            ["Seen by J. Jones vs. Dr. Who et al. Fine."],
        ),
        ("P was 0 . 05 here . Then", ["P was 0 . 05 here .", "Then"]),
        ("pain\n\nfever", ["pain", "fever"]),
        ("a\r\nb\rc", ["a", "b", "c"]),
        ("12.", ["12."]),
        (" \n ", []),
        ("", []),
    ],
)
def test_where_sentences_end(text, sentences):
    assert split_sentences(text) == sentences


def test_lines_are_joined_only_where_they_were_wrapped():
    words = "word " * 300
    wrapped = "\n".join(
        words[start : start + 75].strip() for start in range(0, 1500, 75)
    )
    assert len(split_sentences(wrapped)) == 1
    lines = [f"line {number} has no full stop" for number in range(40)]
    assert split_sentences("\n".join(lines)) == lines
    long = ["A" + "x" * number for number in (150, 160, 170, 180, 118, 116)]
    assert split_sentences("\n".join(long)) == long


@hypothesis.given(
    st.text(alphabet=st.sampled_from("aB. !?:-1)\n\t\r\x85é\"'"), max_size=300)
)
def test_every_word_is_in_one_sentence_in_order(text):
    sentences = split_sentences(text)
    assert " ".join(sentences).split() == text.split()
    assert all(
        sentence and sentence == " ".join(sentence.split())
        for sentence in sentences
    )


@hypothesis.given(st.text(max_size=300))
def test_any_text_is_taken(text):
    assert " ".join(split_sentences(text)).split() == text.split()


@pytest.mark.parametrize(
    "unit",
    [
        ".",
        ". ",
        "A. ",
        ".(",
        ".) ",
        '. "',
        "...\n",
        "Dr. A\n",
        "- a\n",
        "Aaa bbb, ",
        " . 0",
        "?!)",
    ],
)
def test_time_is_linear_in_the_text(unit):
    def seconds(count):
        start = time.process_time()
        split_sentences(unit * count)
        return time.process_time() - start

    seconds(100)
    assert seconds(40_000) < 5
    # Ten times the text: a quadratic pattern would take a hundred times as long.
    assert min(seconds(400_000) for _ in range(2)) < 40 * max(
        seconds(40_000), 0.01
    )


@hypothesis.given(st.text(alphabet="Ab .?!\n\t1-\u00a0", max_size=80))
def test_spans_are_the_sentences_in_the_text(text):
    found = [
        " ".join(text[start:end].split())
        for start, end in sentence_spans(text)
    ]
    assert found == [
        " ".join(sentence.split())
        for sentence in split_sentences(text)
        if sentence
    ]
    assert sentence_spans(NOTE)[0][0] == len(NOTE) - len(NOTE.lstrip())
