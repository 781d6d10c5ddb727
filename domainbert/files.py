"""Files and folders that appear complete or not at all, and a check that no output is an input."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import time
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A temporary names its process; -old is a folder that is being replaced.
_PARTIAL = re.compile(
    r"\.(?P<name>.+)\.partial-(?P<host>\w+)-(?P<process>\d+)-(?P<started>\w+)-\w+(?P<old>-old)?"
    r"(?P<ending>(\..*)?)"
)
_ABANDONED = 24 * 3600  # seconds without a change, for temporaries of another host


def check_output(out: str | Path, inputs: Iterable[str | Path]) -> None:
    """Check that a file to be written is none of the files that are read.

    Links, other spellings of a path and other names of one file are seen through.

    Args:
        out: the file to write.
        inputs: the files to read; what is not a file, such as a database URL, is ignored.

    Raises:
        UserError: `out` is one of the inputs.
    """
    target = Path(out).expanduser()
    for name in inputs:
        source = Path(name).expanduser()
        with suppress(OSError):
            if target.resolve() == source.resolve() or target.samefile(source):
                msg = f"{out} is an input of this command; write to another file"
                raise UserError(msg)


def write_json(document: Any, path: Path) -> None:
    """Write a document as indented JSON; see `atomic_path`."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary file beside `path`, flushed to disk and renamed over it if the block succeeds.

    The file has the permissions that the umask gives. Temporaries of `path` that a killed process
    left behind are removed first.

    Raises:
        UserError: the folder of `path` does not exist.
    """
    path = Path(path)
    if not path.parent.is_dir():
        msg = f"{path.parent}: no such folder; make it first, or write somewhere else"
        raise UserError(msg)
    ending = "".join(path.suffixes)
    _sweep(path, ending=ending)
    temporary = _partial_name(path, ending=ending)
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield temporary
        replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def replace(temporary: Path, path: Path) -> None:
    """Flush a finished file to disk and give it its name."""
    _flush(temporary)
    temporary.replace(path)
    _flush_folder(path.parent)


@contextmanager
def folder_beside(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder`, to be filled and passed to `replace_folder`.

    It is removed when the block ends, if it is still there.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    temporary = _partial_name(folder)
    temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def replace_folder(new: Path, folder: Path) -> None:
    """Flush a finished folder to disk and put it in the place of another.

    The other one comes back if that fails; if the process is killed halfway, it comes back when
    the same name is written next.
    """
    for path in [*new.rglob("*"), new]:
        _flush(path) if path.is_file() else _flush_folder(path)
    old = new.with_name(f"{new.name}-old")
    try:
        if folder.exists():
            folder.replace(old)
        new.replace(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.replace(folder)
        raise
    _flush_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _partial_name(path: Path, *, ending: str = "") -> Path:
    stem = path.name.removesuffix(ending)[:100]
    process = os.getpid()
    owner = f"{_host()}-{process}-{_started(process)}"
    return path.with_name(f".{stem}.partial-{owner}-{secrets.token_hex(4)}{ending}")


def _sweep(path: Path, *, ending: str = "") -> None:
    """Remove the temporaries of `path` whose process is gone; restore a folder they replaced."""
    stem = path.name.removesuffix(ending)[:100]
    for found in path.parent.glob(".*.partial-*"):
        match = _PARTIAL.fullmatch(found.name)
        if match is None or (match["name"], match["ending"]) != (stem, ending):
            continue
        with suppress(OSError):
            if not _is_abandoned(found, *match.group("host", "process", "started")):
                continue
            if match["old"] and not path.exists():
                found.replace(path)
            elif found.is_dir():
                shutil.rmtree(found)
            else:
                found.unlink()


def _is_abandoned(found: Path, host: str, process: str, started: str) -> bool:
    if host != _host():
        return time.time() - found.stat().st_mtime > _ABANDONED
    return _started(int(process)) not in (started, "unknown")


def _started(process: int) -> str:
    """When a process started, in the system's ticks; "never" if there is no such process."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[19]
    except OSError:
        pass
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return "never"
    except OSError:
        pass  # it belongs to somebody else
    return "unknown"


@lru_cache
def _host() -> str:
    """This machine; two containers of one name have processes of their own."""
    space = Path("/proc/self/ns/pid")
    number = space.stat().st_ino if space.exists() else 0
    return hashlib.sha256(f"{platform.node()} {number}".encode()).hexdigest()[:8]


def _flush(path: Path) -> None:
    with path.open("rb") as handle:
        os.fsync(handle.fileno())


def _flush_folder(folder: Path) -> None:
    """Make a rename last; some file systems cannot flush a folder."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
