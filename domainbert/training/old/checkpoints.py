"""The checkpoints of a training in their folder."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.files import write_json

if TYPE_CHECKING:
    from domainbert.training.settings import TrainingSettings

STATE = "trainer_state.json"
SETTINGS = "settings.json"
log = logging.getLogger(__name__)


def resume_point(folder: Path, settings: TrainingSettings, *, resume: bool) -> Path | None:
    """The checkpoint that a training goes on from; None where it begins.

    Args:
        folder: of its checkpoints; what the training is told is noted there.
        settings: of the training.
        resume: whether to go on.

    Raises:
        ValueError: the checkpoints there are of a training with other settings, or of one that was
            not to be gone on with.
    """
    told, note = settings.model_dump(), folder / SETTINGS
    found = last_checkpoint(folder)
    if found and not resume:
        msg = f"{folder} has checkpoints: go on from them with --resume, or name another folder"
        raise UserError(msg)
    if found and note.is_file():
        known = json.loads(note.read_text("utf-8"))
        if other := [name for name in told if told[name] != known.get(name)]:
            msg = (
                f"the checkpoints in {folder} are of a training with another {', '.join(other)}; "
                "give the same settings again, or another folder"
            )
            raise UserError(msg)
    if resume and not found:
        log.warning("no checkpoint in %s: this training begins at its start", folder)
    if not found or not note.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(told, note)
    return found


def last_checkpoint(folder: Path) -> Path | None:
    """The last checkpoint that was written to its end; younger ones are removed.

    A run may be killed while it writes one. The state is what is written last. It names the best
    checkpoint by its path; if the folder has moved since, that is mended.
    """
    found = [path for path in folder.glob("checkpoint-*") if path.name.split("-")[1].isdigit()]
    for path in sorted(found, key=checkpoint_step, reverse=True):
        try:
            state = json.loads((path / STATE).read_text("utf-8"))
        except (OSError, ValueError):
            shutil.rmtree(path, ignore_errors=True)
            continue
        _mend_best(state, path)
        return path
    return None


def _mend_best(state: dict[str, Any], path: Path) -> None:
    best = state.get("best_model_checkpoint")
    if best and not Path(best).is_dir() and (moved := path.parent / Path(best).name).is_dir():
        write_json({**state, "best_model_checkpoint": str(moved)}, path / STATE)


def checkpoint_step(checkpoint: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.name.split("-")[1])
