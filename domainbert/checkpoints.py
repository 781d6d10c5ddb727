"""The checkpoints of a training in their folder."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

STATE = "trainer_state.json"


def check_resume(checkpoints: Path | None, *, resume: bool) -> None:
    """Refuse to go on from nowhere.

    Raises:
        ValueError: with the option to give.
    """
    if resume and checkpoints is None:
        msg = "--resume goes on from the checkpoints of a first run: name them with --checkpoints"
        raise ValueError(msg)


def last_checkpoint(folder: Path) -> Path | None:
    """The last checkpoint that was written to its end; younger ones are removed.

    A run may be killed while it writes one. The state is what is written last.
    """
    found = [path for path in folder.glob("checkpoint-*") if path.name.split("-")[1].isdigit()]
    for path in sorted(found, key=checkpoint_step, reverse=True):
        try:
            json.loads((path / STATE).read_text("utf-8"))
        except (OSError, ValueError):
            shutil.rmtree(path, ignore_errors=True)
            continue
        return path
    return None


def checkpoint_step(checkpoint: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.name.split("-")[1])
