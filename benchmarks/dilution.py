"""Dilution: how neutral notes lower the risk of a stay, for several c.

    python benchmarks/dilution.py                       # the table of docs/explanation/dilution.md
    python benchmarks/dilution.py COHORT.parquet 700    # AUROC and likelihood by c on its stays

Takes 1 minute on two cores without a cohort. Scores the notes of a small made-up hospital with
readmission-demo. The stay is the note with the window of the highest risk; neutral windows are
those of the half of the notes with the lowest risk.

How to read the tables: a cell of the first is the score of the stay with so many neutral windows,
and its probability in brackets; the lower c, the faster they fall. In the second, the c with the
highest log-likelihood suits the stays best.
"""

from __future__ import annotations

from itertools import cycle, islice
from pathlib import Path

import numpy as np
from made_up_notes import made_up_notes
from reporting import command_line
from sklearn.metrics import log_loss, roc_auc_score

from clinical import ReadmissionModel, aggregate
from clinical.risk.aggregation import aggregate_stays
from clinical.stays.cohorts import read_cohort, usable_stays
from clinical.training.recalibration import C_GRID
from domainbert.models.card import table
from domainbert.progress import counted
from domainbert.statistics.calibration import calibrated, fit_platt, logit

NOTES = 40
CHARACTERS = 1500
ADDED = (0, 1, 5, 20, 60)
GRID = (2, 8, 32, 128)


def by_added_notes() -> None:
    """Print how the risk of a stay falls with the number of neutral windows."""
    notes = made_up_notes(20, seed=5)["TEXT"].dropna()
    model = ReadmissionModel.from_pretrained("readmission-demo")
    stays = [[note[:CHARACTERS]] for note in notes[:NOTES]]
    risks = model.predict_many(stays)
    read = [
        risk
        for risk in counted(risks, what="scoring", total=len(stays))
        if risk.status == "ok"
    ]
    ranked = sorted(read, key=lambda risk: risk.p_max)
    stay = [window.probability for window in ranked[-1].windows]
    neutral = []
    for risk in ranked[: len(ranked) // 2]:
        neutral += [window.probability for window in risk.windows]
    rows = []
    for c in GRID:
        cells = []
        for added in ADDED:
            score = aggregate([*stay, *islice(cycle(neutral), added)], c)
            probability = float(model.calibrated(score))
            cells.append(f"{score:.2f} ({probability:.3f})")
        rows.append([f"c = {c}", *cells])
    names = [
        "1 neutral window" if added == 1 else f"{added} neutral windows"
        for added in ADDED
    ]
    print(table(["", *names], rows))


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
        auroc = roc_auc_score(outcome, score)
        likelihood = -log_loss(outcome, chance)
        lines.append([f"{c:g}", f"{auroc:.3f}", f"{likelihood:.3f}"])
    print(f"{stays} stays with {np.median(counts):g} windows in the median")
    print(table(["c", "AUROC", "log-likelihood"], lines))


def main() -> None:
    """Print one of the two tables."""
    parser = command_line(__doc__)
    parser.add_argument(
        "cohort",
        type=Path,
        nargs="?",
    )
    parser.add_argument(
        "stays",
        type=int,
        nargs="?",
        default=700,
    )
    asked = parser.parse_args()
    if asked.cohort is None:
        by_added_notes()
    else:
        by_c(asked.cohort, asked.stays)


if __name__ == "__main__":
    main()
