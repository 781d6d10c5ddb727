"""What each rule removed, and what a reader of a cohort should know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clinical.cohort.definition import SHIPPED
from clinical.cohort.source import step
from domainbert.tables.csv_files import NO_ROW

if TYPE_CHECKING:
    import duckdb

    from clinical.cohort.definition import Request
    from clinical.cohort.source import Tables

SUMMARY_KEY = "clinical.cohort"  # of the flow in the metadata of the file
_DEFINITION = ("name", "version", "sha256", "horizon_days", "event")


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
        "definition": {name: getattr(definition, name) for name in _DEFINITION},
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
    others = con.execute("SELECT other, rows FROM others ORDER BY rows DESC, other").fetchall()
    (counts,) = _rows(con, step("caveats"))
    counts |= {"others": dict(others), "unmatched": _unmatched(con)}
    lines = render("caveats.j2", {"request": request, "tables": tables, **counts})
    first, *rest = [line for line in lines.splitlines() if line]
    return [first, *request.schema.caveats, *rest]


def render(name: str, values: Mapping[str, Any]) -> str:
    """A template that lies beside this module, with these values."""
    from jinja2 import Environment, FileSystemLoader, select_autoescape

    environment = Environment(
        loader=FileSystemLoader(SHIPPED),
        autoescape=select_autoescape(["svg.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(values)


def _unmatched(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, int]]:
    """By column, the most frequent values that no list of the definition has, with counts."""
    found: dict[str, dict[str, int]] = {"discharge_location": {}, "admission_type": {}}
    for name, value, count in con.execute(step("unmatched")).fetchall():
        found[name][value] = count
    return found


def _rows(con: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    return con.sql(query).to_arrow_table().to_pylist()
