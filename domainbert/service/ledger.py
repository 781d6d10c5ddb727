"""Ledger: an append-only SQLite file of served risks and their feedback.

It holds numbers, times and keyed hashes of ids, but no texts and no ids. The key of the hashes is
in another file or in the environment: with both, whoever has a list of ids can test each of them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from domainbert.errors import UserError
from domainbert.files import JsonObject, data_text
from domainbert.scoring.cache import make_tables
from domainbert.tables import TableError, id_key, id_text

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)
_SCHEMA = data_text(__file__, "ledger.sql")
_APPLICATION = 0x64624C32  # in the header of the file
KEY_VARIABLE = "DOMAINBERT_LEDGER_KEY"
_KEY_CHARACTERS = 32  # at least


class Ledger:
    """A file that the processes of a service share.

    Args:
        path: it is created, readable by its owner only, if it does not exist.
        key_file: holds the key of the hashes; it is created in the same way. By default `PATH.key`.
        wait_seconds: for another process that writes; calls wait too.

    Raises:
        UserError: a file that cannot be used, or that others can read.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        key_file: Path | None = None,
        wait_seconds: float = 3.0,
    ) -> None:
        self.path = Path(path)
        self._wait_seconds = wait_seconds
        try:
            self._key = _read_key(key_file or Path(f"{path}.key"))
            self._make()
        except OSError as error:
            raise UserError(
                f"{error.filename or path}: {error.strerror}; make the ledger and its key in "
                f"folders that can be written, or set {KEY_VARIABLE}"
            ) from None
        except sqlite3.Error as error:
            raise UserError(
                f"{path}: this file cannot be used ({error})"
            ) from None

    def _make(self) -> None:
        """Make the file with its tables, if it does not exist."""
        self.path.touch(mode=0o600)
        connection = sqlite3.connect(self.path, timeout=self._wait_seconds)
        with closing(connection) as con:
            make_tables(con, self.path, _APPLICATION, _SCHEMA)
        self.path.chmod(0o600)

    def _connect(self) -> sqlite3.Connection:
        if not self.path.exists():
            log.warning("the ledger was removed; a new one is made")
            # Without a file, SQLite gives the reason.
            with suppress(OSError):
                self.path.parent.mkdir(mode=0o700, exist_ok=True)
                self._make()
        return sqlite3.connect(self.path, timeout=self._wait_seconds)

    def _hash(self, *parts: str) -> str:
        text = "\0".join(parts).encode("utf-8", "replace")
        return hashlib.blake2b(text, digest_size=16, key=self._key).hexdigest()

    def use_token(self, issuer: str, jti: str, until: float) -> bool:
        """Whether a token is used for the first time; it is remembered until it expires."""
        row = (self._hash(issuer, jti), until)
        with closing(self._connect()) as con, con:
            con.execute("DELETE FROM tokens WHERE until < ?", (time.time(),))
            insert = con.execute(
                "INSERT OR IGNORE INTO tokens VALUES (?, ?)", row
            )
            return insert.rowcount == 1

    def served(
        self,
        task: str,
        model: str,
        rows: Iterable[dict[str, object]],
        *,
        stay: str = "stay_id",
        card: str = "",
        call: str = "",
    ) -> None:
        """Keep the risks of output rows.

        Args:
            task: the task that gave them.
            model: the fingerprint of its model.
            rows: with `status`, `probability` and, if the model has a threshold, `alert`.
            stay: the column with the ids of stays, which a row may lack.
            card: the UUID of the card that shows the risk. Its ids are of FHIR, where upper and
                lower case differ.
            call: the same for the models that score one call.
        """
        key_of = id_text if card else id_key
        records = []
        for number, row in enumerate(rows):
            stay_key = key_of(row.get(stay))
            stay_hash = stay_key and self._hash(stay_key)
            result = map(row.get, ("status", "probability", "alert"))
            name = f"{call}-{number}"
            records.append(
                (now(), task, model, name, card, stay_hash, *result)
            )
        self._append("served", records)

    def feedback(
        self, task: str, entries: Iterable[tuple[str, str, str]]
    ) -> None:
        """Keep feedback: the card, the outcome, and the code of the reason or ""."""
        self._append("feedback", [(now(), task, *entry) for entry in entries])

    def _append(
        self, table: str, records: Sequence[tuple[object, ...]]
    ) -> None:
        marks = ",".join("?" * len(records[0]))
        statement = f"INSERT INTO {table} VALUES ({marks})"  # noqa: S608
        try:
            with closing(self._connect()) as con, con:
                con.executemany(statement, records)
        except sqlite3.Error as error:
            # The response matters more than its record; the operator sees the log.
            log.error(
                "ledger", extra={"facts": {"error": type(error).__name__}}
            )


def _read_key(file: Path) -> bytes:
    """The key of the hashes, from the environment or else from a file, which is made if needed."""
    key = os.environ.get(KEY_VARIABLE) or _key_in_file(file)
    if len(key) < _KEY_CHARACTERS:
        raise UserError(
            f"{KEY_VARIABLE} or {file} has {len(key)} characters; expected a random text of at "
            f"least {_KEY_CHARACTERS}: openssl rand -hex 32"
        )
    return hashlib.blake2b(key.encode("utf-8", "replace")).digest()


def _key_in_file(file: Path) -> str:
    if not file.exists():
        # The name appears with its content: other processes may be starting.
        new_file = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        try:
            new_file.touch(mode=0o600)
            new_file.write_text(secrets.token_hex(32))
            _rename_once(new_file, file)
        finally:
            new_file.unlink(missing_ok=True)
    if os.name == "posix" and file.stat().st_mode & 0o077:
        raise UserError(
            f"{file} can be read by other users; run: chmod 600 {file}"
        )
    return file.read_text("utf-8", errors="replace").strip()


def _rename_once(new_file: Path, file: Path) -> None:
    """Give a file its name, unless another process was first."""
    try:
        os.link(new_file, file)
    except FileExistsError:
        pass
    except (AttributeError, NotImplementedError, OSError):
        # A file system without links, such as FAT or a network drive.
        with FileLock(file.with_name(f"{file.name}.lock")):
            if not file.exists():
                new_file.replace(file)


def read_ledger(path: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables `served` and `feedback`.

    Raises:
        TableError: the file is not a ledger.
    """
    served = _query(path, "SELECT * FROM served")
    return served, _query(path, "SELECT * FROM feedback")


def compare_models(path: str | Path, model: str) -> list[JsonObject]:
    """How the risks of other models differ from those of a model on the same rows.

    Returns:
        One record per model: its `model` fingerprint (12 characters), `n` rows, the mean `change`
        of the probability in points, the least and the largest one (`low` and `high`), and the
        number of alerts that are `added` and `missed`.
    """
    query = data_text(__file__, "compare.sql")
    return _query(path, query, model).to_dict("records")


def _query(path: str | Path, query: str, *values: str) -> pd.DataFrame:
    import pandas as pd

    try:
        address = f"{Path(path).resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as con:
            (application,) = con.execute("PRAGMA application_id").fetchone()
            if application != _APPLICATION:
                raise sqlite3.DatabaseError
            return pd.read_sql(query, con, params=values)
    except (sqlite3.Error, pd.errors.DatabaseError):
        raise TableError(
            f"{path} was not written by `domainbert serve --ledger`"
        ) from None


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
