"""A lock on a folder, for one writer at a time; it ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from domainbert.errors import UserError

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder if needed and hold it during the block; `UserError` if another process does."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = f"{folder} is in use by process {file.read().strip() or '(unknown)'}"
            raise UserError(f"{holder}; wait for it, or use another folder") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
