"""What surrounds a training command: where it can write, its checkpoints, and saving its model."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from domainbert.model import Model


def check_writable(out: str | Path) -> None:
    """Check that a folder can be written under a name, by writing a temporary file beside it.

    Raises:
        UserError: it cannot.
    """
    out = Path(out).expanduser()
    try:
        folder = next(parent for parent in out.absolute().parents if parent.exists())
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        msg = f"{out} cannot be written ({error.strerror}); choose another --out"
        raise UserError(msg) from None


def default_checkpoints(out: str | Path) -> Path:
    """Where a run keeps its checkpoints unless told otherwise: beside the model."""
    out = Path(out).expanduser()
    return out.with_name(f"{out.name}-checkpoints")


@contextmanager
def checkpoint_folder(out: str | Path, checkpoints: str | Path | None = None) -> Iterator[Path]:
    """The checkpoint folder of a run; the default one is removed when the block ends well.

    Save the model within the block, so that a run that fails can be resumed.
    """
    folder = Path(checkpoints) if checkpoints else default_checkpoints(out)
    yield folder
    if not checkpoints:
        shutil.rmtree(folder, ignore_errors=True)


def save_model(model: Model, out: str | Path) -> None:
    """Save a trained model; where that fails, keep it in another folder.

    Raises:
        UserError: it could not be saved under its name, as on a full disk; the message says where
            it is.
    """
    from safetensors import SafetensorError

    failures = (OSError, SafetensorError)  # safetensors wraps errors of the disk
    try:
        model.save_pretrained(out)
    except failures as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    else:
        return
    for place in (Path(tempfile.gettempdir()), Path.home(), Path.cwd()):
        folder = None
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"{Path(out).name}-", dir=place))
            model.save_pretrained(folder)
        except failures:
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
            continue
        msg = (
            f"{out} could not be written ({reason}); the trained model is kept in {folder}: move it"
        )
        raise UserError(msg)
    msg = (
        f"{out} could not be written ({reason}), nor any other folder; make room, then use --resume"
    )
    raise UserError(msg)
