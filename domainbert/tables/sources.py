"""Sources of tables that DuckDB scans: the base class, and a folder of files.

A source gives each table as a relation that DuckDB can scan once, with every column as text, so
that CSV files and databases are read by the same rules.
"""

import glob
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

from domainbert.tables.csv_files import csv_batches, csv_columns, unchanged
from domainbert.tables.options import (
    FileFaults,
    ReadOptions,
    TableError,
    is_hidden,
)
from domainbert.tables.parquet_files import parquet_columns

FILE_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_MAX_DEPTH = 5  # files are found up to four folders below the source


class Source(ABC):
    """A set of tables, whose names match in any case.

    Attributes:
        name: for messages.
        errors: table in lower case -> why its last scan failed, where DuckDB is not the cause.
        file_faults: table in lower case -> file, line and problem of its malformed lines.
    """

    def __init__(self, name: str, con: duckdb.DuckDBPyConnection) -> None:
        self.name = name
        self.errors: dict[str, Exception] = {}
        self.file_faults: dict[str, FileFaults] = {}
        self._con = con

    @abstractmethod
    def tables(self) -> list[str]:
        """Names of all tables, for messages."""

    @abstractmethod
    def columns(self, table: str) -> list[str] | None:
        """Column names as the source spells them, or None if there is no such table."""

    @abstractmethod
    def scan(self, table: str, columns: Sequence[str]) -> str:
        """SQL for FROM: a relation of these columns as text, valid for one scan."""

    def stream(
        self,
        table: str,
        columns: Sequence[str],
        read: Callable[[FileFaults], Iterable[pa.RecordBatch]],
    ) -> str:
        """Register columns of text for one scan; an error of its file is kept in `errors`."""
        key = table.lower()
        self.file_faults[
            key
        ] = []  # of this scan only: a table may be read twice

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from read(self.file_faults[key])
            except Exception as error:  # DuckDB would name another cause
                self.errors[key] = error
                raise

        schema = pa.schema(dict.fromkeys(columns, "string"))
        stream = pa.RecordBatchReader.from_batches(schema, batches())
        name = f"stream_{id(stream)}"
        self._con.register(name, stream)
        return name

    def check_unchanged(self) -> None:  # noqa: B027 - a database reads in one transaction
        """Raise `TableError` if a file was changed or removed since it was opened."""


class FolderSource(Source):
    """A folder with one file per table; the least nested of the files of a name is used."""

    def __init__(
        self,
        folder: Path,
        con: duckdb.DuckDBPyConnection,
        options: ReadOptions,
    ) -> None:
        super().__init__(str(folder), con)
        self._folder = folder
        self._options = options
        self._files: dict[str, list[Path]] = {}
        self._opened = ExitStack()
        self._names: dict[Path, list[str]] = {}
        for depth in range(1, _MAX_DEPTH + 1):
            names_above = set(self._files)
            for path in sorted(folder.glob("/".join("*" * depth))):
                name = _table_name(path)
                if not name or name in names_above or not path.is_file():
                    continue
                if not is_hidden(path.relative_to(folder)):
                    self._files.setdefault(name, []).append(path)

    def tables(self) -> list[str]:
        """The files of tables, relative to the folder."""
        paths = [path for group in self._files.values() for path in group]
        return sorted(str(path.relative_to(self._folder)) for path in paths)

    def columns(self, table: str) -> list[str] | None:
        """Column names of the table's file."""
        path = self._path(table)
        if path is None:
            return None
        if path not in self._names:
            self._opened.enter_context(unchanged(path))
            if path.suffix.lower() == ".parquet":
                self._names[path] = parquet_columns(path)
            else:
                self._names[path] = csv_columns(path, self._options)
        return self._names[path]

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """The file; CSV is a stream."""
        path = self._files[table.lower()][0]
        if path.suffix.lower() == ".parquet":
            # DuckDB would read [ ] * ? in a path as a pattern, and a=b as a column.
            literal = quoted(glob.escape(str(path.absolute())))
            parquet = f"read_parquet({literal}, hive_partitioning = false)"
            return f"({select_text(columns, parquet)})"
        read = partial(csv_batches, path, columns, self._options)
        return self.stream(table, columns, read)

    def check_unchanged(self) -> None:
        """Compare every file with its state when it was opened."""
        self._opened.close()

    def _path(self, table: str) -> Path | None:
        paths = self._files.get(table.lower(), [])
        if len(paths) > 1:
            names = ", ".join(
                str(path.relative_to(self._folder)) for path in paths
            )
            raise TableError(
                f"{self.name} has more than one file for {table}: {names}. Keep only one"
            )
        return next(iter(paths), None)


def _table_name(path: Path) -> str:
    """The name of a table in lower case, without the ending of its file; "" for other files."""
    name = path.name.lower()
    ending = next(filter(name.endswith, FILE_ENDINGS), name)
    return name.removesuffix(ending)


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def select_text(
    columns: Iterable[str],
    relation: str,
    cast: str = "CAST({} AS VARCHAR)",
) -> str:
    """A SELECT of these columns, cast to text under their own names."""
    names = [identifier(column) for column in columns]
    listed = ", ".join(f"{cast.format(name)} AS {name}" for name in names)
    return f"SELECT {listed} FROM {relation}"  # noqa: S608
