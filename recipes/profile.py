"""Compute the profile of a model's validation notes again, for drift of quantities that it lacks.

python -m recipes.profile COHORT.parquet MODEL --out MODEL
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clinical.evaluation.drift import describe_notes, profile
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
    """Add what the profile lacks; the quantities that it has must come out the same."""
    model = ReadmissionModel.from_pretrained(folder)
    rows = usable_stays(read_cohort(cohort))
    notes = rows.loc[rows["split"] == "val", "text"]
    computed = profile(describe_notes(model, notes))
    stored = model.manifest.data.profile
    differing = [
        name
        for name in computed.keys() & stored.keys()
        if computed[name] != stored[name]
    ]
    if differing:
        raise UserError(
            f"{cohort} gives other values of {', '.join(sorted(differing))}; "
            "expected the cohort that the model was trained on"
        )
    added = {
        name: quantity
        for name, quantity in computed.items()
        if name not in stored
    }
    model.manifest.data.profile = stored | added
    say(f"added to the profile: {', '.join(added) or 'nothing'}")
    model.save_pretrained(out)


if __name__ == "__main__":
    typer.run(main)
