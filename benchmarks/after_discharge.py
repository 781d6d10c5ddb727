"""Risk after discharge at the made-up hospital, where the truth is known.

    python benchmarks/after_discharge.py [STAYS]        the table of docs/lab/experiments.md

Patients of a made-up hospital die after discharge: a fifth of those whose last stay it was, on
days drawn evenly from the following 30. Readmissions come evenly from day 1 to day 29. The model
`readmission-demo` is calibrated on one half of the patients and measured on the other one.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from clinical import ReadmissionModel, synthesize
from clinical.cohort.build import build_cohort
from clinical.evaluation.after_discharge import first_events, remaining_risks
from clinical.evaluation.comparison import with_risks
from clinical.stays.cohorts import read_cohort, usable_stays
from clinical.training.recalibration import recalibrate
from domainbert.models.card import table

DIES = 0.2
HORIZON = 30


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stays", nargs="?", type=int, default=6000)
    n_stays = parser.parse_args().stays
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        synthesize(folder, stays=n_stays, seed=11, brief=True)
        add_deaths(folder)
        cohort_file = folder / "cohort.parquet"
        build_cohort(folder, out=cohort_file, fractions=(0.02, 0.49, 0.49))
        cohort = read_cohort(cohort_file)
        truth = pd.read_csv(folder / "TRUE_RISK.csv", dtype={"HADM_ID": str})
    model = ReadmissionModel.from_pretrained("readmission-demo")
    recalibrate(model, cohort)
    stays = usable_stays(cohort)
    stays = with_risks(model, stays[stays["split"] == "test"])
    true_risks = truth.set_index("HADM_ID").iloc[:, -1]
    stays["true"] = stays["stay_id"].astype(str).map(true_risks)
    rows = remaining_risks(model.settings.after_discharge, stays)
    rows["true"] = [*true_remaining(model, stays)]
    inside = rows["true"].between(rows["observed_low"], rows["observed_high"])
    columns = [
        "risk at discharge",
        "day",
        "stays",
        "predicted",
        "true",
        "observed",
    ]
    lines = [
        [
            row.risk,
            f"{row.day:g}",
            f"{row.n:,}",
            f"{row.predicted:.3f}",
            f"{row.true:.3f}",
            f"{row.observed:.3f} [{row.observed_low:.3f}, {row.observed_high:.3f}]",
        ]
        for row in rows.itertuples()
    ]
    print(table(columns, lines))
    error = (rows["predicted"] - rows["true"]).abs()
    print(
        f"{len(stays):,} stays; largest difference of predicted and true {error.max():.3f}, mean "
        f"{error.mean():.3f}; the truth lies in {inside.sum()} of {len(rows)} intervals of what "
        "was observed"
    )


def add_deaths(folder: Path) -> None:
    """Let patients die within 30 days of their last discharge."""
    draw = random.Random(0)
    patients = pd.read_csv(folder / "PATIENTS.csv", dtype=str)
    stays = pd.read_csv(folder / "ADMISSIONS.csv", dtype=str)
    left = (
        pd.to_datetime(stays["DISCHTIME"]).groupby(stays["SUBJECT_ID"]).max()
    )
    for number, patient in patients.iterrows():
        if pd.isna(patient["DOD"]) and draw.random() < DIES:
            days = pd.Timedelta(days=draw.uniform(0, HORIZON))
            died = (left[patient["SUBJECT_ID"]] + days).floor("s")
            patients.loc[number, ["DOD", "DOD_HOSP"]] = str(died)
    patients.to_csv(folder / "PATIENTS.csv", index=False)


def true_remaining(
    model: ReadmissionModel, stays: pd.DataFrame
) -> Iterator[float]:
    """The mean true remaining risk of the stays at risk, in the order of `remaining_risks`."""
    groups = model.settings.after_discharge
    days, event = first_events(stays, HORIZON)
    died = (event == 2).sum() / (event != 1).sum()
    above = [group.above for group in groups]
    thirds = np.searchsorted(above[1:], stays["probability"], side="right")
    for number in range(len(groups)):
        for day in (0.0, *(point[0] for point in groups[0].points[:-1])):
            at_risk = (thirds == number) & ((days > day) | (day == 0))
            risk = stays.loc[at_risk, "true"]
            back = np.clip((day - 1) / 28, 0, 1)
            free = 1 - risk * back - (1 - risk) * died * day / HORIZON
            yield (risk * (1 - back) / free).mean()


if __name__ == "__main__":
    main()
