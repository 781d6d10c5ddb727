"""Sources of tables: a folder of files or a database, scanned by DuckDB as text.

Every source gives a table as a relation that DuckDB can scan once, with every column as text, so
that CSV files and databases are read by the same rules.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.tables.csv_files import (
    FlawedCSVError,
    careful_stream_csv,
    csv_columns,
    default_delimiter,
    stream_csv,
)
from domainbert.tables.formats import TableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import duckdb
    import pyarrow as pa

    from domainbert.tables.formats import ReadOptions

FILE_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_DEEPEST = 4  # folders below the source in which a table's file is looked for


class Source(ABC):
    """A set of tables; names match in any case.

    Attributes:
        name: for messages.
        errors: table in lower case -> why its last scan failed, if the file is to blame. After a
            `FlawedCSVError` another scan skips the malformed lines.
        flaws: table in lower case -> file, line and problem of its malformed lines.
    """

    def __init__(self, name: str, con: duckdb.DuckDBPyConnection) -> None:
        self.name = name
        self.errors: dict[str, Exception] = {}
        self.flaws: dict[str, list[tuple[str, int, str]]] = {}
        self._con = con

    @abstractmethod
    def tables(self) -> list[str]:
        """Names of all tables, for messages."""

    @abstractmethod
    def columns(self, table: str) -> list[str] | None:
        """Column names as the source spells them, or None if there is no such table."""

    @abstractmethod
    def scan(self, table: str, columns: Sequence[str]) -> str:
        """What to write after FROM: a relation of these columns as text, valid for one scan."""

    def check_unchanged(self) -> None:  # noqa: B027 - a database reads in one transaction
        """Raise `TableError` if a file was changed or removed since it was opened."""


class FolderSource(Source):
    """A folder with one file per table; of several files of a name the shallowest is used."""

    def __init__(self, folder: Path, con: duckdb.DuckDBPyConnection, options: ReadOptions) -> None:
        super().__init__(str(folder), con)
        self._csv = {"delimiter": options.delimiter, "encoding": options.encoding}
        self._folder = folder
        self._files: dict[str, list[Path]] = {}
        self._opened: dict[Path, tuple[int, int, int]] = {}
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
        self._opened.setdefault(path, _version(path))
        if path.suffix.lower() == ".parquet":
            return _parquet_columns(path)
        return csv_columns(path, **self._csv)

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """The file; CSV is a stream, and a slower one after a malformed line was found."""
        path = self._path(table)
        if path is None:
            raise AssertionError(table)
        if path.suffix.lower() == ".parquet":
            # Every path is literal: DuckDB would read [ ] * ? as a pattern, and a=b as a column.
            literal = quoted(re.sub(r"([*?\[])", r"[\1]", str(path.absolute())))
            parquet = f"read_parquet({literal}, hive_partitioning = false)"
            return f"({select_text(columns, parquet)})"
        stream = self._stream(table.lower(), path, columns)
        name = f"csv_stream_{id(stream)}"
        self._con.register(name, stream)
        return name

    def check_unchanged(self) -> None:
        """Compare inode, size and time of every file with those when it was opened."""
        for path, before in self._opened.items():
            after = _version(path)
            if after != before:
                size = f"{before[1]:,} bytes at first, {after[1]:,} bytes now"
                msg = (
                    f"{path.name} changed while it was read ({size}); start again when nothing "
                    "writes to it any more, or read a copy"
                )
                raise TableError(msg)

    def _stream(self, table: str, path: Path, columns: Sequence[str]) -> pa.RecordBatchReader:
        def on_error(error: Exception) -> None:
            self.errors[table] = error

        is_plain = (self._csv["delimiter"] or default_delimiter(path)) == ","
        is_flawed = isinstance(self.errors.get(table), FlawedCSVError)
        if is_plain and not self._csv["encoding"] and not is_flawed:
            return stream_csv(path, columns, on_error=on_error)
        flaws = self.flaws[table] = []  # a table may be read twice
        return careful_stream_csv(path, columns, flaws=flaws, on_error=on_error, **self._csv)

    def _path(self, table: str) -> Path | None:
        paths = self._files.get(table.lower(), [])
        depth = min((len(path.parts) for path in paths), default=0)
        paths = [path for path in paths if len(path.parts) == depth]
        if len(paths) > 1:
            names = ", ".join(str(path.relative_to(self._folder)) for path in paths)
            msg = f"{self.name} has more than one file for {table}: {names}. Leave one there"
            raise TableError(msg)
        return paths[0] if paths else None


class DatabaseSource(Source):
    """The tables of a database, by (schema, table); a subclass says how they are read."""

    _tables: list[tuple[str, str]]

    def tables(self) -> list[str]:
        """Tables and views, with their schema where there are several."""
        return sorted(table if s == "main" else f"{s}.{table}" for s, table in self._tables)

    def place(self, table: str) -> str | None:
        """The one table written `table` or `schema.table`, as SQL; None if there is none."""
        wanted = table.lower()
        found = [p for p in self._tables if wanted in (p[1].lower(), ".".join(p).lower())]
        if len(found) > 1:
            names = ", ".join(".".join(place) for place in found)
            msg = (
                f"{self.name} has more than one table {table}: {names}. Name the one you mean as "
                'table = "schema.table" in a mapping (schema="generic")'
            )
            raise TableError(msg)
        return ".".join(map(identifier, found[0])) if found else None


class DuckDBSource(DatabaseSource):
    """The tables of a DuckDB file, opened read-only."""

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection) -> None:
        import duckdb

        super().__init__(str(path), con)
        try:
            con.execute(f"ATTACH {quoted(str(path))} AS hospital (READ_ONLY)")
        except duckdb.Error as error:
            with path.open("rb") as file:
                is_sqlite = file.read(16).startswith(b"SQLite format 3")
            hint = "; for SQLite write sqlite:///PATH" if is_sqlite else ""
            msg = f"{path} is neither a folder nor a DuckDB file ({type(error).__name__}){hint}"
            raise TableError(msg) from None
        self._tables = con.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_catalog = 'hospital'"
        ).fetchall()

    def columns(self, table: str) -> list[str] | None:
        """Column names of the table."""
        if (place := self.place(table)) is None:
            return None
        rows = self._con.execute(f"SELECT * FROM hospital.{place} LIMIT 0")  # noqa: S608
        return [column[0] for column in rows.description]

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """The table itself, its columns as text."""
        return f"({select_text(columns, f'hospital.{self.place(table)}')})"


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def select_text(columns: Iterable[str], relation: str, cast: str = "CAST({} AS VARCHAR)") -> str:
    """A SELECT of these columns, cast to text under their own names."""
    listed = ", ".join(f"{cast.format(identifier(c))} AS {identifier(c)}" for c in columns)
    return f"SELECT {listed} FROM {relation}"  # noqa: S608


def _parquet_columns(path: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(path).names)
    except (OSError, pa.ArrowInvalid) as error:
        msg = f"{path.name} cannot be read as Parquet ({type(error).__name__})"
        raise TableError(msg) from None


def _version(path: Path) -> tuple[int, int, int]:
    """Inode, size and time of the last change; zeros for a file that is gone."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_file():
            yield path
        elif depth and path.is_dir() and not path.name.startswith("."):
            yield from _walk(path, depth - 1)
