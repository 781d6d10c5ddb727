"""What a source holds: errors if there is nothing to build from, caveats, and what was changed."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clinical.cohort.definition import SHIPPED
from clinical.cohort.result import rows_of, unmatched_values
from clinical.cohort.source import counts_text, step
from domainbert.errors import UserError

if TYPE_CHECKING:
    import duckdb

    from clinical.cohort.definition import Request, Schema
    from clinical.cohort.source import MatchedTable, Tables
    from clinical.cohort.views import ViewSource

_CAVEATS: dict[str, str] = tomllib.loads(
    (SHIPPED / "caveats.toml").read_text("utf-8")
)
_USUAL_PERCENT = (2, 35)  # of stays that are followed by a readmission


def require_contents(
    con: duckdb.DuckDBPyConnection,
    source: ViewSource,
    schema: Schema,
    tables: Tables,
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
            f"types {counts_text(types)}. If one of these is a discharge summary, write "
            f'discharge_categories = ["its name"] into {_mapping(schema)}; or predict from the '
            "notes of the first hours: --notes early"
        )
    if has_summary == {True}:
        raise UserError(
            f"{source.name} has only discharge summaries, {counts_text(types)}, which an early "
            "prediction must never see: predict at discharge (--notes discharge)"
        )


def _no_admission(
    con: duckdb.DuckDBPyConnection,
    source: ViewSource,
    schema: Schema,
    table: MatchedTable,
) -> str:
    """What the table of admissions has instead, and how to read it."""
    reason = f"{source.name} has no admission: {table.name} has no row"
    if skipped := _skipped_rows(con):
        rules = [
            f"{name} is {' or '.join(v)}" for name, v in table.where.items()
        ]
        return (
            f"{reason} whose {' and '.join(rules)}, but {counts_text(skipped)}. To read others, "
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
        f"{reason}, and the source has {counts_text(counts)}. If one of these begins a stay, "
        f"change the values of [views.{table.name}] in {_mapping(schema)}"
    )


def _note_types(
    con: duckdb.DuckDBPyConnection,
    source: ViewSource,
    schema: Schema,
    tables: Tables,
) -> dict[str, int]:
    """The types of the notes of a source, with counts; the source is read again."""
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


def find_caveats(
    con: duckdb.DuckDBPyConnection,
    request: Request,
    tables: Tables,
) -> list[str]:
    """The caveats of a cohort as sentences, most general first; `caveats.toml` has their words."""
    (counts,) = rows_of(con, step("caveats"))
    skipped = _skipped_rows(con)
    unmatched = unmatched_values(con)
    schema = request.schema
    definition = request.definition
    absent = ", ".join(tables.absent) or "none is mapped"
    died_locations = " or ".join(definition.index.died_locations) or "listed"
    values = {
        **counts,
        "absent": absent,
        "admissions_table": schema.admissions.table,
        "patients_table": schema.patients and schema.patients.table,
        "others": counts_text(skipped),
        "days": f"{definition.horizon_days:g}",
        "locations": counts_text(unmatched["discharge_location"]),
        "types": counts_text(unmatched["admission_type"]),
        "died_locations": died_locations,
        "same_day_death": definition.index.same_day_death,
    }
    holds = {
        definition.outcome: True,
        **_holds_for_tables(counts, request, tables),
        "others": skipped,
        **_holds_for_stays(counts, request),
        **_holds_for_columns(counts, request, tables.columns, unmatched),
        _end_of_data(counts, request): True,
        "untimed": counts["untimed"],
        "unreadable": counts["unreadable"],
        "same_day": counts["same_day_in_hospital"]
        + counts["same_day_after_discharge"],
    }
    names = [name for name, is_so in holds.items() if is_so and name]
    first, *sentences = [_CAVEATS[name].format(**values) for name in names]
    return [first, *schema.caveats, *sentences]


def _holds_for_tables(
    counts: Mapping[str, Any],
    request: Request,
    tables: Tables,
) -> dict[str, object]:
    """The caveats on missing tables, and whether each holds."""
    has_notes = tables.notes and counts["n_notes"]
    return {
        "no_note_table": not tables.notes,
        "no_note": tables.notes and not counts["n_notes"],
        "absent_notes": has_notes and tables.absent,
        "no_patients": request.schema.patients and not tables.patients,
    }


def _holds_for_stays(
    counts: Mapping[str, Any], request: Request
) -> dict[str, object]:
    """The caveats on the stays that were kept, and whether each holds."""
    low, high = _USUAL_PERCENT
    is_usual = low <= counts["percent"] <= high
    is_readmission = request.definition.outcome == "readmission"
    return {
        "unusual_rate": is_readmission
        and counts["kept"] >= 100
        and not is_usual,
        "short": counts["short"],
        "observed": counts["observed"],
    }


def _holds_for_columns(
    counts: Mapping[str, Any],
    request: Request,
    columns: set[str],
    unmatched: Mapping[str, Mapping[str, int]],
) -> dict[str, object]:
    """The caveats on missing columns and unknown values, and whether each holds."""
    is_generic = request.schema.name == "generic"
    marks_death = columns & {"died", "death_time"}
    locations = unmatched["discharge_location"]
    return {
        "no_death_date": "death_date" not in columns,
        "no_hospital_deaths": not marks_death
        and "discharge_location" not in columns,
        "no_admission_type": "admission_type" not in columns,
        "unmatched_location": locations,
        "no_death_location": (
            is_generic and locations and not counts["dead"] and not marks_death
        ),
        "unmatched_type": is_generic and unmatched["admission_type"],
    }


def _end_of_data(counts: Mapping[str, Any], request: Request) -> str:
    """The caveat on where the follow-up of stays ends; "" for an end that was given."""
    if counts["derived_end"]:
        return "derived_end"
    if counts["has_follow_up"]:
        return "follow_up"
    if request.data_end:
        return ""
    return "shifted_end" if request.schema.shifted_dates else "no_end"


def _skipped_rows(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Rows of the table of admissions that are not admissions, counted by reason."""
    return dict(
        con.execute("FROM others ORDER BY rows DESC, other").fetchall()
    )


def reading_remarks(
    con: duckdb.DuckDBPyConnection, source: ViewSource
) -> list[str]:
    """What reading changed or left out, and the patients of no split or of an unusual one."""
    changes = source.changed().items()
    lines = [
        f"{kind} (cells): {counts_text(columns)}." for kind, columns in changes
    ]
    encodings = "SELECT file, damaged, rows FROM encodings ORDER BY file"
    # A file without a count of its rows is named with its damaged ones only.
    lines += [
        f"{damaged:,} of {rows or damaged:,} rows of {file} have bytes that are not in the "
        "encoding, read as U+FFFD: name the encoding of the file, such as --encoding cp1252"
        for file, damaged, rows in con.execute(encodings).fetchall()
    ]
    if unread := dict(con.execute(step("unread")).fetchall()):
        lines.append(f"Documents that are not read: {counts_text(unread)}.")
    sides = dict(con.execute(step("other_sides")).fetchall())
    if sides:
        lines.append(
            f"Patients on sides that are neither trained nor tested on: {counts_text(sides)}; none "
            f"means no side. To measure one: clinical evaluate --split {next(iter(sides))}"
        )
    return lines
