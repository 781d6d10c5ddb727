"""Sources of tables by address: a folder, a DuckDB file, PostgreSQL or SQLite."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import duckdb

from domainbert.errors import missing_extra
from domainbert.tables.options import DATABASES, ReadOptions, TableError
from domainbert.tables.sources import (
    FILE_ENDINGS,
    FolderSource,
    Source,
    identifier,
    quoted,
    select_text,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Connection, Cursor

_POSTGRES_TABLES = (
    "SELECT CAST(table_schema AS TEXT), CAST(table_name AS TEXT) FROM information_schema.tables "
    "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
)
# Times are read as text: always in the same format, and never in a local zone.
_SETUP = {
    "postgresql": ("SET datestyle TO 'ISO'", "SET TIME ZONE 'UTC'"),
    "sqlite": (),
}
_SQLITE_TABLES = (
    "SELECT 'main', name FROM sqlite_master WHERE type IN ('table', 'view')"
)


@contextmanager
def open_source(
    source: str | Path,
    con: duckdb.DuckDBPyConnection,
    options: ReadOptions,
) -> Iterator[Source]:
    """Open a folder, a DuckDB file, `postgresql://…` or `sqlite:///…` for scans by `con`.

    Raises:
        TableError: no such folder or file, an unknown kind of address, or a database that cannot
            be read.
        UserError: the driver of the database is not installed.
    """
    text = str(source)
    if text.startswith(DATABASES):
        with _connect(text) as connection:
            yield _AdbcSource(text, con, connection)
    elif Path(source).is_dir():
        yield FolderSource(Path(source), con, options)
    elif Path(source).is_file():
        yield _DuckDBSource(Path(source), con)
    else:
        name = text
        if "://" in text:
            name = _public_name(text).removesuffix("://...")
        raise TableError(
            f"{name}: no such folder or file. A source is a folder of "
            f"{', '.join(FILE_ENDINGS)} files, a DuckDB file, postgresql://… or sqlite:///…"
        )


@contextmanager
def query_batches(
    uri: str, query: str | None
) -> Iterator[pa.RecordBatchReader]:
    """The rows of a SELECT statement.

    Raises:
        TableError: no statement, or the database refuses it.
    """
    if not query:
        raise TableError(
            f"{_public_name(uri)} is a database: say what to read with `query='SELECT …'`"
        )
    with _connect(uri) as connection, connection.cursor() as cursor:
        try:
            cursor.execute(query)
            yield cursor.fetch_record_batch()
        except connection.Error as error:
            raise TableError(
                f"the query on {_public_name(uri)} failed ({type(error).__name__})"
            ) from None


@contextmanager
def _connect(uri: str) -> Iterator[Connection]:
    """A connection for reading, in one transaction.

    The driver's message is never repeated: it may hold the password, or a row.
    """
    engine = "sqlite" if uri.startswith("sqlite") else "postgresql"
    package = f"adbc_driver_{engine}"
    try:
        driver = import_module(f"{package}.dbapi")
    except ModuleNotFoundError as error:
        raise missing_extra(error, "databases") from None
    address = uri
    if engine == "sqlite":
        address = _sqlite_address(uri)
    try:
        with driver.connect(address) as connection:
            with connection.cursor() as cursor:
                for statement in _SETUP[engine]:
                    cursor.execute(statement)
            yield connection
    except driver.Error as error:
        raise TableError(
            f"{_public_name(uri)} cannot be read ({_fault(error)})"
        ) from None


def _sqlite_address(uri: str) -> str:
    """The driver's address of a file, for reading only."""
    path = Path(uri.removeprefix("sqlite://").removeprefix("/"))
    # The driver would create an empty database for a mistyped name.
    if not path.is_file():
        raise TableError(
            f"{path}: no such SQLite file (sqlite:///relative.db, sqlite:////absolute.db)"
        )
    return f"file:{quote(str(path))}?mode=ro"


class _DatabaseSource(Source):
    """The tables of a database, by (schema, table)."""

    _tables: list[tuple[str, str]]
    _catalog: tuple[str, ...] = ()  # a part of the names before the schema

    @abstractmethod
    def run(self, statement: str) -> Any:
        """A cursor with the result of a statement."""

    def tables(self) -> list[str]:
        """Tables and views, with their schema unless it is the main one."""
        names = [".".join(table) for table in self._tables]
        return sorted(name.removeprefix("main.") for name in names)

    def sql_name(self, table: str) -> str | None:
        """The table written `table` or `schema.table`, as SQL; None if there is none.

        Raises:
            TableError: several schemas have such a table.
        """
        lower = table.lower()
        matches = [
            (schema, name)
            for schema, name in self._tables
            if lower in (name.lower(), f"{schema}.{name}".lower())
        ]
        if len(matches) > 1:
            names = ", ".join(".".join(match) for match in matches)
            raise TableError(
                f"{self.name} has more than one table {table}: {names}. Name the one you mean as "
                'table = "schema.table" in a mapping (schema="generic")'
            )
        for match in matches:
            return ".".join(map(identifier, (*self._catalog, *match)))
        return None

    def columns(self, table: str) -> list[str] | None:
        name = self.sql_name(table)
        if name is None:
            return None
        cursor = self.run(f"SELECT * FROM {name} LIMIT 0")  # noqa: S608
        return [column[0] for column in cursor.description]


class _DuckDBSource(_DatabaseSource):
    """The tables of a DuckDB file, opened read-only."""

    _catalog = ("hospital",)

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection) -> None:
        super().__init__(str(path), con)
        try:
            con.execute(f"ATTACH {quoted(str(path))} AS hospital (READ_ONLY)")
        except duckdb.Error as error:
            raise TableError(
                f"{path} is neither a folder nor a DuckDB file ({type(error).__name__}); "
                "of a table name the folder; for SQLite write sqlite:///PATH"
            ) from None
        self._tables = con.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_catalog = 'hospital'"
        ).fetchall()

    def run(self, statement: str) -> Any:
        return self._con.execute(statement)

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """The table itself, its columns as text."""
        return f"({select_text(columns, str(self.sql_name(table)))})"


class _AdbcSource(_DatabaseSource):
    """The tables of PostgreSQL or SQLite; each scan is one stream."""

    def __init__(
        self,
        uri: str,
        con: duckdb.DuckDBPyConnection,
        connection: Connection,
    ) -> None:
        super().__init__(_public_name(uri), con)
        self._connection = connection
        self._open: list[Cursor] = []  # a stream ends with its cursor
        self._cast = "CAST({} AS TEXT)"
        query = _POSTGRES_TABLES
        if uri.startswith("sqlite"):
            query = _SQLITE_TABLES
            # The driver takes a column's type from its first rows, which must not be NULL. An
            # empty text means missing.
            self._cast = "coalesce(CAST({} AS TEXT), '')"
        rows = self.run(query).fetchall()
        self._tables = [(str(schema), str(table)) for schema, table in rows]

    def run(self, statement: str) -> Any:
        """A new cursor, kept open as long as the source."""
        cursor = self._connection.cursor()
        self._open.append(cursor)
        cursor.execute(statement)
        return cursor

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """A stream of the columns, cast to text by the database; valid for one scan."""
        cursor = self.run(
            select_text(columns, str(self.sql_name(table)), self._cast)
        )
        name = f"database_stream_{len(self._open)}"
        self._con.register(name, cursor.fetch_record_batch())
        return name


def _public_name(uri: str) -> str:
    """The address without user, password and options."""
    scheme, _, address = uri.partition("://")
    login, _, host = address.rpartition("@")
    # A password may hold "?" or "@", so its end is not certain.
    if "?" in login:
        return f"{scheme}://..."
    return f"{scheme}://{host.partition('?')[0]}"


# A part of the driver's message -> what is wrong.
_FAULTS = {
    "password authentication|no password|role .* does not exist|pg_hba.conf": "wrong user or "
    "password, or no login from here",
    "database .* does not exist": "there is no such database",
    "permission denied": "this user may not read a table",
    "SSL": "the server does not offer the SSL mode of the address",
    "host name|refused|time.?out|timed out|no route|unreachable|port number|integer value": "host "
    "or port cannot be reached",
}


def _fault(error: Exception) -> str:
    """What is wrong, without repeating the driver's message."""
    for pattern, fault in _FAULTS.items():
        if re.search(pattern, str(error), re.IGNORECASE):
            return fault
    return type(error).__name__
