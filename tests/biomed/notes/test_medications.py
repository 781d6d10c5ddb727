"""Drugs in curly brackets, diseases in angle brackets."""

import re

import pytest

from biomed.notes.medications import read_medications
from tests.timing import assert_linear_time


def marked(line):
    """The text without its brackets, and the entities that they mark."""
    text = ""
    spans = []
    for piece in re.split(r"([{<][^}>]*[}>])", line):
        is_entity = piece[:1] in ("{", "<")
        if is_entity:
            label = "Drug" if piece[0] == "{" else "Disease"
            spans.append((len(text), len(text) + len(piece) - 2, label))
        text += piece[1:-1] if is_entity else piece
    return text, spans


def read(line, assertions=None):
    """The attributes of each drug as "kind=text" words, and its status."""
    text, spans = marked(line)
    drugs = read_medications(text, spans, assertions)
    for drug in drugs:
        assert text[drug.start : drug.end] == drug.text
        for part in drug.attributes:
            assert text[part.start : part.end] == part.text
    return [
        "; ".join(
            [
                *(f"{part.kind}={part.text}" for part in drug.attributes),
                *([f"status={drug.status}"] if drug.status else []),
            ]
        )
        for drug in drugs
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "{Lisinopril} 20 mg PO daily for <hypertension>",
            [
                "dose=20; unit=mg; route=PO; frequency=daily; reason=hypertension"
            ],
        ),
        (
            "{metformin} 500 mg tablet. Take 2 puffs daily",
            [
                "dose=500; unit=mg; form=tablet; dose=2; unit=puffs; frequency=daily"
            ],
        ),
        (
            "{Norco} 1-2 tabs prn <pain> or <headache>",
            [
                "dose=1-2; unit=tabs; form=tabs; as_needed=prn; reason=pain; reason=headache"
            ],
        ),
        (
            "{amoxicillin} 500mg TID x 10 days, {Keflex} 1 g for the next week",
            [
                "dose=500; unit=mg; frequency=TID; duration=10 days",
                "dose=1; unit=g; duration=week",
            ],
        ),
        (
            "2 mg of IV {morphine} and 4 mg {Zofran}, occasional {ibuprofen}",
            [
                "dose=2; unit=mg; route=IV",
                "dose=4; unit=mg",
                "frequency=occasional",
            ],
        ),
        (
            "{lisinopril}/{HCTZ} 20/25 mg daily",
            [
                "dose=20; unit=mg; frequency=daily",
                "dose=25; unit=mg; frequency=daily",
            ],
        ),
        (
            "{albuterol} and {Atrovent} inhalers as needed",
            ["form=inhalers; as_needed=as needed"] * 2,
        ),
        ("six weeks of {Lamisil}", ["duration=six weeks"]),
        ("daily applications of {Acticoat}", ["frequency=daily"]),
        (
            "{aspirin} up to 3 tablets",
            ["dose=up to 3; unit=tablets; form=tablets"],
        ),
        ("{heparin} drip at 12 units/kg/hr", ["dose=12; unit=units/kg/hr"]),
        (
            "{timolol} 0.5% one drop od",
            ["dose=0.5; unit=%; dose=one; unit=drop"],
        ),
        (
            "{Wellbutrin} XL 150 mg/day",
            ["form=XL; dose=150; unit=mg; frequency=/day"],
        ),
        ("treated for <UTI> with {Bactrim}", ["reason=UTI"]),
        (
            "1. {Tylenol} p.o. b.i.d. 2. {Colace}",
            ["route=p.o.; frequency=b.i.d.", ""],
        ),
        # Wrapped lines, and lists of one drug a line.
        ("{aspirin} 81\nmg daily", ["dose=81; unit=mg; frequency=daily"]),
        ("{aspirin}\n81 patients daily", [""]),
        ("{aspirin} daily\n{insulin}", ["frequency=daily", ""]),
    ],
)
def test_attributes(line, expected):
    assert read(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "{insulin} twenty units at night",
            "dose=twenty; unit=units; frequency=at night",
        ),
        (
            "{aspirin} three hundred mg stat",
            "dose=three hundred; unit=mg; frequency=stat",
        ),
        ("{prednisolone} 30mg 5/7", "dose=30; unit=mg; duration=5/7"),
        (
            "{iron} 200mg TDS for 3/12",
            "dose=200; unit=mg; frequency=TDS; duration=3/12",
        ),
        ("{amiodarone} 400 mg x1 week", "dose=400; unit=mg; duration=1 week"),
        (
            "{clonidine} 0.1 mg/24hr patch",
            "dose=0.1; unit=mg/24hr; form=patch",
        ),
        ("{folic acid} 1 mg/d", "dose=1; unit=mg; frequency=/d"),
        ("{zopiclone} 7.5mg on", "dose=7.5; unit=mg; frequency=on"),
        ("{bisoprolol} 1.25mg om", "dose=1.25; unit=mg; frequency=om"),
        (
            "{oxycodone} 5mg 4-6 hourly",
            "dose=5; unit=mg; frequency=4-6 hourly",
        ),
        (
            "{enoxaparin} 40mg s/c OD",
            "dose=40; unit=mg; route=s/c; frequency=OD",
        ),
        ("{GTN} s/l", "route=s/l"),
        (
            "{Miralax} 17 g in 8 oz of water daily",
            "dose=17; unit=g; frequency=daily",
        ),
        ("{KCl} 20 mEq in 100 mL IV", "dose=20; unit=mEq; route=IV"),
        ("{loperamide} 2 mg, max 16 mg/day", "dose=2; unit=mg"),
        ("{oxygen} 2 L/min via nasal cannula", "dose=2; unit=L/min"),
        (
            "{lidocaine} 12 hours on 12 hours off",
            "frequency=12 hours on 12 hours off",
        ),
        (
            "{lithium} dose reduced to 300 mg",
            "dose=300; unit=mg; status=changed",
        ),
        ("{ceftriaxone} 1 g (day 3/7)", "dose=1; unit=g"),
    ],
)
def test_shorthand(line, expected):
    assert read(line) == [expected]


@pytest.mark.parametrize(
    "line",
    [
        "She takes {lisinopril} and walks 3 times a week.",
        "On {aspirin} since 2015, BP 120/80.",
        "{ibuprofen} 2 days ago",
        "{Tylenol} No. 3",
        "{Lortab}, #20 (twenty)",
        "{epinephrine} 1:1000",
        "{aspirin}. Follow up as needed.",
        "{steroid} by Dr. Who",
    ],
)
def test_what_is_not_of_the_drug(line):
    assert read(line) == [""]


@pytest.mark.parametrize(
    ("line", "statuses"),
    [
        (
            "We stopped {aspirin} and started {clopidogrel}.",
            ["stopped", "started"],
        ),
        ("Switch from {lisinopril} to {losartan}.", ["stopped", "started"]),
        ("Her {furosemide} was increased from 20 mg to 40 mg.", ["changed"]),
        ("{Coumadin} on hold. {Plavix} resumed.", ["held", "started"]),
        ("Continue {aspirin} 81 mg, {Plavix} and {Zocor}.", ["continued"] * 3),
        ("Continue {aspirin}. He takes {fish oil}.", ["continued", None]),
        (
            "STOP taking:\n- {ibuprofen}\n- {Aleve}\n\n{Zocor}",
            ["stopped"] * 2 + [None],
        ),
        ("She took {Macrobid}. She stopped this medication.", ["stopped"]),
        ("If <pain> persists, start {gabapentin}.", [None]),
        ("Did not start {aspirin}. Consider starting {Zocor}.", [None, None]),
        ("takes {insulin} daily", [None]),
    ],
)
def test_status(line, statuses):
    text, spans = marked(line)
    assert [drug.status for drug in read_medications(text, spans)] == statuses


def test_a_changed_dose_is_the_new_one():
    (drug,) = read("{Lasix} increased from 20 mg to 60 mg")
    assert drug == "dose=60; unit=mg; status=changed"


@pytest.mark.parametrize(
    ("line", "reactions"),
    [
        ("{Bactrim} which causes a <rash>. <Fever> today.", ["rash"]),
        (
            "{PCN} (<hives>, <swelling>), {codeine} - <nausea>",
            ["hives | swelling", "nausea"],
        ),
        ("{Penicillin} | <Rash>\n{Sulfa}\n<Gout>", ["Rash", None]),
        ("<anaphylaxis> to {ceftriaxone}", ["anaphylaxis"]),
        ("<adverse reaction> to {sulfa}", [None]),
    ],
)
def test_reactions_of_allergies(line, reactions):
    text, spans = marked(line)
    assertions = [
        "allergy" if label == "Drug" else "present" for *_, label in spans
    ]
    drugs = read_medications(text, spans, assertions)
    assert [drug["reaction"] for drug in drugs] == reactions
    assert not any(drug["reason"] for drug in drugs)


def test_a_denied_allergy_is_no_drug_that_is_not_taken():
    text, spans = marked(
        "No allergy to {penicillin} or {sulfa}. No {aspirin}."
    )
    drugs = read_medications(text, spans, ["negated"] * 3)
    assert [drug.status for drug in drugs] == [
        "no allergy",
        "no allergy",
        None,
    ]


@pytest.mark.parametrize(
    ("unit", "end"),
    [
        ("{a} 5 mg ", ""),
        ("{a}, ", " for " + "<b>, " * 4000),
        ("{a}/", "1/" * 4000),
        ("{a} was started ", ""),
        ("{a} daily ", ""),
    ],
)
def test_linear_time(unit, end):
    def prepare(count):
        text, spans = marked(unit * count + end)

        def read():
            assert len(read_medications(text, spans)) == count

        return read

    assert_linear_time(prepare, 1000)


def test_a_currency_sign_is_not_read_as_a_drug():
    text = "aspirin 5 mg \u00a4 daily, metformin 500 mg \u00a4"
    start = text.index("metformin")
    spans = [(0, 7, "Drug"), (start, start + 9, "Drug")]
    aspirin, metformin = read_medications(text, spans)
    assert (aspirin["dose"], aspirin["frequency"]) == ("5", "daily")
    assert metformin["dose"] == "500"
