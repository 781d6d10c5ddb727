"""Read the tables of a source, each once, into what the cohort is made of."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clinical.cohort.sql import run_step
from domainbert.tables import TableError
from domainbert.tables.csv_files import FlawedCSVError

if TYPE_CHECKING:
    import duckdb

    from clinical.cohort.load import Found
    from clinical.cohort.schemas import Schema
    from domainbert.tables.sources import Source

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tables:
    """The tables that a source has."""

    admissions: Found
    patients: Found | None
    notes: list[Found]


def read_rows(
    con: duckdb.DuckDBPyConnection, source: Source, schema: Schema, found: Tables
) -> None:
    """Read every table, and decide on every row but for the texts."""
    reader = _Reader(con, source, schema)
    reader.copy(found.admissions, into="raw_admissions")
    if found.patients:
        reader.copy(found.patients, into="raw_patients")
    else:
        run_step(con, "no_patients")
    names = {"admissions": found.admissions, "patients": found.patients}
    for role, table in names.items():
        con.execute(f"SET VARIABLE {role}_table = $name", {"name": table.name if table else ""})
    for step in ("admissions", "patients", "episodes", "stays", "note_stays", "note_table"):
        run_step(con, step)
    for table in found.notes:
        _log.info("reading %s", table.name)
        _read_notes(reader, table)
    _keep_flaws(con, source.flaws())


def _read_notes(reader: _Reader, table: Found) -> None:
    con = reader.con
    con.execute("SET VARIABLE note_table = $name", {"name": table.name})
    # The planner cannot know how large a file of notes is, and must not build a hash table of it.
    con.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
    numbered = "note_id" not in table.chosen
    # Row numbers go by the order of the file; without them all cores may work on it.
    con.execute(f"SET preserve_insertion_order = {str(numbered).lower()}")
    reader.run("notes", table, numbered=numbered)
    con.execute("RESET preserve_insertion_order")
    con.execute("RESET disabled_optimizers")
    unreadable = "SELECT count_if(is_unreadable) FROM notes WHERE source = $name"
    if con.execute(unreadable, {"name": table.name}).fetchall()[0][0]:
        # Rare enough to read the table again for the row numbers.
        reader.run("unreadable_notes", table, numbered=True)


def _keep_flaws(con: duckdb.DuckDBPyConnection, flaws: list[tuple[str, int, str]]) -> None:
    import pyarrow as pa

    names = ("source", "line", "problem")
    columns = zip(*flaws, strict=True) if flaws else ((), (), ())
    types = (pa.string(), pa.int64(), pa.string())
    found = [pa.array(list(c), type=kind) for c, kind in zip(columns, types, strict=True)]
    con.register("found_flaws", pa.table(dict(zip(names, found, strict=True))))
    con.execute("CREATE TABLE flaws AS SELECT * FROM found_flaws")
    con.unregister("found_flaws")


@dataclass(frozen=True)
class _Reader:
    """Statements that scan a table of the source once."""

    con: duckdb.DuckDBPyConnection
    source: Source
    schema: Schema

    def copy(self, table: Found, *, into: str) -> None:
        """Copy a small table."""
        self._execute(f"CREATE TABLE {into} AS", table, numbered=True)

    def run(self, step: str, table: Found, *, numbered: bool) -> None:
        """Run a step over a table of notes, which it knows as `raw_notes`."""
        self._execute(
            "CREATE OR REPLACE TEMP VIEW raw_notes AS", table, numbered=numbered, then=step
        )

    def _execute(self, create: str, table: Found, *, numbered: bool, then: str = "") -> None:
        """Once more if a line of the table was no row: the second scan passes over such lines."""
        import duckdb

        for is_first in (True, False):
            query = table.query(self.source, self.schema, numbered=numbered)
            try:
                self.con.execute(f"{create} {query}")
                if then:
                    run_step(self.con, then)
            except duckdb.Error:
                error = self.source.error(table.name)
                if error is None:
                    raise
                if isinstance(error, TableError):
                    raise error from None
                if not (is_first and isinstance(error, FlawedCSVError)):
                    kind = type(error).__name__
                    msg = f"{table.name} in {self.source.name} cannot be read to its end ({kind})"
                    raise TableError(msg) from None
                _log.info("%s has lines that are no rows: reading it with care", table.name)
            else:
                return
