"""Compute the profile of a model's validation notes again, for drift of quantities that it lacks.

python -m recipes.profile COHORT.parquet MODEL --out MODEL
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clinical.evaluation.drift import describe_notes, drift, profile
from clinical.risk.model import ReadmissionModel
from clinical.stays.cohorts import read_cohort, usable_stays
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say
from domainbert.errors import UserError


@one_line_errors
def main(
    cohort: Annotated[
        Path,
        typer.Argument(
            metavar="COHORT.parquet",
            help="The cohort that the model was trained on.",
        ),
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model folder.")
    ],
    out: options.ModelFolder,
) -> None:
    """Add what the profile lacks, if the notes are those of the profile."""
    model = ReadmissionModel.from_pretrained(folder)
    rows = usable_stays(read_cohort(cohort))
    notes = rows.loc[rows["split"] == "val", "text"]
    n_expected = model.manifest.data.stays.get("val")
    stored = model.manifest.data.profile
    quantities = describe_notes(model, notes)
    changes = drift(stored, quantities).query("finding != 'stable'")
    if len(notes) != n_expected or len(changes):
        raise UserError(
            f"{cohort} has {len(notes)} validation stays, with other values of "
            f"{', '.join(changes['quantity']) or 'nothing'}; expected the {n_expected} stays that "
            "the model was validated on"
        )
    added = {
        name: quantity
        for name, quantity in profile(quantities).items()
        if name not in stored
    }
    model.manifest.data.profile = stored | added
    say(f"added to the profile: {', '.join(added) or 'nothing'}")
    model.save_pretrained(out)


if __name__ == "__main__":
    typer.run(main)
