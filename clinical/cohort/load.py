"""Bring the source's tables under our column names, all as text, with their row numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clinical.cohort.definition import DefinitionError
from clinical.cohort.schemas import COLUMNS, TIMES
from domainbert.tables import TableError, require_columns
from domainbert.tables.sql import identifier, quoted

if TYPE_CHECKING:
    from clinical.cohort.schemas import Schema, TableMap
    from domainbert.tables.sources import Source


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

    def query(self, source: Source, schema: Schema, *, numbered: bool = True) -> str:
        """A SELECT of `row` (from 1) and our columns as text, NULL where there is none; once.

        Args:
            source: the open source.
            schema: where the table belongs.
            numbered: without numbers DuckDB reads a file with all cores, with them with one.
        """
        columns = ", ".join(
            f"{_expression(ours, self, schema)} AS {ours}" for ours in COLUMNS[self.table.role]
        )
        scan = source.scan(self.name, list(dict.fromkeys(self.chosen.values())))
        row = "row_number() OVER ()" if numbered else "NULL::BIGINT"
        return f"SELECT {row} AS row, {columns} FROM {scan}"  # noqa: S608


def find(source: Source, table: TableMap, *, schema: Schema, notes: str) -> Found | None:
    """Match one table; None if it is absent and may be.

    Args:
        source: the open source.
        table: what to look for.
        schema: where it belongs.
        notes: the prediction time.

    Raises:
        TableError: the table, or a column that is not optional, is not there.
        DefinitionError: an early prediction from notes whose category or time nobody knows.
    """
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
            _refuse(table, ours, available, source=source, schema=schema)
    _check_notes(table, chosen, schema=schema, notes=notes)
    return Found(table, chosen)


def _refuse(
    table: TableMap, ours: str, available: list[str], *, source: Source, schema: Schema
) -> None:
    """Raise for a column that is not there."""
    theirs = table.columns[ours][0]
    try:
        require_columns(available, [theirs], source=f"{table.table} in {source.name}")
    except TableError as error:
        if schema.name != "generic":
            raise
        # With names of one's own it is the mapping that is wrong, not the table.
        fix = f"Write its name after `{ours} =` in the mapping"
        raise TableError(str(error).replace(f"Rename it to {theirs!r}", fix)) from None


def wanted_notes(schema: Schema, notes: str) -> list[TableMap]:
    """The tables of notes that a prediction time can use.

    A table of discharge summaries alone is not even opened for an early prediction.
    """
    if notes == "discharge":
        return [table for table in schema.notes if _is_summary(table, schema) is not False]
    return [table for table in schema.notes if _is_summary(table, schema) is not True]


def _is_summary(table: TableMap, schema: Schema) -> bool | None:
    """Whether a table is all discharge summaries or none; None if its rows must be asked."""
    if table.category_value is None:
        return None
    return table.category_value.strip().upper() in summary_categories(schema)


def summary_categories(schema: Schema) -> tuple[str, ...]:
    """Categories of discharge summaries, upper case."""
    return schema.discharge_categories or ("DISCHARGE SUMMARY",)


def _check_notes(table: TableMap, chosen: dict[str, str], *, schema: Schema, notes: str) -> None:
    if table.role != "notes" or notes != "early":
        return
    if "category" not in chosen and table.category_value is None:
        msg = (
            f"early prediction must never see a discharge summary, and {table.table} says of no "
            'note what it is; add to [notes]: category = "its column"'
        )
        raise DefinitionError(msg)
    if not schema.discharge_categories:
        msg = (
            "early prediction must never see a discharge summary; say at the top of the mapping "
            'what your notes call one: discharge_categories = ["Discharge summary"]'
        )
        raise DefinitionError(msg)
    if not {"chart_time", "chart_date"} & set(chosen):
        msg = (
            f"early prediction needs to know when a note was charted; add to [notes] for "
            f'{table.table}: chart_time = "its column"'
        )
        raise DefinitionError(msg)


def _expression(ours: str, found: Found, schema: Schema) -> str:
    chosen, table = found.chosen, found.table
    if ours == "category" and ours not in chosen:
        # Without a word on the category, a table of notes is one of discharge summaries.
        return quoted(table.category_value or summary_categories(schema)[0])
    if ours not in chosen:
        return "NULL::VARCHAR"
    column = f"CAST({identifier(chosen[ours])} AS VARCHAR)"
    formats = table.time_formats if ours in TIMES else ()
    return f"coalesce({', '.join([*(_iso(column, form) for form in formats), column])})"


def _iso(column: str, time_format: str) -> str:
    """Text in a format as ISO 8601, without a clock where it has none; NULL if it does not fit."""
    has_clock = any(code in time_format for code in ("%H", "%-H", "%I", "%-I", "%c", "%X"))
    iso = "%Y-%m-%d %H:%M:%S.%f" if has_clock else "%Y-%m-%d"
    return f"strftime(try_strptime(trim({column}), {quoted(time_format)}), {quoted(iso)})"
