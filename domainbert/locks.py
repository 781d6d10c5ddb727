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
    """Make a folder if needed and hold it during the block.

    Raises:
        UserError: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "another one"
            msg = f"{folder} is in use by process {holder}; wait for it, or use another folder"
            raise UserError(msg) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
