"""Approximate search of a VectorIndex with many millions of rows, by a graph (HNSW)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.console import progress
from domainbert.errors import UserError
from domainbert.files import atomic_path, write_json
from domainbert.index import VectorIndex, VectorIndexError
from domainbert.ranking import Hits, merge_hits, top_k

if TYPE_CHECKING:
    from pathlib import Path

GRAPH, HEAD = "graph.usearch", "graph.json"
CANDIDATES = 4  # times k rows are taken from the graph and compared exactly
_LEAST = 64
_FIX = "build it again with Graph.build"


class Graph:
    """A graph over the rows of an index (Malkov and Yashunin 2016, by usearch), kept in its folder.

    It finds most, not all, of the nearest rows, in time that grows with the logarithm of their
    number; what it finds is compared exactly. Rows added after it was built are searched exactly.
    Needs the extra `approximate`.

    Args:
        index: whose rows they are.
        graph: of usearch.
        rows: of the index when it was built.
    """

    def __init__(self, index: VectorIndex, graph: Any, *, rows: int) -> None:
        self.index, self._graph, self._rows = index, graph, rows

    @classmethod
    def build(cls, index: VectorIndex) -> Graph:
        """Build the graph of an index and keep it in its folder; an older one is replaced.

        Raises:
            UserError: usearch is not installed.
        """
        graph = _library()(ndim=index.dimension, metric="ip", dtype="f16")
        rows = len(index)
        with progress("graph", total=rows) as advance:
            first = 0
            for block in index.blocks():
                graph.add(np.arange(first, first + len(block), dtype=np.uint64), block)
                first += len(block)
                advance(len(block))
        # A graph without its head is not opened.
        (index.folder / HEAD).unlink(missing_ok=True)
        with atomic_path(index.folder / GRAPH) as temporary:
            graph.save(str(temporary))
        write_json({"rows": rows, "fingerprint": index.fingerprint}, index.folder / HEAD)
        return cls(index, graph, rows=rows)

    @classmethod
    def open(cls, index: VectorIndex) -> Graph:
        """The graph in the folder of an index, read through a memory map.

        Raises:
            UserError: usearch is not installed; no graph, a damaged one, or one of another index.
        """
        library, head = _library(), _read_head(index.folder)
        try:
            graph = library.restore(str(index.folder / GRAPH), view=True)
            fits = len(graph) == head["rows"] <= len(index)
            fits = fits and head["fingerprint"] == index.fingerprint
        except (RuntimeError, OSError, TypeError, ValueError):
            fits = False
        if not fits:
            msg = f"{index.folder / GRAPH} is damaged or of another index; {_FIX}"
            raise VectorIndexError(msg)
        return cls(index, graph, rows=head["rows"])

    def search(self, queries: np.ndarray, *, k: int = 10) -> Hits:
        """About the k nearest rows of each query, with exact cosines; as `VectorIndex.search`.

        Raises:
            UserError: k < 1, or another dimension.
        """
        queries = self.index.check_queries(queries)
        new = top_k(queries, self.index.blocks(self._rows), k=k)
        new = Hits(np.where(new.rows < 0, -1, new.rows + self._rows), new.scores)
        if not self._rows:
            return new
        most = min(self._rows, max(_LEAST, CANDIDATES * k))
        keys = np.atleast_2d(self._graph.search(queries, most).keys).astype(np.int64)
        keys = keys.reshape(len(queries), -1)
        vectors = self.index.vectors(keys.ravel()).reshape(*keys.shape, -1)
        scores = np.einsum("qd,qkd->qk", queries, vectors)
        return merge_hits([Hits(keys, scores), new], k=k)


def _library() -> Any:
    try:
        from usearch.index import Index
    except ImportError:
        msg = "approximate search needs usearch: pip install 'domainbert[approximate]'"
        raise UserError(msg) from None
    return Index


def _read_head(folder: Path) -> dict[str, Any]:
    file = folder / HEAD
    if not file.is_file():
        msg = f"{folder} has no graph; {_FIX}"
        raise VectorIndexError(msg)
    try:
        head = json.loads(file.read_text("utf-8"))
        return {"rows": int(head["rows"]), "fingerprint": str(head["fingerprint"])}
    except (ValueError, TypeError, KeyError):
        msg = f"{file} is damaged; {_FIX}"
        raise VectorIndexError(msg) from None
