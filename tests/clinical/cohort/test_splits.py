import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical.cohort.splits import assign_splits, check_disjoint


@given(ids=st.lists(st.integers(0, 50), min_size=1, max_size=200), seed=st.integers(0, 5))
def test_no_patient_sits_on_two_sides(ids, seed):
    frame = pd.DataFrame({"patient_id": ids, "split": assign_splits(ids, seed=seed)})
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
    assert (sides == assign_splits(ids, seed=3, fractions={"train": 0.7, "test": 0.3})).all()
    assert (sides != assign_splits(ids, seed=4, fractions={"train": 0.7, "test": 0.3})).any()


def test_a_hand_made_overlap_raises_with_a_count():
    frame = pd.DataFrame(
        {"patient_id": [1, "1", 2, 3, 3], "split": ["train", "test", "train", "val", "test"]}
    )
    with pytest.raises(ValueError, match="2 of 3 patients are on more than one side"):
        check_disjoint(frame)


def test_excluded_rows_have_no_side_and_do_not_count():
    check_disjoint(pd.DataFrame({"patient_id": ["1", "1"], "split": ["train", None]}))


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_patient_raises(missing):
    with pytest.raises(ValueError, match="no patient_id"):
        assign_splits(["1", missing])


def test_fractions_must_sum_to_one():
    with pytest.raises(ValueError, match="sum to 1"):
        assign_splits(["1"], fractions={"train": 0.5, "test": 0.6})
