"""Tables that a schema makes from those of a source: joined, decoded and renamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from domainbert.tables.sources import Source, identifier, select_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clinical.cohort.definition import View


class ViewSource(Source):
    """A source with views, each in the place of the source's own table of that name."""

    def __init__(self, source: Source, views: Mapping[str, View]) -> None:
        super().__init__(source.name, source._con)
        self.errors, self.flaws = source.errors, source.flaws
        self._source = source
        self._views = {name.lower(): view for name, view in views.items()}

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
            return self._source.columns(table)
        there = {name for name in view.reads if self._source.columns(name) is not None}
        if next(iter(view.reads)) not in there:
            return None
        empty = {name: self._relation(name, view, scans=False) for name in view.reads}
        rows = self._con.execute(f"DESCRIBE {view.sql.format(**empty)}").fetchall()
        return [row[0] for row in rows if view.needs.get(row[0]) in (None, *there)]

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """The view over one scan of each of its tables."""
        view = self._views.get(table.lower())
        if view is None:
            return self._source.scan(table, columns)
        relations = {name: self._relation(name, view, scans=True) for name in view.reads}
        return f"({select_text(columns, f'({view.sql.format(**relations)})')})"

    def parts(self, table: str) -> list[str]:
        """The tables that a table is read from."""
        view = self._views.get(table.lower())
        return list(view.reads) if view else [table]

    def _relation(self, table: str, view: View, *, scans: bool) -> str:
        """The columns of a table that a view reads, those that it lacks as NULL."""
        spelled = {name.lower(): name for name in self._source.columns(table) or ()}
        own = {name: spelled[name] for name in view.reads[table] if name in spelled}
        scan = (
            self._source.scan(table, list(own.values())) if scans and own else "(SELECT 1 LIMIT 0)"
        )
        columns = [
            f"{identifier(own[name]) if scans and name in own else 'NULL::VARCHAR'} AS {name}"
            for name in view.reads[table]
        ]
        return f"(SELECT {', '.join(columns)} FROM {scan})"  # noqa: S608
