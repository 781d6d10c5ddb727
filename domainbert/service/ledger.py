"""Ledger: an append-only SQLite file of served risks and their feedback.

It holds numbers, times and keyed hashes of ids, but no texts and no ids.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.errors import UserError
from domainbert.scoring.cache import open_hashed
from domainbert.tables import TableError, id_key

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)
_SCHEMA = (resources.files(__package__) / "ledger.sql").read_text("utf-8")
_APPLICATION = 0x64624C31  # in the header of the file


class Ledger:
    """A file that the processes of a service share; it is created if it does not exist."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            with closing(self._connect()) as con, con:
                self._secret = open_hashed(con, self.path, _APPLICATION, _SCHEMA)
        except sqlite3.Error as error:
            raise UserError(f"{path}: this file cannot be used ({error})") from None

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30.0)

    def _hash(self, *parts: str) -> str:
        text = "\0".join(parts).encode("utf-8", "replace")
        return hashlib.blake2b(text, digest_size=16, key=self._secret).hexdigest()

    def use_token(self, issuer: str, jti: str, until: float) -> bool:
        """Whether a token is used for the first time; it is remembered until it expires."""
        row = (self._hash(issuer, jti), until)
        with closing(self._connect()) as con, con:
            con.execute("DELETE FROM tokens WHERE until < ?", (time.time(),))
            insert = con.execute("INSERT OR IGNORE INTO tokens VALUES (?, ?)", row)
            return insert.rowcount == 1

    def served(
        self, task: str, model: str, rows: Iterable[dict[str, object]], card: str = ""
    ) -> None:
        """Keep the risks of output rows."""
        for row in rows:
            stay = id_key(row.get("stay_id"))
            stay_hash = stay and self._hash(stay)
            result = map(row.get, ("status", "probability", "alert"))
            self._append("served", task, model, card, stay_hash, *result)

    def feedback(self, task: str, card: str, outcome: str, reason: str) -> None:
        """Keep the feedback on a card; `reason` is a code, or ""."""
        self._append("feedback", task, card, outcome, reason)

    def _append(self, table: str, *cells: object) -> None:
        marks = ",".join("?" * (1 + len(cells)))
        try:
            with closing(self._connect()) as con, con:
                con.execute(f"INSERT INTO {table} VALUES ({marks})", (now(), *cells))  # noqa: S608
        except sqlite3.Error as error:
            # The response matters more than its record; the operator sees the log.
            log.error("ledger", extra={"facts": {"error": type(error).__name__}})


def read_ledger(path: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables `served` and `feedback`.

    Raises:
        TableError: the file is not a ledger.
    """
    import pandas as pd

    try:
        address = f"{Path(path).resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as con:
            served = pd.read_sql("SELECT * FROM served", con)
            feedback = pd.read_sql("SELECT * FROM feedback", con)
            return served, feedback
    except (sqlite3.Error, pd.errors.DatabaseError):
        raise TableError(
            f"{path} was not written by `domainbert serve --ledger`"
        ) from None


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
