"""JSON files and folders that are there whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def write_json(document: Any, path: Path) -> None:
    """Write a document under a temporary name, then rename it."""
    from domainbert.tables.writing import atomic_path

    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def replace(temporary: Path, path: Path) -> None:
    """Give a finished file its name, safe against a power cut on both sides of the rename."""
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def check_output(out: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write over an input, by whatever spelling or link.

    Raises:
        UserError: `out` is one of the inputs.
    """
    for path in inputs:
        if out.resolve() == Path(path).resolve() or (out.exists() and out.samefile(path)):
            msg = f"{out} is an input of this command; write somewhere else"
            raise UserError(msg)


@contextmanager
def folder_beside(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder`, to be filled and renamed; removed if it was not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    temporary.chmod(0o755)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
