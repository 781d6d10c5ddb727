"""VectorIndex: vectors and their passages in a folder, searched exactly, block by block."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Self, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from domainbert.errors import UserError
from domainbert.files import atomic_path, locked, write_json
from domainbert.models.embedder import Embedder
from domainbert.models.pooling import unit
from domainbert.search import Hits, top_k
from domainbert.settings import Count, Settings
from domainbert.streams import chunked

HEAD = "index.json"
_ROW = pa.schema(
    {"id": "string", "start": "int64", "end": "int64", "text": "string"}
)
COLUMNS = _ROW.names
_REBUILD = "build the index again"
Piece: TypeAlias = tuple[np.ndarray, pd.DataFrame]
"""Vectors, shape (rows, dimension), and `id, start, end, text` of each row."""


class Part(Settings):
    """A file of vectors and their rows."""

    name: str
    rows: Count


class Head(Settings):
    """The file that says what an index is made of.

    Attributes:
        fingerprint: the fingerprint of the embedder, see `Embedder.fingerprint`.
        dimension: length of a vector.
        about: what its maker noted in it.
        parts: its files; a file that is not named here is not part of the index.
    """

    version: Literal[3] = 3
    fingerprint: str
    dimension: Count
    about: dict[str, int]
    parts: list[Part]


class VectorIndex:
    """Vectors with ids and passage offsets in a folder; read through memory maps.

    Make one with `create`, or open a folder with `open`; `add` appends. Vectors are scaled to
    length 1, so that scores are cosines.

    Args:
        folder: the folder it is in.

    Attributes:
        head: what it is made of.
        about: what its maker noted in it; changed notes are kept by `add`.
        block_rows: the rows that are written, and searched, at once.

    Raises:
        UserError: no index, or a damaged one.
    """

    block_rows = 65_536

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read_head()

    @classmethod
    def create(
        cls,
        folder: str | Path,
        *,
        fingerprint: str,
        dimension: int,
        about: dict[str, int] | None = None,
    ) -> Self:
        """An empty index in a new folder; for the options see `Head`.

        Raises:
            UserError: there is something in the folder.
        """
        folder = Path(folder)
        check_new(folder)
        head = Head(
            fingerprint=fingerprint,
            dimension=dimension,
            about=about or {},
            parts=[],
        )
        folder.mkdir(parents=True, exist_ok=True)
        write_json(head.model_dump(), folder / HEAD)
        return cls(folder)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        embedder: Embedder | None = None,
    ) -> Self:
        """Open an index and check its files.

        Args:
            folder: the folder of the index.
            embedder: the one that queries will come from.

        Raises:
            UserError: no index, a damaged one, or one built with another embedder.
        """
        index = cls(Path(folder))
        built = index.head.fingerprint
        if embedder is not None and embedder.fingerprint() != built:
            raise UserError(
                f"{folder} was built with another encoder or other settings (hash {built[:12]}…, "
                f"here {embedder.fingerprint()[:12]}…); load that encoder, or {_REBUILD}"
            )
        return index

    def move(self, folder: Path) -> None:
        """Rename the folder."""
        self._parts.clear()  # Windows does not rename a folder of open files
        self.folder.rename(folder)
        self.folder = folder
        self._read_head()

    def _read_head(self) -> None:
        """Read what the index is made of; raise a `UserError` if there is no index."""
        file = self.folder / HEAD
        if not self.folder.is_dir():
            raise UserError(
                f"no such index folder: {self.folder}; make one with "
                f"`biomed sentences index SOURCE --out {self.folder}`"
            )
        if not file.is_file():
            raise UserError(f"{self.folder} holds no index: it has no {HEAD}")
        try:
            self.head = Head(**json.loads(file.read_text("utf-8")))
        except (ValueError, TypeError):
            raise UserError(
                f"{file} is damaged or of another version; {_REBUILD}"
            ) from None
        self.about = self.head.about
        self._parts = [self._load(part) for part in self.head.parts]

    def _load(self, part: Part) -> pa.Table:
        """The rows of a part, through a memory map."""
        path = self._part_path(part.name)
        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        except (OSError, pa.ArrowException):
            raise UserError(
                f"{path} is missing or damaged; {_REBUILD}"
            ) from None
        dimension = self.head.dimension
        stored_dimension = table.schema.field("vector").type.list_size
        if len(table) != part.rows or stored_dimension != dimension:
            expected = (
                f"expected {part.rows} rows of {dimension} float32 numbers"
            )
            raise UserError(f"{path}: {expected}; {_REBUILD}")
        return table

    def __len__(self) -> int:
        """Rows."""
        return sum(map(len, self._parts))

    def add(self, pieces: Iterable[Piece]) -> None:
        """Append rows piece by piece, in flat memory: all of them, or none if one fails.

        No other process can add meanwhile.

        Args:
            pieces: vectors, shape (rows, dimension), and `id, start, end, text` of each row: the
                id of its text, the first character of its passage there and one past the last,
                and the passage. Several rows may have one id.

        Raises:
            UserError: another dimension, or a vector that is not finite.
        """
        with locked(self.folder):
            self._read_head()
            # Parts of an `add` that was killed are not named by the head.
            named = {self._part_path(part.name) for part in self.head.parts}
            for path in set(self.folder.glob("*.arrow")) - named:
                path.unlink()
            parts: list[Part] = []
            try:
                for table in self._joined(pieces):
                    number = len(self._parts) + len(parts)
                    parts.append(
                        self._write_part(table, name=f"part-{number:05d}")
                    )
            except BaseException:
                for part in parts:
                    self._part_path(part.name).unlink()
                raise
            # The head is written last: what it does not name is not part of the index.
            head = self.head.replaced(
                about=self.about, parts=[*self.head.parts, *parts]
            )
            write_json(head.model_dump(), self.folder / HEAD)
            self._read_head()

    def _part_path(self, name: str) -> Path:
        return self.folder / f"{name}.arrow"

    def _write_part(self, table: pa.Table, *, name: str) -> Part:
        with (
            atomic_path(self._part_path(name)) as temporary,
            pa.OSFile(str(temporary), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)
        return Part(name=name, rows=len(table))

    def _joined(self, pieces: Iterable[Piece]) -> Iterator[pa.Table]:
        """Small pieces joined, so that all but the last have `block_rows` rows or a few more."""
        tables = (self._table(*piece) for piece in pieces)
        for batch in chunked(tables, size=len, limit=self.block_rows):
            if any(map(len, batch)):
                yield pa.concat_tables(batch).combine_chunks()

    def _table(self, vectors: np.ndarray, rows: pd.DataFrame) -> pa.Table:
        """Vectors and their rows as the table that is stored, with the vectors at length 1."""
        vectors = unit(np.asarray(vectors, dtype=np.float32))
        dimension = self.head.dimension
        if vectors.shape != (len(rows), dimension):
            expected = (
                f"expected ({len(rows)}, {dimension}), a row for each id"
            )
            raise UserError(f"vectors have shape {vectors.shape}, {expected}")
        is_finite = np.isfinite(vectors).all(axis=1)
        if not is_finite.all():
            count = int((~is_finite).sum())
            raise UserError(
                f"{count} of {len(vectors)} vectors are not finite; leave those texts out"
            )
        stored = pa.FixedSizeListArray.from_arrays(
            pa.array(vectors.ravel()), dimension
        )
        table = pa.Table.from_pandas(rows, schema=_ROW, preserve_index=False)
        return table.replace_schema_metadata().append_column("vector", stored)

    def search(self, queries: np.ndarray, *, k: int = 10) -> Hits:
        """The k nearest rows of each query by cosine.

        Args:
            queries: shape (queries, dimension).
            k: rows of each query.

        Raises:
            UserError: k < 1, or another dimension.
        """
        queries = unit(np.atleast_2d(np.asarray(queries, dtype=np.float32)))
        dimension = self.head.dimension
        if queries.shape[1] != dimension:
            raise UserError(
                f"queries have {queries.shape[1]} numbers, the index has {dimension}"
            )
        return top_k(queries, self.blocks(), k=k)

    def rows(self, numbers: Sequence[int] | np.ndarray) -> pd.DataFrame:
        """`id, start, end, text` of rows, in the order asked for."""
        numbers = np.asarray(numbers, dtype=np.int64)
        tables = [pd.DataFrame(columns=COLUMNS)]
        first = 0
        for part in self._parts:
            positions = np.flatnonzero(
                (numbers >= first) & (numbers < first + len(part))
            )
            if len(positions):
                table = part.select(COLUMNS).take(numbers[positions] - first)
                tables.append(table.to_pandas().set_index(positions))
            first += len(part)
        return (
            pd.concat(tables[1:] or tables).sort_index().reset_index(drop=True)
        )

    def stored(self, column: str) -> Iterator[str]:
        """The `id` or `text` of every row."""
        for part in self._parts:
            yield from part[column].to_pylist()

    def blocks(self) -> Iterator[np.ndarray]:
        """The vectors as float32, a block at a time."""
        for part in self._parts:
            # Not copied: they stay in the memory map.
            stored = part["vector"].chunk(0).flatten().to_numpy()
            vectors = stored.reshape(len(part), -1)
            for start in range(0, len(part), self.block_rows):
                yield vectors[start : start + self.block_rows]


def check_new(folder: Path) -> None:
    """Raise `UserError` if there is something in the folder of a new index."""
    if folder.is_file() or any(folder.glob("*")):
        raise UserError(
            f"{folder} exists already; add to it, or name another folder"
        )
