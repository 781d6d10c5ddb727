"""Diagnosis codes in five forms: one cohort of groups; deaths in hospital from early notes."""

import json

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clinical import build_cohort, synthesize
from domainbert.errors import UserError
from domainbert.tables import TableError
from tests.clinical.cohort import small

CODES = [
    # stay, code, system, rank
    ("11", "I50.9", "10", "1"),
    ("11", "E119", "10", "2"),
    ("12", "I501", "10", "1"),
    ("21", "e11.9", "10", "2"),
    ("21", "J189", "10", "1"),
]
GROUPS = {
    "11": ["E11", "I50"],
    "12": ["I50"],
    "21": ["E11", "J18"],
    "31": None,
}
FORMS = ("mimic4", "generic", "omop", "meds", "fhir")
DEFINITION = """
name = "groups"
version = "1"
[episode]
transfer_gap_hours = 0
[index]
newborn_types = ["NEWBORN"]
died_locations = ["DIED", "DEAD/EXPIRED"]
{outcome}
"""


def with_codes(form, codes=CODES):
    """The small hospital of a form, with codes."""
    hospital = small.tables(form)
    if form == "mimic4":
        names = ("hadm_id", "icd_code", "icd_version", "seq_num")
        hospital["diagnoses_icd"] = pd.DataFrame(codes, columns=names)
    elif form == "mimic3":
        rows = [(stay, code, rank) for stay, code, _, rank in codes]
        names = ("HADM_ID", "ICD9_CODE", "SEQ_NUM")
        hospital["DIAGNOSES_ICD"] = pd.DataFrame(rows, columns=names)
    elif form == "generic":
        names = ("Case", "Code", "System", "Rank")
        hospital["codes"] = pd.DataFrame(codes, columns=names)
    elif form == "omop":
        rows = [
            (stay, code, "0", "32902" if rank == "1" else "32908")
            for stay, code, _, rank in codes
        ]
        names = (
            "visit_occurrence_id",
            "condition_source_value",
            "condition_concept_id",
            "condition_status_concept_id",
        )
        hospital["CONDITION_OCCURRENCE"] = pd.DataFrame(rows, columns=names)
    elif form == "meds":
        rows = [
            {
                "subject_id": small.PATIENT[stay],
                "time": "2020-03-20 00:00:00",
                "code": f"DIAGNOSIS//ICD//{system}//{code}",
                "hadm_id": stay,
            }
            for stay, code, system, _ in codes
        ]
        events = pd.concat([hospital["data"], pd.DataFrame(rows)])
        hospital["data"] = events.fillna("").reset_index(drop=True)
    return hospital


def condition(number, stay, code, system, status="confirmed"):
    return {
        "resourceType": "Condition",
        "id": str(number),
        "encounter": {"reference": f"Encounter/{stay}"},
        "verificationStatus": {"coding": [{"code": status}]},
        "code": {
            "coding": [
                {"code": "22298006", "system": "http://snomed.info/sct"},
                {
                    "code": code,
                    "system": f"http://hl7.org/fhir/sid/icd-{system}-cm",
                },
            ]
        },
    }


def write(folder, form, codes=CODES, hospital=None):
    """Write the hospital; returns the arguments of `build_cohort`."""
    arguments = small.write(folder, form, hospital or with_codes(form, codes))
    if form == "fhir":
        lines = [
            condition(number, stay, code, system)
            for number, (stay, code, system, _) in enumerate(codes)
        ]
        lines.append(condition("r", "31", "C50", "10", status="refuted"))
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "Condition.ndjson").write_text(text)
    if form == "generic":
        mapping = arguments["mapping"]
        table = (
            '[diagnoses]\ntable = "codes"\nstay_id = "Case"\ncode = "Code"\n'
        )
        table += 'system = "System"\nrank = "Rank"\n'
        mapping.write_text(mapping.read_text() + table)
    return arguments


@pytest.fixture
def define(tmp_path):
    def written(outcome):
        path = tmp_path / "definition.toml"
        path.write_text(DEFINITION.format(outcome=outcome))
        return path

    return written


def built(folder, form, definition, codes=CODES, **options):
    arguments = write(folder, form, codes)
    return build_cohort(
        arguments.pop("source"),
        definition=definition,
        fractions=(0.98, 0.01, 0.01),
        **arguments,
        **options,
    )


def groups_of(cohort):
    rows = cohort.to_frame()
    return {
        stay: None if groups is None else list(groups)
        for stay, groups in zip(
            rows["stay_id"], rows["diagnoses"], strict=True
        )
    }


@pytest.mark.parametrize("form", FORMS)
def test_five_forms_give_one_cohort_of_groups(form, tmp_path, define):
    outcome = "[diagnoses]\nminimum_stays = 1"
    cohort = built(tmp_path / "h", form, define(outcome))
    assert groups_of(cohort) == GROUPS
    facts = cohort.summary["diagnoses"]
    assert facts["unknown"] == 1
    assert set(facts["groups"]) == {"E11", "I50", "J18"}
    assert any("1 stays have no code" in line for line in cohort.caveats)


def test_mimic3_has_categories_of_icd9(tmp_path, define):
    codes = [
        ("11", "4280", "9", "1"),
        ("12", "E8809", "9", "1"),
        ("21", "V1582", "9", "1"),
    ]
    outcome = "[diagnoses]\nminimum_stays = 1"
    cohort = built(tmp_path / "h", "mimic3", define(outcome), codes)
    assert groups_of(cohort) == {
        "11": ["428"],
        "12": ["E880"],
        "21": ["V15"],
        "31": None,
    }


def test_two_systems_are_kept_apart_and_told(tmp_path, define):
    codes = [*CODES, ("31", "E119", "9", "1")]
    outcome = "[diagnoses]\nminimum_stays = 1"
    cohort = built(tmp_path / "h", "mimic4", define(outcome), codes)
    assert groups_of(cohort)["31"] == ["ICD9:E119"]
    assert any("two systems" in line for line in cohort.caveats)


@pytest.mark.parametrize("form", ["mimic4", "omop"])
def test_the_first_code_alone(form, tmp_path, define):
    outcome = "[diagnoses]\nminimum_stays = 1\nprimary_only = true"
    cohort = built(tmp_path / "h", form, define(outcome))
    groups = {"11": ["I50"], "12": ["I50"], "21": ["J18"], "31": None}
    assert groups_of(cohort) == groups


def test_a_table_of_groups(tmp_path, define):
    table = pd.DataFrame(
        {
            "code": ["I50.9", "I501", "E119"],
            "group": ["CIR019", "CIR019", "END002"],
            "name": ["Heart failure", "Heart failure", "Diabetes"],
        }
    )
    table.to_csv(tmp_path / "ccsr.csv", index=False)
    outcome = '[diagnoses]\nminimum_stays = 1\ngroups = "ccsr.csv"'
    cohort = built(tmp_path / "h", "mimic4", define(outcome))
    assert groups_of(cohort)["21"] == ["END002"]
    facts = cohort.summary["diagnoses"]
    assert facts["names"]["CIR019"] == "Heart failure"
    assert facts["n_unmapped"] == 1
    twice = pd.concat([table, table.assign(group="X")])
    twice.to_csv(tmp_path / "ccsr.csv", index=False)
    with pytest.raises(UserError, match="3 codes are in two groups"):
        built(tmp_path / "h", "mimic4", define(outcome))


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ("[diagnoses]\nminimum_stays = 9", "no group has 9 of the 3 stays"),
        ("[diagnoses]\nminimum_stays = 0", "minimum_stays"),
        ('[diagnoses]\ngroups = "none.csv"', "none.csv"),
    ],
)
def test_bad_definitions_are_told(outcome, message, tmp_path, define):
    with pytest.raises((UserError, TableError), match=message):
        built(tmp_path / "h", "mimic4", define(outcome))


def test_a_source_without_codes_is_told(tmp_path, define):
    folder = tmp_path / "h"
    arguments = small.write(folder, "mimic4", small.tables("mimic4"))
    with pytest.raises(TableError, match="no table of diagnosis codes"):
        build_cohort(arguments["source"], definition=define("[diagnoses]"))


def test_no_rank_is_told(tmp_path, define):
    outcome = "[diagnoses]\nminimum_stays = 1\nprimary_only = true"
    with pytest.raises(UserError, match="no code of the source says"):
        built(tmp_path / "h", "meds", define(outcome))


def test_discharge_and_early_notes_are_two_questions(tmp_path, define):
    outcome = "[diagnoses]\nminimum_stays = 1"
    at_discharge = built(tmp_path / "a", "mimic4", define(outcome))
    assert "names diagnoses" in at_discharge.caveats[0]
    hospital = with_codes("mimic3")
    hospital |= small.tables("mimic3", notes=early_notes())
    small.write(tmp_path / "b", "mimic3", hospital)
    early = build_cohort(
        tmp_path / "b", definition=define(outcome + "\nhours = 24")
    )
    assert "first hours" in early.caveats[0]
    for row in early.to_frame().itertuples():
        read = [f"Hour {hour} of {row.stay_id}." for hour in (1, 23)]
        assert list(row.text) == read


def early_notes():
    hours = (1, 23, 25, 90)
    return [
        (f"{stay}{hour}", stay, "Nursing", str(
            pd.Timestamp(start) + pd.Timedelta(hours=hour)
        ), f"Hour {hour} of {stay}.")
        for stay, _, start, *_ in small.STAYS
        for hour in hours
    ]  # fmt: skip


@pytest.mark.parametrize("hours", [24, 48])
def test_death_in_hospital_from_early_notes(hours, tmp_path, define):
    short = (
        "41",
        "4",
        "2020-03-01 08:00:00",
        "2020-03-01 20:00:00",
        "EMERGENCY",
        "2020-03-01 20:00:00",
    )
    stays = [*small.STAYS, short]
    small.PATIENT["41"] = "4"
    hospital = small.tables("generic", stays=stays, notes=early_notes())
    arguments = small.write(tmp_path / "h", "generic", hospital)
    cohort = build_cohort(
        arguments.pop("source"),
        definition=define(f"[hospital_death]\nhours = {hours}"),
        **arguments,
    )
    rows = cohort.to_frame().set_index("stay_id")
    assert rows["exclusion"].dropna().to_dict() == {"41": "left_early"}
    died = rows.drop("41")["readmitted"].astype(int).to_dict()
    assert died == {"11": 0, "12": 0, "21": 1, "31": 0}
    for stay, notes in rows.drop("41")["text"].items():
        read = [hour for hour in (1, 23, 25, 90) if hour <= hours]
        assert list(notes) == [f"Hour {hour} of {stay}." for hour in read]


def test_shipped_definitions_are_read():
    from clinical.cohort.definition import load_definition

    death = load_definition("in-hospital-death")
    assert death.event == "died in hospital"
    assert death.hours == 48
    codes = load_definition("diagnoses")
    assert codes.diagnoses.minimum_stays == 20
    assert codes.hours is None


@pytest.mark.slow
@given(
    hours=st.integers(1, 72),
    minutes=st.lists(st.integers(-600, 6000), min_size=1, max_size=6),
    form=st.sampled_from(["mimic3", "generic", "omop", "meds", "fhir"]),
)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_early_notes_contain_nothing_charted_later(
    hours, minutes, form, tmp_path_factory, define
):
    """Whatever the times are, and in every form; a summary is never read."""
    limit = 60 * hours
    notes = list(small.NOTES)
    # The minute of the limit itself, and the one after it, are always tried.
    for number, minute in enumerate([*minutes, limit, limit + 1]):
        for stay, _, start, *_ in small.STAYS:
            moment = pd.Timestamp(start) + pd.Timedelta(minutes=minute)
            text = f"Minute {minute} of {stay}."
            name = f"{stay}{number:03}"
            notes.append((name, stay, "Nursing", str(moment), text))
    folder = tmp_path_factory.mktemp("early")
    hospital = with_codes(form) | small.tables(form, notes=notes)
    if form == "meds":
        codes = with_codes(form)["data"]
        is_code = codes["code"].str.startswith("DIAGNOSIS")
        hospital["data"] = pd.concat([hospital["data"], codes[is_code]])
    arguments = write(folder, form, hospital=hospital)
    outcome = f"[diagnoses]\nminimum_stays = 1\nhours = {hours}"
    cohort = build_cohort(
        arguments.pop("source"),
        definition=define(outcome),
        fractions=(0.98, 0.01, 0.01),
        **arguments,
    )
    for row in cohort.to_frame().itertuples():
        read = [int(text.split()[1]) for text in row.text]
        allowed = {*minutes, limit, limit + 1}
        assert all(minute <= limit for minute in read)
        # And nothing that was charted in time is lost.
        expected = {minute for minute in allowed if 0 <= minute <= limit}
        assert set(read) >= expected


@pytest.mark.parametrize("form", ["omop", "meds", "fhir"])
def test_the_made_up_hospital_has_the_same_groups_in_every_form(
    form, tmp_path, define
):
    definition = define("[diagnoses]\nminimum_stays = 3")
    frames = []
    for name in ("mimic4", form):
        folder = tmp_path / name
        synthesize(folder, stays=60, seed=9, form=name)
        cohort = build_cohort(folder, definition=definition)
        frames.append(groups_of(cohort))
    assert frames[0] == frames[1]
    groups = {group for cell in frames[0].values() if cell for group in cell}
    assert groups >= {"I50", "F10", "R29"}
