"""Shared by the training commands: checks of --out, checkpoints, and saving the model."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.errors import UserError
from domainbert.training.processes import is_first_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from domainbert.model import Model


@dataclass(frozen=True)
class TrainingRun:
    """Where a training command writes: its model and its checkpoints."""

    out: Path
    checkpoints: Path

    def save(self, model: Model, *, merged: bool = False) -> None:
        """Save the model in `out`; where that fails, keep it in another folder.

        For `merged` see `Model.save_pretrained`.

        Raises:
            UserError: `out` cannot be written, as on a full disk; says where the model is.
        """
        from safetensors import SafetensorError

        if not is_first_process():
            return
        failures = (OSError, SafetensorError)  # safetensors wraps errors of the disk
        try:
            model.save_pretrained(self.out, merged=merged)
        except failures as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        else:
            return
        failed = f"{self.out} could not be written ({reason})"
        for place in (Path(tempfile.gettempdir()), Path.home(), Path.cwd()):
            folder = None
            try:
                folder = Path(tempfile.mkdtemp(prefix=f"{self.out.name}-", dir=place))
                model.save_pretrained(folder, merged=merged)
            except failures:
                if folder:
                    shutil.rmtree(folder, ignore_errors=True)
                continue
            msg = f"{failed}; the trained model is kept in {folder}: move it"
            raise UserError(msg)
        again = "use --resume" if self.checkpoints.is_dir() else "train again"
        msg = f"{failed}, nor any other folder; make room, then {again}"
        raise UserError(msg)


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
    from domainbert.storage import check_replaceable

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
        msg = (
            f"--resume: no checkpoints in {folder}; run without it, or name them with --checkpoints"
        )
        raise UserError(msg)
    # A named folder may hold the finished runs of other seeds, each in a folder of its own.
    if not resume and any((folder.glob if checkpoints else folder.rglob)("checkpoint-*")):
        msg = f"{folder} has checkpoints: continue with --resume, or delete that folder"
        raise UserError(msg)
    yield TrainingRun(out, folder)
    if not checkpoints and is_first_process():
        shutil.rmtree(folder, ignore_errors=True)
