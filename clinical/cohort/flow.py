"""How many stays each rule removed, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from domainbert.tables.csv_files import NO_ROW

if TYPE_CHECKING:
    import duckdb

SUMMARY_KEY = "clinical.cohort"  # of the flow in the metadata of the file
# (what is left, step, reason): every exclusion rule, in the order in which they are tried. The step
# is the value of the column `exclusion`; steps with the same first entry share a box of the figure.
STEPS: tuple[tuple[str, str, str], ...] = (
    ("Usable stays", "malformed_line", "line of the file that is no row"),
    ("Usable stays", "missing_id", "no patient id or no stay id"),
    ("Usable stays", "duplicate_stay", "repeated or contradicting stay id"),
    ("Usable stays", "unreadable_time", "unreadable time"),
    ("Usable stays", "missing_time", "no admission or discharge time"),
    ("Usable stays", "negative_stay", "discharge before admission"),
    ("Episodes of care", "transfer", "continued in a later stay: transfer"),
    ("Index discharges", "newborn", "newborn"),
    ("Index discharges", "died_in_hospital", "died in hospital"),
    ("Index discharges", "age", "age outside the limits or unknown"),
    ("Cohort", "censored", "follow-up cut short by the end of data"),
    ("Cohort", "died_after_discharge", "died after discharge"),
    ("Cohort", "left_early", "discharged before the prediction time"),
    ("Cohort", "earlier_period", "patient is on a later side"),
    ("Cohort", "no_text", "no note to predict from"),
)


def count_flow(con: duckdb.DuckDBPyConnection, *, table: str) -> dict[str, Any]:
    """Count the flow, the cohort and the issues of a finished build.

    Reads the tables `cohort`, `notes`, `flaws` and `issues`; `table` names that of admissions.
    """
    removed = dict(con.execute("SELECT exclusion, count(*) FROM cohort GROUP BY ALL").fetchall())
    kept = removed.pop(None, 0)
    removed["malformed_line"] = con.execute(
        "SELECT count(*) FROM flaws WHERE starts_with(problem, $no_row) "
        "AND starts_with(lower(source), lower($table) || '.')",
        {"table": table, "no_row": NO_ROW},
    ).fetchall()[0][0]
    left = kept + sum(removed.values())
    steps = [{"step": "admissions", "reason": "all admissions", "removed": 0, "left": left}]
    for _, step, reason in STEPS:
        count = removed.get(step, 0)
        left -= count
        steps.append({"step": step, "reason": reason, "removed": count, "left": left})
    if left != kept:
        msg = f"the flow leaves {left} stays and the cohort has {kept}: a step is not listed"
        raise AssertionError(msg)

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
        "splits": {side.pop("split"): side for side in sides},
        "notes_read": {row["status"]: row["n"] for row in notes},
        "issues": rows(
            "SELECT source, problem, count(*) AS count FROM issues GROUP BY ALL ORDER BY ALL"
        ),
    }
