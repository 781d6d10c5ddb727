"""What each rule removed, and what a reader of a cohort should know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    ("Index discharges", "died_in_hospital", "died in hospital"),
    ("Index discharges", "age", "age outside the limits or unknown"),
    ("Cohort", "censored", "follow-up cut short by the end of data"),
    ("Cohort", "died_after_discharge", "died after discharge"),
    ("Cohort", "left_early", "discharged before the prediction time"),
    ("Cohort", "earlier_period", "patient is on a later side"),
    ("Cohort", "no_text", "no note to predict from"),
)

SINGLE_CENTRE = (
    "Readmissions to other hospitals are not in this data: a patient who went elsewhere counts as "
    "not readmitted, so the true rate is higher."
)
# Our column -> the lists of the definition that give its values a meaning.
UNMATCHED = {
    "discharge_location": ("died_locations",),
    "admission_type": ("planned_types", "newborn_types"),
}
# What follows from rows of the source -> how many there are.
COUNTED = {
    "notes write their stay id as a decimal; read as whole numbers.":
        "count_if(id_was_decimal) FROM notes",
    "notes have no readable chart time: they follow the other notes of their stay, in the order of "
    "their ids.":
        "count_if(status = 'used' AND charted_by IS NULL) FROM notes",
    "admissions have times that are not ISO 8601 (2019-12-31 10:00): day and month are never "
    "guessed; give time_format in a mapping (schema='generic').":
        "count_if(fault = 'unreadable_time') FROM admissions",
}  # fmt: skip
_SHOWN = 10


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
    for _, step, reason in STEPS:
        count = removed.get(step, 0)
        left -= count
        steps.append({"step": step, "reason": reason, "removed": count, "left": left})
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
        "splits": {side.pop("split"): side for side in sides},
        "notes_read": {row["status"]: row["n"] for row in notes},
        "issues": rows(
            "SELECT source, problem, count(*) AS count FROM issues GROUP BY ALL ORDER BY ALL"
        ),
    }


def find_caveats(con: duckdb.DuckDBPyConnection, request: Request, tables: Tables) -> list[str]:
    """The caveats of a cohort as sentences, most general first."""
    caveats = [SINGLE_CENTRE, *_missing(request, tables)]
    if request.schema.name == "generic":
        caveats += _vocabulary(con, request, tables)
    if request.data_end is None:
        caveats.append(_data_end(con, request))
    counts = {caveat: _one(con, f"SELECT {query}") for caveat, query in COUNTED.items()}
    return caveats + [f"{count} {caveat}" for caveat, count in counts.items() if count]


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


def _missing(request: Request, tables: Tables) -> list[str]:
    """What follows from tables and columns that the source lacks."""
    known, absent = tables.known, ", ".join(tables.absent)
    patients = request.schema.patients
    sentences = {
        f"No table of notes ({absent or 'none is mapped'}): the cohort has labels but no text.":
            not tables.notes,
        f"Tables of notes that were not found: {absent}.": tables.notes and absent,
        f"No table {patients.table if patients else ''}: age and sex may be unknown.":
            patients and not tables.patients,
        "No dates of death: deaths after discharge are unknown.": "death_date" not in known,
        "No column records deaths in hospital: such stays count as discharged alive.":
            not {"died", "death_time", "discharge_location"} & known,
        "No admission types: planned returns and newborns cannot be told apart.":
            "admission_type" not in known,
    }  # fmt: skip
    return [sentence for sentence, applies in sentences.items() if applies]


def _vocabulary(con: duckdb.DuckDBPyConnection, request: Request, tables: Tables) -> list[str]:
    """Words of the source that the definition does not have, and what follows from them."""
    sentences = []
    locations = unmatched_values(con, "discharge_location", limit=_SHOWN + 1)
    if locations:
        sentences.append(
            f"Discharge locations that count as alive: {_listed(locations)}. Add words for death "
            "to died_locations of the definition."
        )
    dead = "SELECT count_if(list_contains(died_locations, discharge_location)) FROM admissions"
    if locations and not _one(con, f"{dead}, rules") and not {"died", "death_time"} & tables.known:
        words = " or ".join(request.definition.index.died_locations) or "listed"
        sentences.append(
            f"Deaths in hospital cannot be told: no discharge location is {words}, and "
            "no other column tells of them, so every stay counts as discharged alive."
        )
    if types := unmatched_values(con, "admission_type", limit=_SHOWN + 1):
        sentences.append(
            f"Admission types that count as unplanned: {_listed(types)}. Add words for planned "
            "admissions to planned_types of the definition."
        )
    return sentences


def _data_end(con: duckdb.DuckDBPyConnection, request: Request) -> str:
    """What is assumed about the end of the data when none was given."""
    days = f"{request.definition.readmission.horizon_days:g} days"
    if end := _one(con, "SELECT data_end FROM rules"):
        return (
            f"No end of data was given: the last admission, {end:%Y-%m-%d %H:%M}, is taken for it. "
            f"Stays discharged less than {days} before it are excluded (data_end sets another end; "
            "'none' keeps them)."
        )
    why = ", and the dates of MIMIC are shifted, so it cannot be derived"
    return (
        f"No end of data was given{'' if request.schema.name == 'generic' else why}: a stay "
        f"discharged less than {days} before it counts as not readmitted."
    )


def _one(con: duckdb.DuckDBPyConnection, query: str, values: Any = None) -> Any:
    return con.execute(query, values).fetchall()[0][0]


def _listed(counts: dict[str, int]) -> str:
    """`HOME (2,301), SNF (210) and more`."""
    parts = [f"{value} ({count:,})" for value, count in list(counts.items())[:_SHOWN]]
    return ", ".join(parts) + (" and more" if len(counts) > _SHOWN else "")
