"""Turn the real encounters of Diabetes 130-US hospitals into a cohort of narrative notes.

python -m recipes.diabetes130 FOLDER --out cohort.parquet
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from domainbert.cli.console import one_line_errors, say
from domainbert.tables import write_table
from recipes.diabetes130.encounters import build_diabetes130
from recipes.diabetes130.teacher import teacher_targets


@one_line_errors
def main(
    folder: Annotated[
        Path,
        typer.Argument(help="Folder with the UCI table and its mappings."),
    ],
    out: Annotated[Path, typer.Option(help="The cohort to write, .parquet.")],
    seed: Annotated[
        int, typer.Option(help="Seed of the split by patient.")
    ] = 0,
) -> None:
    """Turn the real encounters of Diabetes 130-US hospitals into a cohort of narrative notes."""
    table = build_diabetes130(folder, seed=seed)
    kept = table["exclusion"].isna()
    train = kept & (table["split"] == "train")
    table.loc[train, "target"] = teacher_targets(table[train])
    write_table(table, out)
    share = table.loc[kept, "readmitted"].mean()
    say(
        f"{kept.sum()} stays in {out}, {share:.1%} readmitted; {(~kept).sum()} listed as excluded"
    )


if __name__ == "__main__":
    typer.run(main)
