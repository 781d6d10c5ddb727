"""Sides of a cohort: by patient and by time, with the shares that were asked for."""

import pandas as pd
import pytest

from clinical.cohort.build import build_cohort
from clinical.datasets.hospital import synthesize
from clinical.stays.patients import check_disjoint
from domainbert.errors import UserError


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sides") / "h"
    synthesize(folder, stays=300, seed=4, brief=True, dates="real")
    return folder


def test_a_split_by_time_tests_on_the_latest_stays_and_keeps_patients_apart(
    hospital,
):
    built = build_cohort(hospital, split_by="time")
    frame = built.to_frame()
    kept = frame[frame["exclusion"].isna()]
    check_disjoint(kept)
    ends = kept.groupby("split")["discharge_time"].agg(["min", "max"])
    assert ends.loc["train", "max"] < ends.loc["val", "min"]
    assert ends.loc["val", "max"] < ends.loc["test", "min"]
    earlier = frame[frame["exclusion"] == "earlier_period"]
    assert earlier["readmitted"].isna().all()
    last = (
        pd.concat([kept, earlier])
        .groupby("patient_id")["discharge_time"]
        .max()
    )
    assert (earlier["discharge_time"] < earlier["patient_id"].map(last)).all()
    step = built.flow.set_index("step").loc["earlier_period", "removed"]
    assert step == len(earlier) > 0
    assert built.flow["left"].iloc[-1] == len(kept)
    assert built.summary["split_by"] == "time"
    # Nobody loses a stay for another reason than by patient.
    by_patient = build_cohort(hospital).to_frame()
    assert by_patient["exclusion"].isna().sum() == len(kept) + len(earlier)
    with pytest.raises(UserError, match="split_by"):
        build_cohort(hospital, split_by="ward")


def test_the_sides_have_the_shares_that_were_asked_for(hospital):
    for split_by in ("patient", "time"):
        built = build_cohort(
            hospital, split_by=split_by, fractions=(0.5, 0.3, 0.2)
        )
        stays = {
            side: counts["stays"]
            for side, counts in built.summary["splits"].items()
        }
        shares = [
            stays[side] / sum(stays.values())
            for side in ("train", "val", "test")
        ]
        assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.12)
    for wrong in ((0.5, 0.5), (0.5, 0.5, 0.5), (1.2, -0.1, -0.1)):
        with pytest.raises(
            UserError, match="three numbers above 0 that sum to 1"
        ):
            build_cohort(hospital, fractions=wrong)
