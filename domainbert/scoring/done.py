"""What earlier runs did: which items, and whether they lie in the order of the input."""

from __future__ import annotations

from array import array
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

KEY_BYTES = 16
_KEYS, _SIZES = b"domainbert.keys", b"domainbert.sizes"


class Done:
    """The items in the parts of a run; 16 bytes of memory for each, 40 if their order changed.

    Args:
        keys: of the items in the order of the parts; equal items have equal keys.

    Attributes:
        in_order: whether the items of these parts, and of those to come, follow the input so far.
    """

    def __init__(self, keys: bytes) -> None:
        self._keys = np.frombuffer(keys, dtype=f"V{KEY_BYTES}")
        self._taken = 0
        self._left: np.ndarray | None = None  # of each known key, once the order differs
        self.in_order = True

    def take(self, key: bytes) -> bool:
        """Whether the next item of the input is done; each item of the parts is taken once."""
        if self._left is None:
            if self._taken == len(self._keys):
                return False
            if self._keys[self._taken].tobytes() == key:
                self._taken += 1
                return True
            self._known, self._left = np.unique(self._keys[self._taken :], return_counts=True)
        place = int(np.searchsorted(self._known, np.void(key)))
        is_known = place < len(self._known) and self._known[place].tobytes() == key
        if not is_known or not self._left[place]:
            return False
        self._left[place] -= 1
        self.in_order = False
        return True


def told(keys: Sequence[bytes], sizes: Iterable[int]) -> dict[bytes, bytes]:
    """Metadata of a part: the keys of its items, and how many rows each has."""
    return {_KEYS: b64encode(b"".join(keys)), _SIZES: b64encode(array("q", sizes).tobytes())}


def keys_of(part: Path) -> tuple[bytes, np.ndarray]:
    """The keys of a part's items, one after the other, and their numbers of rows."""
    import pyarrow.parquet as pq

    metadata = pq.read_schema(part).metadata
    sizes = np.frombuffer(b64decode(metadata[_SIZES]), dtype=np.int64)
    return b64decode(metadata[_KEYS]), sizes
