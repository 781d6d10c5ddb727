"""One made-up hospital in every form that is read: the cohorts are equal, row for row."""

import zipfile
from pathlib import Path

import pandas as pd
import pytest

from clinical.cohort.build import build_cohort
from clinical.datasets.hospital import FORMS, synthesize

STANDARDS = Path(__file__).parents[4] / "shared" / "data" / "standards"
LABELS = [
    "patient_id", "stay_id", "admit_time", "discharge_time", "readmitted", "days_to_readmission",
    "readmission_stay_id", "split", "exclusion", "sex", "admission_type", "episode_stay_id",
    "transfer", "died_within_horizon", "censored",
]  # fmt: skip


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms")
    for form in ("mimic3", *FORMS):
        synthesize(folder / form, stays=150, seed=6, dates="real", form=form)
    return folder


def rows(folder, form, **options):
    cohort = build_cohort(folder / form, data_end="none", **options)
    assert cohort.summary["schema"] == form
    return cohort.to_frame().sort_values("stay_id", ignore_index=True)


@pytest.fixture(scope="module", params=[{}, {"notes": "early", "hours": 24}], ids=["late", "early"])
def expected(request, hospitals):
    return request.param, rows(hospitals, "mimic3", **request.param)


@pytest.mark.parametrize("form", FORMS)
def test_every_label_text_and_exclusion_is_the_same(hospitals, expected, form):
    options, mimic3 = expected
    found = rows(hospitals, form, **options)
    assert found["exclusion"].notna().sum() > 3
    assert found["text"].map(len).sum() > 100
    pd.testing.assert_frame_equal(found[LABELS], mimic3[LABELS], check_dtype=False)
    assert found["text"].tolist() == mimic3["text"].tolist()
    if form == "omop":
        assert found["age"].tolist() == mimic3["age"].tolist()
        assert found["ethnicity"].tolist() == mimic3["ethnicity"].tolist()


@pytest.mark.parametrize("form", FORMS)
def test_the_same_hospital_has_the_same_risks(hospitals, form):
    risks = [(hospitals / name / "TRUE_RISK.csv").read_bytes() for name in ("mimic3", form)]
    assert risks[0] == risks[1]


# -- OMOP ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not STANDARDS.is_dir(), reason="the standards are not here")
def test_omop_tables_have_the_columns_of_the_specification(hospitals):
    fields = pd.read_csv(STANDARDS / "omop" / "OMOP_CDMv5.4_Field_Level.csv")
    for path in (hospitals / "omop").glob("*.csv"):
        if path.stem not in ("TRUE_RISK", "TOLD"):
            expected = fields[fields["cdmTableName"].str.upper() == path.stem]
            assert pd.read_csv(path, nrows=0).columns.tolist() == expected["cdmFieldName"].tolist()


@pytest.mark.skipif(not STANDARDS.is_dir(), reason="the standards are not here")
def test_a_real_omop_folder_without_notes(tmp_path):
    with zipfile.ZipFile(STANDARDS / "omop" / "Synthea27Nj_5.4.zip") as archive:
        archive.extractall(tmp_path)
    cohort = build_cohort(tmp_path)
    said = "\n".join(cohort.caveats)
    assert (cohort.summary["schema"], cohort.n_admissions, cohort.n_stays) == ("omop", 13, 0)
    assert set(cohort.to_frame()["exclusion"]) == {"no_text"}
    assert "There are 0 notes" in said
    assert "visit_concept_id 9202 (1,722), visit_concept_id 9203 (56)" in said


@pytest.fixture
def omop(hospitals, tmp_path):
    """Tables of the OMOP hospital to spoil, by name."""
    tables = {
        path.stem: pd.read_csv(path, dtype=str, keep_default_na=False)
        for path in (hospitals / "omop").glob("*.csv")
    }

    def build(**changed):
        for name, table in (tables | changed).items():
            if table is not None:
                table.to_csv(tmp_path / f"{name}.csv", index=False)
        return build_cohort(tmp_path)

    return tables, build


def test_follow_up_ends_with_the_observation_period(omop):
    tables, build = omop
    visits = tables["VISIT_OCCURRENCE"]
    last = visits.groupby("person_id")["visit_end_date"].max()
    periods = tables["OBSERVATION_PERIOD"].copy()
    periods["observation_period_end_date"] = periods["person_id"].map(last)
    before = build().to_frame().set_index("stay_id")
    after = build(OBSERVATION_PERIOD=periods).to_frame().set_index("stay_id")
    ends = after.index.map(visits.set_index("visit_occurrence_id")["person_id"]).map(last)
    late = (pd.to_datetime(ends) - after["discharge_time"]) < pd.Timedelta(days=29)
    kept = before["exclusion"].isna()
    assert set(after.loc[kept & late, "exclusion"].dropna()) == {"censored"}
    assert after.loc[kept & late & ~after["died_within_horizon"].fillna(False), "censored"].all()
    assert after.loc[kept & ~late, "exclusion"].isna().mean() > 0.9


def test_faults_of_omop_tables_are_listed(omop):
    tables, build = omop
    visits, notes = tables["VISIT_OCCURRENCE"].copy(), tables["NOTE"].copy()
    visits.loc[0, ["visit_end_date", "visit_end_datetime"]] = ""
    visits.loc[1, "visit_concept_id"] = "0"
    notes.loc[0, "visit_occurrence_id"] = ""
    notes.loc[1, "visit_occurrence_id"] = "999999999"
    person = tables["PERSON"]
    merged = pd.concat([person, person.head(1).assign(birth_datetime="1900-01-01 00:00:00")])
    cohort = build(VISIT_OCCURRENCE=visits, NOTE=notes, PERSON=merged, DEATH=None)
    issues = set(zip(cohort.issues["source"], cohort.issues["problem"], strict=True))
    assert issues >= {
        ("VISIT_OCCURRENCE", "no admission or no discharge time"),
        ("NOTE", "note without a stay id"),
        ("NOTE", "note of a stay that is not in the admissions"),
        ("PERSON", "patient id with contradicting rows, none used"),
    }
    said = "\n".join(cohort.caveats)
    assert "visit_concept_id 0 (1)" in said
    assert "No dates of death: deaths after discharge are unknown." in said
