"""Views: tables that a schema reads from several files, or makes from other tables."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from clinical.cohort.fhir.source import FhirSource
from domainbert.tables import TableError
from domainbert.tables.parquet_files import parquet_columns
from domainbert.tables.sources import Source, identifier, quoted, select_text

if TYPE_CHECKING:
    import duckdb

    from clinical.cohort.definition import Schema, View

MISSING = "Words for an empty cell, read as missing"
DECIMALS = "Whole numbers written as decimals, read as whole numbers"


def tables_of(source: Source, schema: Schema) -> Source:
    """The tables of a source as a schema names them."""
    cells = _Cells(source._con, schema)
    if schema.codes:
        admissions = schema.admissions.where
        return FhirSource(source, schema.codes, admissions, cells.read)
    return ViewSource(source, schema, cells)


class _Cells:
    """The SQL of a cell as it is read, by the macro `cell` of `macros.sql`.

    Texts of notes keep their decimals and spaces.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, schema: Schema) -> None:
        self._con = con
        words = "|".join(map(re.escape, schema.missing))
        self._words = quoted(rf"(?i)\s*({words})\s*")
        self._texts = {
            name.lower() for table in schema.notes for name in table.text
        }
        self._counters: set[str] = set()

    def read(self, table: str, column: str) -> str:
        """A column of a table as it is read; the first scan of it counts what it changes."""
        name = identifier(column)
        missing = self._counter(table, column, MISSING)
        if column.lower() in self._texts:
            return f"present({name}, {self._words}, {missing})"
        decimals = self._counter(table, column, DECIMALS)
        return f"cell(trim({name}), {self._words}, {missing}, {decimals})"

    def _counter(self, table: str, column: str, change: str) -> str:
        """A sequence that counts, as a SQL literal; "uncounted" from the second scan on."""
        name = identifier(f"{change}|{table}.{column}")
        if name in self._counters:
            return quoted("uncounted")
        self._counters.add(name)
        self._con.execute(f"CREATE SEQUENCE {name}")
        return quoted(name)


class ViewSource(Source):
    """A source with the views of a schema; a view replaces the source's own table of its name."""

    def __init__(self, source: Source, schema: Schema, cells: _Cells) -> None:
        super().__init__(source.name, source._con)
        self.errors = source.errors
        self.file_faults = source.file_faults
        self.remarks = source.remarks
        self._source = source
        self._files = schema.files
        self._views = {
            name.lower(): view for name, view in schema.views.items()
        }
        # Those that do not replace a table of their name, for other views.
        self._other_views = {
            name: view
            for name, view in schema.views.items()
            if name not in view.reads
        }
        # table -> file -> columns, once the files of the table have been looked at
        self._columns_by_file: dict[str, dict[Path, list[str]]] = {}
        self._cells = cells

    def tables(self) -> list[str]:
        """Names of the source's own tables."""
        return self._source.tables()

    def check_unchanged(self) -> None:
        """See `Source`."""
        self._source.check_unchanged()

    def columns(self, table: str) -> list[str] | None:
        """Columns of a view, without those that an absent table would have given."""
        view = self._views.get(table.lower())
        if view is None:
            return self._own_columns(table)
        present = {
            name
            for name in view.reads
            if name in self._other_views or self._own_columns(name) is not None
        }
        # Without its first table there is no view; without another it lacks columns, see `needs`.
        if next(iter(view.reads)) not in present:
            return None
        names = self._con.sql(self._select(view, scans=False)).columns
        return [
            name for name in names if view.needs.get(name) in (None, *present)
        ]

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """The view over one scan of each of its tables."""
        view = self._views.get(table.lower())
        if view is None:
            cells = [
                f"{self._cell(table, c)} AS {identifier(c)}" for c in columns
            ]
            scan = self._own_scan(table, columns)
            return f"(SELECT {', '.join(cells)} FROM {scan})"  # noqa: S608
        return (
            f"({select_text(columns, f'({self._select(view, scans=True)})')})"
        )

    def _select(self, view: View, *, scans: bool) -> str:
        """The SELECT of a view; without `scans` it reads no rows."""
        relations = {}
        for table, names in view.reads.items():
            if other := self._other_views.get(table):
                relations[table] = f"({self._select(other, scans=scans)})"
                continue
            available = (scans and self._own_columns(table)) or ()
            present = [name for name in available if name.lower() in names]
            cells = {name.lower(): self._cell(table, name) for name in present}
            columns = [
                f"{cells.get(name, 'NULL::VARCHAR')} AS {name}"
                for name in names
            ]
            scan = (
                self._own_scan(table, present)
                if present
                else "(SELECT 1 LIMIT 0)"
            )
            relations[table] = f"(SELECT {', '.join(columns)} FROM {scan})"  # noqa: S608
        return view.sql.format(**relations, **view.values)

    def _cell(self, table: str, column: str) -> str:
        """A column of an own table as it is read."""
        if table in self._files and column in self._files[table].as_is:
            return identifier(column)
        return self._cells.read(table, column)

    def _own_columns(self, table: str) -> list[str] | None:
        """Columns of a table of the source, from all of its files; None if it lacks the table."""
        if table not in self._files:
            return self._source.columns(table)
        by_file = self._file_columns(table).values()
        return list(dict.fromkeys(chain.from_iterable(by_file))) or None

    def _own_scan(self, table: str, columns: Sequence[str]) -> str:
        """A table of the source, or all files of one of several files, as text."""
        if table not in self._files:
            return self._source.scan(table, columns)
        paths = list(self._file_columns(table))
        names = ", ".join(
            quoted(glob.escape(str(path.absolute()))) for path in paths
        )
        options = "union_by_name = true, hive_partitioning = false"
        return (
            f"({select_text(columns, f'read_parquet([{names}], {options})')})"
        )

    def _file_columns(self, table: str) -> dict[Path, list[str]]:
        """The files of a table with their columns; files that do not fit go to `file_faults`."""
        if table in self._columns_by_file:
            return self._columns_by_file[table]
        shards = self._files[table]
        folder = Path(self.name)
        by_file: dict[Path, list[str]] = {}
        self._columns_by_file[table] = by_file
        file_faults = self.file_faults.setdefault(table.lower(), [])
        paths = {
            path for pattern in shards.glob for path in folder.glob(pattern)
        }
        for path in sorted(paths):
            try:
                names = parquet_columns(path)
            except TableError:
                problem = "file that cannot be read as Parquet"
            else:
                missing = ", ".join(sorted(set(shards.columns) - set(names)))
                problem = missing and f"file without the columns {missing}"
            if problem:
                file_faults.append((path.name, 1, f"{problem}, left out"))
            else:
                by_file[path] = names
        return by_file
