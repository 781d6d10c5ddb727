"""A training run: its options, its checkpoints, where to resume, and where its model is saved."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.cli import options
from domainbert.cli.console import say
from domainbert.errors import UserError
from domainbert.files import locked, write_json

if TYPE_CHECKING:
    from domainbert.models.model import Model
    from domainbert.training.recipes import AnyRecipe

STATE = "trainer_state.json"
FACTS = "facts.json"
log = logging.getLogger(__name__)


# --- checkpoints


@contextmanager
def resume_point(
    folder: Path, facts: dict[str, object], *, resume: bool
) -> Iterator[Path | None]:
    """The checkpoint to continue from, or None to start; holds the folder meanwhile.

    The facts, everything that decides the result, are written to the folder.

    Raises:
        UserError: there are checkpoints and `resume` is false, or they were made from other
            facts; or another process uses the folder.
    """
    with locked(folder):
        checkpoint, note = last_checkpoint(folder), folder / FACTS
        if checkpoint and not resume:
            msg = f"{folder} has checkpoints: continue with --resume, or delete that folder"
            raise UserError(msg)
        facts = json.loads(json.dumps(facts))
        if checkpoint:
            known = json.loads(note.read_text("utf-8")) if note.is_file() else {}
            if other := _differences(known, facts):
                raise UserError(
                    f"the checkpoints in {folder} were made with another {', '.join(other)}; "
                    "repeat the first command, or delete that folder"
                )
        elif resume:
            log.warning(
                "no checkpoint in %s: training starts from the beginning", folder
            )
        write_json(facts, note)
        yield checkpoint


def _differences(known: object, now: object, name: str = "") -> list[str]:
    """The names of facts that differ, such as training.epochs."""
    if not (isinstance(known, dict) and isinstance(now, dict)):
        return [] if known == now else [name.removeprefix(".")]
    return [
        different
        for key in known | now
        for different in _differences(known.get(key), now.get(key), f"{name}.{key}")
    ]


def last_checkpoint(folder: Path) -> Path | None:
    """The last complete checkpoint.

    One that was cut short, by a kill or a full disk, is removed.
    """
    paths = [
        path
        for path in folder.glob("checkpoint-*")
        if path.name.split("-")[1].isdigit()
    ]
    for path in sorted(paths, key=checkpoint_step, reverse=True):
        if _is_whole(path):
            return path
        log.warning("%s is incomplete and is skipped", path)
        shutil.rmtree(path, ignore_errors=True)
    return None


def _is_whole(path: Path) -> bool:
    """Whether all files of a checkpoint are there to their end; the state is written last."""
    from safetensors import SafetensorError, safe_open

    weights, states = list(path.glob("*.safetensors")), list(path.glob("*.pt"))
    try:
        json.loads((path / STATE).read_text("utf-8"))
        for file in weights:
            with safe_open(file, framework="np"):
                pass
    except (OSError, ValueError, SafetensorError):
        return False
    has_all = weights and {file.name for file in states} >= {
        "optimizer.pt",
        "scheduler.pt",
    }
    return bool(has_all) and all(
        map(zipfile.is_zipfile, (*states, *path.glob("*.pth")))
    )


def checkpoint_step(checkpoint: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.name.split("-")[1])


# --- around a run


@contextmanager
def progress_on_stderr() -> Iterator[None]:
    """Show what the trainings log (steps, loss, scores, time left) on stderr."""
    log_of_training = logging.getLogger("domainbert.training")
    handler, level = _ToStderr(logging.INFO), log_of_training.level
    log_of_training.addHandler(handler)
    log_of_training.setLevel(logging.INFO)
    try:
        yield
    finally:
        log_of_training.setLevel(level)
        log_of_training.removeHandler(handler)


class _ToStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


@contextmanager
def resume_hint(folder: Path, hint: str) -> Iterator[None]:
    """Where a run that left something in `folder` is stopped by a signal, say how to resume it."""
    try:
        yield
    except KeyboardInterrupt:
        if folder.is_dir():
            say(hint)
        raise


@dataclass(frozen=True)
class TrainingRun:
    """Where a training command writes its model and its checkpoints, and whether it resumes."""

    out: Path
    checkpoints: Path
    resume: bool

    def save(self, model: Model, *, merged: bool = False) -> None:
        """Save the model in `out`; for `merged` see `Model.save_pretrained`.

        Raises:
            UserError: `out` cannot be written, as on a full disk; the checkpoints are kept.
        """
        from safetensors import SafetensorError

        try:
            model.save_pretrained(self.out, merged=merged)
        except (
            OSError,
            SafetensorError,
        ) as error:  # safetensors wraps errors of the disk
            reason = (
                getattr(error, "strerror", None) or str(error) or type(error).__name__
            )
            raise UserError(
                f"{self.out} could not be written ({reason}); make room and repeat the command "
                f"with --resume: the trained weights are in {self.checkpoints}"
            ) from None


@contextmanager
def training_run(
    out: str | Path, checkpoints: str | Path | None = None, *, resume: bool = False
) -> Iterator[TrainingRun]:
    """Check at once that a run can be saved and resumed; train and save within the block.

    Checkpoints are kept beside `out` unless `checkpoints` names a folder, and are then removed if
    the block succeeds. After a failure they stay, so that the run can be resumed.

    Raises:
        FileExistsError: something other than a model of ours is in `out`.
        UserError: `out` cannot be written, there is nothing to resume, or there are checkpoints
            and `resume` is false.
    """
    from domainbert.models.storage import check_replaceable

    out = Path(out).expanduser()
    named = out if out.name.strip(".") else out.resolve()
    folder = Path(checkpoints or f"{named}-checkpoints").expanduser()
    check_replaceable(out)
    try:
        nearest = next(parent for parent in out.absolute().parents if parent.exists())
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        msg = f"{out} cannot be written ({error.strerror}); choose another --out"
        raise UserError(msg) from None
    if resume and not folder.is_dir():
        raise UserError(
            f"--resume: no checkpoints in {folder}; run without it, or name them with --checkpoints"
        )
    # A named folder may hold the finished runs of other seeds, each in a folder of its own.
    if not resume and any(
        (folder.glob if checkpoints else folder.rglob)("checkpoint-*")
    ):
        raise UserError(
            f"{folder} has checkpoints: continue with --resume, or delete that folder"
        )
    hint = (
        f"to resume, repeat the command with --resume; the checkpoints are in {folder}"
    )
    with progress_on_stderr(), resume_hint(folder, hint):
        yield TrainingRun(out, folder, resume)
    if not checkpoints:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options that all training commands share, as a command gets them."""

    recipe: options.RecipeFile = None
    encoder: options.EncoderName = None
    epochs: options.Epochs = None
    learning_rate: options.LearningRate = None
    seed: options.Seed = None
    full: options.FullWeights = False
    checkpoints: options.Checkpoints = None
    resume: options.Resume = False

    def given(self) -> dict[str, object]:
        """The settings of the table `[training]` that were named."""
        values = {
            "epochs": self.epochs,
            "learning_rate": self.learning_rate,
            "seed": self.seed,
        }
        given: dict[str, object] = {
            k: value for k, value in values.items() if value is not None
        }
        return {**given, "full": True} if self.full else given

    def plan(
        self,
        kind: type[AnyRecipe],
        changes: Mapping[str, object] | None = None,
        *,
        default: str | None = None,
    ) -> AnyRecipe:
        """The recipe with these options and other changes; `default` where none is named."""
        from domainbert.training.recipes import read_recipe

        named = {f"training.{name}": value for name, value in self.given().items()}
        named["model.encoder"] = self.encoder
        return read_recipe(kind, self.recipe or default, {**named, **(changes or {})})

    def run(self, out: Path) -> AbstractContextManager[TrainingRun]:
        """See `training_run`."""
        return training_run(out, self.checkpoints, resume=self.resume)
