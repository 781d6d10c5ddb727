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
_SHOWN = 10  # values in a caveat


def summarise(
    con: duckdb.DuckDBPyConnection, request: Request, caveats: list[str]
) -> dict[str, Any]:
    """The request, the flow, the counts and the caveats of a finished build, as one dictionary."""
    definition = request.definition
    con.execute("SET VARIABLE no_row = $no_row", {"no_row": NO_ROW})
    steps = _rows(con, step("flow"))
    counts = {row.pop("split"): row for row in _rows(con, step("sides"))}
    total = counts.pop(None)
    if steps[-1]["left"] != total["stays"]:
        raise AssertionError(f"the flow leaves {steps[-1]['left']} stays of {total['stays']}")
    notes = con.execute("SELECT status, count(*) FROM notes GROUP BY ALL ORDER BY ALL").fetchall()
    issues = "SELECT source, problem, count(*) AS count FROM issues GROUP BY ALL ORDER BY ALL"
    ((data_end,),) = con.execute("SELECT data_end FROM rules").fetchall()
    return {
        "schema": request.schema.name,
        "notes": request.notes,
        "hours": request.hours if request.notes == "early" else None,
        "seed": request.seed,
        "split_by": request.split_by,
        "data_end": data_end.isoformat() if data_end else None,
        "definition": {
            "name": definition.name,
            "version": definition.version,
            "sha256": definition.sha256,
            "horizon_days": definition.horizon_days,
            "event": definition.event,
        },
        "steps": steps,
        "kept": total,
        "deaths": _deaths(con, definition.horizon_days),
        "splits": counts,
        "notes_read": dict(notes),
        "issues": _rows(con, issues),
        "unmatched": _unmatched(con),
        "caveats": caveats,
    }


def _deaths(con: duckdb.DuckDBPyConnection, horizon: float) -> str:
    """What deaths after discharge mean for readmissions, as a sentence; "" where not known."""
    con.execute(step("followed"))
    ((back, dead),) = con.execute(step("incidence")).fetchall()
    if back is None:
        return ""
    query = "SELECT count(*) FROM cohort WHERE readmitted = 0 AND died_within_horizon"
    ((died,),) = con.execute(query).fetchall()
    return (
        f"Within {horizon:g} days of discharge {back:.1%} came back and {dead:.1%} died "
        "before they could (cumulative incidence with death as a competing event, Aalen-Johansen); "
        f"{died:,} of the stays that count as not readmitted had died."
    )


def find_caveats(con: duckdb.DuckDBPyConnection, request: Request, tables: Tables) -> list[str]:
    """The caveats of a cohort as sentences, most general first; `caveats.j2` has their words."""
    from jinja2 import Environment

    definition, schema = request.definition, request.schema
    environment = Environment(autoescape=False)  # noqa: S701 - plain text
    environment.filters["listed"] = _listed
    template = (resources.files(__package__) / "caveats.j2").read_text("utf-8")
    lines = environment.from_string(template).render(
        **_rows(con, step("caveats"))[0],
        known=tables.known,
        absent=", ".join(tables.absent),
        has_notes=bool(tables.notes),
        has_patients=tables.patients is not None,
        schema=schema,
        others=dict(con.execute("SELECT other, rows FROM others ORDER BY 2 DESC, 1").fetchall()),
        unmatched=_unmatched(con),
        died_locations=definition.index.died_locations,
        given_end=request.data_end,
        outcome=definition.outcome,
        days=f"{definition.horizon_days:g}",
    )
    first, *rest = [line for line in lines.splitlines() if line]
    return [first, *schema.caveats, *rest]


def _unmatched(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, int]]:
    """By column, the most frequent values that no list of the definition has, with counts."""
    found: dict[str, dict[str, int]] = {"discharge_location": {}, "admission_type": {}}
    for name, value, count in con.execute(step("unmatched")).fetchall():
        found[name][value] = count
    return found


def _rows(con: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    return con.sql(query).to_arrow_table().to_pylist()


def _listed(counts: dict[str, int]) -> str:
    """`HOME (2,301), SNF (210) and more`."""
    parts = [f"{value} ({count:,})" for value, count in list(counts.items())[:_SHOWN]]
    return ", ".join(parts) + (" and more" if len(counts) > _SHOWN else "")
