"""LACE and HOSPITAL: points by hand, what is missing is said, history from the cohort alone."""

import numpy as np
import pandas as pd
import pytest

from clinical.evaluation.baselines import lace_and_hospital, with_history
from clinical.evaluation.comparison import compare
from clinical.stays.choice import CHOICE, NoteChoice

LACE = [
    "length_of_stay",
    "admission_type",
    "charlson_index",
    "emergency_visits_6_months",
]


def stays(*rows):
    """Stays whose outcome follows LACE, after those of interest."""
    rng = np.random.default_rng(0)
    drawn = [
        (d, "EMERGENCY", c, 0)
        for d, c in rng.integers(0, 6, (200, 2)).tolist()
    ]
    table = pd.DataFrame([*rows, *drawn], columns=LACE)
    risk = 1 / (
        1
        + np.exp(
            -(table["length_of_stay"] + table["charlson_index"].fillna(0) - 5)
        )
    )
    return table.assign(readmitted=(rng.random(len(table)) < risk).astype(int))


def test_equal_points_are_equal_risks_and_more_points_a_higher_one():
    table = stays(
        (13.5, "Elective", 3, 0),  # 5 + 0 + 3 + 0 = 8
        (0.5, "urgent", 4, 0),  # 0 + 3 + 5 + 0 = 8
        (14.0, "EMERGENCY", 9, 12),  # 7 + 3 + 5 + 4 = 19
        (1.0, None, None, 4),  # 1 + 0 + 0 + 4 = 5: no value, no points
        (4.0, "ELECTIVE", 1, 0),  # 4 + 0 + 1 + 0 = 5
    )
    risks, caveats = lace_and_hospital(table, table, table)
    risk = risks["LACE"].test
    assert risk[0] == risk[1]
    assert risk[3] == risk[4] < risk[0] < risk[2] == risk.max()
    (caveat,) = caveats
    assert caveat.startswith(
        "HOSPITAL was not computed: the cohort has no hemoglobin, oncology,"
    )


@pytest.mark.parametrize("column", LACE)
def test_a_score_without_one_of_its_columns_is_not_given(column):
    table = stays().drop(columns=column)
    risks, caveats = lace_and_hospital(table, table, table)
    assert not risks
    assert caveats[0] == f"LACE was not computed: the cohort has no {column}."


def test_every_missing_column_is_named():
    missing = ["charlson_index", "emergency_visits_6_months"]
    table = stays().drop(columns=missing)
    risks, caveats = lace_and_hospital(table, table, table)
    assert not risks
    assert caveats == [
        f"LACE was not computed: the cohort has no {', '.join(missing)}.",
        (
            "HOSPITAL was not computed: the cohort has no hemoglobin, oncology, sodium, "
            "procedure, admissions_12_months."
        ),
    ]


def test_a_score_that_ranks_no_better_than_chance_is_not_given():
    table = stays()
    backwards = table.assign(readmitted=1 - table["readmitted"])
    risks, caveats = lace_and_hospital(backwards, table, table)
    assert not risks
    assert caveats[0] == "LACE ranks the training stays no better than chance."


def test_an_early_prediction_does_not_know_the_length_of_the_stay():
    early = NoteChoice(
        notes="early",
        hours=24,
        summaries=("DISCHARGE SUMMARY",),
        transfer_gap_hours=0.0,
        definition="long-stay 1.0.0",
        definition_sha256="0",
    )
    table = stays().assign(**{CHOICE: early.model_dump_json()})
    assert lace_and_hospital(table, table, table) == (
        {},
        [
            "LACE and HOSPITAL are for discharge: earlier, the length of stay is not known."
        ],
    )


def test_all_of_hospital_by_hand():
    columns = [
        "hemoglobin",
        "oncology",
        "sodium",
        "procedure",
        "admission_type",
    ]
    columns += ["admissions_12_months", "length_of_stay"]
    rows = [
        (11.9, 1, 134, 1, "URGENT", 6, 5.0),  # 13, the most there is
        (12.0, 0, 135, 0, "ELECTIVE", 1, 4.9),  # 0
        (11.0, 0, 140, 1, "ELECTIVE", 0, 1.0),  # 2
        (13.0, 0, 140, 0, "ELECTIVE", 2, 1.0),  # 2
    ]
    table = pd.DataFrame(rows * 20, columns=columns)
    table["readmitted"] = np.tile([1, 0, 1, 0], 20)
    table.loc[[0, 1], "readmitted"] = [0, 1]
    risk = lace_and_hospital(table, table, table)[0]["HOSPITAL"].test
    assert risk[1] < risk[2] == risk[3] < risk[0]


def test_history_counts_earlier_episodes_of_the_last_year():
    times = [
        "2020-01-01",
        "2020-03-01",
        "2020-03-03",
        "2021-02-20",
        "2021-02-20",
    ]
    table = pd.DataFrame(
        {
            "patient_id": ["7", "7.0", "7", " 7", "8"],
            "admit_time": times,
            "episode_start": [
                "2020-01-01",
                "2020-03-01",
                "2020-03-01",
                "2021-02-20",
                "2021-02-20",
            ],
            "discharge_time": [
                "2020-01-02",
                "2020-03-03",
                "2020-03-08",
                "2021-02-21",
                None,
            ],
            "exclusion": [None, "transfer", None, None, None],
        }
    )
    found = with_history(table)
    assert found["admissions_12_months"].tolist() == [0, 1, 1, 1, 0]
    assert found["length_of_stay"][:4].tolist() == [1, 2, 7, 1]
    assert with_history(table[["patient_id"]]).columns.tolist() == [
        "patient_id"
    ]


@pytest.mark.parametrize("notes", [True, False])
def test_they_stand_beside_the_model_in_a_comparison(notes):
    table = stays().assign(patient_id=range(200), stay_id=range(200))
    table["split"] = np.repeat(["train", "val", "test"], [100, 50, 50])
    table["text"] = [["Chest pain."], ["Heart failure."]] * 100
    table = table if notes else table.drop(columns="text")
    scores = pd.DataFrame({"stay_id": range(200), "probability": 0.3})
    found = compare(None, table, scores=scores, bootstrap=20)
    assert list(found.evaluations) == ["domainbert", "LACE"]
    assert any(
        said.text.startswith("It ranks stays worse than LACE")
        for said in found.verdicts()
    )
