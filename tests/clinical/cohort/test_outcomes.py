"""What is an admission, what is an outcome, and what a source is taken for."""

import duckdb
import pandas as pd
import pytest

from clinical.cohort.build import build_cohort
from clinical.cohort.definition import load_definition
from clinical.cohort.source import step
from clinical.datasets.hospital import synthesize
from domainbert.errors import UserError
from domainbert.tables import TableError

from .conftest import by_stay

VISITS = """
[admissions]
table = "VISITS"
patient_id = "person_id"
stay_id = "visit_id"
admit_time = "starts"
discharge_time = "ends"
"""


@pytest.fixture
def visits(tmp_path):
    """150 patients: an admission each, one in five comes back, and visits of other kinds."""
    rows = [
        (
            person,
            f"{person}-{number}",
            f"2019-0{month}-01 10:00",
            f"2019-0{month}-{end} 12:00",
            kind,
        )
        for person in range(150)
        for number, month, end, kind in (
            (1, 1, "05", 9201),
            *([(2, 2, "03", 9201)] if person % 5 == 0 else []),
            *([(3, 1, "06", 9202)] if person % 4 else []),
        )
    ]
    for place, (person, stay, *_) in enumerate(
        rows
    ):  # a visit to the clinic, three days later
        if stay.endswith("-3"):
            rows[place] = (
                person,
                stay,
                "2019-01-08 10:00",
                "2019-01-08 11:00",
                9202,
            )
    columns = ["person_id", "visit_id", "starts", "ends", "kind"]
    (tmp_path / "source").mkdir()
    pd.DataFrame(rows, columns=columns).to_csv(
        tmp_path / "source" / "VISITS.csv", index=False
    )
    (tmp_path / "columns.toml").write_text(VISITS)
    return tmp_path


def build_visits(visits, extra=""):
    (visits / "columns.toml").write_text(VISITS + extra)
    return build_cohort(
        visits / "source", mapping=visits / "columns.toml", data_end="none"
    )


def test_visits_that_are_no_admissions_are_warned_about(visits):
    cohort = build_visits(visits)
    said = "\n".join(cohort.caveats)
    assert cohort.n_readmitted / cohort.n_stays > 0.35
    assert (
        "% of the stays are followed by a readmission within 30 days, where 2% to 35%"
        in said
    )
    assert "112 of 292 stays lasted less than four hours" in said


def test_where_says_which_visits_are_admissions(visits):
    cohort = build_visits(visits, "where = { KIND = 9201 }\n")
    said = "\n".join(cohort.caveats)
    assert (cohort.n_stays, cohort.n_readmitted) == (180, 30)
    assert "(where of the schema) and are not read: kind 9202 (112)." in said
    assert "where 2% to 35%" not in said
    assert "four hours" not in said


def test_where_names_a_column_that_is_not_there(visits):
    with pytest.raises(TableError, match=r"VISITS in .* has no column 'sort'"):
        build_visits(visits, 'where = { sort = ["9201"] }\n')


@pytest.mark.parametrize("kind", ["EU OBSERVATION", "observation admit"])
def test_observation_is_neither_followed_up_nor_a_readmission(hospital, kind):
    first = hospital.stay(0, 3)
    hospital.stay(8, 9, kind=kind, id="watched")
    hospital.stay(20, 22, id="again")
    hospital.stay(50, 51, kind=kind, id="before")
    hospital.stay(
        51, 54, id="admitted"
    )  # observation that became an admission
    cohort = hospital.build()
    rows = by_stay(cohort)
    assert rows["watched"]["exclusion"] == "observation"
    assert rows[first]["days_to_readmission"] == pytest.approx(17)
    assert rows["again"]["readmitted"] == 1
    assert rows["before"]["exclusion"] == "transfer"
    assert rows["admitted"]["exclusion"] is None
    assert any(
        said.startswith("1 observation stays") for said in cohort.caveats
    )


def test_the_schema_is_that_of_the_tables(hospital, tmp_path):
    note = hospital.stay(0, 3)
    hospital.note(note, "summary", day=3)
    hospital.patient()
    assert hospital.build().summary["schema"] == "mimic3"
    folder = tmp_path / "mimiciv"
    folder.mkdir()
    admissions = pd.DataFrame(hospital.admissions).rename(columns=str.lower)
    admissions.to_csv(folder / "admissions.csv", index=False)
    pd.DataFrame(
        [{"subject_id": "7", "anchor_age": 60, "anchor_year": 2100}]
    ).to_csv(folder / "patients.csv", index=False)
    cohort = build_cohort(folder)
    assert cohort.summary["schema"] == "mimic4"
    assert by_stay(cohort)["100"]["age"] == 60
    (folder / "discharge.csv").write_text(
        "note_id,subject_id,hadm_id,charttime,text\n1,7,100,,x\n"
    )
    assert by_stay(build_cohort(folder))["100"]["text"] == ["x"]


def test_no_split_by_time_where_dates_are_shifted(tmp_path):
    synthesize(tmp_path / "h", stays=60, seed=4, brief=True)
    with pytest.raises(
        UserError, match=r"dates are shifted.*; use split_by='patient'"
    ):
        build_cohort(tmp_path / "h", split_by="time")


def test_death_within_days_of_discharge(hospital):
    for patient, died in (
        ("1", 20),
        ("2", 40),
        ("3", ""),
        ("4", "unreadable"),
    ):
        hospital.stay(0, 3, patient=patient, id=patient)
        hospital.patient(patient, died=died)
    hospital.stay(10, 12, patient="3", id="5")
    cohort = hospital.build(definition="death-30d")
    rows = by_stay(cohort)
    assert {stay: row["readmitted"] for stay, row in rows.items()} == {
        "1": 1, "2": 0, "3": 0, "4": None, "5": 0,
    }  # fmt: skip
    assert rows["4"]["exclusion"] == "unknown_outcome"
    assert (
        cohort.summary["definition"]["event"]
        == "died within 30 days of discharge"
    )
    assert "readmission within" not in "\n".join(cohort.caveats)


def test_death_needs_dates_of_death(hospital):
    hospital.stay(0, 3)
    with pytest.raises(UserError, match="death-30d needs dates of death"):
        hospital.build(definition="death-30d")


def test_a_long_stay_is_predicted_from_the_first_day(hospital):
    for stay, days, flag in (
        ("short", 3, "0"),
        ("long", 9, "0"),
        ("died", 8, "1"),
        ("day", 0.5, "0"),
    ):
        hospital.stay(
            0, days, patient=stay, id=stay, HOSPITAL_EXPIRE_FLAG=flag
        )
        for hour in (6, 30):
            hospital.note(
                stay,
                f"{hour} h",
                category="Nursing",
                at=hour / 24,
                SUBJECT_ID=stay,
            )
    cohort = hospital.build(definition="long-stay-7d")
    rows = by_stay(cohort)
    assert rows["day"]["exclusion"] == "left_early"
    assert {stay: rows[stay]["readmitted"] for stay in ("short", "long", "died")} == {
        "short": 0, "long": 1, "died": 1,
    }  # fmt: skip
    assert rows["long"]["text"] == ["6 h"]
    assert (cohort.summary["notes"], cohort.summary["hours"]) == ("early", 24)


def test_a_definition_has_one_outcome(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(load_definition().text + "\n[death]\nhorizon_days = 30\n")
    with pytest.raises(
        UserError, match="expected one table of readmission, death, long_stay"
    ):
        load_definition(path)


def test_death_competes_with_readmission(hospital, define):
    for patient, back, death in (
        ("1", 10, ""),
        ("2", "", 5),
        ("3", 20, 20.5),
        ("4", "", ""),
    ):
        hospital.stay(0, 3, patient=patient)
        if back:
            hospital.stay(3 + back, 3 + back + 1, patient=patient)
        hospital.patient(patient, died=3 + death if death else "")
    said = hospital.build().summary["deaths"]
    # Two of five: the return of patient 1 is a stay as well, that of patient 3 ended in death.
    assert said.startswith(
        "Within 30 days of discharge 40.0% came back and 20.0% died before"
    )
    assert said.endswith(
        "; 1 of the stays that count as not readmitted had died."
    )
    out = hospital.build(
        definition=define(death_after_discharge='"exclude"')
    ).summary["deaths"]
    assert (
        out.split("; ")[0] == said.split("; ")[0]
    )  # those that were left out count
    assert "; 0 of the stays" in out


def test_without_dates_of_death_nothing_is_said(hospital):
    hospital.stay(0, 3)
    assert hospital.build().summary["deaths"] == ""


def cumulative_incidence(days, event):
    with duckdb.connect() as con:
        con.register("followed", pd.DataFrame({"days": days, "event": event}))
        con.execute(step("incidence"))
        return con.execute("FROM incidence").fetchall()[0]


def test_cumulative_incidence_by_hand():
    # Day 1: 1 of 5 returns. Day 2: 1 of 4 dies. Day 3: one is no longer followed. Day 4: 1 of 2.
    found = cumulative_incidence([1, 2, 3, 4, 5], [1, 2, 0, 1, 0])
    assert found == pytest.approx([0.2 + 0.8 * 0.75 * 0.5, 0.8 * 0.25])
    # With a whole follow-up it is the share of the stays.
    assert cumulative_incidence(
        [1, 30, 2, 2, 30], [1, 0, 2, 1, 0]
    ) == pytest.approx([0.4, 0.2])
