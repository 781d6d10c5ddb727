"""How right the risk after discharge is on a made-up hospital, where the truth is known.

    python benchmarks/after_discharge.py             # the table of docs/lab/experiments.md
    python benchmarks/after_discharge.py 600         # does it run?

Takes 5 minutes on two cores, by the speed of scoring. Patients of a made-up hospital die after
discharge: a fifth of those whose last stay it was, on days drawn evenly from the following 30.
Readmissions come evenly from day 1 to day 29. The model `readmission-demo` is calibrated on one
half of the patients and measured on the other one.

How to read the table: a row is a third of the stays by their risk at discharge, on a day after it.
"predicted" should be near "true", and "true" within the 95% interval of "observed" in nearly all
rows; the last line counts both.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measuring import say
from reporting import command_line

from clinical import ReadmissionModel, synthesize
from clinical.cohort.build import build_cohort
from clinical.evaluation.after_discharge import first_events, remaining_risks
from clinical.evaluation.comparison import with_risks
from clinical.stays.cohorts import read_cohort, usable_stays
from clinical.training.recalibration import recalibrate
from domainbert.models.card import table

DIES = 0.2
HORIZON = 30
FIRST_DAY = 1  # of readmissions
LAST_DAY = 29
COLUMNS = [
    "risk at discharge",
    "day",
    "stays",
    "predicted",
    "true",
    "observed",
]


def main() -> None:
    """Print the table."""
    parser = command_line(__doc__)
    parser.add_argument(
        "stays",
        nargs="?",
        type=int,
        default=6000,
    )
    n_stays = parser.parse_args().stays
    say(f"writing {n_stays:,} stays")
    cohort, true_risks = made_up(n_stays)
    model = ReadmissionModel.from_pretrained("readmission-demo")
    say("calibrating")
    recalibrate(model, cohort)
    stays = usable_stays(cohort)
    stays = with_risks(model, stays[stays["split"] == "test"])
    stays["true"] = stays["stay_id"].astype(str).map(true_risks)
    rows = remaining_risks(model.settings.after_discharge, stays)
    rows["true"] = list(true_remaining(model, stays))
    print(table(COLUMNS, map(cells, rows.itertuples())))
    inside = rows["true"].between(rows["observed_low"], rows["observed_high"])
    error = (rows["predicted"] - rows["true"]).abs()
    print(
        f"{len(stays):,} stays; largest difference of predicted and true {error.max():.3f}, mean "
        f"{error.mean():.3f}; the truth lies in {inside.sum()} of {len(rows)} intervals of what "
        "was observed"
    )


def made_up(n_stays: int) -> tuple[pd.DataFrame, pd.Series]:
    """The cohort of a made-up hospital with deaths after discharge, and the risks by stay."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        synthesize(
            folder,
            stays=n_stays,
            seed=11,
            brief=True,
        )
        add_deaths(folder)
        out = folder / "cohort.parquet"
        build_cohort(
            folder,
            out=out,
            fractions=(0.02, 0.49, 0.49),
        )
        truth = pd.read_csv(folder / "TRUE_RISK.csv", dtype={"HADM_ID": str})
        return read_cohort(out), truth.set_index("HADM_ID").iloc[:, -1]


def cells(row: Any) -> list[str]:
    """A row of the table as text."""
    interval = f"[{row.observed_low:.3f}, {row.observed_high:.3f}]"
    return [
        row.risk,
        f"{row.day:g}",
        f"{row.n:,}",
        f"{row.predicted:.3f}",
        f"{row.true:.3f}",
        f"{row.observed:.3f} {interval}",
    ]


def add_deaths(folder: Path) -> None:
    """Let patients die within 30 days of their last discharge."""
    draw = random.Random(0)
    patients = pd.read_csv(folder / "PATIENTS.csv", dtype=str)
    stays = pd.read_csv(folder / "ADMISSIONS.csv", dtype=str)
    discharged = pd.to_datetime(stays["DISCHTIME"])
    last_discharge = discharged.groupby(stays["SUBJECT_ID"]).max()
    for number, patient in patients.iterrows():
        if pd.isna(patient["DOD"]) and draw.random() < DIES:
            days = pd.Timedelta(days=draw.uniform(0, HORIZON))
            died = (last_discharge[patient["SUBJECT_ID"]] + days).floor("s")
            patients.loc[number, ["DOD", "DOD_HOSP"]] = str(died)
    patients.to_csv(folder / "PATIENTS.csv", index=False)


def true_remaining(
    model: ReadmissionModel,
    stays: pd.DataFrame,
) -> Iterator[float]:
    """The mean true remaining risk of the stays at risk, in the order of `remaining_risks`."""
    groups = model.settings.after_discharge
    days, event = first_events(stays, HORIZON)
    died = (event == 2).sum() / (event != 1).sum()
    limits = [group.above for group in groups[1:]]
    thirds = np.searchsorted(limits, stays["probability"], side="right")
    later_days = [day for day, *_ in groups[0].points[:-1]]
    for number in range(len(groups)):
        for day in (0.0, *later_days):
            at_risk = (thirds == number) & ((days > day) | (day == 0))
            risk = stays.loc[at_risk, "true"]
            yield float(np.mean(remaining_risk(risk, day, death_share=died)))


def remaining_risk(
    risk: pd.Series | float,
    day: float,
    *,
    death_share: float,
) -> pd.Series | float:
    """The chance of a readmission after a day without one, and alive.

    Args:
        risk: of a readmission within `HORIZON` days of the discharge.
        day: since the discharge, from 0.
        death_share: of those who are not readmitted, who die within `HORIZON` days.
    """
    share_of_days = (day - FIRST_DAY) / (LAST_DAY - FIRST_DAY)
    readmitted_share = np.clip(share_of_days, 0, 1)
    readmitted = risk * readmitted_share
    died = (1 - risk) * death_share * day / HORIZON
    return risk * (1 - readmitted_share) / (1 - readmitted - died)


if __name__ == "__main__":
    main()
