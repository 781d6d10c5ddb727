"""The one reader of tables with one row per stay."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clinical.stays.cohorts import (
    SUMMARY_KEY,
    new_stays,
    read_cohort,
    read_stays,
    usable_stays,
)
from clinical.stays.patients import (
    assign_splits,
    check_unseen,
    patient_codes,
    patient_hashes,
    patient_keys,
    with_patient_keys,
)
from clinical.stays.stays import present_notes
from domainbert.errors import UserError
from domainbert.tables import ExactId, TableError, write_table


@pytest.mark.parametrize(
    ("stay", "notes"),
    [
        ("fever", ["fever"]),
        (["fever", None, " ", "pain"], ["fever", "pain"]),
        (np.array(["fever", None], dtype=object), ["fever"]),
        (None, []),
        (float("nan"), []),
    ],
)
def test_notes_that_count_are_those_with_text(stay, notes):
    assert present_notes(stay) == notes


def test_a_note_that_is_not_text_is_refused():
    with pytest.raises(
        UserError, match=r"text: note 1 is bytes, not text; decode it first"
    ):
        present_notes(["fever", b"pain"])


def test_stays_without_an_id_are_not_repeated_ids():
    stays = pd.DataFrame(
        {"stay_id": ["1", None, None], "text": ["a", "b", "c"]}
    )
    assert len(new_stays(stays)) == 3
    with pytest.raises(
        UserError, match="1 rows repeat a stay_id: expected one row per stay"
    ):
        new_stays(stays.assign(stay_id=["1", "1", None]))


def test_excluded_stays_are_left_out():
    stays = pd.DataFrame({"text": ["a", "b"], "exclusion": [None, "newborn"]})
    assert new_stays(stays)["text"].tolist() == ["a"]
    with pytest.raises(UserError, match="every row is excluded"):
        new_stays(stays.tail(1))


def test_a_cohort_of_which_nothing_can_be_used_says_why():
    cohort = pd.DataFrame(
        {
            "patient_id": ["1"],
            "text": [["a"]],
            "readmitted": [None],
            "split": [None],
        }
    ).assign(exclusion="no_text")
    with pytest.raises(
        UserError, match=r"all 1 are excluded, as no_text \(1\)"
    ):
        usable_stays(cohort)
    with pytest.raises(UserError, match="it has no row; build one"):
        usable_stays(cohort.head(0))


def test_a_cohort_without_labels_is_not_one(tmp_path):
    write_table(pd.DataFrame({"text": ["a"]}), tmp_path / "new.parquet")
    assert read_stays(tmp_path / "new.parquet")["text"].tolist() == ["a"]
    with pytest.raises(TableError, match="patient_id"):
        read_cohort(tmp_path / "new.parquet")


def test_usable_stays_have_a_label_a_side_and_a_note():
    cohort = pd.DataFrame(
        {
            "patient_id": list("abcde"),
            "text": [["x", None], ["y"], ["y"], [" "], ["z"]],
            "readmitted": [1, None, 0, 0, 0],
            "split": ["train", "train", None, "test", "val"],
        }
    )
    rows = usable_stays(cohort)
    assert rows["patient_id"].tolist() == ["a", "e"]
    assert rows["text"].tolist() == [["x"], ["z"]]


def test_patients_that_a_model_has_seen():
    trained = pd.DataFrame(
        {
            "patient_id": list("abcd"),
            "split": ["train", "train", "val", "test"],
        }
    )
    stored = patient_hashes(trained)
    assert check_unseen(["d", "e"], stored, side="test") == []
    assert "no record" in check_unseen(["a"], None, side="test")[0]
    (seen,) = check_unseen(["c"], stored, side="val")
    assert "has seen patients of this side (1 on its val side)" in seen
    for side in ("test", "val"):
        with pytest.raises(
            UserError, match=f"side '{side}': of 2, 1 on its train side"
        ):
            check_unseen(["a", "e"], stored, side=side)


def test_ids_of_a_form_with_exact_ids_differ_by_case(tmp_path):
    rows = {
        "patient_id": ["aB", "ab", None],
        "stay_id": ["1", "2", "3"],
        "readmitted": [0, 1, 0],
        "split": ["train", "test", "test"],
        "text": [["a"], ["b"], ["c"]],
    }
    metadata = {SUMMARY_KEY: json.dumps({"exact_ids": True})}
    file = tmp_path / "exact.parquet"
    pq.write_table(pa.table(rows).replace_schema_metadata(metadata), file)
    cohort = usable_stays(read_cohort(file))  # nobody is on two sides
    patients = cohort["patient_id"].head(2)
    assert patient_codes(patients, n=2).tolist() == [0, 1]
    keyed = with_patient_keys(with_patient_keys(cohort))
    assert len(set(patient_keys(keyed["patient_id"]))) == 3
    many = [ExactId(f"{letter}{n}") for n in range(50) for letter in "aA"]
    sides = assign_splits(many)
    assert (sides[::2] != sides[1::2]).any()
    # A leak is found in a table of any form.
    hashes = patient_hashes(cohort.head(1))
    with pytest.raises(UserError, match="1 on its train side"):
        check_unseen(pd.Series(["AB "]), hashes, side="test")
    pq.write_table(pa.table(rows), file)  # in other tables they do not differ
    with pytest.raises(
        UserError, match="1 of 2 patients are on more than one side"
    ):
        usable_stays(read_cohort(file))
