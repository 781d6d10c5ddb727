"""Ledger: an append-only SQLite file of the risks that were served and what became of them.

It holds numbers, times and keyed hashes of ids: no text, no id.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.tables import TableError, id_key

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)
_SCHEMA = (resources.files(__package__) / "ledger.sql").read_text("utf-8")
_APPLICATION = 0x64624C31  # in the header of the file


class Ledger:
    """A file that the workers of a service share, made if it is not there."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            with closing(self._connect()) as con, con:
                if con.execute("PRAGMA application_id").fetchone()[0] not in (
                    0,
                    _APPLICATION,
                ):
                    raise UserError(
                        f"{path} is a database of another program; name a new file"
                    )
                con.execute(f"PRAGMA application_id = {_APPLICATION}")
                con.executescript(_SCHEMA)
                secret = secrets.token_bytes(32)
                con.execute(
                    "INSERT OR IGNORE INTO about VALUES ('secret', ?)", (secret,)
                )
                (self._secret,) = con.execute("SELECT value FROM about").fetchone()
        except sqlite3.Error as error:
            raise UserError(f"{path}: this file cannot be used ({error})") from None

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30.0)

    def _hash(self, *parts: str) -> str:
        whole = "\0".join(parts).encode("utf-8", "replace")
        return hashlib.blake2b(whole, digest_size=16, key=self._secret).hexdigest()

    def use_token(self, issuer: str, jti: str, until: float) -> bool:
        """Whether a token is used for the first time; it is remembered until it expires."""
        row = (self._hash(issuer, jti), until)
        with closing(self._connect()) as con, con:
            con.execute("DELETE FROM tokens WHERE until < ?", (time.time(),))
            return (
                con.execute("INSERT OR IGNORE INTO tokens VALUES (?, ?)", row).rowcount
                == 1
            )

    def served(
        self, task: str, model: str, rows: Iterable[dict[str, Any]], card: str = ""
    ) -> None:
        """Keep the risks of rows of results."""
        for row in rows:
            stay = id_key(row.get("stay_id"))
            numbers = map(row.get, ("status", "probability", "alert"))
            self._append(
                "served", task, model, card, stay and self._hash(stay), *numbers
            )

    def feedback(self, task: str, card: str, outcome: str, reason: str) -> None:
        """Keep what became of a card; `reason` is a code, or ""."""
        self._append("feedback", task, card, outcome, reason)

    def _append(self, table: str, *cells: Any) -> None:
        marks = ",".join("?" * (1 + len(cells)))
        try:
            with closing(self._connect()) as con, con:
                con.execute(f"INSERT INTO {table} VALUES ({marks})", (now(), *cells))  # noqa: S608
        except sqlite3.Error as error:  # the answer matters more; the operator sees it
            log.error("ledger", extra={"facts": {"error": type(error).__name__}})


def read_ledger(path: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables `served` and `feedback`; a `TableError` where the file is no ledger."""
    import pandas as pd

    try:
        with closing(
            sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
        ) as con:
            served = pd.read_sql("SELECT * FROM served", con)
            return served, pd.read_sql("SELECT * FROM feedback", con)
    except (sqlite3.Error, pd.errors.DatabaseError):
        raise TableError(
            f"{path} is no file that `domainbert serve --ledger` wrote"
        ) from None


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
