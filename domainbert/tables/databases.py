"""Open a source of tables by its address: a folder, a DuckDB file, PostgreSQL or SQLite."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from domainbert.tables.options import DATABASES, TableError
from domainbert.tables.sources import (
    FILE_ENDINGS,
    FolderSource,
    Source,
    identifier,
    quoted,
    select_text,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from domainbert.tables.options import ReadOptions

_POSTGRES_TABLES = (
    "SELECT CAST(table_schema AS TEXT), CAST(table_name AS TEXT) FROM information_schema.tables "
    "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
)
_SQLITE_TABLES = (
    "SELECT 'main', name FROM sqlite_master WHERE type IN ('table', 'view')"
)


@contextmanager
def open_source(
    source: str | Path, con: duckdb.DuckDBPyConnection, options: ReadOptions
) -> Iterator[Source]:
    """Open a folder, a DuckDB file, `postgresql://…` or `sqlite:///…`, to be scanned by `con`.

    Raises:
        TableError: no such folder or file, an unknown kind of address, or a database that cannot
            be read.
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
        name = _public_name(text).removesuffix("://...") if "://" in text else text
        raise TableError(
            f"{name}: no such folder or file. A source is a folder of "
            f"{', '.join(FILE_ENDINGS)} files, a DuckDB file, postgresql://… or sqlite:///…"
        )


@contextmanager
def query_batches(uri: str, query: str | None) -> Iterator[pa.RecordBatchReader]:
    """The rows of a SELECT statement; `TableError` if the database refuses it."""
    if not query:
        msg = f"{_public_name(uri)} is a database: say what to read with --query 'SELECT …'"
        raise TableError(msg)
    with _connect(uri) as connection, connection.cursor() as cursor:
        try:
            cursor.execute(query)
            yield cursor.fetch_record_batch()
        except connection.Error as error:
            msg = f"the query on {_public_name(uri)} failed ({type(error).__name__})"
            raise TableError(msg) from None


@contextmanager
def _connect(uri: str) -> Iterator[Any]:
    """A connection for reading, in one transaction; its errors say what is wrong in the address.

    The driver's own message is never repeated: it may hold the password, or a row.
    """
    package = f"adbc_driver_{'sqlite' if uri.startswith('sqlite') else 'postgresql'}"
    try:
        driver = import_module(f"{package}.dbapi")
    except ImportError:
        msg = f"this database needs {package}: pip install 'domainbert[databases]'"
        raise TableError(msg) from None
    if uri.startswith("sqlite"):
        path = Path(uri.removeprefix("sqlite://").removeprefix("/"))
        if (
            not path.is_file()
        ):  # the driver would create an empty database for a mistyped name
            msg = f"{path}: no such SQLite file (sqlite:///relative.db, sqlite:////absolute.db)"
            raise TableError(msg)
        address, setup = f"file:{quote(str(path))}?mode=ro", []
    else:  # times are read as text: always in the same form, and never in a local zone
        address, setup = uri, ["SET datestyle TO 'ISO'", "SET TIME ZONE 'UTC'"]
    try:
        with driver.connect(address) as connection:
            with connection.cursor() as cursor:
                for statement in setup:
                    cursor.execute(statement)
            yield connection
    except driver.Error as error:
        raise TableError(
            f"{_public_name(uri)} cannot be read ({_fault(error)})"
        ) from None


class _DatabaseSource(Source):
    """The tables of a database, by (schema, table)."""

    _tables: list[tuple[str, str]]

    @abstractmethod
    def run(self, statement: str) -> Any:
        """A cursor with the result of a statement."""

    def tables(self) -> list[str]:
        """Tables and views, with their schema where there are several."""
        return sorted(
            table if s == "main" else f"{s}.{table}" for s, table in self._tables
        )

    def place(self, table: str) -> str | None:
        """The one table written `table` or `schema.table`, as SQL; None if there is none."""
        wanted = table.lower()
        found = [
            p for p in self._tables if wanted in (p[1].lower(), ".".join(p).lower())
        ]
        if len(found) > 1:
            names = ", ".join(".".join(place) for place in found)
            raise TableError(
                f"{self.name} has more than one table {table}: {names}. Name the one you mean as "
                'table = "schema.table" in a mapping (schema="generic")'
            )
        return ".".join(map(identifier, found[0])) if found else None

    def columns(self, table: str) -> list[str] | None:
        if (place := self.place(table)) is None:
            return None
        cursor = self.run(f"SELECT * FROM {place} LIMIT 0")  # noqa: S608
        return [column[0] for column in cursor.description]


class _DuckDBSource(_DatabaseSource):
    """The tables of a DuckDB file, opened read-only."""

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection) -> None:
        import duckdb

        super().__init__(str(path), con)
        try:
            con.execute(f"ATTACH {quoted(str(path))} AS hospital (READ_ONLY)")
        except duckdb.Error as error:
            msg = (
                f"{path} is neither a folder nor a DuckDB file ({type(error).__name__})"
            )
            raise TableError(f"{msg}; for SQLite write sqlite:///PATH") from None
        self._tables = con.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_catalog = 'hospital'"
        ).fetchall()

    def place(self, table: str) -> str | None:
        place = super().place(table)
        return place and f"hospital.{place}"

    def run(self, statement: str) -> Any:
        return self._con.execute(statement)

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """The table itself, its columns as text."""
        return f"({select_text(columns, str(self.place(table)))})"


class _AdbcSource(_DatabaseSource):
    """The tables of PostgreSQL or SQLite; each scan is one stream."""

    def __init__(
        self, uri: str, con: duckdb.DuckDBPyConnection, connection: Any
    ) -> None:
        super().__init__(_public_name(uri), con)
        self._connection = connection
        self._open: list[Any] = []  # a stream ends with its cursor
        self._is_sqlite = uri.startswith("sqlite")
        found = self.run(
            _SQLITE_TABLES if self._is_sqlite else _POSTGRES_TABLES
        ).fetchall()
        self._tables = [(str(schema), str(table)) for schema, table in found]

    def run(self, statement: str) -> Any:
        """A new cursor, kept open as long as the source."""
        self._open.append(self._connection.cursor())
        self._open[-1].execute(statement)
        return self._open[-1]

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """A stream of the columns, cast to text by the database; valid for one scan."""
        # The SQLite driver takes a column's type from its first rows, so none of them may be NULL.
        # An empty text means missing.
        cast = (
            "coalesce(CAST({} AS TEXT), '')" if self._is_sqlite else "CAST({} AS TEXT)"
        )
        cursor = self.run(select_text(columns, str(self.place(table)), cast))
        name = f"database_stream_{len(self._open)}"
        self._con.register(name, cursor.fetch_record_batch())
        return name


def _public_name(uri: str) -> str:
    """The address without user, password and options."""
    scheme, _, rest = uri.partition("://")
    if (
        "?" in rest.rpartition("@")[0]
    ):  # a password may hold either of them: nothing is certain
        return f"{scheme}://..."
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


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
    kinds = (
        said
        for sign, said in _FAULTS.items()
        if re.search(sign, str(error), re.IGNORECASE)
    )
    return next(kinds, type(error).__name__)
