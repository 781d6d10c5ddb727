"""Checkpoints of a run: where it resumes, and which of them are complete."""

import json
import logging
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError, safe_open

from domainbert.errors import UserError
from domainbert.files import locked, write_json

STATE = "trainer_state.json"
FACTS = "facts.json"
log = logging.getLogger(__name__)


@contextmanager
def resume_point(
    folder: Path,
    facts: dict[str, object],
    *,
    resume: bool,
) -> Iterator[Path | None]:
    """The checkpoint to resume from, or None to start; locks the folder during the block.

    The facts, everything that decides the result, are written to the folder.

    Raises:
        UserError: there are checkpoints and `resume` is false, or they were made from other
            facts; or another process uses the folder.
    """
    with locked(folder):
        checkpoint = last_checkpoint(folder)
        if checkpoint and not resume:
            raise UserError(
                f"{folder} has checkpoints: continue with `resume=True`, or delete that folder"
            )
        current = json.loads(json.dumps(facts))  # as they will be read back
        if checkpoint:
            file = folder / FACTS
            stored = {}
            if file.is_file():
                stored = json.loads(file.read_text("utf-8"))
            if differing := _differences(stored, current):
                raise UserError(
                    f"the checkpoints in {folder} were made with another "
                    f"{', '.join(differing)}; repeat the first command, or delete that folder"
                )
        elif resume:
            log.warning(
                "no checkpoint in %s: training starts from the beginning",
                folder,
            )
        write_json(current, folder / FACTS)
        yield checkpoint


def _differences(
    stored: object,
    current: object,
    name: str = "",
) -> list[str]:
    """The dotted names of the values that differ, such as training.epochs.

    A missing value equals None, so checkpoints of a version without a setting stay valid where
    the setting is None.
    """
    if not (isinstance(stored, dict) and isinstance(current, dict)):
        return [] if stored == current else [name.removeprefix(".")]
    names = []
    for key in stored | current:
        names += _differences(
            stored.get(key), current.get(key), f"{name}.{key}"
        )
    return names


def last_checkpoint(folder: Path) -> Path | None:
    """The last complete checkpoint; incomplete ones (a kill, a full disk) are removed."""
    paths = [
        path
        for path in folder.glob("checkpoint-*")
        if path.name.split("-")[1].isdigit()
    ]
    for path in sorted(
        paths,
        key=checkpoint_step,
        reverse=True,
    ):
        if _is_complete(path):
            return path
        log.warning("%s is incomplete and is skipped", path)
        shutil.rmtree(path, ignore_errors=True)
    return None


def _is_complete(path: Path) -> bool:
    """Whether every file of a checkpoint can be read; the trainer writes its state last."""
    weights = list(path.glob("*.safetensors"))
    states = [
        path / "optimizer.pt",
        path / "scheduler.pt",
        *path.glob("*.pth"),
    ]
    try:
        json.loads((path / STATE).read_text("utf-8"))
        for file in weights:
            with safe_open(file, framework="np"):
                pass
    except (OSError, ValueError, SafetensorError):
        return False
    # PyTorch's files are zip archives, whose directory is at the end.
    return bool(weights) and all(map(zipfile.is_zipfile, states))


def checkpoint_step(checkpoint: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.name.split("-")[1])


@contextmanager
def resume_hint(folder: Path, hint: str) -> Iterator[None]:
    """Log how to resume a run if a signal stops it after it left something in `folder`."""
    try:
        yield
    except KeyboardInterrupt:
        if folder.is_dir():
            log.warning("%s", hint)
        raise
