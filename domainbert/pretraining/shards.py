"""Rows with lists of tokens in Arrow files, which are mapped into memory, not read into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

# Tokens of a shard, about: so much is held in memory while it is written.
SHARD_TOKENS = 4_000_000
TOKENS = "tokens"


def token_type(vocabulary: int) -> pa.DataType:
    """The smallest integers that can number a vocabulary."""
    return pa.uint16() if vocabulary <= np.iinfo(np.uint16).max + 1 else pa.int32()


class ShardWriter:
    """Writes rows to `NAME-00000.arrow` and on; use as a context manager.

    Args:
        folder: is there.
        name: of the files.
        columns: name -> type of a value; one of them is `TOKENS`, a list.
    """

    def __init__(self, folder: Path, *, name: str, columns: Mapping[str, pa.DataType]) -> None:
        self._folder, self._name = folder, name
        self._schema = pa.schema(list(columns.items()))
        self._shards = 0
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[str, list[Any]] = {name: [] for name in self._schema.names}
        self._tokens = 0

    def append(self, **values: Any) -> None:
        """Add a row."""
        for name, value in values.items():
            self._rows[name].append(value)
        self._tokens += len(values[TOKENS])
        if self._tokens >= SHARD_TOKENS:
            self._flush()

    def _flush(self) -> None:
        if not self._rows[TOKENS]:
            return
        path = self._folder / f"{self._name}-{self._shards:05d}.arrow"
        batch = pa.record_batch(self._rows, schema=self._schema)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, self._schema) as file:
            file.write_batch(batch)
        self._shards += 1
        self._clear()

    def __enter__(self) -> Self:
        """Ready to write."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the last shard, if nothing went wrong."""
        if kind is None:
            self._flush()


class Shards:
    """The rows of the shards of one name, in the order they were written.

    Args:
        folder: with the shards.
        name: of the files.
    """

    def __init__(self, folder: Path, *, name: str) -> None:
        self._batches = [_mapped(path) for path in sorted(folder.glob(f"{name}-*.arrow"))]
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        self._lists: dict[tuple[int, str], tuple[np.ndarray, np.ndarray]] = {}

    def __len__(self) -> int:
        """Rows."""
        return int(self._starts[-1])

    def column(self, name: str) -> np.ndarray:
        """All values of a column of numbers, shape (rows,)."""
        return _joined(batch.column(name).to_numpy() for batch in self._batches)

    def lengths(self, name: str) -> np.ndarray:
        """How many items each list of a column has, shape (rows,)."""
        return _joined(np.diff(self._list(n, name)[0]) for n in range(len(self._batches)))

    def items(self, row: int, name: str) -> np.ndarray:
        """The list of a row, shape (items,); a view into the file."""
        shard = int(np.searchsorted(self._starts, row, side="right")) - 1
        offsets, values = self._list(shard, name)
        place = row - self._starts[shard]
        return values[offsets[place] : offsets[place + 1]]

    def values(self, name: str) -> Iterator[np.ndarray]:
        """The items of all lists of a shard together, shard by shard; views into the files."""
        return (self._list(shard, name)[1] for shard in range(len(self._batches)))

    def _list(self, shard: int, name: str) -> tuple[np.ndarray, np.ndarray]:
        if (shard, name) not in self._lists:
            column = self._batches[shard].column(name)
            self._lists[shard, name] = (column.offsets.to_numpy(), column.values.to_numpy())
        return self._lists[shard, name]


def _joined(parts: Iterator[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _mapped(path: Path) -> pa.RecordBatch:
    return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
