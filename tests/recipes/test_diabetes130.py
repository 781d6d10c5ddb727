"""The UCI table becomes notes that say what its columns say, with the outcomes it records."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical.stays.patients import check_disjoint
from domainbert.tables import TableError
from recipes.contrast.numbers import IN_WORDS
from recipes.diabetes130.encounters import (
    DIED_OR_HOSPICE,
    build_diabetes130,
    narrate,
)
from recipes.diabetes130.icd9 import (
    DIAGNOSIS_TITLES,
    ENCOUNTERS,
    ID_TITLES,
    CodeTitles,
)
from recipes.diabetes130.teacher import teacher_targets

DATA = (
    Path(os.environ.get("DOMAINBERT_DATA", "../shared/data")) / "readmission"
)

DRUGS = (
    "metformin repaglinide nateglinide chlorpropamide glimepiride acetohexamide glipizide "
    "glyburide tolbutamide pioglitazone rosiglitazone acarbose miglitol troglitazone tolazamide "
    "examide citoglipton insulin glyburide-metformin glipizide-metformin "
    "glimepiride-pioglitazone metformin-rosiglitazone metformin-pioglitazone"
)
PLAIN = {
    "encounter_id": "1",
    "patient_nbr": "100",
    "race": "Caucasian",
    "gender": "Female",
    "age": "[70-80)",
    "weight": "?",
    "admission_type_id": "1",
    "discharge_disposition_id": "1",
    "admission_source_id": "7",
    "time_in_hospital": "3",
    "payer_code": "MC",
    "medical_specialty": "InternalMedicine",
    "num_lab_procedures": "41",
    "num_procedures": "1",
    "num_medications": "18",
    "number_outpatient": "0",
    "number_emergency": "0",
    "number_inpatient": "0",
    "diag_1": "428",
    "diag_2": "250.02",
    "diag_3": "V45",
    "number_diagnoses": "9",
    "max_glu_serum": "None",
    "A1Cresult": "None",
    **dict.fromkeys(DRUGS.split(), "No"),
    "change": "No",
    "diabetesMed": "No",
    "readmitted": "NO",
}
UNKNOWN = {
    "race": "?",
    "gender": "Unknown/Invalid",
    "age": "[0-10)",
    "payer_code": "?",
    "medical_specialty": "?",
    "admission_type_id": "6",
    "admission_source_id": "17",
    "discharge_disposition_id": "18",
    "number_diagnoses": "1",
    "diag_1": "?",
    "diag_2": "?",
    "diag_3": "?",
}
ROWS = (
    PLAIN
    | {
        "number_inpatient": "3",
        "number_emergency": "1",
        "number_outpatient": "12",
    }
    | {
        "insulin": "Up",
        "metformin": "Down",
        "glipizide": "Steady",
        "change": "Ch",
    }
    | {
        "A1Cresult": ">8",
        "max_glu_serum": ">200",
        "discharge_disposition_id": "3",
    }
    | {"readmitted": "<30"},
    PLAIN | UNKNOWN | {"encounter_id": "2", "patient_nbr": "0200"},
    PLAIN
    | {"encounter_id": "3", "discharge_disposition_id": "11", "gender": "Male"}
    | {
        "race": "AfricanAmerican",
        "medical_specialty": "Surgery-Cardiovascular/Thoracic",
    },
    PLAIN
    | {
        "encounter_id": "4",
        "readmitted": ">30",
        "diag_1": "38",
        "diag_2": "777.7",
        "diag_3": "?",
    }
    | {
        "admission_source_id": "1",
        "payer_code": "CP",
        "time_in_hospital": "1",
    },
)
IDS = """admission_type_id,description
1,Emergency
6,NULL
,
discharge_disposition_id,description
1,Discharged to home
3,Discharged/transferred to SNF
11,Expired
18,NULL
19,"Expired at home. Medicaid only, hospice."
,
admission_source_id,description
1, Physician Referral
7, Emergency Room
17,NULL
"""
TITLES = """0380  Streptococcal septicemia
0389  Unspecified septicemia
25002 Diabetes mellitus without mention of complication, type II or unspecified type, uncontrolled
4280  Congestive heart failure, unspecified
4289  Heart failure, unspecified
V4500 Unspecified cardiac device in situ
"""


def write_source(
    folder: Path, rows: tuple[dict[str, str], ...] = ROWS
) -> Path:
    frame = pd.DataFrame(rows)
    frame.to_csv(folder / ENCOUNTERS, index=False, compression="gzip")
    (folder / ID_TITLES).write_text(IDS)
    (folder / DIAGNOSIS_TITLES).write_text(TITLES)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_source(tmp_path)


def notes(frame: pd.DataFrame) -> list[str]:
    assert all(len(stay) == 1 for stay in frame["text"])
    return [stay[0] for stay in frame["text"]]


def test_a_rich_row_is_told_whole(folder: Path) -> None:
    assert notes(build_diabetes130(folder))[0].splitlines() == [
        (
            "Woman in her seventies, Caucasian. In the year before: three inpatient stays, "
            "one emergency visit, 12 outpatient visits."
        ),
        "Admission: emergency, from emergency room, under internal medicine, payer Medicare.",
        (
            "Course: three days in hospital, one procedure, 41 lab tests, 18 medications, "
            "A1C above eight percent, glucose above 200."
        ),
        (
            "Principal of nine diagnoses: Heart failure. "
            "Secondary: Diabetes mellitus, uncontrolled; Postprocedural status."
        ),
        (
            "Diabetes drugs: insulin raised, metformin lowered, glipizide unchanged; "
            "treatment changed."
        ),
        "Disposition: discharged to skilled nursing facility.",
    ]


def test_what_is_unknown_is_left_out(folder: Path) -> None:
    assert notes(build_diabetes130(folder))[1].splitlines() == [
        (
            "Patient under ten years old. In the year before: no inpatient stays, "
            "no emergency visits, no outpatient visits."
        ),
        "Course: three days in hospital, one procedure, 41 lab tests, 18 medications.",
        "One diagnosis.",
        "Diabetes drugs: none.",
    ]


def test_specialty_race_and_sex_are_words(folder: Path) -> None:
    note = notes(build_diabetes130(folder))[2]
    assert note.startswith("Man in his seventies, African American.")
    assert "under cardiovascular and thoracic surgery," in note


def test_unreadable_codes_stay_codes(folder: Path) -> None:
    note = notes(build_diabetes130(folder))[3]
    assert (
        "Principal of nine diagnoses: Septicemia. Secondary: ICD-9 code 777.7."
        in note
    )
    assert (
        "Admission: emergency, physician referral, under internal medicine, payer CP."
        in note
    )
    assert "Course: one day in hospital" in note


def test_labels_and_exclusions(folder: Path) -> None:
    frame = build_diabetes130(folder)
    assert list(frame["readmitted"]) == [1, 0, 0, 0]
    assert list(frame["exclusion"].fillna("")) == ["", "", DIED_OR_HOSPICE, ""]
    assert list(frame["split"].isna()) == [False, False, True, False]
    assert (
        frame[["admit_time", "discharge_time", "days_to_readmission"]]
        .isna()
        .all(axis=None)
    )


@pytest.mark.parametrize("disposition", ["11", "19"])
def test_both_ways_to_die_exclude(tmp_path: Path, disposition: str) -> None:
    row = PLAIN | {"discharge_disposition_id": disposition}
    frame = build_diabetes130(write_source(tmp_path, (row,)))
    assert list(frame["exclusion"]) == [DIED_OR_HOSPICE]


def test_ids_are_strings_with_their_zeros(folder: Path) -> None:
    frame = build_diabetes130(folder)
    assert list(frame["patient_id"]) == ["100", "0200", "100", "100"]
    assert list(frame["stay_id"]) == ["1", "2", "3", "4"]


def test_numbers_are_columns_too(folder: Path) -> None:
    frame = build_diabetes130(folder)
    assert frame["age_from"].tolist()[0] == 70
    assert (
        frame["time_in_hospital"].dtype
        == frame["number_inpatient"].dtype
        == "int64"
    )


def test_subgroups_are_null_where_unknown(folder: Path) -> None:
    frame = build_diabetes130(folder)
    groups = frame[["age", "sex", "ethnicity", "insurance"]]
    assert list(groups.loc[0]) == ["[70-80)", "Female", "Caucasian", "MC"]
    assert groups.loc[1, "age"] == "[0-10)"
    assert groups.loc[1, ["sex", "ethnicity", "insurance"]].isna().all()


def test_patients_never_straddle_and_the_seed_matters(tmp_path: Path) -> None:
    rows = tuple(
        PLAIN | {"encounter_id": str(n), "patient_nbr": str(n // 3)}
        for n in range(600)
    )
    write_source(tmp_path, rows)
    first, again = (
        build_diabetes130(tmp_path, seed=1),
        build_diabetes130(tmp_path, seed=1),
    )
    check_disjoint(first)
    assert set(first["split"]) == {"train", "val", "test"}
    pd.testing.assert_frame_equal(first, again)
    assert not first["split"].equals(
        build_diabetes130(tmp_path, seed=2)["split"]
    )


@given(st.integers(0, 150))
def test_every_count_is_in_the_note(count: int) -> None:
    names = (
        "admission_type_id",
        "discharge_disposition_id",
        "admission_source_id",
    )
    titles = CodeTitles(ids={name: {} for name in names}, diagnoses={})
    note = narrate(PLAIN | {"number_inpatient": str(count)}, titles=titles)
    words = ["no", "one", *IN_WORDS]
    said = words[count] if count <= 10 else str(count)
    assert f": {said} inpatient stay{'' if count == 1 else 's'}," in note


def test_missing_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    row = {
        ("numbr_inpatient" if k == "number_inpatient" else k): v
        for k, v in PLAIN.items()
    }
    with pytest.raises(
        TableError, match=r"'number_inpatient'; did you mean 'numbr_inpatient'"
    ):
        build_diabetes130(write_source(tmp_path, (row,)))


def test_missing_file_is_named_with_the_nearest(folder: Path) -> None:
    (folder / ID_TITLES).rename(folder / "IDS_mapping.csv")
    with pytest.raises(
        TableError,
        match=r"no file 'IDs_mapping.csv'; rename 'IDS_mapping.csv'",
    ):
        build_diabetes130(folder)


def test_missing_folder_says_what_it_should_hold(tmp_path: Path) -> None:
    with pytest.raises(
        TableError, match=r"no such folder.*diabetic_data.csv.gz"
    ):
        build_diabetes130(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"number_inpatient": "many"},
            "'number_inpatient': 1 rows are wrong, first on line 3",
        ),
        (
            {"insulin": "Maybe"},
            "'insulin'.*expected one of Up, Down, Steady, No",
        ),
        ({"readmitted": "YES"}, "'readmitted'.*expected one of <30, >30, NO"),
        (
            {"discharge_disposition_id": "99"},
            "'discharge_disposition_id'.*expected one of 1, 3, 11",
        ),
        ({"patient_nbr": ""}, "'patient_nbr'.*expected an id on every row"),
        ({"encounter_id": "1"}, "'encounter_id'.*expected each id once"),
    ],
)
def test_a_value_that_cannot_be_told_is_refused(
    tmp_path: Path, change: dict[str, str], message: str
) -> None:
    rows = (PLAIN, PLAIN | {"encounter_id": "2"} | change)
    with pytest.raises(TableError, match=message):
        build_diabetes130(write_source(tmp_path, rows))


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", gzip.compress(b"\xff\xfe,x\n\xff,1\n", mtime=0)],
)
def test_a_file_that_is_no_table(folder: Path, content: bytes) -> None:
    (folder / ENCOUNTERS).write_bytes(content)
    with pytest.raises(TableError, match=r"diabetic_data.csv.gz"):
        build_diabetes130(folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (ID_TITLES, "no column 'admission_type_id'"),
        (DIAGNOSIS_TITLES, "has no lines such as"),
    ],
)
def test_a_mapping_file_with_something_else_in_it(
    folder: Path, name: str, message: str
) -> None:
    (folder / name).write_text("something,else\n1,2\n")
    with pytest.raises(TableError, match=message):
        build_diabetes130(folder)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(
    not DATA.is_dir(),
    reason="needs the public data: ../shared/data or $DOMAINBERT_DATA",
)
def test_the_shared_table() -> None:
    frame = build_diabetes130(DATA)
    assert len(frame) == frame["stay_id"].nunique() == 81_650
    assert frame["patient_id"].nunique() == 57_380
    assert int(frame["exclusion"].notna().sum()) == 1_956
    assert int(frame["readmitted"].sum()) == 9_066
    kept = frame[frame["exclusion"].isna()]
    check_disjoint(frame)
    shares = (
        kept.groupby("split")["patient_id"].nunique()
        / kept["patient_id"].nunique()
    )
    assert shares.to_dict() == pytest.approx(
        {"train": 0.80, "val": 0.08, "test": 0.12}, abs=0.01
    )
    # no side is special
    prevalence = kept.groupby("split")["readmitted"].mean()
    assert prevalence.to_dict() == pytest.approx(
        dict.fromkeys(shares.index, 0.1134), abs=0.01
    )
    # categories that most rows hold have names
    unnamed = pd.Series(notes(frame)).str.contains("ICD-9 code")
    assert unnamed.mean() < 0.02


def test_the_command_writes_a_cohort_with_targets_on_the_train_side(
    tmp_path: Path,
) -> None:
    import typer
    from typer.testing import CliRunner

    from recipes.diabetes130.__main__ import main

    rows = tuple(
        PLAIN
        | {
            "encounter_id": str(n),
            "patient_nbr": str(n),
            "readmitted": ("NO", "<30")[n % 2],
        }
        for n in range(80)
    )
    app = typer.Typer()
    app.command()(main)
    source, out = write_source(tmp_path, rows), tmp_path / "cohort.parquet"
    run = CliRunner().invoke(app, [str(source), "--out", str(out)])
    assert run.exit_code == 0
    assert "80 stays" in run.output + run.stderr
    cohort = pd.read_parquet(out)
    assert len(cohort) == 80
    assert (cohort["target"].notna() == (cohort["split"] == "train")).all()


def test_the_teacher_mixes_and_never_teaches_its_own_patient():
    labels = np.array([0, 1] * 20)
    texts = ["heart failure" if label else "stable" for label in labels]
    rows = pd.DataFrame(
        {"patient_id": range(40), "text": texts, "readmitted": labels}
    )
    assert (teacher_targets(rows, weight=0.0) == labels).all()
    teacher = teacher_targets(rows, weight=1.0)
    assert teacher_targets(rows) == pytest.approx(0.3 * labels + 0.7 * teacher)
    # A word that only one patient has teaches that patient nothing.
    alone = rows.assign(
        text=["rareword"] * 2 + texts[2:], patient_id=[0, 0, *range(2, 40)]
    )
    told = teacher_targets(alone, weight=1.0)[:2]
    assert told[0] == told[1]
