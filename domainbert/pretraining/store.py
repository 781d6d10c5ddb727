"""Folders that are made once: named by what they are made of, there when they are whole."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.training.processes import is_first_process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WAIT = 1.0  # seconds


def fingerprint(facts: Mapping[str, Any]) -> str:
    """Twelve letters and digits that stand for these facts and no others."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, which the first process makes if it is not there; the others wait for it.

    Args:
        folder: appears when all of it is made.
        make: fills a folder.
    """
    while not is_first_process() and not folder.is_dir():
        time.sleep(WAIT)
    if not folder.is_dir():
        partial = folder.with_name(f".{folder.name}-partial")
        shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
        partial.mkdir(parents=True)
        try:
            make(partial)
            partial.replace(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))
