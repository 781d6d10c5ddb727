"""The checkpoints of a run: where to resume, and whether it is the same run."""

from __future__ import annotations

import json
import logging
import shutil
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.files import write_json
from domainbert.locks import locked
from domainbert.training.processes import is_first_process, process_count

if TYPE_CHECKING:
    from collections.abc import Iterator

STATE = "trainer_state.json"
FACTS = "facts.json"
log = logging.getLogger(__name__)


@contextmanager
def resume_point(folder: Path, facts: dict[str, Any], *, resume: bool) -> Iterator[Path | None]:
    """The checkpoint to continue from, or None to start; holds the folder meanwhile.

    The facts, everything that decides the result, are written to the folder.

    Raises:
        UserError: there are checkpoints and `resume` is false, or they were made from other
            facts; or another process uses the folder.
    """
    if not is_first_process():
        yield last_checkpoint(folder) if resume else None
        return
    with locked(folder):
        found, note = last_checkpoint(folder), folder / FACTS
        if found and not resume:
            msg = f"{folder} has checkpoints: continue with --resume, or delete that folder"
            raise UserError(msg)
        facts = json.loads(json.dumps(facts))
        if found:
            known = json.loads(note.read_text("utf-8")) if note.is_file() else {}
            if other := _differences(known, facts):
                msg = (
                    f"the checkpoints in {folder} were made with another {', '.join(other)}; "
                    "repeat the first command, or delete that folder"
                )
                raise UserError(msg)
        elif resume:
            log.warning("no checkpoint in %s: training starts from the beginning", folder)
        write_json(facts, note)
        yield found


def _differences(known: Any, now: Any, name: str = "") -> list[str]:
    """The names of facts that differ, such as training.epochs."""
    if not (isinstance(known, dict) and isinstance(now, dict)):
        return [] if known == now else [name.removeprefix(".")]
    found = [_differences(known.get(key), now.get(key), f"{name}.{key}") for key in known | now]
    return [name for names in found for name in names]


def last_checkpoint(folder: Path) -> Path | None:
    """The last complete checkpoint.

    One that was cut short, by a kill or a full disk, is skipped, and removed where one process
    trains. The best checkpoint is found again where the folder has moved.
    """
    found = [path for path in folder.glob("checkpoint-*") if path.name.split("-")[1].isdigit()]
    for path in sorted(found, key=checkpoint_step, reverse=True):
        if _is_whole(path):
            _mend_best(path)
            return path
        if process_count() == 1:
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
    has_all = weights and {file.name for file in states} >= {"optimizer.pt", "scheduler.pt"}
    return bool(has_all) and all(map(zipfile.is_zipfile, (*states, *path.glob("*.pth"))))


def _mend_best(path: Path) -> None:
    state = json.loads((path / STATE).read_text("utf-8"))
    best = state.get("best_model_checkpoint")
    if best and not Path(best).is_dir() and (moved := path.parent / Path(best).name).is_dir():
        write_json({**state, "best_model_checkpoint": str(moved)}, path / STATE)


def checkpoint_step(checkpoint: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.name.split("-")[1])
