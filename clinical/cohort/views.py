"""Tables that a schema makes from those of a source: joined, decoded and renamed."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from clinical.cohort import fhir
from domainbert.tables import TableError
from domainbert.tables.columns import DEFAULTS
from domainbert.tables.parquet_files import parquet_columns
from domainbert.tables.sources import Source, identifier, quoted, select_text

if TYPE_CHECKING:
    import pyarrow as pa

    from clinical.cohort.definition import Schema, View


class ViewSource(Source):
    """A source with the views of a schema, each in the place of the own table of that name."""

    def __init__(self, source: Source, schema: Schema) -> None:
        super().__init__(source.name, source._con)
        self.errors, self.flaws = source.errors, source.flaws
        self._source = source
        self._views = {name.lower(): view for name, view in schema.views.items()}
        self._files = {
            name: sorted({p for each in shards.glob for p in Path(source.name).glob(each)})
            for name, shards in schema.files.items()
            if Path(source.name).is_dir()
        }
        self._streams = 0
        self._found: dict[str, list[tuple[list[str], Path]]] = {}
        self._required = {name: set(shards.columns) for name, shards in schema.files.items()}
        self._fields = {name: shards.fields for name, shards in schema.files.items()}

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
        there = {name for name in view.reads if self._own_columns(name) is not None}
        if next(iter(view.reads)) not in there:
            return None
        empty = {name: self._relation(name, view, scans=False) for name in view.reads}
        rows = self._con.execute(f"DESCRIBE {view.sql.format(**empty, **view.values)}").fetchall()
        return [row[0] for row in rows if view.needs.get(row[0]) in (None, *there)]

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """The view over one scan of each of its tables."""
        view = self._views.get(table.lower())
        if view is None:
            return self._source.scan(table, columns)
        relations = {name: self._relation(name, view, scans=True) for name in view.reads}
        sql = view.sql.format(**relations, **view.values)
        return f"({select_text(columns, f'({sql})')})"

    def parts(self, table: str) -> list[str]:
        """The tables that a table is read from."""
        view = self._views.get(table.lower())
        return list(view.reads) if view else [table]

    def _own_columns(self, table: str) -> list[str] | None:
        if table not in self._required:
            return self._source.columns(table)
        columns = dict.fromkeys(name for names, _ in self._shards(table) for name in names)
        return list(columns) or None

    def _relation(self, table: str, view: View, *, scans: bool) -> str:
        """The columns of a table that a view reads, those that it lacks as NULL."""
        spelled = {name.lower(): name for name in self._own_columns(table) or ()}
        own = {name: spelled[name] for name in view.reads[table] if name in spelled}
        scan = "(SELECT 1 LIMIT 0)"
        if scans and table in self._required:
            scan = self._scan_shards(table, list(own.values()))
        elif scans and own:
            scan = self._source.scan(table, list(own.values()))
        columns = [
            f"{identifier(own[name]) if scans and name in own else 'NULL::VARCHAR'} AS {name}"
            for name in view.reads[table]
        ]
        return f"(SELECT {', '.join(columns)} FROM {scan})"  # noqa: S608

    def _shards(self, table: str) -> list[tuple[list[str], Path]]:
        """The columns of each file of a table, and the file; others are listed and left out."""
        if table in self._found:
            return self._found[table]
        found, flaws = [], []
        for path in self._files.get(table, []):
            fields = self._fields[table]
            if fields and not fhir.has_resources(path):
                continue
            try:
                (names,) = [fhir.columns_of(fields)] if fields else parquet_columns(path, DEFAULTS)
            except TableError:
                flaws.append((path.name, 1, "file that cannot be read as Parquet, left out"))
                continue
            if lacks := ", ".join(sorted(self._required[table] - set(names))):
                flaws.append((path.name, 1, f"file without the columns {lacks}, left out"))
            else:
                found.append((names, path))
        self.flaws[table.lower()] = flaws
        self._found[table] = sorted(found)
        return self._found[table]

    def _resources(self, table: str, paths: Sequence[Path]) -> pa.RecordBatchReader:
        import pyarrow as pa

        flaws = self.flaws[table.lower()] = []
        fields = self._fields[table]

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from fhir.resources(paths, table, fields, flaws)
            except TableError as error:
                self.errors[table.lower()] = error
                raise

        schema = pa.schema([(name, pa.string()) for name in fhir.columns_of(fields)])
        return pa.RecordBatchReader.from_batches(schema, batches())

    def _scan_shards(self, table: str, columns: Sequence[str]) -> str:
        """All files as text; files with the same columns are read as one."""
        paths = [path for _, path in self._shards(table)]
        if self._fields[table]:
            self._streams += 1
            name = f"json_stream_{self._streams}"
            self._con.register(name, self._resources(table, paths))
            return name
        parts = []
        for names, group in groupby(self._shards(table), key=lambda shard: shard[0]):
            files = ", ".join(quoted(glob.escape(str(path.absolute()))) for _, path in group)
            own = [name for name in columns if name in names]
            parts.append(select_text(own, f"read_parquet([{files}], hive_partitioning = false)"))
        return f"({' UNION ALL BY NAME '.join(parts)})"
