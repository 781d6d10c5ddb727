"""PartWriter: rows on their way into the folder of an index, written in parts of bounded size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from domainbert.errors import UserError
from domainbert.files import atomic_path
from domainbert.pooling import unit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

Storage = Literal["float32", "float16", "int8"]


@dataclass
class PartWriter:
    """Collects rows and writes them in parts; `VectorIndex.adding` gives one.

    Attributes:
        folder: of the index.
        first: number of the first part.
        dimension: length of a vector.
        storage: see `VectorIndex`.
        most: rows of a part at most.
        parts: that were written.
    """

    folder: Path
    first: int
    dimension: int
    storage: Storage
    most: int
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
        """Append rows; see `VectorIndex.add`."""
        import pyarrow as pa

        vectors = unit(np.asarray(vectors, dtype=np.float32))
        self._check(vectors, ids, starts, ends, texts)
        none = [0] * len(vectors)
        table = pa.table(
            {
                "id": pa.array(ids, pa.string()),
                "start": pa.array(none if starts is None else starts, pa.int64()),
                "end": pa.array(none if ends is None else ends, pa.int64()),
                "text": pa.array([""] * len(vectors) if texts is None else texts, pa.string()),
            }
        )
        for start in range(0, len(vectors), self.most):
            some = vectors[start : start + self.most]
            if sum(len(waiting) for waiting, _ in self._waiting) + len(some) > self.most:
                self.write()
            self._waiting.append((some, table.slice(start, len(some))))

    def write(self) -> None:
        """Write the rows that wait as one part."""
        import pyarrow as pa

        if not self._waiting:
            return
        name = f"part-{self.first + len(self.parts):05d}"
        rows = np.concatenate([vectors for vectors, _ in self._waiting])
        stored, scales = _stored(rows, self.storage)
        for suffix, array in (("vectors", stored), ("scales", scales)):
            if array is not None:
                with atomic_path(self.folder / f"{name}.{suffix}.npy") as temporary:
                    np.save(temporary, array)
        table = pa.concat_tables(table for _, table in self._waiting).combine_chunks()
        with (
            atomic_path(self.folder / f"{name}.arrow") as temporary,
            temporary.open("wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)
        self.parts.append({"name": name, "rows": len(rows)})
        self._waiting = []

    def _check(self, vectors: np.ndarray, ids: Sequence[str], *columns: Any) -> None:
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            msg = f"vectors have shape {vectors.shape}, expected (rows, {self.dimension})"
            raise UserError(msg)
        for name, column in zip(("ids", "starts", "ends", "texts"), (ids, *columns), strict=True):
            if column is not None and len(column) != len(vectors):
                msg = f"{len(vectors)} vectors but {len(column)} {name}; give one for each"
                raise UserError(msg)
        if bad := int((~np.isfinite(vectors).all(axis=1)).sum()):
            msg = f"{bad} of {len(vectors)} vectors are not finite; leave those texts out"
            raise UserError(msg)


def _stored(vectors: np.ndarray, storage: Storage) -> tuple[np.ndarray, np.ndarray | None]:
    if storage != "int8":
        return vectors.astype(storage), None
    scales = np.maximum(np.abs(vectors).max(axis=1), np.finfo(np.float32).tiny) / 127
    return np.round(vectors / scales[:, None]).astype(np.int8), scales.astype(np.float32)
