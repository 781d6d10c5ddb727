import json
import re
from functools import partial
from pathlib import Path

import pytest

from biomed.notes.assertion import ASSERTIONS, assert_spans, is_allergy_cue
from biomed.notes.sections import sections_of
from tests.timing import assert_linear_time

MARKS = {
    "": "present",
    "-": "negated",
    "?": "possible",
    "<": "historical",
    "@": "other",
    "!": "allergy",
}
KINDS = {"D": "Disease", "C": "Chemical"}
# Hand-made sentences of the hard kinds: reports of users, and sentences of which the `held-out`
# half was tagged before the rules were written and not read while they were.
CASES = [
    json.loads(line)
    for line in Path(__file__)
    .with_name("assertion_cases.jsonl")
    .open(encoding="utf-8")
]


def read(marked):
    """A text, its spans and their assertions, from {name|D-} and the like."""
    text, spans, wanted, at = "", [], [], 0
    for found in re.finditer(r"\{([^{}|]+)\|([DC])([-?<@!]?)\}", marked):
        text += marked[at : found.start()] + found[1]
        spans.append((len(text) - len(found[1]), len(text), KINDS[found[2]]))
        wanted.append(MARKS[found[3]])
        at = found.end()
    return text + marked[at:], spans, wanted


@pytest.mark.parametrize(
    "marked",
    [
        "The patient denies {fever|D-}, chills, {chest pain|D-} or {dyspnea|D-}.",
        "There is no evidence of {pulmonary embolism|D-}.",
        "Mother had {breast cancer|D@}.",
        "No {fever|D-} but has {cough|D}.",
        "No {fever|D-}. {Cough|D} improved.",
        "She has {hypertension|D} and {diabetes|D}. No {edema|D-}.",
        "Admitted with {pneumonia|D}, without {sepsis|D-}.",
        "{Chest pain|D-}: denies. {Nausea|D}: yes",
        "He does not have {diabetes|D-}.",
        "{MI|D-} was ruled out. {Pneumonia|D?} cannot be excluded.",
        "Rule out {MI|D?}. Possible {UTI|D?}; will treat with {ciprofloxacin|C}.",
        "No change in {edema|D}.",
        "{Vitamin E|C} did not improve {asthma|D}. It did not prevent {stroke|D}.",
        "He did not have {seizures|D-}.",
        "If {chest pain|D?} recurs take {nitroglycerin|C}.",
        "Her father and brother have {diabetes|D@}.",
        "{diabetes|D@} in her mother and {hypertension|D}",
        "The patient's wife reports {confusion|D}.",
        "The patient had a {stroke|D<} in 2015 and {TIA|D<} 3 years ago.",
        "History of {asthma|D<}, takes {albuterol|C}.",
        "Allergic to {penicillin|C!}. Takes {aspirin|C}.",
        "Start {aspirin|C} 81 mg for {CAD|D}. Discontinued {lisinopril|C<} for {cough|D}.",
        "Previously treated with {vancomycin|C<}; not on {insulin|C-}.",
        "[ ] {vomiting|D-} [x] {diarrhea|D}",
        "{HTN|D-} (-), {DM|D} (+), {CAD|D-} (-)",
        "ROS: (-) {fever|D-}, (+) {cough|D}, (-) {chest pain|D-}",
        "{MS|D?} vs {ALS|D?}",
        "A 67M w/ PMH of {HTN|D<}, {DM2|D<}, {CAD|D<} s/p CABG and {CKD|D<} who p/w {SOB|D}.",
        "Past Medical History:\n1. {Hypertension|D<}\n2. {Diabetes|D<}\n\nPlan:\n{metformin|C}",
        "Family history: {diabetes|D@}, {stroke|D@}. Social history: smoker. Assessment: {COPD|D}.",
        "Allergies: {penicillin|C!}\nPlan: {aspirin|C} for {DVT|D?} prophylaxis",
        "65 years old with {diabetes|D}, a 65-year old with {asthma|D}.",
        "an old man with {dementia|D} and old {MI|D<}",
        "In the past 2 days {cough|D}; for the last week {rash|D}.",
        "last night developed {chest pain|D}; past {stroke|D<}, last {seizure|D<} in May",
        "67M s/p CABG, {HTN|D}; s/p fall with {hip fracture|D}; s/p lap chole for {gallstones|D<}",
        "{HTN|D} since 2010, {asthma|D} since childhood, {stroke|D<} 2010",
        "D/C meds: {aspirin|C}, {iron|C}. d/c {Ativan|C<}, start {Haldol|C}. dc home {Lasix|C}.",
        "no {fever|D-} , + {cough|D}; denies {chills|D-}, +{rash|D}; no {DVT|D-} + {PE|D-}",
        "No known drug allergies.,CURRENT MEDICATIONS: , {Prevacid|C}, {Humulin|C}.",
        "No longer on {warfarin|C<}. On {metformin|C} since 2019. No longer takes {insulin|C<}.",
    ],
)
def test_a_sentence(marked):
    text, spans, wanted = read(marked)
    assert assert_spans(text, spans) == wanted


@pytest.mark.parametrize(
    "marked",
    Path(__file__)
    .with_name("assertion_sentences.txt")
    .read_text(encoding="utf-8")
    .splitlines(),
)
def test_a_sentence_that_was_once_misread(marked):
    text, spans, wanted = read(marked.replace(r"\n", "\n"))
    assert assert_spans(text, spans) == wanted


def spans_of(case):
    """The spans of a case: its names, each after the one before."""
    spans = []
    position = 0
    for name, label, _ in case["gold"]:
        pattern = rf"(?<![a-z]){re.escape(name)}(?![a-z])"
        match = re.compile(pattern, re.IGNORECASE).search(
            case["text"], position
        )
        spans.append((match.start(), match.end(), label))
        position = match.end()
    return spans


@pytest.mark.parametrize(
    ("half", "goal"), [("users", 0.97), ("dev", 0.97), ("held-out", 0.93)]
)
def test_the_hard_kinds(half, goal):
    wrong = []
    number = 0
    for case in CASES:
        if case["half"] != half:
            continue
        assertions = assert_spans(case["text"], spans_of(case))
        for (name, _, gold), assertion in zip(
            case["gold"], assertions, strict=True
        ):
            number += 1
            if gold not in ("", assertion):
                wrong.append((case["text"], name, gold, assertion))
    assert number > 150
    assert len(wrong) <= (1 - goal) * number, wrong


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("", ["present", "present"]),
        ("PASTMEDICALHX", ["historical", "present"]),
        ("Family history", ["other", "other"]),
        ("Allergies", ["historical", "allergy"]),
        ("no such heading", ["present", "present"]),
    ],
)
def test_a_heading_that_is_not_in_the_text(heading, expected):
    spans = [(0, 4, "Disease"), (6, 13, "Chemical")]
    assert assert_spans("Gout, aspirin.", spans, heading=heading) == expected


@pytest.mark.parametrize(
    ("text", "name", "is_cue"),
    [
        ("Allergy to penicillin", "Allergy", True),
        ("Drug allergies: penicillin", "Drug allergies", True),
        ("## Allergies\nPenicillin", "Allergies", True),
        ("Hypersensitivity to aspirin", "Hypersensitivity", True),
        ("He has allergies.", "allergies", False),
        ("Seasonal allergies to pollen", "Seasonal allergies", False),
    ],
)
def test_the_cue_of_an_allergy_is_no_disease(text, name, is_cue):
    start = text.index(name)
    end = start + len(name)
    (section,) = sections_of(text, [(start, end, "Disease")])
    assert is_allergy_cue(text, start, end, section) is is_cue


def test_spans_in_any_order_overlapping_or_none():
    text = "no heart failure, pneumonia"
    spans = [(18, 27, "Disease"), (3, 16, "Disease"), (3, 8, "Chemical")]
    assert assert_spans(text, spans) == ["negated", "negated", "negated"]
    assert assert_spans("", []) == []
    assert assert_spans("İ no İx", [(5, 7, "Disease")]) == ["negated"]
    assert set(MARKS.values()) == set(ASSERTIONS)


@pytest.mark.parametrize(
    "piece",
    [
        "no fever, ",
        "mother: fever ",
        "fever? ",
        "h/o fever; ",
        "[ ]fever\n",
        "risks, side effects of fever ",
    ],
)
def test_time_is_linear(piece):
    def prepare(times):
        text = piece * times
        spans = [
            (m.start(), m.end(), "Disease") for m in re.finditer("fever", text)
        ]
        return partial(assert_spans, text, spans)

    assert_linear_time(prepare, 1000)


def test_a_drug_with_a_regimen_is_no_allergy_below_that_heading():
    text = (
        "Allergies: penicillin, aspirin 81 mg (rash). Lisinopril 20 mg daily."
    )
    drugs = ("penicillin", "aspirin", "Lisinopril")
    spans = [
        (text.index(name), text.index(name) + len(name), "Drug")
        for name in drugs
    ]
    assert assert_spans(text, spans) == ["allergy", "allergy", "present"]


KIND_FILES = sorted(Path(__file__).with_name("kinds").glob("*.txt"))


@pytest.mark.parametrize(
    "marked",
    [
        pytest.param(line, id=f"{path.stem}-{number}")
        for path in KIND_FILES
        for number, line in enumerate(
            path.read_text(encoding="utf-8").splitlines(), start=1
        )
    ],
)
def test_a_sentence_of_each_kind(marked):
    text, spans, wanted = read(marked.replace(r"\n", "\n"))
    assert assert_spans(text, spans) == wanted
