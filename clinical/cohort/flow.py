"""How many stays each rule removed, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from domainbert.tables.csv_files import NO_ROW

if TYPE_CHECKING:
    import duckdb

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
    ("Cohort", "no_text", "no note to predict from"),
)
_SIDES = ("train", "val", "test")


def count_flow(con: duckdb.DuckDBPyConnection, *, table: str) -> dict[str, Any]:
    """Count the flow, the cohort and the issues of a finished build.

    Args:
        con: where the tables `cohort`, `notes`, `flaws` and `issues` are.
        table: name of the table of admissions.
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
        left -= removed.get(step, 0)
        steps.append(
            {"step": step, "reason": reason, "removed": removed.get(step, 0), "left": left}
        )
    if left != kept:
        msg = f"the flow leaves {left} stays and the cohort has {kept}: a step is not listed"
        raise AssertionError(msg)
    return {"steps": steps, **_count_cohort(con)}


def _count_cohort(con: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    def rows(query: str) -> list[tuple[Any, ...]]:
        return con.execute(query).fetchall()

    stays, patients, readmitted, transfers, died = rows(
        "SELECT count(*), count(DISTINCT patient_id), count(*) FILTER (readmitted = 1), "
        "count(*) FILTER (transfer), count(*) FILTER (died_within_horizon) "
        "FROM cohort WHERE exclusion IS NULL"
    )[0]
    sides = rows(
        "SELECT split, count(*), count(DISTINCT patient_id), count(*) FILTER (readmitted = 1) "
        "FROM cohort WHERE exclusion IS NULL GROUP BY split"
    )
    return {
        "kept": {
            "stays": stays,
            "patients": patients,
            "readmitted": readmitted,
            "transfers": transfers,
            "died_within_horizon": died,
        },
        "splits": {
            side: {"stays": n, "patients": people, "readmitted": positive}
            for side, n, people, positive in sorted(sides, key=lambda row: _SIDES.index(row[0]))
        },
        "notes_read": dict(rows("SELECT status, count(*) FROM notes GROUP BY ALL ORDER BY 1")),
        "issues": [
            {"source": source, "problem": problem, "count": count}
            for source, problem, count in rows(
                "SELECT source, problem, count(*) FROM issues GROUP BY ALL ORDER BY ALL"
            )
        ],
    }
