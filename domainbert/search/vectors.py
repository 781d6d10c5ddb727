"""VectorIndex: vectors in a folder, searched exactly in blocks, or by a graph (HNSW)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from domainbert.errors import UserError
from domainbert.files import atomic_path, folder_beside, locked, write_json
from domainbert.models.pooling import unit
from domainbert.search import Hits, top_k
from domainbert.settings import Count, Settings

if TYPE_CHECKING:
    import pandas as pd

    from domainbert.models.embedder import Embedder

HEAD, GRAPH = "index.json", "graph.usearch"
BLOCK_ROWS = 65_536
# Of the graph: this many times k rows, but at least so many, are compared exactly.
CANDIDATES, LEAST_CANDIDATES = 4, 64
_ROW = pa.schema(
    {
        "id": pa.string(),
        "start": pa.int64(),
        "end": pa.int64(),
        "text": pa.string(),
    }.items()
)
_AGAIN = "build the index again"


class Part(Settings):
    """A file of vectors and their rows."""

    name: str
    rows: Count


class Head(Settings):
    """The file that says what an index is made of.

    Attributes:
        fingerprint: of the embedder, see `Embedder.fingerprint`.
        dimension: length of a vector.
        about: what its maker noted in it.
        parts: its files; a file that is not named here is not part of the index.
        graph: rows in the graph; None without a graph.
    """

    version: Literal[2] = 2
    fingerprint: str
    dimension: Count
    about: dict[str, int]
    parts: list[Part]
    graph: int | None


class VectorIndex:
    """Vectors with ids and passage offsets in a folder; read through memory maps.

    Make one with `create`, or open a folder with `open`; `add` appends. Vectors are scaled to
    length 1, so that scores are cosines.

    Args:
        folder: where it is.

    Attributes:
        head: what it is made of.
        about: what its maker noted in it; changed notes are kept by `add`.

    Raises:
        UserError: no index, or a damaged one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._graph: Any = None
        self._read_head()

    @classmethod
    def create(
        cls,
        folder: str | Path,
        *,
        fingerprint: str,
        dimension: int,
        about: dict[str, int] | None = None,
    ) -> VectorIndex:
        """An empty index in a new folder; for the options see `Head`.

        Raises:
            UserError: the folder is there.
        """
        folder = Path(folder)
        if folder.exists():
            raise UserError(
                f"{folder} exists already; add to it, or name another folder"
            )
        head = Head(
            fingerprint=fingerprint,
            dimension=dimension,
            about=about or {},
            parts=[],
            graph=None,
        )
        with folder_beside(folder) as temporary:
            write_json(head.model_dump(), temporary / HEAD)
            temporary.rename(folder)
        return cls(folder)

    @classmethod
    def open(
        cls, folder: str | Path, *, embedder: Embedder | None = None
    ) -> VectorIndex:
        """Open an index and check its files.

        Args:
            folder: of the index.
            embedder: the one that queries will come from.

        Raises:
            UserError: no index, a damaged one, or one built with another embedder.
        """
        index = cls(Path(folder))
        built = index.head.fingerprint
        if embedder is not None and embedder.fingerprint() != built:
            raise UserError(
                f"{folder} was built with another encoder or other settings (hash {built[:12]}…, "
                f"here {embedder.fingerprint()[:12]}…); load that encoder, or {_AGAIN}"
            )
        return index

    def _read_head(self) -> None:
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
                f"{file} is damaged or of another version; {_AGAIN}"
            ) from None
        self.about = self.head.about
        self._parts = [self._load(part) for part in self.head.parts]

    def _write_head(self, **changes: Any) -> None:
        write_json(
            self.head.replaced(about=self.about, **changes).model_dump(),
            self.folder / HEAD,
        )
        self._read_head()

    def _load(self, part: Part) -> pa.Table:
        """The rows of a part, through a memory map."""
        path = self.folder / f"{part.name}.arrow"
        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        except (OSError, pa.ArrowException):
            raise UserError(f"{path} is missing or damaged; {_AGAIN}") from None
        dimension = self.head.dimension
        if (
            len(table) != part.rows
            or table.schema.field("vector").type.list_size != dimension
        ):
            msg = f"{path}: expected {part.rows} rows of {dimension} float32 numbers"
            raise UserError(f"{msg}; {_AGAIN}")
        return table

    def __len__(self) -> int:
        """Rows."""
        return sum(map(len, self._parts))

    def add(self, pieces: Iterable[tuple[np.ndarray, pd.DataFrame]]) -> None:
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
            parts: list[Part] = []
            try:
                for table in _blocks(self._table(*piece) for piece in pieces):
                    name = f"part-{len(self._parts) + len(parts):05d}"
                    with (
                        atomic_path(self.folder / f"{name}.arrow") as temporary,
                        pa.OSFile(str(temporary), "wb") as sink,
                        pa.ipc.new_file(sink, table.schema) as writer,
                    ):
                        writer.write_table(table)
                    parts.append(Part(name=name, rows=len(table)))
            except BaseException:
                for part in parts:
                    (self.folder / f"{part.name}.arrow").unlink()
                raise
            # The head is written last: what it does not name is not part of the index.
            self._write_head(parts=[*self.head.parts, *parts])

    def _table(self, vectors: np.ndarray, rows: pd.DataFrame) -> pa.Table:
        vectors = unit(np.asarray(vectors, dtype=np.float32))
        dimension = self.head.dimension
        if vectors.shape != (len(rows), dimension):
            expected = f"expected ({len(rows)}, {dimension}), a row for each id"
            raise UserError(f"vectors have shape {vectors.shape}, {expected}")
        if bad := int((~np.isfinite(vectors).all(axis=1)).sum()):
            msg = (
                f"{bad} of {len(vectors)} vectors are not finite; leave those texts out"
            )
            raise UserError(msg)
        stored = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dimension)
        table = pa.Table.from_pandas(rows, schema=_ROW, preserve_index=False)
        return table.replace_schema_metadata().append_column("vector", stored)

    def search(
        self, queries: np.ndarray, *, k: int = 10, approximate: bool = False
    ) -> Hits:
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
        if queries.shape[1] != self.head.dimension:
            msg = f"queries have {queries.shape[1]} numbers, the index has {self.head.dimension}"
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
        return Hits(
            np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)
        )

    def build_graph(self) -> None:
        """Build the graph for approximate search (Malkov and Yashunin 2016, by usearch).

        It is kept in the folder, and an older one is replaced. No other process can add meanwhile.
        """
        from usearch.index import Index

        with locked(self.folder):
            self._read_head()
            graph, first = Index(ndim=self.head.dimension, metric="ip", dtype="f16"), 0
            for block in self.blocks():
                graph.add(np.arange(first, first + len(block), dtype=np.uint64), block)
                first += len(block)
            with atomic_path(self.folder / GRAPH) as temporary:
                graph.save(str(temporary))
            self._write_head(graph=first)
            self._graph = graph

    def _open_graph(self) -> tuple[Any, int]:
        """The graph, read through a memory map, and how many rows are in it."""
        from usearch.index import Index

        covered = self.head.graph
        if covered is None:
            raise UserError(f"{self.folder} has no graph; build it with build_graph")
        try:
            if covered and (self._graph is None or len(self._graph) != covered):
                self._graph = Index.restore(str(self.folder / GRAPH), view=True)
            fits = covered == 0 or len(self._graph) == covered
        except (RuntimeError, OSError, TypeError, ValueError):
            fits = False
        if not fits:
            raise UserError(
                f"{self.folder} has a damaged graph; build it with build_graph"
            )
        return self._graph, covered

    def rows(self, numbers: Sequence[int] | np.ndarray) -> pd.DataFrame:
        """`id, start, end, text` of rows, in the order asked for."""
        import pandas as pd

        pieces = [
            part.select(_ROW.names).take(rows).to_pandas().set_index(places)
            for part, places, rows in self._places(numbers)
        ]
        if not pieces:
            return pd.DataFrame(columns=_ROW.names)
        return pd.concat(pieces).sort_index().reset_index(drop=True)

    def vectors(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """The vectors of rows as float32, in the order asked for, shape (rows, dimension)."""
        result = np.empty((len(numbers), self.head.dimension), dtype=np.float32)
        for part, places, rows in self._places(numbers):
            result[places] = _vectors(part)[rows]
        return result

    def blocks(self, first: int = 0) -> Iterator[np.ndarray]:
        """The vectors as float32, a block at a time, from a row on."""
        for part in self._parts:
            for start in range(max(0, first), len(part), BLOCK_ROWS):
                yield _vectors(part)[start : start + BLOCK_ROWS]
            first -= len(part)

    def _places(
        self, numbers: Sequence[int] | np.ndarray
    ) -> Iterator[tuple[pa.Table, np.ndarray, np.ndarray]]:
        """Each part with some of these rows: their places in `numbers`, their rows in the part."""
        numbers = np.asarray(numbers, dtype=np.int64)
        first = 0
        for part in self._parts:
            places = np.flatnonzero((numbers >= first) & (numbers < first + len(part)))
            if len(places):
                yield part, places, numbers[places] - first
            first += len(part)


def _vectors(part: pa.Table) -> np.ndarray:
    """The vectors of a part, not copied, shape (rows, dimension)."""
    stored: np.ndarray = part["vector"].chunk(0).flatten().to_numpy()
    return stored.reshape(len(part), -1)


def _blocks(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Small tables joined, so that all but the last have `BLOCK_ROWS` rows or a few more."""
    waiting: list[pa.Table] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(map(len, waiting)) >= BLOCK_ROWS:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting = []
    if any(map(len, waiting)):
        yield pa.concat_tables(waiting).combine_chunks()
