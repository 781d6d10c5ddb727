"""What several commands ask for in the same words, and training refuses before it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from domainbert.errors import UserError

ModelFolder = Annotated[Path, typer.Option("--out", help="The model folder to write.")]
RecipeFile = Annotated[Path | None, typer.Option(help="Settings, TOML; options win.")]
EncoderName = Annotated[str | None, typer.Option(help="Shipped name, folder or Hub id.")]
Epochs = Annotated[float | None, typer.Option(help="Passes over the data.")]
LearningRate = Annotated[float | None, typer.Option(help="Peak.")]
FullWeights = Annotated[bool, typer.Option("--full", help="All weights, no adapter.")]
Checkpoints = Annotated[Path | None, typer.Option(help="Keep checkpoints here.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from --checkpoints.")]
ModelName = Annotated[
    str, typer.Option("--model", help="Shipped name, model folder, or Hub id (owner/name).")
]


def check_training(out: Path, *, checkpoints: Path | None = None, resume: bool = False) -> None:
    """Refuse a name that is taken, and to go on from nowhere.

    Raises:
        FileExistsError: something else than a model of ours is in `out`.
        ValueError: `resume` without checkpoints.
    """
    from domainbert.storage import check_replaceable

    check_replaceable(out)
    if resume and checkpoints is None:
        msg = "--resume goes on from the checkpoints of a first run: name them with --checkpoints"
        raise UserError(msg)
