"""Dilution: how neutral notes lower the risk of a stay, for several c.

    python benchmarks/dilution.py

Scores the notes of a small made-up hospital with readmission-demo. The stay is the note with the
highest window; neutral windows are those of the half of the notes with the lowest risk.
"""

from __future__ import annotations

import tempfile
from itertools import cycle, islice
from pathlib import Path

from clinical import ReadmissionModel, aggregate, synthesize
from clinical.risk.calibration import Platt
from domainbert.markdown import table
from domainbert.tables import read_table

NOTES, CHARACTERS = 40, 1500
ADDED, GRID = (0, 1, 5, 20, 60), (2, 8, 32, 128)


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        synthesize(folder, stays=20, seed=5)
        notes = read_table(Path(folder) / "NOTEEVENTS.csv")["TEXT"].dropna()
    model = ReadmissionModel.from_pretrained("readmission-demo")
    risks = model.predict_many([[note[:CHARACTERS]] for note in notes[:NOTES]])
    ranked = sorted((risk for risk in risks if risk.status == "ok"), key=lambda risk: risk.p_max)
    stay = [window.probability for window in ranked[-1].windows]
    neutral = [w.probability for risk in ranked[: len(ranked) // 2] for w in risk.windows]
    calibration = Platt(*model.settings.calibration)
    rows = []
    for c in GRID:
        scores = [aggregate([*stay, *islice(cycle(neutral), n)], c) for n in ADDED]
        cells = [f"{s:.2f} ({float(calibration.apply(s)):.3f})" for s in scores]
        rows.append([f"c = {c}", *cells])
    print(table(["", *(f"{n} neutral windows" for n in ADDED)], rows))


if __name__ == "__main__":
    main()
