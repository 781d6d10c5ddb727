"""What a source holds: errors if there is nothing to build from, caveats, and what was changed."""

from __future__ import annotations

from itertools import chain, compress
from typing import TYPE_CHECKING

from clinical.cohort.source import MatchedTable, Tables, step
from domainbert.errors import UserError
from domainbert.files import read_toml

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from clinical.cohort.conventions import ColumnConvention
    from clinical.cohort.definition import Schema
    from clinical.cohort.reader import Request
    from domainbert.tables.sources import Source

_CAVEATS: dict[str, dict[str, str]] = read_toml(__file__, "caveats.toml")
# The types of notes with their counts, and whether some, or all, are discharge summaries.
_TYPES = """
SELECT counts_text(type, n), bool_or(is_summary), bool_and(is_summary)
FROM (
    SELECT coalesce(category, 'none') AS type, count(*) AS n,
        list_contains(any_value(discharge_categories), upper(type)) AS is_summary
    FROM notes, rules
    GROUP BY type
)"""


# Tables whose notes, each of which is long, are all of letters and digits without a space.
_ENCODED = """
SELECT source, count(*) AS notes
FROM notes
WHERE text IS NOT NULL
GROUP BY source
HAVING notes >= 20 AND count_if(length(text) > 40 AND NOT contains(text[:200], ' ')
    AND regexp_full_match(text[:200], '[A-Za-z0-9+/=\r\n]+')) >= 0.95 * notes"""
_UNMATCHED_NOTES = (
    "SELECT count(*) >= 20 AND bool_and(status = 'unknown_stay') FROM notes"
)
_UNMATCHED_PATIENTS = """
SELECT (SELECT count(*) FROM patients_read) >= 20 AND count(*) >= 20
    AND NOT coalesce(bool_or(is_listed), true)
FROM patients"""


def _require_matching_ids(
    con: duckdb.DuckDBPyConnection, source: Source, tables: Tables
) -> None:
    """Raise if no note is of a stay, or no patient of a table has one."""
    names = [table.name for table in tables.notes]
    unmatched = [(_UNMATCHED_NOTES, " and ".join(names), "stay")]
    if tables.patients:
        unmatched.append(
            (_UNMATCHED_PATIENTS, tables.patients.name, "patient")
        )
    for query, name, owner in unmatched:
        ((is_unmatched,),) = con.execute(query).fetchall()
        if is_unmatched:
            raise UserError(
                f"no {owner} id of {name} is one of {tables.admissions.name} in {source.name}: is "
                "it the same id, and did a program remove zeros in front, add a sign, or write "
                "16 digits or more as a decimal?"
            )


def require_contents(
    con: duckdb.DuckDBPyConnection,
    source: Source,
    schema: Schema,
    tables: Tables,
) -> None:
    """Check that the tables that were read hold an admission, and notes of a type that is read.

    Raises:
        UserError: there is none; with the values, types and counts that the source has instead.
    """
    if not con.execute("SELECT 1 FROM admissions LIMIT 1").fetchone():
        raise UserError(_no_admission(con, source, schema, tables.admissions))
    _require_matching_ids(con, source, tables)
    for table, notes in con.execute(_ENCODED).fetchall():
        raise UserError(
            f"the texts of {table} are no words but base64 or hexadecimal digits ({notes:,} "
            "notes): decode them when the table is exported"
        )
    query = "SELECT count_if(status = 'used'), count_if(status = 'other_category') FROM notes"
    ((used, other),) = con.execute(query).fetchall()
    if used or not other:
        return
    ((types, has_summary, all_summaries),) = con.execute(_TYPES).fetchall()
    if not has_summary:
        summaries = " or ".join(schema.summary_categories)
        raise UserError(
            f"{source.name} has no discharge summary ({summaries}), but notes of the "
            f"types {types}. If one of these is a discharge summary, write "
            f'discharge_categories = ["its name"] into {_mapping(schema)}; or predict from the '
            "notes of the first hours: `notes='early'`"
        )
    if all_summaries:
        raise UserError(
            f"{source.name} has only discharge summaries, {types}, which an early "
            "prediction must never see: predict at discharge (`notes='discharge'`)"
        )


def _no_admission(
    con: duckdb.DuckDBPyConnection,
    source: Source,
    schema: Schema,
    table: MatchedTable,
) -> str:
    """What the table of admissions has instead, and how to read it."""
    reason = f"{source.name} has no admission: {table.name} has no row"
    query = "SELECT counts_text(other, rows) FROM others"
    ((skipped,),) = con.execute(query).fetchall()
    if skipped:
        rules = [
            f"{name} is {' or '.join(v)}" for name, v in table.where.items()
        ]
        return (
            f"{reason} whose {' and '.join(rules)}, but {skipped}. To read others, "
            f"change where of [admissions] in {_mapping(schema)}"
        )
    if lost := len(source.file_faults.get(table.name.lower(), [])):
        return f"{reason}, and {lost:,} lines that cannot be read as rows"
    if source.columns("types") is None:
        return reason
    types = source.scan("types", ["type", "rows"])
    query = f"SELECT counts_text(type, rows::BIGINT) FROM {types}"  # noqa: S608
    ((counts,),) = con.execute(query).fetchall()
    return (
        f"{reason}, and the source has {counts}. If one of these begins a stay, "
        f"change the values of [views.{table.name}] in {_mapping(schema)}"
    )


def _mapping(schema: Schema) -> str:
    """The file in which the user describes the tables."""
    if schema.name == "generic":
        return "the mapping"
    return f"a copy of clinical/cohort/schemas/{schema.name}.toml, passed as `mapping='FILE'`"


def find_caveats(
    con: duckdb.DuckDBPyConnection,
    request: Request,
    tables: Tables,
    conventions: Sequence[ColumnConvention],
    source: Source,
) -> list[str]:
    """The caveats of a cohort as sentences, most general first; see `caveats.toml`."""
    schema = request.schema
    con.execute(step("unmatched"))
    values = {
        "schema": schema.name,
        "mapped_patients": schema.patients.table if schema.patients else "",
        "absent": ", ".join(tables.absent),
    }
    con.execute(step("caveats"), values)
    rules = ", ".join(rule["when"] for rule in _CAVEATS.values())
    query = f"SELECT *, [{rules}] AS holds FROM facts"  # noqa: S608
    (facts,) = con.sql(query).to_arrow_table().to_pylist()
    first, *sentences = [
        rule["text"].format(**facts)
        for rule in compress(_CAVEATS.values(), facts["holds"])
    ]
    remarks = con.execute(step("remarks")).fetchall()
    written = filter(None, (column.sentence() for column in conventions))
    return [
        first,
        *schema.caveats,
        *sentences,
        *written,
        *source.remarks,
        *chain(*remarks),
    ]
