import pytest

import biomed
from biomed.notes.sections import SECTIONS


def names(text):
    """Name and stripped text of each section."""
    return [
        (s.name, text[s.body : s.end].strip()) for s in biomed.sections(text)
    ]


@pytest.mark.parametrize(
    "heading",
    [
        "Allergies:",
        "Allergies",
        "ALLERGIES:",
        "Allergies -",
        "**Allergies**",
        "**Allergies:**",
        "__Allergies__",
        "## Allergies",
        "=== Allergies ===",
        "Allergies\n---------",
        "1. Allergies",
        "1) ALLERGIES:",
        "IV. Allergies:",
        "Medication Allergies:",
        "Known drug allergies:",
        "Allergies (reviewed):",
        "Allergies (reviewed 3/4)",
        "Allergies/Intolerances:",
        "Allergies & adverse reactions:",
        "Patient's allergies:",
        "* Allergies:",
        "> Allergies:",
        "Allergen | Reaction",
        "| Allergen | Reaction |",
        "Allergen\tReaction",
    ],
)
@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_a_heading_in_many_forms(heading, gap):
    text = f"{heading}{gap}Penicillin\n\nMedications:\nAspirin"
    (name, body), after = names(text)
    assert (name, body.lstrip("-\n")) == ("allergies", "Penicillin")
    assert after == ("medications", "Aspirin")
    assert biomed.sections(text)[0].code == "48765-2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "PMHx - gout\nHPI - fever",
            "past_medical_history history_of_present_illness",
        ),
        (
            "PMH: HTN. HPI: fever for 2 days.",
            "past_medical_history history_of_present_illness",
        ),
        ("FAMILY MEDICAL HISTORY: Diabetes.", "family_history"),
        (
            "PAST MEDICAL HISTORY gout\nMEDICATIONS aspirin",
            "past_medical_history medications",
        ),
        ("ALLERGIES: NKDA  MEDICATIONS: aspirin", "allergies medications"),
        ("PMH:, gout.,ALLERGIES: , None.", "past_medical_history allergies"),
        (
            "PC: cough\nDHx: nil\nO/E: clear",
            "chief_complaint medications physical_exam",
        ),
        ("A/P:\n1. Gout", "assessment_and_plan"),
        ("CC: warts, left foot. PLAN: rest", "chief_complaint plan"),
        ("CC:\nFollow up.\nPLAN:\nrest", "chief_complaint plan"),
        ("COMPLICATIONS: ,None.,DRAINS: , Two.", "complications other"),
        ("TTOs:\nparacetamol", "discharge_medications"),
        (
            "ROS:\nCONSTITUTIONAL: well\nENT: well\nPLAN: rest",
            "review_of_systems plan",
        ),
        ("PMH:\nGout\n\nWIDGETS:\nnone", "past_medical_history other"),
    ],
)
def test_sections_of_a_note(text, expected):
    assert [name for name, _ in names(text)] == expected.split()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "He has allergies. The plan is rest.",
        "asthma\nmedications were changed",
        "Fever: none\nBack pain: none, cough: yes",
        "Diabetes: No\nHypertension: Yes",
    ],
)
def test_text_without_headings(text):
    assert biomed.sections(text) == []


def test_form_lines_do_not_end_a_section():
    text = "Allergies:\nPenicillin: rash\nSulfa: hives\nPlan:\nrest"
    assert names(text) == [
        ("allergies", "Penicillin: rash\nSulfa: hives"),
        ("plan", "rest"),
    ]


def test_spans_follow_one_another():
    text = "Seen today.\nHPI: cough\nPlan: rest\n"
    first, second = biomed.sections(text)
    assert text[first.start : first.body] == "HPI:"
    assert first.end == second.start
    assert second.end == len(text)


def test_a_numbered_list_item_is_no_heading():
    text = "PMH:\n1. Asthma\n2. Allergies\n3. Gout\n"
    assert [name for name, _ in names(text)] == ["past_medical_history"]


def test_codes_are_loinc_codes_with_their_check_digit():
    for kind in SECTIONS.values():
        if kind.code is None:
            continue
        digits, check = kind.code.split("-")
        odd = str(int(digits[::-1][::2][::-1]) * 2)
        total = sum(map(int, digits[::-1][1::2] + odd))
        assert (10 - total % 10) % 10 == int(check), kind.name
