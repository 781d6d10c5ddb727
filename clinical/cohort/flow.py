"""What each rule removed, and what a reader of a cohort should know."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

from clinical.cohort.source import step
from domainbert.tables.csv_files import NO_ROW

if TYPE_CHECKING:
    import duckdb

    from clinical.cohort.definition import Request
    from clinical.cohort.source import Tables

SUMMARY_KEY = "clinical.cohort"  # of the flow in the metadata of the file
# (what is left, step, reason): every exclusion rule, in the order in which they are tried. The step
# is the value of the column `exclusion`; steps with the same first entry share a box of the figure.
STEPS: tuple[tuple[str, str, str], ...] = (
    ("Usable stays", "malformed_line", "line of the file that cannot be read"),
    ("Usable stays", "missing_id", "no patient id or no stay id"),
    ("Usable stays", "duplicate_stay", "repeated or contradicting stay id"),
    ("Usable stays", "unreadable_time", "unreadable time"),
    ("Usable stays", "missing_time", "no admission or discharge time"),
    ("Usable stays", "negative_stay", "discharge before admission"),
    ("Episodes of care", "transfer", "continued in a later stay: transfer"),
    ("Index discharges", "newborn", "newborn"),
    ("Index discharges", "observation", "observation, not an admission"),
    ("Index discharges", "died_in_hospital", "died in hospital"),
    ("Index discharges", "age", "age outside the limits or unknown"),
    ("Cohort", "censored", "follow-up cut short by the end of data"),
    ("Cohort", "died_after_discharge", "died after discharge"),
    ("Cohort", "unknown_outcome", "death or survival unknown"),
    ("Cohort", "left_early", "discharged before the prediction time"),
    ("Cohort", "earlier_period", "patient is on a later side"),
    ("Cohort", "no_text", "no note to predict from"),
)

# Our column -> the lists of the definition that give its values a meaning.
UNMATCHED = {
    "discharge_location": ("died_locations",),
    "admission_type": ("planned_types", "newborn_types", "observation_types"),
}
_SHOWN = 10  # values in a caveat


def count_flow(con: duckdb.DuckDBPyConnection, *, table: str) -> dict[str, Any]:
    """Count the flow, the cohort and the issues of a finished build.

    Reads the tables `cohort`, `notes`, `flaws` and `issues`; `table` names that of admissions.
    """
    removed = dict(con.execute("SELECT exclusion, count(*) FROM cohort GROUP BY ALL").fetchall())
    kept = removed.pop(None, 0)
    malformed = (
        "SELECT count(*) FROM flaws WHERE starts_with(problem, $no_row) "
        "AND starts_with(lower(source), lower($table) || '.')"
    )
    removed["malformed_line"] = _one(con, malformed, {"table": table, "no_row": NO_ROW})
    left = kept + sum(removed.values())
    steps = [{"step": "admissions", "reason": "all admissions", "removed": 0, "left": left}]
    for _, name, reason in STEPS:
        count = removed.get(name, 0)
        left -= count
        steps.append({"step": name, "reason": reason, "removed": count, "left": left})
    if left != kept:
        raise AssertionError(f"the flow leaves {left} stays of {kept}: a step is not listed")

    def rows(query: str) -> list[dict[str, Any]]:
        return con.sql(query).to_arrow_table().to_pylist()

    counts = (
        "count(*) AS stays, count(DISTINCT patient_id) AS patients, "
        "count(*) FILTER (readmitted = 1) AS readmitted"
    )
    (total,) = rows(
        f"SELECT {counts}, count(*) FILTER (transfer) AS transfers, "  # noqa: S608
        "count(*) FILTER (died_within_horizon) AS died_within_horizon "
        "FROM cohort WHERE exclusion IS NULL"
    )
    sides = rows(
        f"SELECT split, {counts} FROM cohort WHERE exclusion IS NULL "  # noqa: S608
        "GROUP BY split ORDER BY list_position(['train', 'val', 'test'], split)"
    )
    notes = rows("SELECT status, count(*) AS n FROM notes GROUP BY ALL ORDER BY 1")
    return {
        "steps": steps,
        "kept": total,
        "deaths": _deaths(con),
        "splits": {side.pop("split"): side for side in sides},
        "notes_read": {row["status"]: row["n"] for row in notes},
        "issues": rows(
            "SELECT source, problem, count(*) AS count FROM issues GROUP BY ALL ORDER BY ALL"
        ),
    }


def _deaths(con: duckdb.DuckDBPyConnection) -> str:
    """What deaths after discharge mean for readmissions, as a sentence; "" where not known."""
    con.execute(step("followed"))
    back, dead = con.execute(step("incidence")).fetchall()[0]
    if back is None:
        return ""
    died = _one(con, "SELECT count(*) FROM cohort WHERE readmitted = 0 AND died_within_horizon")
    horizon = _one(con, "SELECT horizon_us / 86400e6 FROM rules")
    return (
        f"Within {horizon:g} days of discharge {back:.1%} came back and {dead:.1%} died "
        "before they could (cumulative incidence with death as a competing event, Aalen-Johansen); "
        f"{died:,} of the stays that count as not readmitted had died."
    )


def find_caveats(con: duckdb.DuckDBPyConnection, request: Request, tables: Tables) -> list[str]:
    """The caveats of a cohort as sentences, most general first; `caveats.j2` has their words."""
    from jinja2 import Environment

    patients, definition = request.schema.patients, request.definition
    counts = {
        "dead": "count_if(discharge_location IN died_locations) FROM admissions, rules",
        "kept": "count_if(exclusion IS NULL) FROM stays",
        "events": "count_if(exclusion IS NULL AND readmitted) FROM stays",
        "short": "count_if(exclusion IS NULL AND discharge_time < episode_start + INTERVAL 4 HOUR) "
        "FROM stays",
        "observed": "count_if(observation) FROM stays",
        "decimal_ids": "count_if(id_was_decimal) FROM notes",
        "untimed": "count_if(status = 'used' AND charted_by IS NULL) FROM notes",
        "unreadable": "count_if(fault = 'unreadable_time') FROM admissions",
        "derived_end": "any_value(data_end) FROM rules WHERE derive_data_end",
    }
    environment = Environment(autoescape=False)  # noqa: S701 - plain text
    environment.filters["listed"] = _listed
    template = (resources.files(__package__) / "caveats.j2").read_text("utf-8")
    lines = environment.from_string(template).render(
        {name: _one(con, f"SELECT {query}") or 0 for name, query in counts.items()},
        known=tables.known,
        absent=", ".join(tables.absent),
        has_notes=bool(tables.notes),
        n_notes=_one(con, "SELECT count(*) FROM notes"),
        has_patients=tables.patients is not None,
        patients=patients.table if patients else "",
        generic=request.schema.name == "generic",
        shifted=request.schema.shifted_dates,
        admissions=request.schema.admissions.table,
        others=dict(con.execute("SELECT other, rows FROM others ORDER BY 2 DESC, 1").fetchall()),
        locations=unmatched_values(con, "discharge_location", limit=_SHOWN + 1),
        types=unmatched_values(con, "admission_type", limit=_SHOWN + 1),
        died_locations=definition.index.died_locations,
        given_end=request.data_end,
        outcome=definition.outcome,
        days=f"{definition.horizon_days:g}",
    )
    first, *rest = [line for line in lines.splitlines() if line]
    return [first, *request.schema.caveats, *rest]


def unmatched_values(con: duckdb.DuckDBPyConnection, column: str, *, limit: int) -> dict[str, int]:
    """The most frequent values of a column that no list of the definition has, with counts."""
    lists = " OR ".join(
        f"coalesce(list_contains(rules.{name}, {column}), false)" for name in UNMATCHED[column]
    )
    query = (
        f"SELECT left({column}, 60), count(*) AS n FROM admissions, rules "  # noqa: S608
        f"WHERE {column} IS NOT NULL AND NOT ({lists}) GROUP BY 1 ORDER BY n DESC, 1 LIMIT {limit}"
    )
    return dict(con.execute(query).fetchall())


def _one(con: duckdb.DuckDBPyConnection, query: str, values: Any = None) -> Any:
    return con.execute(query, values).fetchall()[0][0]


def _listed(counts: dict[str, int]) -> str:
    """`HOME (2,301), SNF (210) and more`."""
    parts = [f"{value} ({count:,})" for value, count in list(counts.items())[:_SHOWN]]
    return ", ".join(parts) + (" and more" if len(counts) > _SHOWN else "")
