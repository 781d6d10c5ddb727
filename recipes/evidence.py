"""Measure how faithful a model's explanations are, and add the result to its card.

python -m recipes.evidence COHORT.parquet MODEL [--split val] [--stays 80] --out MODEL
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.passages import evaluate_faithfulness
from clinical.risk.manifest import Evidence
from clinical.risk.model import ReadmissionModel
from clinical.stays.cohorts import read_cohort, usable_stays
from clinical.stays.patients import check_unseen
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say


@one_line_errors
def main(
    cohort: Annotated[
        Path,
        typer.Argument(metavar="COHORT.parquet", help="Stays not trained on."),
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model folder.")
    ],
    out: options.ModelFolder,
    split: Annotated[
        str, typer.Option(help="The side to measure on.")
    ] = "val",
    stays: Annotated[
        int, typer.Option(min=1, help="At most, drawn at random.")
    ] = 80,
) -> None:
    """Measure faithfulness on a random part of one side."""
    model = ReadmissionModel.from_pretrained(folder)
    rows = usable_stays(read_cohort(cohort))
    side = rows[rows["split"] == split]
    check_unseen(side["patient_id"], model.manifest.data.patients, side=split)
    faithfulness = evaluate_faithfulness(
        model, side.sample(min(stays, len(side)), random_state=0)
    )
    say(faithfulness["verdicts"][0])
    model.manifest.evidence = Evidence(
        cohort=cohort.name, side=split, **faithfulness
    )
    model.save_pretrained(out)


if __name__ == "__main__":
    typer.run(main)
