"""VectorIndex: vectors in a folder, searched exactly in blocks of bounded memory."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.files import folder_beside, write_json
from domainbert.locks import locked
from domainbert.parts import PartWriter
from domainbert.pooling import unit
from domainbert.ranking import top_k

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    import pyarrow as pa

    from domainbert.embedding import Embedder
    from domainbert.parts import Storage
    from domainbert.ranking import Hits

STORAGES = ("float32", "float16", "int8")
HEAD = "index.json"
VERSION = 1
BLOCK_ROWS = 65_536
_ROW_COLUMNS = ("id", "start", "end", "text")


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
        storage: "float32", "float16" (half the space, cosines within 1e-3) or "int8" (a quarter,
            one scale per row, cosines within about 1e-2).
        about: what its maker noted in it.
    """

    def __init__(self, folder: Path, head: dict[str, Any]) -> None:
        self.folder, self._parts = folder, list(head["parts"])
        self.fingerprint: str = head["fingerprint"]
        self.dimension: int = head["dimension"]
        self.storage: Storage = head["storage"]
        self.about: dict[str, Any] = head["about"]

    @classmethod
    def create(
        cls,
        folder: str | Path,
        *,
        fingerprint: str,
        dimension: int,
        storage: Storage = "float32",
        about: dict[str, Any] | None = None,
    ) -> VectorIndex:
        """An empty index in a new folder.

        Args:
            folder: must not be there yet.
            fingerprint: of the embedder.
            dimension: length of a vector.
            storage: see the class.
            about: a note that is kept with it, as JSON.

        Raises:
            UserError: the folder is there, or an unknown storage.
        """
        folder = Path(folder)
        if storage not in STORAGES:
            msg = f"storage must be one of {', '.join(STORAGES)}; got {storage!r}"
            raise UserError(msg)
        if folder.exists():
            msg = f"{folder} exists already; add to it, or name another folder"
            raise UserError(msg)
        head = {
            "version": VERSION,
            "fingerprint": fingerprint,
            "dimension": dimension,
            "storage": storage,
            "about": about or {},
            "parts": [],
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
            msg = (
                f"{folder} was built with another encoder or other settings (hash "
                f"{head['fingerprint'][:12]}…, here {embedder.fingerprint()[:12]}…); load that "
                "encoder, or build the index again"
            )
            raise VectorIndexError(msg)
        index = cls(folder, head)
        for part in index._parts:
            index._check(part)
        return index

    def __len__(self) -> int:
        """Rows."""
        return sum(part["rows"] for part in self._parts)

    def __repr__(self) -> str:
        """Size and storage."""
        return f"VectorIndex({len(self)} rows of {self.dimension} numbers, {self.storage})"

    def add(
        self,
        vectors: np.ndarray,
        *,
        ids: Sequence[str],
        starts: Sequence[int] | np.ndarray | None = None,
        ends: Sequence[int] | np.ndarray | None = None,
        texts: Sequence[str] | None = None,
    ) -> None:
        """Append rows. They are there whole or not at all.

        Args:
            vectors: shape (rows, dimension); scaled to length 1 here.
            ids: of each row's text; several rows may have one id.
            starts: first character of each row's passage.
            ends: one past its last character.
            texts: of each row, to be shown or reranked.

        Raises:
            UserError: another dimension or number of ids, or a vector that is not finite.
        """
        with self.adding() as rows:
            rows.add(vectors, ids=ids, starts=starts, ends=ends, texts=texts)

    @contextmanager
    def adding(self) -> Iterator[PartWriter]:
        """Append rows piece by piece: `with index.adding() as rows: rows.add(...)`.

        When the block ends, all of them are in the index, and `about` as it is then is kept. If
        the block fails, nothing has changed. No other process can add meanwhile.
        """
        with locked(self.folder):
            head = _read_head(self.folder)
            self._parts, self.about = list(head["parts"]), head["about"]
            writer = PartWriter(
                self.folder,
                first=len(self._parts),
                dimension=self.dimension,
                storage=self.storage,
                most=BLOCK_ROWS,
            )
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
            self._parts = head["parts"]

    def search(self, queries: np.ndarray, *, k: int = 10) -> Hits:
        """The k nearest rows of each query by cosine, exactly over what is stored.

        Args:
            queries: shape (queries, dimension).
            k: rows of each query.

        Raises:
            UserError: k < 1, or another dimension.
        """
        return top_k(self.check_queries(queries), self.blocks(), k=k)

    def check_queries(self, queries: np.ndarray) -> np.ndarray:
        """Queries at length 1, shape (queries, dimension), float32.

        Raises:
            UserError: another dimension.
        """
        queries = unit(np.atleast_2d(np.asarray(queries, dtype=np.float32)))
        if queries.shape[1] != self.dimension:
            msg = f"queries have {queries.shape[1]} numbers, the index has {self.dimension}"
            raise UserError(msg)
        return queries

    def rows(self, numbers: Sequence[int] | np.ndarray) -> pd.DataFrame:
        """`id, start, end, text` of rows, in the order asked for."""
        import pandas as pd

        numbers = np.asarray(numbers, dtype=np.int64)
        parts: list[pd.DataFrame] = []
        first = 0
        for part in self._parts:
            inside = np.flatnonzero((numbers >= first) & (numbers < first + part["rows"]))
            if len(inside):
                frame = self._table(part).take(numbers[inside] - first).to_pandas()
                parts.append(frame.set_index(inside))
            first += part["rows"]
        if not parts:
            return pd.DataFrame(columns=list(_ROW_COLUMNS))
        return pd.concat(parts).sort_index().reset_index(drop=True)

    def vectors(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """The vectors of rows as float32, in the order asked for, shape (rows, dimension)."""
        numbers = np.asarray(numbers, dtype=np.int64)
        found = np.empty((len(numbers), self.dimension), dtype=np.float32)
        first = 0
        for part in self._parts:
            inside = np.flatnonzero((numbers >= first) & (numbers < first + part["rows"]))
            if len(inside):
                found[inside] = self._read(part, numbers[inside] - first)
            first += part["rows"]
        return found

    def blocks(self, first: int = 0) -> Iterator[np.ndarray]:
        """The vectors as float32, a block at a time, from a row on."""
        for part in self._parts:
            for start in range(max(0, first), part["rows"], BLOCK_ROWS):
                yield self._read(part, slice(start, start + BLOCK_ROWS))
            first -= part["rows"]

    def _read(self, part: dict[str, Any], rows: slice | np.ndarray) -> np.ndarray:
        vectors = np.asarray(self._load(part, "vectors")[rows], dtype=np.float32)
        if self.storage != "int8":
            return vectors
        return vectors * self._load(part, "scales")[rows, None]

    def _load(self, part: dict[str, Any], suffix: str) -> np.ndarray:
        path = self.folder / f"{part['name']}.{suffix}.npy"
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            msg = f"{path} is missing or damaged; build the index again"
            raise VectorIndexError(msg) from None

    def _table(self, part: dict[str, Any]) -> pa.Table:
        import pyarrow as pa

        path = self.folder / f"{part['name']}.arrow"
        try:
            return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        except (OSError, pa.ArrowException):
            msg = f"{path} is missing or damaged; build the index again"
            raise VectorIndexError(msg) from None

    def _check(self, part: dict[str, Any]) -> None:
        """Every file of a part is there with as many rows as the head says."""
        shapes: dict[str, tuple[int, ...]] = {"vectors": (part["rows"], self.dimension)}
        shapes |= {"scales": (part["rows"],)} if self.storage == "int8" else {}
        whole = {suffix: self._load(part, suffix) for suffix in shapes}
        right = all(array.shape == shapes[suffix] for suffix, array in whole.items())
        right = right and self._table(part).num_rows == part["rows"]
        if not right or whole["vectors"].dtype != np.dtype(self.storage):
            msg = (
                f"{self.folder / part['name']}: expected {part['rows']} rows of {self.dimension} "
                f"{self.storage} numbers; build the index again"
            )
            raise VectorIndexError(msg)


def _read_head(folder: Path) -> dict[str, Any]:
    file = folder / HEAD
    if not file.is_file():
        msg = f"{folder} holds no index: it has no {HEAD}"
        raise VectorIndexError(msg)
    try:
        head = json.loads(file.read_text("utf-8"))
        known = {"fingerprint", "dimension", "storage", "about", "parts"} <= set(head)
        parts_known = known and all({"name", "rows"} <= set(part) for part in head["parts"])
    except (ValueError, TypeError):
        parts_known, head = False, {}
    if not parts_known or head.get("version") != VERSION or head["storage"] not in STORAGES:
        msg = f"{file} is damaged or of another version; build the index again"
        raise VectorIndexError(msg)
    return head
