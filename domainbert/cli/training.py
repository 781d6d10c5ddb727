"""Training commands: the options they share, and where a run writes its model."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from domainbert.cli import options
from domainbert.cli.console import say
from domainbert.errors import UserError
from domainbert.files import expanded, folder_beside, remove_abandoned
from domainbert.training.checkpoints import resume_hint

if TYPE_CHECKING:
    from domainbert.models.model import Model
    from domainbert.training.recipes import AnyRecipe


@contextmanager
def progress_on_stderr() -> Iterator[None]:
    """Show what training logs (steps, loss, scores, time left) on stderr."""
    log = logging.getLogger("domainbert.training")
    level = log.level
    handler = _ToStderr(logging.INFO)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


class _ToStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


@dataclass(frozen=True)
class TrainingRun:
    """Where a training command writes its model and checkpoints, and whether it resumes."""

    out: Path
    checkpoints: Path
    resume: bool

    def save(self, model: Model[Any], *, merged: bool = False) -> None:
        """Save the model in `out`; for `merged` see `Model.save_pretrained`.

        Raises:
            UserError: `out` cannot be written, as on a full disk; the checkpoints are kept.
        """
        from safetensors import SafetensorError

        try:
            model.save_pretrained(self.out, merged=merged)
        except (OSError, SafetensorError) as error:
            # Safetensors wraps errors of the disk in its own.
            reason = (
                getattr(error, "strerror", None) or str(error) or repr(error)
            )
            raise UserError(
                f"{self.out} could not be written ({reason}); make room and repeat the "
                "command with --resume: the trained weights are in "
                f"{self.checkpoints}"
            ) from None


@contextmanager
def training_run(
    out: str | Path,
    checkpoints: str | Path | None = None,
    *,
    resume: bool = False,
) -> Iterator[TrainingRun]:
    """Check at once that a run can be saved and resumed; train and save within the block.

    Checkpoints are kept beside `out` unless `checkpoints` names a folder, and are removed if
    the block succeeds. After a failure they stay, so that the run can be resumed.

    Raises:
        FileExistsError: `out` holds something other than a model of this package.
        UserError: `out` cannot be written, there is nothing to resume, or there are
            checkpoints and `resume` is false.
    """
    from domainbert.models.storage import check_replaceable

    out = expanded(out)
    # "." and ".." have no name that "-checkpoints" could follow.
    named_out = out
    if not out.name.strip("."):
        named_out = out.resolve()
    folder = expanded(checkpoints or f"{named_out}-checkpoints")
    # A model that was being replaced when its process was killed gets its name back.
    remove_abandoned(out.absolute().parent)
    check_replaceable(out)
    _check_writable(out)
    if resume and not folder.is_dir():
        raise UserError(
            f"--resume: no checkpoints in {folder}; run without it, or name them with "
            "--checkpoints"
        )
    # A named folder may also hold the finished runs of other seeds, in folders below it.
    pattern = "checkpoint-*" if checkpoints else "**/checkpoint-*"
    if not resume and any(folder.glob(pattern)):
        raise UserError(
            f"{folder} has checkpoints: continue with --resume, or delete that folder"
        )
    hint = (
        "to resume, repeat the command with --resume; the checkpoints are in"
    )
    with progress_on_stderr(), resume_hint(folder, f"{hint} {folder}"):
        yield TrainingRun(out, folder, resume)
    if not checkpoints and folder.is_dir():
        # In one step, so that a kill leaves no part of the checkpoints.
        with folder_beside(folder) as removed:
            folder.rename(removed / "checkpoints")


def _check_writable(out: Path) -> None:
    """Refuse a folder that cannot be written, before a long training."""
    nearest = next(
        parent for parent in out.absolute().parents if parent.exists()
    )
    try:
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise UserError(
            f"{out} cannot be written ({error.strerror}); choose another --out"
        ) from None


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options that all training commands share, as an argument of a command."""

    recipe: options.RecipeFile = None
    encoder: options.EncoderName = None
    epochs: Annotated[float | None, Option(help="Passes over the data.")] = (
        None
    )
    learning_rate: Annotated[
        float | None, Option(help="Peak learning rate.")
    ] = None
    seed: options.Seed = None
    full: Annotated[
        bool, Option("--full", help="Train all weights, not an adapter.")
    ] = False
    checkpoints: options.Checkpoints = None
    resume: options.Resume = False

    def given(self) -> dict[str, object]:
        """The settings of the table `[training]` that were named."""
        values = {
            "epochs": self.epochs,
            "learning_rate": self.learning_rate,
            "seed": self.seed,
            "full": self.full or None,
        }
        return {
            name: value for name, value in values.items() if value is not None
        }

    def plan(
        self,
        recipe_class: type[AnyRecipe],
        changes: Mapping[str, object] | None = None,
        *,
        default: str | None = None,
    ) -> AnyRecipe:
        """The recipe with these options and other changes; by default the recipe `default`."""
        from domainbert.training.recipes import read_recipe

        overrides = {
            f"training.{name}": value for name, value in self.given().items()
        }
        overrides |= {"model.encoder": self.encoder, **(changes or {})}
        return read_recipe(recipe_class, self.recipe or default, overrides)

    def run(self, out: Path) -> AbstractContextManager[TrainingRun]:
        """See `training_run`."""
        return training_run(out, self.checkpoints, resume=self.resume)
