"""What a source holds: errors if there is nothing to build from, and notes on what was read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from clinical.cohort.source import counted, step
from domainbert.errors import UserError

if TYPE_CHECKING:
    import duckdb

    from clinical.cohort.definition import Schema
    from clinical.cohort.source import Found, Tables
    from clinical.cohort.views import ViewSource


def require_contents(
    con: duckdb.DuckDBPyConnection, source: ViewSource, schema: Schema, tables: Tables
) -> None:
    """Check that the tables that were read hold an admission, and notes of a type that is read.

    Raises:
        UserError: there is none; with the values, types and counts that the source has instead.
    """
    if not con.execute("SELECT 1 FROM admissions LIMIT 1").fetchone():
        raise UserError(_no_admission(con, source, schema, tables.admissions))
    query = "SELECT count_if(status = 'used'), count_if(status = 'other_category') FROM notes"
    ((used, other),) = con.execute(query).fetchall()
    if used or not other:
        return
    types = _note_types(con, source, schema, tables)
    summaries = schema.summary_categories
    has_summary = {name.upper() in summaries for name in types}
    if has_summary == {False}:
        raise UserError(
            f"{source.name} has no discharge summary ({' or '.join(summaries)}), but notes of the "
            f"types {counted(types)}. If one of these is a discharge summary, write "
            f'discharge_categories = ["its name"] into {_mapping(schema)}; or predict from the '
            "notes of the first hours: --notes early"
        )
    if has_summary == {True}:
        raise UserError(
            f"{source.name} has only discharge summaries, {counted(types)}, which an early "
            "prediction must never see: predict at discharge (--notes discharge)"
        )


def _no_admission(
    con: duckdb.DuckDBPyConnection, source: ViewSource, schema: Schema, table: Found
) -> str:
    """What the table of admissions has instead, and how to read it."""
    reason = f"{source.name} has no admission: {table.name} has no row"
    others = dict(con.execute("FROM others ORDER BY rows DESC, other").fetchall())
    if others:
        rules = [f"{name} is {' or '.join(v)}" for name, v in table.where.items()]
        return (
            f"{reason} whose {' and '.join(rules)}, but {counted(others)}. To read others, "
            f"change where of [admissions] in {_mapping(schema)}"
        )
    if lost := len(source.flaws.get(table.name.lower(), [])):
        return f"{reason}, and {lost:,} lines that cannot be read as rows"
    if source.columns("types") is None:
        return reason
    types = source.scan("types", ["type", "rows"])
    query = f"SELECT type, rows::BIGINT FROM {types}"  # noqa: S608
    counts = dict(con.execute(query).fetchall())
    return (
        f"{reason}, and the source has {counted(counts)}. If one of these begins a stay, change "
        f"the values of [views.{table.name}] in {_mapping(schema)}"
    )


def _note_types(
    con: duckdb.DuckDBPyConnection, source: ViewSource, schema: Schema, tables: Tables
) -> dict[str, int]:
    """The types of the notes of a source, which is read again, with counts."""
    types: Counter[str] = Counter()
    for table in tables.notes:
        rows = table.query(source, schema, numbered=False)
        query = f"SELECT clean(category), count(*) FROM ({rows}) WHERE other IS NULL GROUP BY 1"  # noqa: S608
        for name, count in con.execute(query).fetchall():
            types[name or "none"] += count
    return dict(types.most_common())


def _mapping(schema: Schema) -> str:
    """Where the user says what the tables are."""
    if schema.name == "generic":
        return "the mapping"
    return f"a copy of clinical/cohort/schemas/{schema.name}.toml, passed as --mapping"


def remarks(con: duckdb.DuckDBPyConnection, source: ViewSource) -> list[str]:
    """What was changed while the tables were read, and sides that nobody trains on."""
    changes = source.changed().items()
    lines = [f"{kind} (cells): {counted(columns)}." for kind, columns in changes]
    encodings = "SELECT file, damaged, rows FROM encodings ORDER BY file"
    lines += [
        f"{damaged:,} of {rows or damaged:,} rows of {file} have bytes that are not in the "
        "encoding, read as U+FFFD: name the encoding of the file, such as --encoding cp1252"
        for file, damaged, rows in con.execute(encodings).fetchall()
    ]
    if unread := dict(con.execute(step("unread")).fetchall()):
        lines.append(f"Documents that are not read: {counted(unread)}.")
    sides = dict(con.execute(step("other_sides")).fetchall())
    if sides:
        lines.append(
            f"Patients on sides that are neither trained nor tested on: {counted(sides)}; none "
            f"means no side. To measure one: clinical evaluate --split {next(iter(sides))}"
        )
    return lines
