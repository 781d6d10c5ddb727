"""Match the tables of a source to a schema, and read each of them once into DuckDB."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from clinical.cohort.schemas import TIMES, Notes, TableMap
from domainbert.errors import UserError
from domainbert.tables import TableError, require_columns
from domainbert.tables.csv_files import FlawedCSVError
from domainbert.tables.sql import identifier, quoted

if TYPE_CHECKING:
    import duckdb

    from clinical.cohort.schemas import Schema
    from domainbert.tables.sources import Source

_log = logging.getLogger(__name__)


def step(name: str) -> str:
    """The text of `clinical/sql/NAME.sql`."""
    return (resources.files("clinical") / "sql" / f"{name}.sql").read_text("utf-8")


@dataclass(frozen=True)
class Found:
    """A table of the source, matched to our columns.

    Attributes:
        table: what was looked for.
        chosen: our columns that the table has -> its names for them.
    """

    table: TableMap
    chosen: dict[str, str]

    @property
    def name(self) -> str:
        """The table's name in the source."""
        return self.table.table

    def query(self, source: Source, schema: Schema, *, numbered: bool) -> str:
        """A SELECT of `row` (from 1) and our columns as text, NULL where there is none.

        Row numbers follow the order of the file; without them DuckDB reads it with all cores.
        """
        columns = ", ".join(
            f"{self._column(ours, schema)} AS {ours}" for ours in self.table.known()
        )
        scan = source.scan(self.name, list(dict.fromkeys(self.chosen.values())))
        row = "row_number() OVER ()" if numbered else "NULL::BIGINT"
        return f"SELECT {row} AS row, {columns} FROM {scan}"  # noqa: S608

    def _column(self, ours: str, schema: Schema) -> str:
        if ours == "category" and ours not in self.chosen and isinstance(self.table, Notes):
            # A table of notes that does not name its categories holds discharge summaries.
            return quoted(self.table.category_value or schema.summary_categories[0])
        if ours not in self.chosen:
            return "NULL::VARCHAR"
        column = f"CAST({identifier(self.chosen[ours])} AS VARCHAR)"
        formats = self.table.time_format if ours in TIMES else ()
        return f"coalesce({', '.join([*(_iso(column, form) for form in formats), column])})"


def _iso(column: str, time_format: str) -> str:
    """Text in a format as ISO 8601, as a date if it has no clock; NULL if it does not fit."""
    has_clock = any(code in time_format for code in ("%H", "%-H", "%I", "%-I", "%c", "%X"))
    iso = "%Y-%m-%d %H:%M:%S.%f" if has_clock else "%Y-%m-%d"
    return f"strftime(try_strptime(trim({column}), {quoted(time_format)}), {quoted(iso)})"


@dataclass(frozen=True)
class Tables:
    """The tables that a source has, and the names of tables of notes that it lacks."""

    admissions: Found
    patients: Found | None
    notes: list[Found]
    absent: list[str]

    @property
    def known(self) -> set[str]:
        """Our columns of admissions and patients that the source has."""
        return set(self.admissions.chosen) | set(self.patients.chosen if self.patients else ())


def find_tables(source: Source, schema: Schema, *, notes: str) -> Tables:
    """Match the tables of an open source for a prediction "early" or at "discharge".

    Raises:
        TableError: a table or column that is not optional is not there.
        UserError: an early prediction from notes without a category or a time.
    """
    admissions = _find(source, schema.admissions, schema=schema)
    if admissions is None:
        msg = f"[admissions] of the schema {schema.name!r} cannot be optional"
        raise TableError(msg)
    wanted = schema.notes_for(notes)
    found = [_find(source, table, schema=schema) for table in wanted]
    if notes == "early":
        for table in filter(None, found):
            _check_early(table, schema)
    return Tables(
        admissions=admissions,
        patients=_find(source, schema.patients, schema=schema) if schema.patients else None,
        notes=[table for table in found if table is not None],
        absent=[table.table for table, there in zip(wanted, found, strict=True) if there is None],
    )


def _find(source: Source, table: TableMap, *, schema: Schema) -> Found | None:
    """Match one table; None if it is absent and may be."""
    available = source.columns(table.table)
    if available is None:
        if table.may_be_absent:
            return None
        there = ", ".join(source.tables()) or "nothing"
        msg = f"{source.name} has no table {table.table}. Found there: {there}"
        raise TableError(msg)
    spelled = {name.lower(): name for name in reversed(available)}
    chosen: dict[str, str] = {}
    for ours, theirs in table.columns.items():
        match = next((spelled[name.lower()] for name in theirs if name.lower() in spelled), None)
        if match is not None:
            chosen[ours] = match
        elif ours not in table.optional:
            _refuse(f"{table.table} in {source.name}", ours, theirs[0], available, schema)
    return Found(table, chosen)


def _refuse(place: str, ours: str, theirs: str, available: list[str], schema: Schema) -> None:
    try:
        require_columns(available, [theirs], source=place)
    except TableError as error:
        if schema.name != "generic":
            raise
        # With the user's own names the mapping is wrong, not the table.
        fix = f"Write its name after `{ours} =` in the mapping"
        raise TableError(str(error).replace(f"Rename it to {theirs!r}", fix)) from None


def _check_early(found: Found, schema: Schema) -> None:
    """Raise if a discharge summary or a late note could get into an early prediction."""
    rule = "early prediction must never see a discharge summary"
    msg = ""
    has_value = isinstance(found.table, Notes) and found.table.category_value is not None
    if "category" not in found.chosen and not has_value:
        msg = (
            f"{rule}, and {found.name} does not say what kind of note each row is; add to [notes]: "
            'category = "its column"'
        )
    elif not schema.discharge_categories:
        msg = (
            f"{rule}; say at the top of the mapping what your notes call one: "
            'discharge_categories = ["Discharge summary"]'
        )
    elif not {"chart_time", "chart_date"} & set(found.chosen):
        msg = (
            f"early prediction needs the time of each note; add to [notes] for {found.name}: "
            'chart_time = "its column"'
        )
    if msg:
        raise UserError(msg)


@dataclass(frozen=True)
class Reader:
    """Reads the tables of an open source with the SQL steps of the package."""

    con: duckdb.DuckDBPyConnection
    source: Source
    schema: Schema

    def read(self, tables: Tables) -> None:
        """Read every table, and decide about every row except for the texts of the stays."""
        run = self.con.execute
        self._scan("CREATE TABLE raw_admissions AS", tables.admissions, numbered=True)
        if tables.patients:
            self._scan("CREATE TABLE raw_patients AS", tables.patients, numbered=True)
        else:
            run(step("no_patients"))
        for role, table in (("admissions", tables.admissions), ("patients", tables.patients)):
            run(f"SET VARIABLE {role}_table = $name", {"name": table.name if table else ""})
        for name in ("admissions", "patients", "episodes", "stays", "note_stays", "note_table"):
            run(step(name))
        for table in tables.notes:
            _log.info("reading %s", table.name)
            self._read_notes(table)
        self._keep_flaws()
        self.source.check_unchanged()

    def _read_notes(self, table: Found) -> None:
        run = self.con.execute
        run("SET VARIABLE note_table = $name", {"name": table.name})
        # The planner cannot know how many notes there are, and must not hash them.
        run("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        numbered = "note_id" not in table.chosen
        run(f"SET preserve_insertion_order = {str(numbered).lower()}")
        view = "CREATE OR REPLACE TEMP VIEW raw_notes AS"
        self._scan(view, table, numbered=numbered, then="notes")
        run("RESET preserve_insertion_order")
        run("RESET disabled_optimizers")
        unreadable = "SELECT count_if(is_unreadable) FROM notes WHERE source = $name"
        if run(unreadable, {"name": table.name}).fetchall()[0][0]:
            # Rare enough to read the table again for the row numbers.
            self._scan(view, table, numbered=True, then="unreadable_notes")

    def _scan(self, create: str, table: Found, *, numbered: bool, then: str = "") -> None:
        """Scan a table; a second time, without its malformed lines, if it has any."""
        import duckdb

        for is_first in (True, False):
            query = table.query(self.source, self.schema, numbered=numbered)
            try:
                self.con.execute(f"{create} {query}")
                if then:
                    self.con.execute(step(then))
            except duckdb.Error:
                error = self.source.error(table.name)
                if error is None:
                    raise
                if isinstance(error, TableError):
                    raise error from None
                if isinstance(error, TableError):  # it says itself what is wrong
                    raise error from None
                if not (is_first and isinstance(error, FlawedCSVError)):
                    kind = type(error).__name__
                    msg = f"{table.name} in {self.source.name} cannot be read to its end ({kind})"
                    raise TableError(msg) from None
                _log.info("%s has malformed lines: reading it line by line", table.name)
            else:
                return

    def _keep_flaws(self) -> None:
        import pyarrow as pa

        fields = (("source", pa.string()), ("line", pa.int64()), ("problem", pa.string()))
        rows = [
            dict(zip(("source", "line", "problem"), f, strict=True)) for f in self.source.flaws()
        ]
        self.con.register("found_flaws", pa.Table.from_pylist(rows, schema=pa.schema(fields)))
        self.con.execute("CREATE TABLE flaws AS SELECT * FROM found_flaws")
        self.con.unregister("found_flaws")
