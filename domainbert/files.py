"""JSON files and folders that are there whole or not at all."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def write_json(document: Any, path: Path) -> None:
    """Write a document under a temporary name, then rename it."""
    from domainbert.tables import atomic_path

    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


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
