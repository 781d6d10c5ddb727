"""Window cache: logits of windows that a model has scored before, in one SQLite file.

Nothing in it can be read back as text: a window is known by a keyed hash of its token ids.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from domainbert.errors import UserError
from domainbert.meter import count_hits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEFAULT_BYTES = 1 << 30
_ROW_BYTES = 64  # of the file, per window, measured
_LOOKUP = 500  # keys in a query; SQLite takes at most 32,766
_WAIT_SECONDS = 60.0
_HEADER = b"SQLite format 3\0"
log = logging.getLogger(__name__)


class WindowCache:
    """A file of scores that several processes may use at once.

    Args:
        path: the file, made if it is not there. A damaged one is set aside with a warning.
        model: fingerprint of the model; scores of other models in the file are left alone.
        max_bytes: size of the file; the windows that were used longest ago make room.

    Attributes:
        hits: windows found.
        misses: windows that had to be scored.

    Raises:
        UserError: the file cannot be written, or is no cache.
    """

    def __init__(self, path: str | Path, *, model: str, max_bytes: int = DEFAULT_BYTES) -> None:
        self._path, self._model = Path(path), model
        self._rows = max(1, max_bytes // _ROW_BYTES)
        self.hits = self.misses = 0
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                msg = f"{path}: this cache cannot be opened ({error})"
                raise UserError(msg) from None
            with self._path.open("rb") as file:
                if file.read(len(_HEADER)) != _HEADER:
                    msg = f"{path} is no window cache; name a new file"
                    raise UserError(msg) from None
            aside = self._path.with_name(f"{self._path.name}.damaged")
            self._path.replace(aside)
            log.warning("%s is damaged: set aside as %s, starting an empty one", path, aside.name)
            self._open()

    def _open(self) -> None:
        with closing(self._connect()) as con, con:
            con.execute("PRAGMA journal_mode = WAL")
            con.execute("CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value BLOB)")
            con.execute(
                "CREATE TABLE IF NOT EXISTS windows "
                "(key BLOB PRIMARY KEY, logit REAL NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID"
            )
            con.execute(
                "INSERT OR IGNORE INTO about VALUES ('secret', ?), ('run', 0)",
                (secrets.token_bytes(32),),
            )
            con.execute("UPDATE about SET value = value + 1 WHERE name = 'run'")
            rows = dict(con.execute("SELECT name, value FROM about"))
        self._secret, self._run = rows["secret"], rows["run"]

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_WAIT_SECONDS)

    def _key(self, window: np.ndarray) -> bytes:
        ids = np.ascontiguousarray(window, dtype=np.int64).tobytes()
        return blake2b(
            ids, digest_size=16, key=self._secret, person=self._model[:16].encode()
        ).digest()

    def logits(
        self,
        windows: Sequence[np.ndarray],
        score: Callable[[Sequence[np.ndarray]], np.ndarray],
    ) -> np.ndarray:
        """Logits of windows, each different window scored once.

        Args:
            windows: token ids, each of shape (tokens,).
            score: windows -> logits, shape (windows,); called with those that are not known.

        Returns:
            Shape (windows,), float32, in the order given.
        """
        keys = [self._key(window) for window in windows]
        known = self._find(list(dict.fromkeys(keys)))
        todo = {key: window for key, window in zip(keys, windows, strict=True) if key not in known}
        self.hits += len(windows) - len(todo)
        count_hits(len(windows) - len(todo))
        self.misses += len(todo)
        if todo:
            scored = np.asarray(score(list(todo.values())), dtype=np.float64)
            fresh = dict(zip(todo, scored.tolist(), strict=True))
            known |= fresh
            self._add({key: logit for key, logit in fresh.items() if np.isfinite(logit)})
        return np.array([known[key] for key in keys], dtype=np.float32)

    def _find(self, keys: list[bytes]) -> dict[bytes, float]:
        found: dict[bytes, float] = {}
        with closing(self._connect()) as con, con:
            for start in range(0, len(keys), _LOOKUP):
                some = keys[start : start + _LOOKUP]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, logit FROM windows WHERE key IN ({marks})"  # noqa: S608
                found |= dict(con.execute(query, some))
            con.executemany(
                "UPDATE windows SET used = ? WHERE key = ?", [(self._run, key) for key in found]
            )
        return found

    def _add(self, fresh: dict[bytes, float]) -> None:
        with closing(self._connect()) as con, con:
            con.executemany(
                "INSERT OR REPLACE INTO windows VALUES (?, ?, ?)",
                [(key, logit, self._run) for key, logit in fresh.items()],
            )
            (number,) = con.execute("SELECT count(*) FROM windows").fetchone()
            if number > self._rows:
                # A tenth more, so that not every call has to make room.
                spare = number - self._rows + self._rows // 10
                con.execute(
                    "DELETE FROM windows WHERE key IN "
                    "(SELECT key FROM windows ORDER BY used, key LIMIT ?)",
                    (spare,),
                )
