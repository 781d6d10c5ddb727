"""Window cache: logits of windows that a model has scored before, in one SQLite file.

Nothing in it can be read back as text: a window is known by a keyed hash of its token ids.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from domainbert.errors import UserError

_WAIT_SECONDS = 60.0
_APPLICATION = 0x64624232  # in the header of the file
T = TypeVar("T")
log = logging.getLogger(__name__)


class WindowCache:
    """A file of scores that several processes may use at once.

    Args:
        path: the file, made if it is not there.
        model: fingerprint of the model; scores of other models in the file are left alone.
        max_bytes: size of the file, above which it starts anew.

    Raises:
        UserError: the file cannot be written, is damaged, or belongs to another program.
    """

    def __init__(
        self, path: str | Path, *, model: str, max_bytes: int = 1 << 30
    ) -> None:
        self._path, self._model = Path(path), model
        self._bytes = max_bytes
        self._warned = False
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            raise UserError(
                f"{path} cannot be opened as a window cache ({error}); name a new file, or delete "
                "it if it is a damaged cache"
            ) from None

    def _open(self) -> None:
        with closing(self._connect()) as con, con:
            found = {name for (name,) in con.execute("SELECT name FROM sqlite_master")}
            (program,) = con.execute("PRAGMA application_id").fetchone()
            if program != _APPLICATION and (program or found):
                raise UserError(
                    f"{self._path} is a database of another program; name a new file"
                )
            con.execute("PRAGMA journal_mode = WAL")
            con.execute(f"PRAGMA application_id = {_APPLICATION}")
            con.execute(
                "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value BLOB)"
            )
            con.execute(
                "CREATE TABLE IF NOT EXISTS windows "
                "(key BLOB PRIMARY KEY, logit REAL NOT NULL) WITHOUT ROWID"
            )
            secret = (secrets.token_bytes(32),)
            con.execute("INSERT OR IGNORE INTO about VALUES ('secret', ?)", secret)
            (self._secret,) = con.execute("SELECT value FROM about").fetchone()

    def _connect(self) -> sqlite3.Connection:
        con = sqlite3.connect(self._path, timeout=_WAIT_SECONDS)
        con.execute(
            "PRAGMA synchronous = NORMAL"
        )  # a crash may lose the last scores, no more
        return con

    def _key(self, window: np.ndarray) -> bytes:
        ids = np.ascontiguousarray(window, dtype=np.int64).tobytes()
        person = self._model[:16].encode()
        return blake2b(ids, digest_size=16, key=self._secret, person=person).digest()

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
        known = self._tried(self._find, list(dict.fromkeys(keys))) or {}
        todo = {
            key: window
            for key, window in zip(keys, windows, strict=True)
            if key not in known
        }
        if todo:
            scored = np.asarray(score(list(todo.values())), dtype=np.float64)
            fresh = dict(zip(todo, scored.tolist(), strict=True))
            known |= fresh
            self._tried(
                self._add,
                {k: logit for k, logit in fresh.items() if np.isfinite(logit)},
            )
        return np.array([known[key] for key in keys], dtype=np.float32)

    def _tried(self, action: Callable[[Any], T], argument: Any) -> T | None:
        """Use the file; where that fails, warn and do without: a cache never stops a run."""
        try:
            return action(argument)
        except sqlite3.DatabaseError as error:  # damage, a full disk, a lock that lasts
            if not self._warned:
                log.warning("%s: cache not used for now (%s)", self._path, error)
            self._warned = True
        return None

    def _find(self, keys: list[bytes]) -> dict[bytes, float]:
        query = "SELECT logit FROM windows WHERE key = ?"
        with closing(self._connect()) as con, con:
            rows = {key: con.execute(query, (key,)).fetchone() for key in keys}
        return {key: row[0] for key, row in rows.items() if row}

    def _add(self, fresh: dict[bytes, float]) -> None:
        with closing(self._connect()) as con, con:
            con.executemany(
                "INSERT OR IGNORE INTO windows VALUES (?, ?)", [*fresh.items()]
            )
            pages = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, "
            (size,) = con.execute(
                f"{pages} pragma_freelist_count, pragma_page_size"
            ).fetchone()
            if size > self._bytes:
                con.execute("DELETE FROM windows")
