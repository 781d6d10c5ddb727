"""RunStore: the finished parts of a run on disk, and the table that is made of them."""

import json
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import blake2b, file_digest
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from domainbert.errors import UserError
from domainbert.files import (
    LOCK,
    JsonObject,
    atomic_path,
    check_output,
    disk_errors,
    folder_beside,
    is_temporary,
    locked,
    release_empty,
    write_json,
)
from domainbert.tables import source_files, write_table
from domainbert.tables.options import DATABASES, table_format

MANIFEST = "manifest.json"
_FORMAT = "domainbert parts 5"  # of the parts
_SALT = 16  # bytes
_ITEMS = b"domainbert.items"


class RunStore:
    """Numbered Parquet parts and a manifest in `OUT.parts`, which one run at a time may hold.

    The parts hold the first items of the input, in its order. The number of items is in the file
    of each part, so that a part and the count appear together.

    Args:
        source: the input; see `domainbert.tables.iter_rows`.
        out: the table that is written at the end.

    Raises:
        TableError: the name of `out` does not end as that of a table.
        UserError: the input would be overwritten.
    """

    def __init__(self, source: str | Path, out: Path) -> None:
        table_format(out)
        self.out = out
        self.folder = out.with_name(f"{out.name}.parts")
        self._manifest: JsonObject = {}
        if not str(source).startswith(DATABASES):
            _check_apart(source, out, self.folder)

    @contextmanager
    def held(self, *, restart: bool) -> Iterator[Path]:
        """Lock the folder; the value is a private folder within it, removed at the end.

        Args:
            restart: discard the parts of an earlier run.

        Raises:
            UserError: another run uses the folder, it has other files or a damaged manifest, or
                it cannot be written.
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
                if "input" not in self._manifest:  # the run has not started
                    self._remove()

    def _check_folder(self) -> None:
        """Refuse a folder with files, even hidden ones, that were not written by a run."""
        manifest = self.folder / MANIFEST
        if not self.folder.is_dir() or _read_manifest(manifest):
            return
        if manifest.exists():
            raise UserError(
                f"{manifest} is damaged; delete {self.folder} and repeat the command"
            )
        for path in self.folder.iterdir():
            if path.name != LOCK and not is_temporary(path):
                raise UserError(
                    f"{self.folder} holds other files; write to another file"
                )

    def _open(self, *, restart: bool) -> None:
        """Read the manifest, or write a new one."""
        self._manifest = _read_manifest(self.folder / MANIFEST)
        if restart or not self._manifest:
            self._remove_parts()
            self._manifest = {}
            self._update(format=_FORMAT, salt=secrets.token_hex(_SALT))

    def digest(self, source: str | Path) -> str:
        """Hash of the names and bytes of the files of a source, keyed by the salt of the run."""
        key = bytes.fromhex(self._manifest["salt"])
        digest = blake2b(key=key)
        for path in source_files(source):
            with path.open("rb") as file:
                content = file_digest(file, blake2b)
            digest.update(path.name.encode() + content.digest())
        return digest.hexdigest()

    def start(self, facts: Mapping[str, object]) -> int:
        """Compare the facts with those of an earlier run, and count the items that it scored.

        Args:
            facts: what the results depend on; kept in the manifest.

        Raises:
            UserError: the folder has parts of a run with other facts, or a damaged part.
        """
        facts = json.loads(json.dumps(facts))
        self._next = len(self._parts())
        changed = [
            name
            for name, fact in facts.items()
            if self._manifest.get(name) != fact
        ]
        if changed:
            if self._next:
                raise UserError(
                    f"{self.folder} holds a run with another {' and '.join(changed)}; "
                    "use the same again, or start over with `restart=True`"
                )
            self._update(**facts)
        # Parts after a missing one are of no use.
        self._remove_parts(first=self._next)
        items, _ = self.totals()
        return items.total()

    def totals(self) -> tuple[Counter[str], int]:
        """The number of items by status, and of rows, in all parts."""
        items: Counter[str] = Counter()
        rows = 0
        for part in self._parts():
            part_items, part_rows = _part_counts(part)
            items += part_items
            rows += part_rows
        return items, rows

    def write(self, table: pa.Table, *, items: Counter[str]) -> None:
        """Add a part with the rows of the next items; it appears when it is complete.

        Args:
            table: the rows.
            items: the number of items by status.
        """
        metadata = {**(table.schema.metadata or {}), _ITEMS: json.dumps(items)}
        path = self.folder / f"part-{self._next:06d}.parquet"
        with disk_errors(self.folder), atomic_path(path) as temporary:
            pq.write_table(
                table.replace_schema_metadata(metadata),
                temporary,
                compression="zstd",
            )
        self._next += 1

    def finish(
        self,
        schema: pa.Schema,
        *,
        raw: bool,
        summary: dict[str, object],
        summary_file: Path | None,
    ) -> None:
        """Write the table from the parts, and remove the parts.

        Args:
            schema: the schema of the table.
            raw: see `write_table`.
            summary: the summary of the run.
            summary_file: for the summary; the parts are kept if it cannot be written.
        """

        def tables() -> Iterator[pa.Table]:
            yield schema.empty_table()
            for part in self._parts():
                yield pq.read_table(part).replace_schema_metadata(
                    schema.metadata
                )

        with disk_errors(self.folder):
            write_table(tables(), self.out, raw=raw)
            if summary_file:
                write_json(summary, summary_file)
            self._remove()

    def _update(self, **entries: object) -> None:
        self._manifest |= entries
        write_json(self._manifest, self.folder / MANIFEST)

    def _parts(self) -> list[Path]:
        """The parts in order, up to the first one that is missing."""
        return [
            path
            for number, path in enumerate(self._all_parts())
            if path.name == f"part-{number:06d}.parquet"
        ]

    def _all_parts(self) -> list[Path]:
        return sorted(self.folder.glob("part-" + 6 * "[0-9]" + ".parquet"))

    def _remove_parts(self, *, first: int = 0) -> None:
        for path in reversed(self._all_parts()[first:]):
            path.unlink()

    def _remove(self) -> None:
        """Remove the parts, then the manifest, and then the folder if it is empty."""
        self._remove_parts()
        shutil.rmtree(self._work, ignore_errors=True)
        (self.folder / MANIFEST).unlink(missing_ok=True)
        release_empty(self.folder)


def _check_apart(source: str | Path, out: Path, folder: Path) -> None:
    """Refuse an output that is an input, is in the input folder, or contains an input."""
    files = source_files(source)
    check_output(out, files)
    if Path(source).is_dir() and out.resolve().is_relative_to(
        Path(source).resolve()
    ):
        raise UserError(
            f"{out} is in the folder that is read; write somewhere else"
        )
    if any(file.resolve().is_relative_to(folder.resolve()) for file in files):
        raise UserError(f"{folder} holds the input; write to another file")


def _read_manifest(path: Path) -> JsonObject:
    """A manifest; empty if there is none or it is damaged."""
    try:
        manifest = json.loads(path.read_text("utf-8"))
        salt = bytes.fromhex(manifest["salt"])
        if manifest["format"] == _FORMAT and len(salt) == _SALT:
            return manifest
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        pass
    return {}


def _part_counts(part: Path) -> tuple[Counter[str], int]:
    """The number of items by status, and of rows, in a part."""
    try:
        metadata = pq.read_metadata(part)
        items = json.loads(metadata.metadata[_ITEMS])
        return Counter(items), metadata.num_rows
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):
        raise UserError(
            f"{part} is damaged; delete it and repeat the command: its rows, and those after it, "
            "are scored again"
        ) from None
