"""Open a hospital's tables wherever they are: a folder, a DuckDB file, PostgreSQL or SQLite.

Every source hands over its tables in the same way: as something DuckDB can scan once, with every
column as text, so that a CSV file and a database are read by the same rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.tables import TableError
from domainbert.tables.csv_files import FlawedCSVError, careful_stream_csv, csv_columns, stream_csv
from domainbert.tables.sql import as_text, identifier, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    import pyarrow as pa

FILE_ENDINGS = (".csv", ".csv.gz", ".parquet")
_DEEPEST = 4  # folders below the source in which a table's file is looked for


class Source(ABC):
    """A set of tables; names are matched without regard to case."""

    name: str

    @abstractmethod
    def tables(self) -> list[str]:
        """Names of all tables, for messages."""

    @abstractmethod
    def columns(self, table: str) -> list[str] | None:
        """Column names as the source spells them, or None if there is no such table."""

    @abstractmethod
    def scan(self, table: str, columns: Sequence[str]) -> str:
        """What to write after FROM: a relation of these columns as text, good for one scan."""

    def error(self, table: str) -> Exception | None:
        """Why the last scan failed, where it is the file's fault.

        After a `FlawedCSVError` another scan passes over the flaws, and `flaws` tells of them.
        """
        return None

    def flaws(self) -> list[tuple[str, int, str]]:
        """File, line and problem of every flaw of its files."""
        return []


class FolderSource(Source):
    """A folder of files, one a table; the shallowest file of a name is taken."""

    def __init__(self, folder: Path, con: duckdb.DuckDBPyConnection) -> None:
        self.name = str(folder)
        self._folder = folder
        self._con = con
        self._errors: dict[str, Exception] = {}
        self._flaws: dict[str, list[tuple[str, int, str]]] = {}
        self._files: dict[str, list[Path]] = {}
        for path in _walk(folder, _DEEPEST):
            ending = next((e for e in FILE_ENDINGS if path.name.lower().endswith(e)), None)
            if ending:
                self._files.setdefault(path.name[: -len(ending)].lower(), []).append(path)

    def tables(self) -> list[str]:
        """Files that could be tables, relative to the folder."""
        paths = [path for group in self._files.values() for path in group]
        return sorted(str(path.relative_to(self._folder)) for path in paths)

    def columns(self, table: str) -> list[str] | None:
        """Column names of the table's file."""
        path = self._path(table)
        if path is None:
            return None
        if path.suffix.lower() == ".parquet":
            return _parquet_columns(path)
        return csv_columns(path)

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """The file; CSV is a stream, and a slow one once a line of it has proved to be no row."""
        path = self._path(table)
        if path is None:
            raise AssertionError(table)
        if path.suffix.lower() == ".parquet":
            return f"(SELECT {as_text(columns)} FROM read_parquet({quoted(str(path))}))"  # noqa: S608
        stream = self._stream(table.lower(), path, columns)
        name = f"csv_stream_{id(stream)}"
        self._con.register(name, stream)
        return name

    def error(self, table: str) -> Exception | None:
        """A flaw of the file, or that it cannot be read to its end."""
        return self._errors.get(table.lower())

    def flaws(self) -> list[tuple[str, int, str]]:
        """File, line and problem of every flaw."""
        return [flaw for flaws in self._flaws.values() for flaw in flaws]

    def _stream(self, table: str, path: Path, columns: Sequence[str]) -> pa.RecordBatchReader:
        def on_error(error: Exception) -> None:
            self._errors[table] = error

        if not isinstance(self._errors.get(table), FlawedCSVError):
            return stream_csv(path, columns, on_error=on_error)
        self._flaws[table] = []  # a table may be read twice
        return careful_stream_csv(path, columns, flaws=self._flaws[table], on_error=on_error)

    def _path(self, table: str) -> Path | None:
        paths = self._files.get(table.lower(), [])
        depth = min((len(path.parts) for path in paths), default=0)
        paths = [path for path in paths if len(path.parts) == depth]
        if len(paths) > 1:
            names = ", ".join(str(path.relative_to(self._folder)) for path in paths)
            msg = f"{self.name} has more than one file for {table}: {names}. Leave one there"
            raise TableError(msg)
        return paths[0] if paths else None


class DuckDBSource(Source):
    """The tables of a DuckDB file, opened for reading only."""

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection) -> None:
        import duckdb

        self.name = str(path)
        self._con = con
        try:
            con.execute(f"ATTACH {quoted(str(path))} AS hospital (READ_ONLY)")
        except duckdb.Error as error:
            hint = "; for SQLite write sqlite:///PATH" if _is_sqlite(path) else ""
            msg = f"{path} is neither a folder nor a DuckDB file ({type(error).__name__}){hint}"
            raise TableError(msg) from None
        rows = con.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_catalog = 'hospital'"
        ).fetchall()
        self._tables = [(str(schema), str(table)) for schema, table in rows]

    def tables(self) -> list[str]:
        """Tables and views, with their schema."""
        return sorted(".".join(place) for place in self._tables)

    def columns(self, table: str) -> list[str] | None:
        """Column names of the table."""
        place = find_table(table, self._tables, source=self.name)
        if place is None:
            return None
        rows = self._con.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_catalog = 'hospital' "
            "AND table_schema = ? AND table_name = ? ORDER BY ordinal_position",
            place,
        ).fetchall()
        return [row[0] for row in rows]

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """The table itself, its columns as text."""
        place = find_table(table, self._tables, source=self.name)
        if place is None:
            raise AssertionError(table)
        path = ".".join(identifier(part) for part in ("hospital", *place))
        return f"(SELECT {as_text(columns)} FROM {path})"  # noqa: S608


def find_table(
    table: str, known: Sequence[tuple[str, str]], *, source: str
) -> tuple[str, str] | None:
    """The one (schema, table) of that name, written `table` or `schema.table`, in any case.

    Raises:
        TableError: two schemas have one.
    """
    wanted = table.lower()
    matches = [place for place in known if wanted in (place[1].lower(), ".".join(place).lower())]
    if len(matches) > 1:
        names = ", ".join(".".join(place) for place in matches)
        msg = (
            f"{source} has more than one table {table}: {names}. Name the one you mean as "
            'table = "schema.table" in a mapping (schema="generic")'
        )
        raise TableError(msg)
    return matches[0] if matches else None


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_file():
            yield path
        elif depth and path.is_dir() and not path.name.startswith("."):
            yield from _walk(path, depth - 1)


def _parquet_columns(path: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(path).names)
    except (OSError, pa.ArrowInvalid) as error:
        msg = f"{path.name} cannot be read as Parquet ({type(error).__name__})"
        raise TableError(msg) from None


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16).startswith(b"SQLite format 3")
