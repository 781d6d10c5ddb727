"""Patients: one side each, whatever the spelling of their ids."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical.stays.cohorts import usable_stays
from clinical.stays.patients import assign_splits, check_disjoint, patient_keys
from domainbert.errors import UserError


@given(
    ids=st.lists(st.integers(0, 50), min_size=1, max_size=200),
    seed=st.integers(0, 5),
)
def test_no_patient_sits_on_two_sides(ids, seed):
    frame = pd.DataFrame(
        {"patient_id": ids, "split": assign_splits(ids, seed=seed)}
    )
    check_disjoint(frame)


def test_seven_and_seven_are_one_patient():
    assert len(set(assign_splits([7, "7", np.int64(7)]))) == 1


def test_a_patient_keeps_its_side_when_data_are_added():
    ids = [str(n) for n in range(500)]
    before = dict(zip(ids, assign_splits(ids), strict=True))
    more = [*reversed(ids), *(f"new-{n}" for n in range(300))]
    after = dict(zip(more, assign_splits(more), strict=True))
    assert all(after[patient] == side for patient, side in before.items())


def test_fractions_and_seed():
    ids = range(20_000)
    sides = assign_splits(ids, seed=3, fractions={"train": 0.7, "test": 0.3})
    assert np.mean(sides == "test") == pytest.approx(0.3, abs=0.02)
    assert (
        sides
        == assign_splits(ids, seed=3, fractions={"train": 0.7, "test": 0.3})
    ).all()
    assert (
        sides
        != assign_splits(ids, seed=4, fractions={"train": 0.7, "test": 0.3})
    ).any()


def test_a_hand_made_overlap_raises_with_a_count():
    frame = pd.DataFrame(
        {
            "patient_id": [1, "1", 2, 3, 3],
            "split": ["train", "test", "train", "val", "test"],
        }
    )
    with pytest.raises(
        ValueError, match="2 of 3 patients are on more than one side"
    ):
        check_disjoint(frame)


def test_excluded_rows_have_no_side_and_do_not_count():
    check_disjoint(
        pd.DataFrame({"patient_id": ["1", "1"], "split": ["train", None]})
    )


def test_spellings_of_one_id_are_one_patient():
    for spellings in (
        [1001, "1001", "1001.0", " 1001 ", 1001.0],
        ["P1", "p1", "p1 "],
        ["\uff11\uff12", "12"],  # full-width digits
    ):
        for seed in range(20):
            assert len(set(assign_splits(spellings, seed=seed))) == 1
        sides = ["train", "test"] * len(spellings)
        frame = pd.DataFrame(
            {"patient_id": spellings, "split": sides[: len(spellings)]}
        )
        with pytest.raises(
            UserError, match="1 of 1 patients are on more than one side"
        ):
            check_disjoint(frame)
    assert len({*patient_keys(["0012", "12"])}) == 2


def test_a_row_without_a_patient_is_a_patient_of_its_own_and_it_is_said(
    caplog,
):
    missing = [None, float("nan"), pd.NA, "", " "]
    ids = ["1", *missing, "1"]
    assert len(set(patient_keys(ids))) == 6
    assert (
        "5 rows have no patient id: each counts as a patient of its own"
        in caplog.text
    )
    assert len(set(assign_splits([None] * 200))) == 3
    frame = pd.DataFrame(
        {"patient_id": [None] * 3, "split": ["train", "val", "test"]}
    )
    caplog.clear()
    check_disjoint(frame)
    assert "3 rows have no patient id" in caplog.text


def test_the_usable_stays():
    frame = pd.DataFrame(
        {
            "patient_id": list("abcdefg"),
            "text": [
                ["note"],
                ["  "],
                [],
                ["note", None],
                None,
                "note",
                ["note"],
            ],
            "readmitted": pd.array([1, 0, 0, 1, 0, 0, None], dtype="Int8"),
            "split": ["train"] * 7,
            "exclusion": ["died", *[None] * 6],
        }
    )
    rows = usable_stays(frame)
    assert list(rows["patient_id"]) == ["d", "f"]
    assert list(rows["text"]) == [["note"], ["note"]]
    assert rows["readmitted"].tolist() == [1, 0]


def test_fractions_must_sum_to_one():
    with pytest.raises(ValueError, match="sum to 1"):
        assign_splits(["1"], fractions={"train": 0.5, "test": 0.6})
