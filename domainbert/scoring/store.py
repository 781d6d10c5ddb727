"""The parts of a run on disk: what is done, what it was done with, and the table at the end."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.files import (
    LOCK,
    atomic_path,
    check_output,
    folder_beside,
    is_temporary,
    locked,
    release_empty,
    write_json,
)
from domainbert.tables import source_files, write_table
from domainbert.tables.options import DATABASES, table_format

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
_FORMAT = "domainbert parts 5"  # of the parts
_SALT = 16  # bytes
_ITEMS = b"domainbert.items"
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DISK = _NO_SPACE | {errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
_SQLITE = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR: errno.EIO}


class RunStore:
    """Numbered Parquet parts and a manifest in `OUT.parts`, which one run at a time may hold.

    The parts hold the first items of the input, in its order; each says how many are in it, so
    that rows and what is done appear together.

    Args:
        source: what is read; see `domainbert.tables.iter_rows`.
        out: the table to assemble at the end.

    Raises:
        TableError: an ending that is no table's.
        UserError: what is read would be written.
    """

    def __init__(self, source: str | Path, out: Path) -> None:
        table_format(out)
        self.out, self.folder = out, out.with_name(f"{out.name}.parts")
        self._manifest: dict[str, Any] = {}
        if not str(source).startswith(DATABASES):
            _check_apart(source, out, self.folder)

    @contextmanager
    def held(self, *, restart: bool) -> Iterator[Path]:
        """Hold the folder, and give a private one within it, which is removed at the end.

        With `restart` all begins anew, whatever run is there.

        Raises:
            UserError: another run holds the folder, it holds something else, its manifest is
                damaged, or it cannot be written.
        """
        with ExitStack() as stack:
            with disk_errors(self.folder):
                self._check_folder()  # before anything is written
                stack.enter_context(locked(self.folder))
                self._open(restart=restart)
                self._work = stack.enter_context(
                    folder_beside(self.folder / "rows", private=True)
                )
            try:
                yield self._work
            finally:
                if "input" not in self._manifest:  # nothing was begun
                    self._remove()

    def _check_folder(self) -> None:
        """Refuse a folder with files, also hidden ones, that no run has written."""
        note = self.folder / MANIFEST
        if not self.folder.is_dir() or _read_manifest(note):
            return
        if note.exists():
            raise UserError(
                f"{note} is damaged; delete {self.folder} and repeat the command"
            )
        if not all(
            path.name == LOCK or is_temporary(path) for path in self.folder.iterdir()
        ):
            raise UserError(f"{self.folder} holds other files; write to another file")

    def _open(self, *, restart: bool) -> None:
        """Read the manifest, or write a new one."""
        self._manifest = _read_manifest(self.folder / MANIFEST)
        if restart or not self._manifest:
            self._remove_parts()
            self._manifest = {}
            self._note(format=_FORMAT, salt=secrets.token_hex(_SALT))
        self.salt = bytes.fromhex(
            self._manifest["salt"]
        )  # the key of the digest of the input

    def start(self, facts: Mapping[str, object]) -> int:
        """Compare with what an earlier run was asked, and count the items that it did.

        Args:
            facts: what decides the result; kept in the manifest.

        Raises:
            UserError: the folder has parts of a run with other facts, or a damaged part.
        """
        facts = json.loads(json.dumps(facts))
        self._next = len(self._parts())
        if other := [name for name in facts if self._manifest.get(name) != facts[name]]:
            if self._next:
                raise UserError(
                    f"{self.folder} holds a run with another {' and '.join(other)}; "
                    "use the same again, or start over with --restart"
                )
            self._note(**facts)
        self._remove_parts(first=self._next)  # a part before them was deleted
        return self.totals()[0].total()

    def totals(self) -> tuple[Counter[str], int]:
        """Items by status, and rows, of all parts."""
        facts = [_facts(part) for part in self._parts()]
        return sum((items for items, _ in facts), Counter()), sum(
            rows for _, rows in facts
        )

    def write(self, table: pa.Table, *, items: Counter[str]) -> None:
        """Add a part with the rows of the next items: it is there as a whole, or not at all.

        Args:
            table: the rows.
            items: how many of each status.
        """
        import pyarrow.parquet as pq

        metadata = {**(table.schema.metadata or {}), _ITEMS: json.dumps(items)}
        path = self.folder / f"part-{self._next:06d}.parquet"
        with disk_errors(self.folder), atomic_path(path) as temporary:
            pq.write_table(
                table.replace_schema_metadata(metadata), temporary, compression="zstd"
            )
        self._next += 1

    def finish(
        self,
        schema: pa.Schema,
        *,
        raw: bool,
        summary: dict[str, Any],
        beside: Path | None,
    ) -> None:
        """Write the table from its parts, and remove them.

        Args:
            schema: of the table.
            raw: see `write_table`.
            summary: of the run.
            beside: the file for it; a run that cannot write it keeps its parts.
        """
        import pyarrow.parquet as pq

        def tables() -> Iterator[pa.Table]:
            yield schema.empty_table()
            for part in self._parts():
                yield pq.read_table(part).replace_schema_metadata(schema.metadata)

        with disk_errors(self.folder):
            write_table(tables(), self.out, raw=raw)
            if beside:
                write_json(summary, beside)
            self._remove()

    def _note(self, **news: object) -> None:
        self._manifest |= news
        write_json(self._manifest, self.folder / MANIFEST)

    def _parts(self) -> list[Path]:
        """The parts in order, up to the first that is missing."""
        paths = enumerate(self._all_parts())
        return [path for n, path in paths if path.name == f"part-{n:06d}.parquet"]

    def _all_parts(self) -> list[Path]:
        return sorted(self.folder.glob("part-" + 6 * "[0-9]" + ".parquet"))

    def _remove_parts(self, *, first: int = 0) -> None:
        for path in reversed(self._all_parts()[first:]):
            path.unlink()

    def _remove(self) -> None:
        """Remove what runs have written here, the manifest last, and the folder if it is empty."""
        self._remove_parts()
        shutil.rmtree(self._work, ignore_errors=True)
        (self.folder / MANIFEST).unlink(missing_ok=True)
        release_empty(self.folder)


def _check_apart(source: str | Path, out: Path, folder: Path) -> None:
    """Refuse an output that is an input, or lies in the folder that is read, or around it."""
    files = source_files(source)
    check_output(out, files)
    if Path(source).is_dir() and out.resolve().is_relative_to(Path(source).resolve()):
        raise UserError(f"{out} is in the folder that is read; write somewhere else")
    if any(file.resolve().is_relative_to(folder.resolve()) for file in files):
        raise UserError(f"{folder} holds other files, the input; write to another file")


def _read_manifest(path: Path) -> dict[str, Any]:
    """A manifest; empty where there is none or it is damaged."""
    try:
        manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
        is_sound = (
            manifest["format"] == _FORMAT
            and len(bytes.fromhex(manifest["salt"])) == _SALT
        )
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return {}
    return manifest if is_sound else {}


def _facts(part: Path) -> tuple[Counter[str], int]:
    """The items in a part by status, and its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.read_metadata(part)
        return Counter(json.loads(found.metadata[_ITEMS])), found.num_rows
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):
        raise UserError(
            f"{part} is damaged; delete it and repeat the command: its rows, and those after it, "
            "are scored again"
        ) from None


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Say in one line that a disk is full or cannot be written."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        code = (
            getattr(error, "sqlite_errorcode", 0) & 0xFF
        )  # the other bits say at which step
        number = _SQLITE.get(code, getattr(error, "errno", None))
        if number not in _DISK:
            raise
        why = os.strerror(number).lower()
        msg = f"{folder} cannot be written ({why}); correct this and repeat the command to resume"
        raise UserError(msg) from None
