"""A lock on a folder, for one writer at a time; it ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from domainbert.errors import UserError

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder if needed and hold it during the block; `UserError` if another process does."""
    while not (file := _opened(folder)):
        pass  # its last holder removed the folder meanwhile
    with file:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def release_empty(folder: Path) -> None:
    """Remove a folder that this process holds, if nothing but its lock is left in it."""
    (folder / LOCK).unlink()
    with suppress(OSError):  # another process makes a lock of its own there
        folder.rmdir()


def _opened(folder: Path) -> TextIO | None:
    """The lock's file, held; None if it is no longer the one in the folder."""
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except FileNotFoundError:
        return None
    except FileExistsError:
        if os.path.lexists(folder) and not folder.is_dir():
            raise  # a file, or a link to nowhere
        return None  # it was there for `mkdir`, and was removed, or made again
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = f"{folder} is in use by process {file.read().strip() or '(unknown)'}"
        file.close()
        raise UserError(f"{holder}; wait for it, or use another folder") from None
    with suppress(FileNotFoundError):
        if os.path.samestat(path.stat(), os.fstat(file.fileno())):
            return file
    file.close()
    return None
