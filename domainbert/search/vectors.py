"""VectorIndex: vectors in a folder, searched exactly in blocks, or by a graph (HNSW)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.files import atomic_path, folder_beside, locked, write_json
from domainbert.models.pooling import unit
from domainbert.search import Hits, top_k

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from domainbert.models.embedder import Embedder

HEAD, GRAPH = "index.json", "graph.usearch"
VERSION = 2
BLOCK_ROWS = 65_536
# Of the graph: this many times k rows, but at least so many, are compared exactly.
CANDIDATES, LEAST_CANDIDATES = 4, 64
_ROW_COLUMNS = ["id", "start", "end", "text"]
_AGAIN = "build the index again"


class VectorIndexError(UserError):
    """A damaged index folder, or one of another encoder; the message says the fix."""


class VectorIndex:
    """Vectors with ids and passage offsets in a folder; read through memory maps.

    Make one with `create`, or open a folder with `open`; `add` appends. Vectors are scaled to
    length 1, so that scores are cosines.

    Attributes:
        folder: where it is.
        fingerprint: of the embedder, see `Embedder.fingerprint`.
        dimension: length of a vector.
        about: what its maker noted in it.
    """

    def __init__(self, folder: Path, head: dict[str, Any]) -> None:
        self.folder = folder
        self.fingerprint: str = head["fingerprint"]
        self.dimension: int = head["dimension"]
        self._take(head)
        self._graph: Any = None

    def _take(self, head: dict[str, Any]) -> None:
        self._parts: list[dict[str, Any]] = list(head["parts"])
        self.about: dict[str, Any] = head["about"]
        self._in_graph: int | None = head["graph"]  # rows; None without a graph

    @classmethod
    def create(
        cls,
        folder: str | Path,
        *,
        fingerprint: str,
        dimension: int,
        about: dict[str, Any] | None = None,
    ) -> VectorIndex:
        """An empty index in a new folder.

        Args:
            folder: must not be there yet.
            fingerprint: of the embedder.
            dimension: length of a vector.
            about: a note that is kept with it, as JSON.

        Raises:
            UserError: the folder is there.
        """
        folder = Path(folder)
        if folder.exists():
            raise UserError(f"{folder} exists already; add to it, or name another folder")
        head: dict[str, Any] = {
            "version": VERSION,
            "fingerprint": fingerprint,
            "dimension": dimension,
            "about": about or {},
            "parts": [],
            "graph": None,
        }
        with folder_beside(folder) as temporary:
            write_json(head, temporary / HEAD)
            temporary.rename(folder)
        return cls(folder, head)

    @classmethod
    def open(cls, folder: str | Path, *, embedder: Embedder | None = None) -> VectorIndex:
        """Open an index and check its files.

        Args:
            folder: of the index.
            embedder: the one that queries will come from.

        Raises:
            UserError: no index, a damaged one, or one built with another embedder.
        """
        folder = Path(folder)
        head = _read_head(folder)
        if embedder is not None and embedder.fingerprint() != head["fingerprint"]:
            raise VectorIndexError(
                f"{folder} was built with another encoder or other settings (hash "
                f"{head['fingerprint'][:12]}…, here {embedder.fingerprint()[:12]}…); load that "
                f"encoder, or {_AGAIN}"
            )
        index = cls(folder, head)
        for part in index._parts:
            index._load(part)
        return index

    def __len__(self) -> int:
        """Rows."""
        return sum(part["rows"] for part in self._parts)

    def add(self, vectors: np.ndarray, **columns: Any) -> None:
        """Append rows; see `PartWriter.add`. They are there whole or not at all."""
        with self.adding() as rows:
            rows.add(vectors, **columns)

    @contextmanager
    def adding(self) -> Iterator[PartWriter]:
        """Append rows piece by piece: `with index.adding() as rows: rows.add(...)`.

        When the block ends, all of them are in the index, and `about` as it is then is kept. If
        the block fails, nothing has changed. No other process can add meanwhile.
        """
        with locked(self.folder):
            head = _read_head(self.folder)
            self._take(head)
            writer = PartWriter(self.folder, len(self._parts), self.dimension)
            try:
                yield writer
                writer.write()
            except BaseException:
                kept = {part["name"] for part in self._parts}
                for path in self.folder.glob("part-*"):
                    if path.name.split(".")[0] not in kept:
                        path.unlink()
                raise
            # The head is written last: what it does not name is not part of the index.
            head["parts"] += writer.parts
            write_json(head, self.folder / HEAD)
            self._take(head)

    def search(self, queries: np.ndarray, *, k: int = 10, approximate: bool = False) -> Hits:
        """The k nearest rows of each query by cosine.

        Args:
            queries: shape (queries, dimension).
            k: rows of each query.
            approximate: ask the graph, see `build_graph`, for candidates and compare these
                exactly: most, not all, of the nearest rows, in time that grows with the logarithm
                of their number. Rows added after the graph was built are searched exactly.

        Raises:
            UserError: k < 1, another dimension, or no usable graph.
        """
        queries = unit(np.atleast_2d(np.asarray(queries, dtype=np.float32)))
        if queries.shape[1] != self.dimension:
            msg = f"queries have {queries.shape[1]} numbers, the index has {self.dimension}"
            raise UserError(msg)
        if not approximate:
            return top_k(queries, self.blocks(), k=k)
        graph, covered = self._open_graph()
        new = top_k(queries, self.blocks(covered), k=k, first=covered)
        if not covered:
            return new
        most = min(covered, max(LEAST_CANDIDATES, CANDIDATES * k))
        rows = np.atleast_2d(graph.search(queries, most).keys).astype(np.int64)
        rows = rows.reshape(len(queries), -1)
        vectors = self.vectors(rows.ravel()).reshape(*rows.shape, -1)
        scores = np.einsum("qd,qkd->qk", queries, vectors)
        rows = np.concatenate([rows, new.rows], axis=1)
        scores = np.concatenate([scores, new.scores], axis=1)
        order = np.lexsort((rows, -np.nan_to_num(scores, nan=-np.inf)), axis=1)[:, :k]
        return Hits(np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1))

    def build_graph(self) -> None:
        """Build the graph for approximate search (Malkov and Yashunin 2016, by usearch).

        It is kept in the folder, and an older one is replaced. No other process can add meanwhile.
        """
        from usearch.index import Index

        with locked(self.folder):
            head = _read_head(self.folder)
            self._take(head)
            self._graph, first = Index(ndim=self.dimension, metric="ip", dtype="f16"), 0
            for block in self.blocks():
                self._graph.add(np.arange(first, first + len(block), dtype=np.uint64), block)
                first += len(block)
            with atomic_path(self.folder / GRAPH) as temporary:
                self._graph.save(str(temporary))
            head["graph"] = first
            write_json(head, self.folder / HEAD)
            self._in_graph = first

    def _open_graph(self) -> tuple[Any, int]:
        """The graph, read through a memory map, and how many rows are in it."""
        from usearch.index import Index

        if self._in_graph is None:
            raise VectorIndexError(f"{self.folder} has no graph; build it with build_graph")
        if self._graph is None or len(self._graph) != self._in_graph:
            try:
                self._graph = Index.restore(str(self.folder / GRAPH), view=True)
                fits = len(self._graph) == self._in_graph
            except (RuntimeError, OSError, TypeError, ValueError):
                fits = False
            if not fits:
                msg = f"{self.folder / GRAPH} is missing or damaged; build it with build_graph"
                raise VectorIndexError(msg)
        return self._graph, self._in_graph

    def rows(self, numbers: Sequence[int] | np.ndarray) -> pd.DataFrame:
        """`id, start, end, text` of rows, in the order asked for."""
        import pandas as pd

        pieces = [
            self._load(part).select(_ROW_COLUMNS).take(rows).to_pandas().set_index(places)
            for part, places, rows in self._places(numbers)
        ]
        if not pieces:
            return pd.DataFrame(columns=_ROW_COLUMNS)
        return pd.concat(pieces).sort_index().reset_index(drop=True)

    def vectors(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """The vectors of rows as float32, in the order asked for, shape (rows, dimension)."""
        result = np.empty((len(numbers), self.dimension), dtype=np.float32)
        for part, places, rows in self._places(numbers):
            result[places] = self._read(part, rows)
        return result

    def blocks(self, first: int = 0) -> Iterator[np.ndarray]:
        """The vectors as float32, a block at a time, from a row on."""
        for part in self._parts:
            for start in range(max(0, first), part["rows"], BLOCK_ROWS):
                yield self._read(part, slice(start, start + BLOCK_ROWS))
            first -= part["rows"]

    def _places(
        self, numbers: Sequence[int] | np.ndarray
    ) -> Iterator[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
        """Each part with some of these rows: their places in `numbers`, their rows in the part."""
        numbers = np.asarray(numbers, dtype=np.int64)
        first = 0
        for part in self._parts:
            places = np.flatnonzero((numbers >= first) & (numbers < first + part["rows"]))
            if len(places):
                yield part, places, numbers[places] - first
            first += part["rows"]

    def _read(self, part: dict[str, Any], rows: slice | np.ndarray) -> np.ndarray:
        table = self._load(part)
        stored = table["vector"].chunk(0).flatten().to_numpy().reshape(-1, self.dimension)
        return np.asarray(stored[rows])

    def _load(self, part: dict[str, Any]) -> pa.Table:
        """The rows of a part, through a memory map."""
        import pyarrow as pa

        path = self.folder / f"{part['name']}.arrow"
        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        except (OSError, pa.ArrowException):
            raise VectorIndexError(f"{path} is missing or damaged; {_AGAIN}") from None
        expected = _vector_type(self.dimension)
        if len(table) != part["rows"] or table.schema.field("vector").type != expected:
            msg = f"{path}: expected {part['rows']} rows of {self.dimension} float32 numbers"
            raise VectorIndexError(f"{msg}; {_AGAIN}")
        return table


def _vector_type(dimension: int) -> pa.DataType:
    import pyarrow as pa

    return pa.list_(pa.float32(), dimension)


def _read_head(folder: Path) -> dict[str, Any]:
    file = folder / HEAD
    if not file.is_file():
        raise VectorIndexError(f"{folder} holds no index: it has no {HEAD}")
    try:
        head = json.loads(file.read_text("utf-8"))
        named = {"fingerprint", "dimension", "about", "parts", "graph"} <= set(head)
        is_sound = named and all({"name", "rows"} <= set(part) for part in head["parts"])
    except (ValueError, TypeError):
        is_sound, head = False, {}
    if not is_sound or head.get("version") != VERSION:
        raise VectorIndexError(f"{file} is damaged or of another version; {_AGAIN}")
    return head


@dataclass
class PartWriter:
    """Rows on their way into an index, in parts of `BLOCK_ROWS`; `VectorIndex.adding` gives one.

    Attributes:
        folder: of the index.
        first: number of the first part.
        dimension: length of a vector.
        parts: that were written.
    """

    folder: Path
    first: int
    dimension: int
    parts: list[dict[str, Any]] = field(default_factory=list)
    _waiting: list[tuple[np.ndarray, pa.Table]] = field(default_factory=list)

    def add(
        self,
        vectors: np.ndarray,
        *,
        ids: Sequence[str],
        starts: Sequence[int] | np.ndarray | None = None,
        ends: Sequence[int] | np.ndarray | None = None,
        texts: Sequence[str] | None = None,
    ) -> None:
        """Append rows.

        Args:
            vectors: shape (rows, dimension); scaled to length 1 here.
            ids: one for each row; several rows may have one.
            starts: first character of each row's passage in its text.
            ends: one past the last character.
            texts: the passages.

        Raises:
            UserError: another dimension or number of values, or a vector that is not finite.
        """
        import pyarrow as pa

        vectors = unit(np.asarray(vectors, dtype=np.float32))
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            expected = f"expected (rows, {self.dimension})"
            raise UserError(f"vectors have shape {vectors.shape}, {expected}")
        if bad := int((~np.isfinite(vectors).all(axis=1)).sum()):
            raise UserError(
                f"{bad} of {len(vectors)} vectors are not finite; leave those texts out"
            )
        none = np.zeros(len(vectors), dtype=np.int64)
        columns = {
            "id": pa.array(ids, pa.string()),
            "start": pa.array(none if starts is None else starts, pa.int64()),
            "end": pa.array(none if ends is None else ends, pa.int64()),
            "text": pa.array([""] * len(vectors) if texts is None else texts, pa.string()),
        }
        for name, column in columns.items():
            if len(column) != len(vectors):
                msg = f"{len(vectors)} vectors but {len(column)} {name}s; give one for each"
                raise UserError(msg)
        table = pa.table(columns)
        for start in range(0, len(vectors), BLOCK_ROWS):
            some = vectors[start : start + BLOCK_ROWS]
            if sum(len(waiting) for waiting, _ in self._waiting) + len(some) > BLOCK_ROWS:
                self.write()
            self._waiting.append((some, table.slice(start, len(some))))

    def write(self) -> None:
        """Write the rows that wait as one part."""
        import pyarrow as pa

        if not self._waiting:
            return
        name = f"part-{self.first + len(self.parts):05d}"
        vectors = np.concatenate([vectors for vectors, _ in self._waiting])
        table = pa.concat_tables(table for _, table in self._waiting).combine_chunks()
        stored = pa.array(vectors.ravel())
        stored = pa.FixedSizeListArray.from_arrays(stored, type=_vector_type(self.dimension))
        table = table.append_column("vector", stored)
        with (
            atomic_path(self.folder / f"{name}.arrow") as temporary,
            pa.OSFile(str(temporary), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)
        self.parts.append({"name": name, "rows": len(vectors)})
        self._waiting = []
