"""Sources of tables that DuckDB scans: the base class, and a folder of files.

A source gives each table as a relation that DuckDB can scan once, with every column as text, so
that CSV files and databases are read by the same rules.
"""

import glob
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

import duckdb
import pyarrow as pa

from domainbert.tables.csv_files import (
    csv_batches,
    csv_columns,
    csv_dialect,
    csv_header,
    unchanged,
)
from domainbert.tables.options import (
    FileFaults,
    ReadOptions,
    TableError,
    check_parts,
    is_hidden,
)
from domainbert.tables.parquet_files import parquet_columns

FILE_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_MAX_DEPTH = 5  # files are found up to four folders below the source
# The parts of a table, as Spark, Dask, DuckDB, Snowflake, and what names files by UUIDs write them.
_PART = re.compile(
    r"part[-_.]?\d.*|(?:data|chunk|shard|file)[-_.]?\d[\d_.-]*|\d+|"
    r".*[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}.*",
    re.IGNORECASE,
)
_SHARD = re.compile(r"-\d{12}(?=\.)")  # of BigQuery
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class Source(ABC):
    """A set of tables, whose names match in any case.

    Attributes:
        name: for messages.
        errors: table in lower case -> why its last scan failed, where DuckDB is not the cause.
        file_faults: table in lower case -> file, line and problem of its malformed lines.
        remarks: sentences on how its files are read.
    """

    def __init__(self, name: str, con: duckdb.DuckDBPyConnection) -> None:
        self.name = name
        self.errors: dict[str, Exception] = {}
        self.file_faults: dict[str, FileFaults] = {}
        self.remarks: list[str] = []
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


@dataclass(frozen=True)
class _TableFiles:
    """The files of one table.

    Attributes:
        source: the folder of the source.
        location: the file, or the folder of its parts, in that folder.
        values: each file, with the columns that the names of its folders give.
    """

    source: Path
    location: Path
    values: dict[Path, dict[str, str]]

    @property
    def depth(self) -> int:
        """How many folders and files the location names."""
        return len(self.location.parts)

    @property
    def is_parquet(self) -> bool:
        """Whether its files are Parquet files."""
        return next(iter(self.values)).suffix.lower() == ".parquet"

    def check(self) -> None:
        """Raise a `TableError` if a folder of parts is not a whole table."""
        folder = self.source / self.location
        if not folder.is_dir():
            return
        check_parts(folder)
        if len({_ending(path) == ".parquet" for path in self.values}) > 1:
            raise TableError(
                f"{self.location} has parts in CSV and in Parquet: keep those of one format"
            )


class FolderSource(Source):
    """A folder of tables; the least nested of the tables of a name is used.

    A table is a file, or a folder of its name with parts, as Spark, Dask and DuckDB write it; a
    folder `column=value` between gives a column.
    """

    def __init__(
        self,
        folder: Path,
        con: duckdb.DuckDBPyConnection,
        options: ReadOptions,
    ) -> None:
        super().__init__(str(folder), con)
        self._folder = folder
        self._options = options
        self._files: dict[str, list[_TableFiles]] = {}
        self._opened = ExitStack()
        self._names: dict[Path, list[str]] = {}
        tables: dict[Path, dict[Path, dict[str, str]]] = {}
        for depth in range(1, _MAX_DEPTH + 1):
            for path in sorted(folder.glob("/".join("*" * depth))):
                relative = path.relative_to(folder)
                is_table = _table_name(path) and path.is_file()
                if is_table and not is_hidden(relative):
                    location, values = _location(relative)
                    if location == relative or path.stat().st_size:
                        tables.setdefault(location, {})[path] = values
        for location in sorted(
            tables, key=lambda path: (len(path.parts), path)
        ):
            name = _table_name(location) or location.name.lower()
            matches = self._files.setdefault(name, [])
            if not matches or matches[0].depth == len(location.parts):
                matches.append(_TableFiles(folder, location, tables[location]))

    def tables(self) -> list[str]:
        """The files of tables, relative to the folder."""
        matches = chain.from_iterable(self._files.values())
        return sorted(str(match.location) for match in matches)

    def columns(self, table: str) -> list[str] | None:
        """Column names of the table's files."""
        files = self._table(table)
        if files is None:
            return None
        files.check()
        names: dict[str, None] = {}
        headers = set()
        for path, values in files.values.items():
            header = self._file_columns(path)
            headers.add(tuple(header))
            names |= dict.fromkeys([*header, *values])
        if len(headers) > 1 and not files.is_parquet:
            raise TableError(
                f"the parts of {files.location} begin with different names of columns; each needs "
                'a first line with the same names (in Spark, option("header", True))'
            )
        return list(names)

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """The files; CSV is a stream."""
        files = self._files[table.lower()][0]
        if files.is_parquet:
            return f"({self._parquet(files, columns)})"
        name = files.location.name
        for path in files.values:
            for written in (
                csv_header(path, self._options),
                csv_dialect(path, self._options),
            ):
                remark = written.remark(name)
                if remark and remark not in self.remarks:
                    self.remarks.append(remark)
        return self.stream(table, columns, partial(self._csv, files, columns))

    def check_unchanged(self) -> None:
        """Compare every file with its state when it was opened."""
        self._opened.close()

    def _file_columns(self, path: Path) -> list[str]:
        if path not in self._names:
            self._opened.enter_context(unchanged(path))
            if _ending(path) == ".parquet":
                self._names[path] = parquet_columns(path)
            else:
                self._names[path] = csv_columns(path, self._options)
        return self._names[path]

    def _parquet(self, files: _TableFiles, columns: Sequence[str]) -> str:
        """Columns of Parquet files; those that folders name are constants."""
        # Files of the same values are read together.
        paths: dict[tuple[tuple[str, str], ...], list[Path]] = {}
        for path, values in files.values.items():
            paths.setdefault(tuple(values.items()), []).append(path)
        selects = []
        for items, group in paths.items():
            # DuckDB would read [ ] * ? in a path as a pattern, and a=b as a column.
            literals = ", ".join(
                quoted(glob.escape(str(path.absolute()))) for path in group
            )
            options = "union_by_name = true, hive_partitioning = false"
            present = set(chain(*map(self._file_columns, group)))
            cells = {
                name: f"CAST({identifier(name)} AS VARCHAR)"
                for name in present
            }
            for name, value in items:
                cells[name] = f"nullif({quoted(value)}, {quoted(_NO_VALUE)})"
            listed = ", ".join(
                f"{cells.get(name, 'NULL::VARCHAR')} AS {identifier(name)}"
                for name in columns
            )
            selects.append(
                f"SELECT {listed} FROM read_parquet([{literals}], {options})"  # noqa: S608
            )
        return " UNION ALL ".join(selects)

    def _csv(
        self,
        files: _TableFiles,
        columns: Sequence[str],
        file_faults: FileFaults,
    ) -> Iterator[pa.RecordBatch]:
        """Columns of CSV files, one file after the other."""
        for path, values in files.values.items():
            present = [name for name in columns if name not in values]
            for batch in csv_batches(
                path, present, self._options, file_faults
            ):
                cells = dict(zip(present, batch.columns, strict=True))
                for name, value in values.items():
                    cell = None
                    if value != _NO_VALUE:
                        cell = value
                    cells[name] = pa.array([cell] * len(batch), pa.string())
                yield pa.RecordBatch.from_pydict(
                    {name: cells[name] for name in columns}
                )

    def _table(self, table: str) -> _TableFiles | None:
        matches = self._files.get(table.lower(), [])
        if len(matches) > 1:
            names = ", ".join(str(match.location) for match in matches)
            raise TableError(
                f"{self.name} has more than one file for {table}: {names}. Keep only one"
            )
        return next(iter(matches), None)


def _location(path: Path) -> tuple[Path, dict[str, str]]:
    """The table that a file in the source is a part of, and the columns that folders name."""
    shard = _SHARD.search(path.name)
    if shard:
        return path.with_name(path.name.replace(shard[0], "", 1)), {}
    values = {}
    folder = path.parent
    while "=" in folder.name:
        name, _, value = folder.name.partition("=")
        values[name] = unquote(value)
        folder = folder.parent
    is_part = values or _PART.fullmatch(_table_name(path))
    if not is_part or not folder.name:
        return path, {}
    return folder, values


def _ending(path: Path) -> str:
    return path.suffix.lower()


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
