"""Writing files and folders completely or not at all, and locks on folders."""

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import time
import tomllib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from domainbert.errors import UserError

LOCK = ".lock"
_LONGEST = 100  # characters of the original name in a temporary one
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_DISK = FULL | {errno.EACCES, errno.EPERM, errno.EIO}
# SQLite has codes of its own, SQLITE_FULL and SQLITE_IOERR.
_SQLITE = {13: errno.ENOSPC, 10: errno.EIO}
# In a message of Rust, or of DuckDB.
_ERROR_NUMBER = re.compile(r'(?:\(os error |"errno":")(\d+)')
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_PARTIAL = re.compile(
    r"\A\.(.+)\.partial-(\w+)-(\d+)-(\w+)-[0-9a-f]+(-old)?(?:\..*)?"
)
# Seconds without a change, for temporary files of processes on another machine.
_ABANDONED = 24 * 3600

JsonObject = dict[str, Any]
"""An object of JSON, or a table of TOML: values by their names."""


def whole_text(text: str) -> str:
    """A text with U+FFFD for half a surrogate pair, which files and tokenizers refuse."""
    return _HALF_PAIR.sub("\ufffd", text)


def json_text(document: object) -> str:
    """Indented JSON with each list of numbers or texts on one line."""
    text = json.dumps(
        document,
        indent=2,
        ensure_ascii=False,
    )
    return re.sub(r"\[([^][{}]*)\]", _on_one_line, text) + "\n"


def _on_one_line(json_list: re.Match[str]) -> str:
    # A JSON text holds no raw line break, so only those between entries are removed.
    lines = [line.strip() for line in json_list[1].splitlines()]
    return f"[{' '.join(lines).strip()}]"


def expanded(path: str | Path) -> Path:
    """A path with `~` replaced by the home folder, unless no user has that name (`~.csv`)."""
    with suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def check_output(out: str | Path, inputs: Iterable[str | Path]) -> None:
    """Raise `UserError` if an output file is also an input, under this or another name.

    Inputs that are not files, such as database URLs, are ignored.
    """
    target = expanded(out)
    for name in inputs:
        source = expanded(name)
        with suppress(OSError):
            if target.resolve() == source.resolve() or target.samefile(source):
                raise UserError(
                    f"{out} is an input of this command; write to another file"
                )


def write_json(document: object, path: Path) -> None:
    """Write a document as indented JSON; see `atomic_path`."""
    text = json.dumps(
        document,
        indent=2,
        ensure_ascii=False,
        default=_json_value,
    )
    write_text(text + "\n", path)


def _json_value(value: object) -> object:
    """NumPy numbers as numbers, results as dictionaries, anything else as text."""
    if hasattr(value, "item"):
        return value.item()
    if is_dataclass(value):
        return vars(value)
    return str(value)


@cache
def data_text(module_file: str, name: str) -> str:
    """The data of a package: a text file in the folder of the module with this `__file__`."""
    return (Path(module_file).parent / name).read_text("utf-8")


def read_toml(module_file: str, name: str) -> JsonObject:
    """A TOML file as a dictionary; see `data_text`."""
    return tomllib.loads(data_text(module_file, name))


def write_text(text: str, path: str | Path) -> None:
    """Write a text as UTF-8, with ? for half a surrogate pair; see `atomic_path`."""
    with atomic_path(path) as temporary:
        temporary.write_text(
            text,
            encoding="utf-8",
            errors="replace",
        )


@contextmanager
def disk_errors(
    path: Path, codes: Collection[int] = frozenset(_DISK)
) -> Iterator[None]:
    """Report a full or read-only disk as a `UserError`, whichever library meets it.

    Args:
        path: what is being written.
        codes: the `errno` of such errors; a block that also reads has to leave some out.
    """
    try:
        yield
    except Exception as error:
        number = _disk_fault(error)
        if number not in codes:
            raise
        reason = os.strerror(number).lower()
        raise UserError(
            f"{path} cannot be written ({reason}); correct this and repeat the command"
        ) from None


def _disk_fault(error: Exception) -> int:
    """The `errno` in an error of Python or of a library that writes files; 0 if it has none."""
    # The low byte of SQLite's code is the kind of error.
    sqlite_code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if sqlite_code in _SQLITE:
        return _SQLITE[sqlite_code]
    if match := _ERROR_NUMBER.search(str(error)):
        return int(match[1])
    if "PytorchStreamWriter failed" in str(error):
        return errno.EIO  # it does not say which
    return getattr(error, "errno", None) or 0


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary file next to `path`, renamed over it if the block succeeds.

    It is flushed to disk first. Files that killed processes left in the folder are removed. A
    missing folder or a full disk is a `UserError`.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise UserError(
            f"{path.parent}: no such folder; make it first, or write somewhere else"
        )
    temporary = _temporary_name(path, ending="".join(path.suffixes))
    with disk_errors(path):
        temporary.touch(exist_ok=False)
    try:
        with disk_errors(path, FULL):
            yield temporary
            _flush(temporary)
            temporary.replace(path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def folder_beside(folder: Path, *, private: bool = False) -> Iterator[Path]:
    """A temporary folder next to `folder`, removed when the block ends.

    A private one cannot be read by other users.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_name(folder)
    mode = 0o700 if private else 0o777
    temporary.mkdir(mode=mode)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def replace_folder(new: Path, folder: Path) -> None:
    """Flush a finished folder to disk and replace an older one by it.

    The older one is restored if that fails, or after a kill when the name is written next.
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
    """Lock a folder during the block, and make it if needed.

    `UserError` if another process has it. The lock ends with the process that holds it.
    """
    lock = FileLock(
        folder / LOCK,
        timeout=0,
        thread_local=False,
    )
    while not lock.is_locked:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except FileExistsError:
            if os.path.lexists(folder) and not folder.is_dir():
                raise  # a file, or a broken link
        except FileNotFoundError:
            pass  # the last holder has removed the folder: try again
        except Timeout:
            raise UserError(
                f"{folder} is in use by another process; wait for it, or use another folder"
            ) from None
    try:
        yield
    finally:
        lock.release()


def release_empty(folder: Path) -> None:
    """Remove a folder that this process holds, if only its lock is left in it."""
    # Windows keeps a file in use, and another process may lock the folder.
    with suppress(OSError):
        (folder / LOCK).unlink()
        folder.rmdir()


def _temporary_name(path: Path, *, ending: str = "") -> Path:
    """A new name, which says which process on which machine uses it."""
    remove_abandoned(path.parent)
    stem = path.name.removesuffix(ending)[:_LONGEST]
    owner = f"{_host()}-{os.getpid()}-{_started(os.getpid())}"
    return path.with_name(
        f".{stem}.partial-{owner}-{secrets.token_hex(4)}{ending}"
    )


def remove_abandoned(folder: Path, *, deep: bool = False) -> list[Path]:
    """Remove temporary files whose process is gone, and return their paths.

    A folder that was being replaced gets its name back. With `deep`, subfolders are searched too.
    """
    pattern = ".*.partial-*"
    if deep:
        pattern = f"**/{pattern}"
    removed = []
    for path in list(folder.glob(pattern)):
        match = _PARTIAL.fullmatch(path.name)
        with suppress(OSError):
            if match is None or not _is_abandoned(path, *match.group(2, 3, 4)):
                continue
            original = path.with_name(match[1])
            if match[5] and not original.exists():
                # A longer name was cut, so that the full name is unknown.
                if len(match[1]) < _LONGEST:
                    path.replace(original)
            elif path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
            removed.append(path)
    return removed


def is_temporary(path: Path) -> bool:
    """Whether a file or folder has a name from `atomic_path` or `folder_beside`."""
    return _PARTIAL.fullmatch(path.name) is not None


def _is_abandoned(
    path: Path,
    host: str,
    process: str,
    started: str,
) -> bool:
    """Whether the process that made a temporary file is gone."""
    status = path.stat()
    is_ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    if host != _host() or not is_ours or started == "unknown":
        return time.time() - status.st_mtime > _ABANDONED
    # A later process may have the same number, but not the same start.
    return _started(int(process)) != started


def is_running(process: int) -> bool:
    """Whether there is a process of this number; always, where the system cannot be asked."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)  # no signal is sent
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def _started(process: int) -> str:
    """When a process started, in the system's ticks; "unknown" without such a process or /proc."""
    try:
        status = Path(f"/proc/{process}/stat").read_text("utf-8")
    except OSError:
        return "unknown"
    after_name = status.rpartition(")")[2]  # the name may hold spaces
    return after_name.split()[19]


@cache
def _host() -> str:
    """A hash of this machine; containers of one name have different process numbers."""
    namespace = 0
    with suppress(OSError):
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    name = f"{platform.node()} {namespace}"
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def _flush(path: Path) -> None:
    """Write a file, or the list of files in a folder, to disk."""
    flags = os.O_RDONLY
    # Windows flushes only what is open for writing.
    if path.is_file() and os.access(path, os.W_OK):
        flags = os.O_RDWR
    # Some file systems cannot flush a folder.
    with suppress(OSError) if path.is_dir() else nullcontext():
        handle = os.open(path, flags)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
