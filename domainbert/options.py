"""What several commands ask for in the same words, and training refuses before it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from domainbert.errors import UserError

ModelFolder = Annotated[Path, typer.Option("--out", help="The model folder to write.")]
RecipeFile = Annotated[
    Path | None, typer.Option(help="A shipped recipe's name or a TOML file; options override it.")
]
EncoderName = Annotated[str | None, typer.Option(help="Shipped name, folder or Hub id.")]
Epochs = Annotated[float | None, typer.Option(help="Passes over the data.")]
LearningRate = Annotated[float | None, typer.Option(help="Peak.")]
FullWeights = Annotated[bool, typer.Option("--full", help="All weights, no adapter.")]
Checkpoints = Annotated[
    Path | None, typer.Option(help="Keep checkpoints here; else beside --out until it is written.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint.")]
ModelName = Annotated[
    str, typer.Option("--model", help="Shipped name, model folder, or Hub id (owner/name).")
]


def check_training(out: Path, *, checkpoints: Path | None = None, resume: bool = False) -> None:
    """Check, before anything is loaded, that a training run can be saved and resumed.

    Raises:
        FileExistsError: something other than a model of ours is in `out`.
        UserError: `out` cannot be written, or there is nothing to resume.
    """
    from domainbert.storage import check_replaceable
    from domainbert.training.session import check_writable, default_checkpoints

    check_replaceable(out)
    check_writable(out)
    folder = checkpoints or default_checkpoints(out)
    if resume and not folder.is_dir():
        msg = f"--resume: no checkpoints in {folder}; run without it, or name another folder"
        raise UserError(msg)
