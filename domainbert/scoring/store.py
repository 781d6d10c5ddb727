"""The parts of a run on disk: what is done, what it was done with, and the table at the end."""

from __future__ import annotations

import json
import secrets
import shutil
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.files import replace, write_json
from domainbert.locks import LOCK, locked, release_empty
from domainbert.scoring.done import KEY_BYTES, Done, keys_of, told
from domainbert.scoring.layout import to_frame
from domainbert.scoring.sorting import SPOOL, Place, disk_errors, in_order
from domainbert.tables import FORMATS, TableWriter, atomic_path, table_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

MANIFEST = "manifest.json"
_FORMAT = 2  # of the parts


class RunStore:
    """Numbered Parquet parts and a manifest in a folder, which one run at a time may hold.

    Each part carries the keys of the items in it, so that a part and what it says is done appear
    together.

    Args:
        out: a table to assemble at the end, from parts in `OUT.parts` beside it; or, without an
            ending, a folder for the parts themselves.

    Raises:
        TableError: an ending that is no table's.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.is_table = bool(out.suffix)
        if self.is_table:
            table_format(out)
        self.folder = out.with_name(f"{out.name}.parts") if self.is_table else out

    @contextmanager
    def opened(self, facts: dict[str, Any], *, restart: bool) -> Iterator[Done]:
        """Hold the folder and give the items that are done.

        Args:
            facts: what decides the result; kept in the manifest.
            restart: start over, whatever is there.

        Raises:
            UserError: another run holds the folder, it has parts of a run with other facts, it
                holds something else, or it cannot be written.
        """
        if not self.is_table and self.out.is_file():
            msg = f"{self.out} is a file; name a folder, or a table that ends in one of {FORMATS}"
            raise UserError(msg)
        with ExitStack() as stack:
            with disk_errors(self.folder):
                stack.enter_context(locked(self.folder))
                done = self._prepare(json.loads(json.dumps({"format": _FORMAT, **facts})), restart)
            yield done

    def _prepare(self, facts: dict[str, Any], restart: bool) -> Done:  # noqa: FBT001
        for stale in self.folder.glob(".part-*"):  # of a run that was killed
            stale.unlink()
        for stale in self.folder.glob(f"{SPOOL}*"):
            shutil.rmtree(stale)
        if (self.folder / MANIFEST).is_file():
            known = {} if restart else self._read_manifest()
            # A table's run that was killed while it tidied up has nothing left to do.
            over = self.is_table and known.get("complete")
            if restart or (over and not (self.out.is_file() and facts.items() <= known.items())):
                self._remove_parts()
        self._check(facts)
        self._settle()
        return self._done()

    def _read_manifest(self) -> dict[str, Any]:
        note = self.folder / MANIFEST
        try:
            return dict(json.loads(note.read_text("utf-8")))
        except ValueError:
            raise UserError(f"{note} is damaged; start over with --restart") from None

    def _check(self, facts: dict[str, Any]) -> None:
        """Write the manifest, or compare with the one that is there."""
        if not (self.folder / MANIFEST).is_file():
            strange = [p.name for p in self.folder.iterdir() if not p.name.startswith(".")]
            if strange:
                msg = f"{self.folder} holds other files; choose a new folder"
                raise UserError(msg)
            self._manifest = {**facts, "salt": secrets.token_hex(16)}
            self._note(complete=False, first=0, sorting=None)
            return
        self._manifest = known = self._read_manifest()
        if other := [name for name in facts if known.get(name) != facts[name]]:
            msg = (
                f"{self.folder} holds a run with another {' and '.join(other)}; "
                "use the same again, or start over with --restart"
            )
            raise UserError(msg)

    def _note(self, **news: Any) -> None:
        self._manifest |= news
        write_json(self._manifest, self.folder / MANIFEST)

    def _settle(self) -> None:
        """Finish what a run that was killed while it sorted or tidied up had begun."""
        first, sorting = self._manifest["first"], self._manifest["sorting"]
        for part in self.parts():
            number = _number(part)
            if number < first or (sorting is not None and number >= sorting):
                part.unlink()
        if sorting is not None:
            self._note(sorting=None)
        if self.is_complete and self.is_table:
            self._remove_parts()
            release_empty(self.folder)

    @property
    def is_complete(self) -> bool:
        """Whether an earlier run did all of it."""
        return bool(self._manifest["complete"])

    def key(self, digests: Iterable[bytes]) -> bytes:
        """The key of an item from the digests of its rows.

        It is salted, and the salt is deleted at the end: no key in the parts of a complete run
        tells whether a known note was in it.
        """
        salt = bytes.fromhex(self._manifest["salt"])
        return blake2b(b"".join(sorted(digests)), digest_size=KEY_BYTES, key=salt).digest()

    def parts(self) -> list[Path]:
        """The parts in order."""
        return sorted(self.folder.glob("part-*.parquet"), key=_number)

    def _done(self) -> Done:
        import pyarrow as pa

        keys = bytearray()
        parts = self.parts()
        for part in parts:
            try:
                keys += keys_of(part)[0]
            except (pa.ArrowException, OSError, KeyError):
                msg = f"{part} is damaged; delete it and repeat the command: its rows are redone"
                raise UserError(msg) from None
        self._next = _number(parts[-1]) + 1 if parts else 0
        return Done(bytes(keys))

    def write(self, table: pa.Table, keys: Sequence[bytes], sizes: Iterable[int]) -> None:
        """Add a part: it is there as a whole, with its keys, or not at all.

        Args:
            table: the rows.
            keys: of the items.
            sizes: rows of each item.
        """
        import pyarrow.parquet as pq

        metadata = {**(table.schema.metadata or {}), **told(keys, sizes)}
        with (
            disk_errors(self.folder),
            atomic_path(self.folder / f"part-{self._next:06d}.parquet") as temporary,
        ):
            pq.write_table(table.replace_schema_metadata(metadata), temporary, compression="zstd")
        self._next += 1

    def sort(self, places: Iterable[Place]) -> None:
        """Bring the parts into the order of the input, with the row numbers that it has now.

        Args:
            places: of all items, in the order of the input.
        """
        with disk_errors(self.folder):
            parts, first = self.parts(), self._next
            self._note(sorting=first)
            for table, keys, sizes in in_order(parts, places, beside=self.folder):
                self.write(table, keys, sizes)
            self._note(sorting=None, first=first)
            for part in parts:
                part.unlink()

    def finish(self, schema: pa.Schema, *, ids: Sequence[str] = ()) -> None:
        """Write the table from its parts and remove them; a folder of parts is marked complete.

        In CSV, no cell of the columns `ids` is a formula.
        """
        with disk_errors(self.folder):
            if self.is_table:
                # Written inside the folder, so that a killed run leaves nothing outside it.
                whole = self.folder / f"table{''.join(self.out.suffixes[-2:])}"
                try:
                    self._assemble(whole, schema, ids)
                    replace(whole, self.out)
                finally:
                    whole.unlink(missing_ok=True)
            self._note(salt=None, complete=True)
            if self.is_table:
                self._remove_parts()
                release_empty(self.folder)

    def _assemble(self, whole: Path, schema: pa.Schema, ids: Sequence[str]) -> None:
        import pyarrow.parquet as pq

        if whole.suffix.lower() == ".parquet":
            with pq.ParquetWriter(whole, schema, compression="zstd") as parquet:
                for table in self._tables(schema):
                    parquet.write_table(table)
        else:
            with TableWriter(whole, ids=ids) as writer:
                for table in self._tables(schema):
                    writer.write(to_frame(table))

    def _tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        import pyarrow.parquet as pq

        yield schema.empty_table()
        for part in self.parts():
            yield pq.read_table(part).replace_schema_metadata(schema.metadata)

    def _remove_parts(self) -> None:
        """Remove what a run has written in its folder, the manifest last."""
        for path in self.folder.iterdir() if self.is_table else self.parts():
            if path.name not in (MANIFEST, LOCK):
                path.unlink()
        (self.folder / MANIFEST).unlink(missing_ok=True)


def _number(part: Path) -> int:
    return int(part.stem.split("-")[1])
