"""The usual pandas way makes the same cohort as ours; ratios of times are of one round."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import big_hospital
from benchmarks.cohort import Cohort, Measured, conclusions, describe, run_way


@pytest.fixture
def hospital(tmp_path, monkeypatch):
    monkeypatch.setattr(big_hospital, "N_WORDS", 40_000)
    return big_hospital.write_hospital(tmp_path / "hospital", notes=1600)


def test_ours_and_pandas_make_the_same_cohort(hospital, tmp_path):
    cohorts = {}
    for method in ("ours", "pandas", "lean pandas"):
        out = tmp_path / f"{method}.parquet"
        run_way(method, hospital.folder, out)
        cohorts[method] = describe(out)
    assert hospital.stays == 40
    assert 0 < cohorts["ours"].readmitted < cohorts["ours"].kept < 40
    assert len(set(cohorts.values())) == 1


def test_nobody_comes_back_after_a_death_in_hospital():
    generator = np.random.default_rng(0)
    stays = big_hospital.draw_admissions(generator, 2000)
    is_followed = stays.patient[1:] == stays.patient[:-1]
    assert stays.died.sum() > 20
    assert is_followed.sum() > 200
    assert not (stays.died[:-1] & is_followed).any()
    assert (stays.admitted[1:] > stays.discharged[:-1])[is_followed].all()


OURS = Measured(
    method="ours",
    notes=200,
    stays=5,
    bytes=3_000_000,
    seconds=[1.0, 2.0],
    peaks=[100, 100],
    cohort=Cohort(kept=4, readmitted=1, sha256="ab"),
)
PANDAS = replace(OURS, method="pandas", seconds=[2.0, 6.0], peaks=[300, 500])
SMALL = replace(OURS, notes=100, bytes=2_000_000, seconds=[0.5, 1.0])


def test_conclusions_state_the_ratios():
    assert OURS.row()["MB/s"] == "2 (2–3)"
    comparison, growth = conclusions([OURS, PANDAS, SMALL])
    assert comparison == (
        "200 notes: 2.5 (2.0–3.0) times as fast as pandas in 1/4.0 of its memory; "
        "labels and texts are the same."
    )
    assert growth == (
        "From 100 to 200 notes (1.50 times the bytes) ours takes 2.00 times the time."
    )


def test_other_labels_or_texts_end_the_program():
    cohort = Cohort(kept=4, readmitted=1, sha256="cd")
    other = replace(PANDAS, cohort=cohort)
    with pytest.raises(
        SystemExit, match="ours and pandas differ on 200 notes"
    ):
        conclusions([OURS, other])
