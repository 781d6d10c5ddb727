"""Codes of the diabetes table get the names that the source's own files give them, or none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.diabetes130.icd9 import (
    DIAGNOSIS_TITLES,
    ID_TITLES,
    CodeTitles,
    read_titles,
)

IDS = """admission_type_id,description
1,Emergency
,
discharge_disposition_id,description
1,Discharged to home
15,Discharged/transferred within this institution to Medicare approved swing bed
16,Discharged/transferred/referred another institution for outpatient services
19,"Expired at home. Medicaid only, hospice."
,
admission_source_id,description
1, Physician Referral
7, Emergency Room
"""
TITLES = """0380  Streptococcal septicemia
0389  Unspecified septicemia
25002 Diabetes mellitus without mention of complication, type II or unspecified type, uncontrolled
25060 Diabetes with neurological manifestations, type II or unspecified type, uncontrolled
25061 Diabetes with neurological manifestations, type I [juvenile type], not stated as uncontrolled
41401 Coronary atherosclerosis of native coronary artery
4149  Chronic ischemic heart disease, unspecified
4280  Congestive heart failure, unspecified
4289  Heart failure, unspecified
486   Pneumonia, organism unspecified
8820  Open wound of hand except finger(s) alone, without mention of complication
8821  Open wound of hand except finger(s) alone, complicated
V4500 Unspecified cardiac device in situ
E8490 Home accidents
E8499 Accidents occurring in unspecified place
E8500 Accidental poisoning by heroin
E8501 Accidental poisoning by methadone
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ID_TITLES).write_text(IDS)
    (tmp_path / DIAGNOSIS_TITLES).write_text(TITLES)
    return tmp_path


@pytest.mark.parametrize(
    ("code", "title"),
    [
        ("486", "Pneumonia"),
        ("250.02", "Diabetes mellitus, uncontrolled"),
        ("250.6", "Diabetes with neurological manifestations"),
        ("250.61", "Diabetes with neurological manifestations, type I"),
        ("250", "Diabetes mellitus"),
        ("414", "Chronic ischemic heart disease"),
        ("428.99", "Heart failure"),
        ("38", "Septicemia"),
        ("882", "Open wound of hand except finger(s) alone"),
        ("v45", "Postprocedural status"),
        ("E849", "Place of accident"),
        # its codes share no name: a neighbour's title would be wrong
        ("E850", "ICD-9 code E850"),
        ("E841", "ICD-9 code E841"),
        ("", "ICD-9 code "),
    ],
)
def test_diagnosis_titles(folder: Path, code: str, title: str) -> None:
    assert read_titles(folder).diagnosis(code) == title


def test_id_phrases_are_plain_english(folder: Path) -> None:
    phrases = read_titles(folder).ids["discharge_disposition_id"]
    assert (
        phrases["15"]
        == "discharged within this institution to Medicare approved swing bed"
    )
    assert (
        phrases["16"]
        == "discharged to another institution for outpatient services"
    )
    assert phrases["19"] == "expired at home. Medicaid only, hospice"


@given(st.text(max_size=8))
def test_no_code_crashes(code: str) -> None:
    titles = CodeTitles(ids={}, diagnoses={"428": "Heart failure"})
    unknown = f"ICD-9 code {code}"
    if code.strip().startswith("428"):
        assert titles.diagnosis(code) == "Heart failure"
    else:
        assert titles.diagnosis(code) == unknown
