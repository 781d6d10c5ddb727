"""Open a source of tables by its address: a folder, a DuckDB file, PostgreSQL or SQLite."""

from __future__ import annotations

import re
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from domainbert.tables import TableError
from domainbert.tables.sources import FILE_ENDINGS, DuckDBSource, FolderSource, Source, find_table
from domainbert.tables.sql import identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

_POSTGRES_TABLES = (
    "SELECT CAST(table_schema AS TEXT), CAST(table_name AS TEXT) FROM information_schema.tables "
    "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
)
_SQLITE_TABLES = "SELECT 'main', name FROM sqlite_master WHERE type IN ('table', 'view')"


@contextmanager
def open_source(
    source: str | Path,
    *,
    con: duckdb.DuckDBPyConnection,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Iterator[Source]:
    """Open a folder, a DuckDB file, `postgresql://…` or `sqlite:///…`.

    Args:
        source: path or address.
        con: where its tables are scanned.
        delimiter: of the CSV files of a folder; a tab for .tsv, else a comma by default.
        encoding: of the CSV files of a folder; UTF-8 by default.

    Raises:
        TableError: no such folder or file, an unknown kind of address, or a database that cannot
            be read.
    """
    text = str(source)
    if text.startswith(("postgresql://", "postgres://", "sqlite://")):
        with open_database(text, con=con) as database:
            yield database
    elif Path(source).is_dir():
        yield FolderSource(Path(source), con, delimiter=delimiter, encoding=encoding)
    elif Path(source).is_file():
        yield DuckDBSource(Path(source), con)
    else:
        name = _public_name(text).removesuffix("://...") if "://" in text else text
        msg = (
            f"{name}: no such folder or file. A source is a folder of "
            f"{', '.join(FILE_ENDINGS)} files, a DuckDB file, postgresql://… or sqlite:///…"
        )
        raise TableError(msg)


@contextmanager
def open_database(uri: str, *, con: duckdb.DuckDBPyConnection) -> Iterator[DatabaseSource]:
    """Open a database for reading, in one transaction.

    Args:
        uri: `postgresql://user:password@host/database` or `sqlite:///path`.
        con: where the streams are registered.

    Raises:
        TableError: the database cannot be opened or read, with the part of the address that is
            wrong; or its driver is missing, with the line that installs it.
    """
    kind = "sqlite" if uri.startswith("sqlite") else "postgresql"
    driver = _driver(f"adbc_driver_{kind}")
    connect = _connect_sqlite if kind == "sqlite" else _connect_postgres
    try:
        with connect(driver, uri) as connection:
            yield DatabaseSource(connection, con, kind=kind, name=_public_name(uri))
    except driver.Error as error:
        # The driver's own message may hold the address with its password.
        fault = _fault(str(error), uri) or type(error).__name__
        msg = f"{_public_name(uri)} cannot be read ({fault})"
        raise TableError(msg) from None


def query_batches(uri: str, query: str | None) -> Iterator[Any]:
    """The rows of a query as Arrow batches.

    Args:
        uri: see `open_database`.
        query: a SELECT statement.

    Raises:
        TableError: no query, or the database refuses it.
    """
    if not query:
        msg = f"{_public_name(uri)} is a database: say what to read with --query 'SELECT …'"
        raise TableError(msg)
    kind = "sqlite" if uri.startswith("sqlite") else "postgresql"
    driver = _driver(f"adbc_driver_{kind}")
    connect = _connect_sqlite if kind == "sqlite" else _connect_postgres
    try:
        with connect(driver, uri) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            yield from cursor.fetch_record_batch()
    except driver.Error as error:
        msg = f"the query on {_public_name(uri)} failed ({type(error).__name__})"
        raise TableError(msg) from None


class DatabaseSource(Source):
    """The tables of an open database; each scan is one stream."""

    def __init__(
        self, connection: Any, con: duckdb.DuckDBPyConnection, *, kind: str, name: str
    ) -> None:
        self.name = name
        self._connection = connection
        self._con = con
        self._kind = kind
        self._open: list[Any] = []  # a stream ends with its cursor
        rows = self._rows(_POSTGRES_TABLES if kind == "postgresql" else _SQLITE_TABLES)
        self._tables = [(str(schema), str(table)) for schema, table in rows]

    def tables(self) -> list[str]:
        """Tables and views, with their schema in PostgreSQL."""
        return sorted(table if s == "main" else f"{s}.{table}" for s, table in self._tables)

    def columns(self, table: str) -> list[str] | None:
        """Column names of the table."""
        place = find_table(table, self._tables, source=self.name)
        if place is None:
            return None
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {_path(place)} LIMIT 0")  # noqa: S608
            return [column[0] for column in cursor.description]

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """A stream of the columns, cast to text by the database; valid for one scan."""
        place = find_table(table, self._tables, source=self.name)
        if place is None:
            raise AssertionError(table)
        # The SQLite driver takes a column's type from its first rows, so none of them may be NULL.
        # An empty text means missing.
        cast = (
            "CAST({0} AS TEXT)" if self._kind == "postgresql" else "coalesce(CAST({0} AS TEXT), '')"
        )
        chosen = ", ".join(
            f"{cast.format(identifier(name))} AS {identifier(name)}" for name in columns
        )
        cursor = self._connection.cursor()
        cursor.execute(f"SELECT {chosen} FROM {_path(place)}")  # noqa: S608
        self._open.append(cursor)
        name = f"database_stream_{len(self._open)}"
        self._con.register(name, cursor.fetch_record_batch())
        return name

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())


def _connect_sqlite(driver: Any, uri: str) -> Any:
    path = Path(uri.removeprefix("sqlite://").removeprefix("/"))
    if not path.is_file():
        # The driver would create an empty database for a mistyped name.
        msg = f"{path}: no such SQLite file (sqlite:///relative.db, sqlite:////absolute.db)"
        raise TableError(msg)
    return driver.connect(f"file:{quote(str(path))}?mode=ro")


def _connect_postgres(driver: Any, uri: str) -> Any:
    connection = driver.connect(uri)
    with connection.cursor() as cursor:
        # Times are read as text: always in the same form, and never in a local zone.
        cursor.execute("SET datestyle TO 'ISO'")
        cursor.execute("SET TIME ZONE 'UTC'")
    return connection


def _driver(package: str) -> Any:
    try:
        return import_module(f"{package}.dbapi")
    except ImportError:
        msg = f"this database needs {package}: pip install 'domainbert[databases]'"
        raise TableError(msg) from None


def _public_name(uri: str) -> str:
    """The address without user, password and options."""
    scheme, _, rest = uri.partition("://")
    if "?" in rest.rpartition("@")[0]:  # a password may hold either of them: nothing is certain
        return f"{scheme}://..."
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


# A part of the driver's message -> what is wrong; `{}` is that part of the address.
_FAULTS = (
    ("password authentication failed|no password supplied", "wrong password or user {user!r}"),
    ("database .* does not exist", "there is no database {database!r}"),
    ("role .* does not exist", "there is no user {user!r}"),
    ("pg_hba.conf", "user {user!r} may not log in from here"),
    ("could not translate host name", "there is no host {host!r}"),
    ("invalid integer value|invalid port number", "the port is not a number from 1 to 65535"),
    ("Connection refused", "nothing listens on this host and port"),
    ("timeout|timed out|no route to host|unreachable", "host or port cannot be reached"),
    ("permission denied", "user {user!r} may not read a table"),
    ("SSL", "the server does not offer the SSL mode of the address"),
)


def _fault(message: str, uri: str) -> str:
    """Which part of the address is wrong, without repeating the driver's message."""
    fault = next((said for sign, said in _FAULTS if re.search(sign, message, re.IGNORECASE)), "")
    host, _, database = _public_name(uri).partition("://")[2].partition("/")
    user = uri.partition("://")[2].rpartition("@")[0].partition(":")[0]
    return fault.format(user=user, database=database, host=host)


def _path(place: tuple[str, str]) -> str:
    return ".".join(identifier(part) for part in place)
