"""Ledger: an append-only SQLite file of the risks that were served and what became of them.

It holds numbers, times and keyed hashes of ids: no text, no id.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.tables import TableError, id_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd

log = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value BLOB);
CREATE TABLE IF NOT EXISTS served (time TEXT, task TEXT, model TEXT, subject TEXT, card TEXT,
    status TEXT, probability REAL, alert INTEGER);
CREATE TABLE IF NOT EXISTS feedback (time TEXT, task TEXT, card TEXT, outcome TEXT, reason TEXT);
CREATE TABLE IF NOT EXISTS tokens (hash BLOB PRIMARY KEY, until REAL) WITHOUT ROWID;
"""
_APPLICATION = 0x64624C31  # in the header of the file
_WAIT_SECONDS = 30.0


class Ledger:
    """A file that the workers of a service share.

    Args:
        path: made if it is not there.
        keep: whether risks and feedback are kept, and not only the tokens that were used.

    Raises:
        UserError: the file cannot be written, or belongs to another program.
    """

    def __init__(self, path: str | Path, *, keep: bool = True) -> None:
        self.path, self.keep = Path(path), keep
        try:
            with closing(self._connect()) as con, con:
                (program,) = con.execute("PRAGMA application_id").fetchone()
                if program not in (0, _APPLICATION):
                    raise UserError(f"{path} is a database of another program; name a new file")
                con.execute("PRAGMA journal_mode = WAL")
                con.execute(f"PRAGMA application_id = {_APPLICATION}")
                con.executescript(_SCHEMA)
                secret = secrets.token_bytes(32)
                con.execute("INSERT OR IGNORE INTO about VALUES ('secret', ?)", (secret,))
                (self._secret,) = con.execute("SELECT value FROM about").fetchone()
        except sqlite3.Error as error:
            raise UserError(f"{path}: this file cannot be used ({error})") from None

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=_WAIT_SECONDS)

    def _hash(self, *parts: str) -> bytes:
        digest = hashlib.blake2b(digest_size=16, key=self._secret)
        for part in parts:
            digest.update(part.encode("utf-8", "replace") + b"\0")
        return digest.digest()

    def use_token(self, issuer: str, jti: str, until: float) -> bool:
        """Whether a token is used for the first time; it is remembered until it expires."""
        with closing(self._connect()) as con, con:
            con.execute("DELETE FROM tokens WHERE until < ?", (time.time(),))
            row = (self._hash(issuer, jti), until)
            return con.execute("INSERT OR IGNORE INTO tokens VALUES (?, ?)", row).rowcount == 1

    def served(
        self, task: str, model: str, rows: Iterable[Mapping[str, Any]], *, card: str = ""
    ) -> None:
        """Keep risks: rows with `stay_id`, `status`, `probability` and `alert`."""
        now, kept = _now(), []
        for row in rows:
            subject = id_key(row.get("stay_id"))
            name = self._hash(subject).hex() if subject else None
            numbers = (row.get("probability"), row.get("alert"))
            kept.append((now, task, model, name, card, row.get("status"), *numbers))
        self._append("served", kept)

    def feedback(self, task: str, entries: Iterable[tuple[str, str, str]]) -> None:
        """Keep what became of cards: (card, outcome, code of the reason or "")."""
        now = _now()
        self._append("feedback", [(now, task, *entry) for entry in entries])

    def _append(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        if not self.keep or not rows:
            return
        marks = ",".join("?" * len(rows[0]))
        try:
            with closing(self._connect()) as con, con:
                con.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
        except sqlite3.Error as error:  # the answer matters more; the operator sees it
            log.error("ledger", extra={"facts": {"error": type(error).__name__}})


def read_ledger(path: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables `served` and `feedback`.

    Raises:
        TableError: no such file, or another program's.
    """
    import pandas as pd

    if not Path(path).is_file():
        raise TableError(f"{path}: no such file; expected what `domainbert serve --ledger` writes")
    try:
        with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as con:
            return tuple(  # type: ignore[return-value]
                pd.read_sql(f"SELECT * FROM {name}", con)  # noqa: S608
                for name in ("served", "feedback")
            )
    except (sqlite3.Error, pd.errors.DatabaseError):
        raise TableError(f"{path} is not a file that `domainbert serve --ledger` wrote") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
