"""Files and folders that appear complete or not at all, and locks on folders."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from domainbert.errors import UserError

LOCK = ".lock"
_LONGEST = 100  # characters of a name within a temporary one
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_PARTIAL = re.compile(r"\A\.(.+)\.partial-(\w+)-(\d+)-(\w+)-[0-9a-f]+(-old)?(?:\..*)?")
_ABANDONED = (
    24 * 3600
)  # seconds without a change, for temporaries whose process is out of sight


def whole_text(text: str) -> str:
    """A text as files and tokenizers take it: U+FFFD for half a surrogate pair."""
    return _HALF_PAIR.sub("\ufffd", text)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def check_output(out: str | Path, inputs: Iterable[str | Path]) -> None:
    """Raise `UserError` if a file to be written is also read, under this or another name.

    Inputs that are not files, such as database URLs, are ignored.
    """
    target = Path(out).expanduser()
    for name in inputs:
        source = Path(name).expanduser()
        with suppress(OSError):
            if target.resolve() == source.resolve() or target.samefile(source):
                raise UserError(
                    f"{out} is an input of this command; write to another file"
                )


def write_json(document: Any, path: Path) -> None:
    """Write a document as indented JSON; see `atomic_path`."""
    text = json.dumps(document, indent=2, ensure_ascii=False, default=_plain)
    write_text(text + "\n", path)


def _plain(value: Any) -> Any:
    """NumPy numbers as numbers, anything else that JSON does not know as text."""
    return value.item() if hasattr(value, "item") else str(value)


def write_text(text: str, path: str | Path) -> None:
    """Write a text as UTF-8, a question mark for half a surrogate pair; see `atomic_path`."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary file beside `path`, flushed to disk and renamed over it if the block succeeds.

    What killed processes left in the folder is removed first. A missing folder is a `UserError`.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise UserError(
            f"{path.parent}: no such folder; make it first, or write somewhere else"
        )
    temporary = _temporary_name(path, ending="".join(path.suffixes))
    temporary.touch(exist_ok=False)
    try:
        yield temporary
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def folder_beside(folder: Path, *, private: bool = False) -> Iterator[Path]:
    """A temporary folder beside `folder`, removed when the block ends.

    A private one is closed to other users.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_name(folder)
    temporary.mkdir(mode=0o700 if private else 0o777)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def replace_folder(new: Path, folder: Path) -> None:
    """Flush a finished folder to disk and replace another one by it.

    The other one is restored if that fails, or, after a kill, when the name is written next.
    """
    for path in [*new.rglob("*"), new]:
        _flush(path)
    old = new.with_name(f"{new.name}-old")
    try:
        if folder.exists():
            folder.replace(old)
        new.replace(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.replace(folder)
        raise
    _flush(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder if needed and hold it during the block; `UserError` if another process does.

    The lock ends with the process that holds it.
    """
    lock = FileLock(folder / LOCK, timeout=0, thread_local=False)
    while not lock.is_locked:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except FileExistsError:
            if os.path.lexists(folder) and not folder.is_dir():
                raise  # a file, or a link to nowhere
        except FileNotFoundError:
            pass  # its last holder removed the folder meanwhile
        except Timeout:
            msg = f"{folder} is in use by another process; wait for it, or use another folder"
            raise UserError(msg) from None
    try:
        yield
    finally:
        lock.release()


def release_empty(folder: Path) -> None:
    """Remove a folder that this process holds, if nothing but its lock is left in it."""
    with suppress(
        OSError
    ):  # Windows keeps a file in use; another process may lock the folder
        (folder / LOCK).unlink()
        folder.rmdir()


def _temporary_name(path: Path, *, ending: str = "") -> Path:
    """A new name that tells its process."""
    remove_abandoned(path.parent)
    stem = path.name.removesuffix(ending)[:_LONGEST]
    owner = f"{_host()}-{os.getpid()}-{_started(os.getpid())}"
    return path.with_name(f".{stem}.partial-{owner}-{secrets.token_hex(4)}{ending}")


def remove_abandoned(folder: Path, *, deep: bool = False) -> list[Path]:
    """Remove what processes that are gone left unfinished in a folder, or also deep below it.

    A folder that was being replaced gets its name back. Returns what was there.
    """
    removed = []
    for found in [*(folder.rglob if deep else folder.glob)(".*.partial-*")]:
        match = _PARTIAL.fullmatch(found.name)
        with suppress(OSError):
            if match is None or not _is_abandoned(found, *match.group(2, 3, 4)):
                continue
            if match[5] and not (path := found.with_name(match[1])).exists():
                if len(match[1]) < _LONGEST:  # else it was cut
                    found.replace(path)
            elif found.is_dir():
                shutil.rmtree(found)
            else:
                found.unlink()
            removed.append(found)
    return removed


def is_temporary(path: Path) -> bool:
    """Whether a file or folder has a name that only these functions give."""
    return _PARTIAL.fullmatch(path.name) is not None


def _is_abandoned(found: Path, host: str, process: str, started: str) -> bool:
    facts = found.stat()
    is_ours = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
    if host != _host() or not is_ours or started == "unknown":
        return time.time() - facts.st_mtime > _ABANDONED
    return _started(int(process)) != started


def _started(process: int) -> str:
    """When a process started, in the system's ticks; "unknown" without such a process or /proc."""
    try:
        return (
            Path(f"/proc/{process}/stat")
            .read_text("utf-8")
            .rsplit(")", 1)[1]
            .split()[19]
        )
    except OSError:
        return "unknown"


@cache
def _host() -> str:
    """This machine; two containers of one name have processes of their own."""
    space = Path("/proc/self/ns/pid")
    name = f"{platform.node()} {space.stat().st_ino if space.exists() else 0}"
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def _flush(path: Path) -> None:
    """Write a file, or the names in a folder, to disk; some file systems cannot do the latter."""
    with suppress(OSError) if path.is_dir() else nullcontext():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
