"""Dilution: how neutral notes lower the risk of a stay, for several c.

    python benchmarks/dilution.py                       the table of docs/explanation/dilution.md
    python benchmarks/dilution.py COHORT.parquet 700    AUROC and likelihood by c on its stays

Scores the notes of a small made-up hospital with readmission-demo. The stay is the note with the
highest window; neutral windows are those of the half of the notes with the lowest risk.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from clinical import ReadmissionModel, aggregate, synthesize
from clinical.risk.aggregation import aggregate_stays
from clinical.stays.cohorts import read_cohort, usable_stays
from clinical.training.recalibration import C_GRID
from domainbert.models.card import table
from domainbert.statistics.calibration import calibrated, fit_platt, logit
from domainbert.tables import read_table

DESCRIPTION = "How neutral notes lower the risk of a stay, for several c."
NOTES = 40
CHARACTERS = 1500
ADDED = (0, 1, 5, 20, 60)
GRID = (2, 8, 32, 128)


def by_added_notes() -> None:
    """Print how the risk of a stay falls with the number of neutral windows."""
    with tempfile.TemporaryDirectory() as folder:
        synthesize(folder, stays=20, seed=5)
        notes = read_table(Path(folder) / "NOTEEVENTS.csv")["TEXT"].dropna()
    model = ReadmissionModel.from_pretrained("readmission-demo")
    risks = model.predict_many([[note[:CHARACTERS]] for note in notes[:NOTES]])
    ranked = sorted(
        (risk for risk in risks if risk.status == "ok"),
        key=lambda risk: risk.p_max,
    )
    stay = [window.probability for window in ranked[-1].windows]
    neutral = [
        w.probability
        for risk in ranked[: len(ranked) // 2]
        for w in risk.windows
    ]
    calibration = model.settings.calibration
    rows = []
    for c in GRID:
        scores = [
            aggregate([*stay, *islice(cycle(neutral), n)], c) for n in ADDED
        ]
        cells = [
            f"{s:.2f} ({float(calibrated(s, *calibration)):.3f})"
            for s in scores
        ]
        rows.append([f"c = {c}", *cells])
    print(
        table(
            ["", *(f"{n} neutral window{'s' * (n != 1)}" for n in ADDED)], rows
        )
    )


def by_c(cohort: Path, stays: int) -> None:
    """Print how well each c ranks a sample of a cohort's stays, and the likelihood it reaches."""
    rows = usable_stays(read_cohort(cohort)).sample(stays, random_state=0)
    model = ReadmissionModel.from_pretrained("readmission-demo")
    values, counts = model.window_probabilities(model.token_ids(rows["text"]))
    outcome = rows["readmitted"].to_numpy()
    lines = []
    for c in C_GRID:
        score = aggregate_stays(values, counts, c=c)
        chance = calibrated(score, *fit_platt(logit(score), outcome))
        measured = roc_auc_score(outcome, score), -log_loss(outcome, chance)
        lines.append([f"{c:g}", *(f"{value:.3f}" for value in measured)])
    print(f"{stays} stays with {np.median(counts):g} windows in the median")
    print(table(["c", "AUROC", "log-likelihood"], lines))


def main() -> None:
    """Print one of the two tables."""
    parser = argparse.ArgumentParser(description=DESCRIPTION)
    parser.add_argument("cohort", type=Path, nargs="?")
    parser.add_argument("stays", type=int, nargs="?", default=700)
    asked = parser.parse_args()
    if asked.cohort is None:
        by_added_notes()
    else:
        by_c(asked.cohort, asked.stays)


if __name__ == "__main__":
    main()
