"""The parts of a run on disk: what is done, what it was done with, and the table at the end."""

from __future__ import annotations

import json
import secrets
import shutil
from base64 import b64decode, b64encode
from collections import Counter
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.files import replace, write_json
from domainbert.locks import locked
from domainbert.scoring.layout import to_frame
from domainbert.scoring.survey import SPOOL
from domainbert.tables import FORMATS, TableWriter, atomic_path, table_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

MANIFEST = "manifest.json"
_KEYS = b"domainbert.keys"
_KEY_BYTES = 16


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
    def opened(self, facts: dict[str, Any], *, restart: bool) -> Iterator[Counter[bytes]]:
        """Hold the folder and give the keys of the items that are done.

        Args:
            facts: what decides the result; kept in the manifest.
            restart: start over, whatever is there.

        Raises:
            UserError: another run holds the folder, it has parts of a run with other facts, or
                it holds something else.
        """
        if not self.is_table and self.out.is_file():
            msg = f"{self.out} is a file; name a folder, or a table that ends in one of {FORMATS}"
            raise UserError(msg)
        with locked(self.folder):
            for stale in self.folder.glob(".part-*"):  # of a run that was killed
                stale.unlink()
            for stale in self.folder.glob(f"{SPOOL}*"):
                shutil.rmtree(stale)
            if restart and (self.folder / MANIFEST).is_file():
                self._remove_parts()
            self._check(json.loads(json.dumps(facts)))
            yield self._done()

    def _check(self, facts: dict[str, Any]) -> None:
        """Write the manifest, or compare with the one that is there."""
        note = self.folder / MANIFEST
        if not note.is_file():
            strange = [p.name for p in self.folder.iterdir() if not p.name.startswith(".")]
            if strange:
                msg = f"{self.folder} holds other files; choose a new folder"
                raise UserError(msg)
            self._manifest = {**facts, "salt": secrets.token_hex(16), "complete": False}
            write_json(self._manifest, note)
            return
        self._manifest = known = json.loads(note.read_text("utf-8"))
        if other := [name for name in facts if known.get(name) != facts[name]]:
            msg = (
                f"{self.folder} holds a run with another {' and '.join(other)}; "
                "use the same again, or start over with --restart"
            )
            raise UserError(msg)

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
        return blake2b(b"".join(sorted(digests)), digest_size=_KEY_BYTES, key=salt).digest()

    def parts(self) -> list[Path]:
        """The parts in order."""
        return sorted(self.folder.glob("part-*.parquet"))

    def _done(self) -> Counter[bytes]:
        import pyarrow.parquet as pq

        done: Counter[bytes] = Counter()
        for part in self.parts():
            keys = b64decode(pq.read_schema(part).metadata[_KEYS])
            done.update(keys[i : i + _KEY_BYTES] for i in range(0, len(keys), _KEY_BYTES))
        return done

    def write(self, table: pa.Table, keys: Sequence[bytes]) -> None:
        """Add a part: it is there as a whole, with its keys, or not at all."""
        import pyarrow.parquet as pq

        parts = self.parts()
        number = int(parts[-1].stem.split("-")[1]) + 1 if parts else 0
        metadata = {**(table.schema.metadata or {}), _KEYS: b64encode(b"".join(keys))}
        with atomic_path(self.folder / f"part-{number:06d}.parquet") as temporary:
            pq.write_table(table.replace_schema_metadata(metadata), temporary, compression="zstd")

    def finish(self, schema: pa.Schema, *, ids: Sequence[str] = ()) -> None:
        """Write the table from its parts and remove them; a folder of parts is marked complete.

        In CSV, no cell of the columns `ids` is a formula.
        """
        import pyarrow.parquet as pq

        if not self.is_table:
            self._manifest |= {"salt": None, "complete": True}
            write_json(self._manifest, self.folder / MANIFEST)
            return
        # Written inside the folder, so that a killed run leaves nothing outside it.
        whole = self.folder / f"table{''.join(self.out.suffixes[-2:])}"
        if self.out.name.lower().endswith(".parquet"):
            with pq.ParquetWriter(whole, schema, compression="zstd") as parquet:
                for table in self._tables(schema):
                    parquet.write_table(table)
        else:
            with TableWriter(whole, ids=ids) as writer:
                for table in self._tables(schema):
                    writer.write(to_frame(table))
        replace(whole, self.out)
        self._remove_parts()  # the manifest last: what a killed run leaves is still a run
        shutil.rmtree(self.folder)

    def _tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        import pyarrow.parquet as pq

        yield schema.empty_table()
        for part in self.parts():
            yield pq.read_table(part).replace_schema_metadata(schema.metadata)

    def _remove_parts(self) -> None:
        for part in self.parts():
            part.unlink()
        (self.folder / MANIFEST).unlink(missing_ok=True)
