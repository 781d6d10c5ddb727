"""WindowCache: the logits of windows that a model has scored, in one SQLite file.

The file holds no text: the key of a window is a keyed hash of its token ids.
"""

import logging
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import numpy as np

from domainbert.errors import UserError

_WAIT_SECONDS = 60.0
_APPLICATION = 0x64624232  # in the header of the file
_USED_BYTES = (
    "SELECT (page_count - freelist_count) * page_size "
    "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)
_TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS windows (key BLOB PRIMARY KEY, logit REAL NOT NULL) WITHOUT ROWID;
"""
Logit = float | np.ndarray
"""Of a window: one number, or one for each output."""
Argument = TypeVar("Argument")
T = TypeVar("T")
log = logging.getLogger(__name__)


class WindowCache:
    """A file of logits that several processes may use at the same time.

    Args:
        path: the file; it is created if it does not exist.
        model: fingerprint of the model; the file may hold the logits of several models.
        max_bytes: size above which the file is emptied.

    Raises:
        UserError: the file cannot be written, is damaged, or belongs to another program.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        model: str,
        max_bytes: int = 1 << 30,
    ) -> None:
        self._path = Path(path)
        self._model = model
        self._max_bytes = max_bytes
        self._warned = False
        try:
            with closing(self._connect()) as con, con:
                self._secret = open_hashed(
                    con, self._path, _APPLICATION, _TABLES
                )
        except sqlite3.DatabaseError as error:
            raise UserError(
                f"{path} cannot be opened as a window cache ({error}); name a new file, or delete "
                "it if it is a damaged cache"
            ) from None

    def _connect(self) -> sqlite3.Connection:
        con = sqlite3.connect(self._path, timeout=_WAIT_SECONDS)
        # A crash may lose the last logits, and nothing else.
        con.execute("PRAGMA synchronous = NORMAL")
        return con

    def _key(self, window: np.ndarray) -> bytes:
        ids = np.ascontiguousarray(window, dtype=np.int64).tobytes()
        person = self._model[:16].encode()
        return blake2b(
            ids, digest_size=16, key=self._secret, person=person
        ).digest()

    def logits(
        self,
        windows: Sequence[np.ndarray],
        score: Callable[[Sequence[np.ndarray]], np.ndarray],
    ) -> np.ndarray:
        """Logits of windows; equal windows are scored once.

        Args:
            windows: token ids, each of shape (tokens,).
            score: gives the logits, shape (windows,) or (windows, labels), of windows that are not
                in the file.

        Returns:
            Shaped as those of `score`, float32, in the order given.
        """
        keys = [self._key(window) for window in windows]
        logits = self._try(self._find, list(dict.fromkeys(keys))) or {}
        new_windows = {
            key: window
            for key, window in zip(keys, windows, strict=True)
            if key not in logits
        }
        if new_windows:
            scored = np.asarray(
                score(list(new_windows.values())), dtype=np.float64
            )
            new_logits = dict(zip(new_windows, scored, strict=True))
            logits |= new_logits
            finite = {
                k: logit
                for k, logit in new_logits.items()
                if np.isfinite(logit).all()
            }
            self._try(self._add, finite)
        return np.array([logits[key] for key in keys], dtype=np.float32)

    def _try(
        self, action: Callable[[Argument], T], argument: Argument
    ) -> T | None:
        """Use the file; if that fails, warn and continue without it."""
        try:
            return action(argument)
        except sqlite3.DatabaseError as error:
            # The file is damaged or locked, or the disk is full.
            if not self._warned:
                log.warning(
                    "%s: cache not used for now (%s)", self._path, error
                )
            self._warned = True
        return None

    def _find(self, keys: list[bytes]) -> dict[bytes, Logit]:
        query = "SELECT logit FROM windows WHERE key = ?"
        with closing(self._connect()) as con, con:
            rows = {key: con.execute(query, (key,)).fetchone() for key in keys}
        return {key: _read(row[0]) for key, row in rows.items() if row}

    def _add(self, logits: dict[bytes, Logit]) -> None:
        with closing(self._connect()) as con, con:
            con.executemany(
                "INSERT OR IGNORE INTO windows VALUES (?, ?)",
                [(key, _written(logit)) for key, logit in logits.items()],
            )
            (size,) = con.execute(_USED_BYTES).fetchone()
            if size > self._max_bytes:
                con.execute("DELETE FROM windows")


def _written(logit: Logit) -> float | bytes:
    """The logit of a window as SQLite holds it; several as bytes, which a REAL column keeps."""
    values = np.asarray(logit)
    if values.ndim:
        return values.tobytes()
    return float(values)


def _read(cell: float | bytes) -> Logit:
    if isinstance(cell, bytes):
        return np.frombuffer(cell)
    return cell


def open_hashed(
    con: sqlite3.Connection,
    path: Path,
    application: int,
    tables: str,
) -> bytes:
    """Make the tables of a file that holds keyed hashes; return its key, made on first use."""
    about = (
        "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value BLOB);"
    )
    make_tables(con, path, application, about + tables)
    insert = "INSERT OR IGNORE INTO about VALUES ('secret', ?)"
    con.execute(insert, (secrets.token_bytes(32),))
    return con.execute("SELECT value FROM about").fetchone()[0]


def make_tables(
    con: sqlite3.Connection,
    path: Path,
    application: int,
    tables: str,
) -> None:
    """Make the tables of a SQLite file.

    Args:
        con: a connection to the file.
        path: the path of the file, for messages.
        application: number of the kind of file, kept in its header.
        tables: the statements that make the tables, if they do not exist.

    Raises:
        UserError: the file belongs to another program.
    """
    (n_tables,) = con.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (program,) = con.execute("PRAGMA application_id").fetchone()
    if program != application and (program or n_tables):
        raise UserError(
            f"{path} is a database of another program; name a new file"
        )
    con.executescript(f"PRAGMA application_id = {application};{tables}")
