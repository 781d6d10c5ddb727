"""What a reader of a cohort should know: what its source cannot tell, and what was assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

    from clinical.cohort.build import Request
    from clinical.cohort.reading import Tables

SINGLE_CENTRE = (
    "Readmissions to other hospitals are not in this data: a patient who went elsewhere counts as "
    "not readmitted, so the true rate is higher."
)
# Our column -> the lists of the definition that give its values a meaning.
UNMATCHED = {
    "discharge_location": ("died_locations",),
    "admission_type": ("planned_types", "newborn_types"),
}
_SHOWN = 10


def find_caveats(con: duckdb.DuckDBPyConnection, request: Request, tables: Tables) -> list[str]:
    """The caveats of a cohort as sentences, most general first."""
    said = [SINGLE_CENTRE, *_missing(request, tables)]
    if request.schema.name == "generic":
        said += _vocabulary(con, request, tables)
    return said + _data_end(con, request) + _times(con, tables)


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
    said = {
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
    return [sentence for sentence, applies in said.items() if applies]


def _vocabulary(con: duckdb.DuckDBPyConnection, request: Request, tables: Tables) -> list[str]:
    """Words of the source that the definition does not have, and what follows from them."""
    said = []
    locations = unmatched_values(con, "discharge_location", limit=_SHOWN + 1)
    if locations:
        said.append(
            f"Discharge locations that count as alive: {_listed(locations)}. Add words for death "
            "to died_locations of the definition."
        )
    dead = "SELECT count_if(list_contains(died_locations, discharge_location)) FROM admissions"
    if locations and not _one(con, f"{dead}, rules") and not {"died", "death_time"} & tables.known:
        words = " or ".join(request.definition.index.died_locations) or "listed"
        said.append(
            f"Deaths in hospital cannot be told: no discharge location is {words}, and "
            "no other column tells of them, so every stay counts as discharged alive."
        )
    if types := unmatched_values(con, "admission_type", limit=_SHOWN + 1):
        said.append(
            f"Admission types that count as unplanned: {_listed(types)}. Add words for planned "
            "admissions to planned_types of the definition."
        )
    return said


def _data_end(con: duckdb.DuckDBPyConnection, request: Request) -> list[str]:
    """What is assumed about the end of the data when none was given."""
    if request.data_end is not None:
        return []
    days = f"{request.definition.readmission.horizon_days:g} days"
    end = _one(con, "SELECT data_end FROM rules")
    if end is not None:
        said = (
            f"No end of data was given: the last admission, {end:%Y-%m-%d %H:%M}, is taken for it. "
            f"Stays discharged less than {days} before it are excluded (data_end sets another end; "
            "'none' keeps them)."
        )
    else:
        why = ", and the dates of MIMIC are shifted, so it cannot be derived"
        said = (
            f"No end of data was given{'' if request.schema.name == 'generic' else why}: a stay "
            f"discharged less than {days} before it counts as not readmitted."
        )
    return [said]


def _times(con: duckdb.DuckDBPyConnection, tables: Tables) -> list[str]:
    said = [
        f"Times of {found.name} may fit more than one time_format: those that fit "
        f"{formats[0]!r} and {formats[1]!r} are read by the first."
        for found in filter(None, (tables.admissions, tables.patients, *tables.notes))
        if (formats := found.table.ambiguous_formats())
    ]
    if decimal := _one(con, "SELECT count_if(id_was_decimal) FROM notes"):
        said.append(f"{decimal} notes write their stay id as a decimal; read as whole numbers.")
    untimed = "SELECT count_if(status = 'used' AND charted_by IS NULL) FROM notes"
    if count := _one(con, untimed):
        said.append(
            f"{count} notes have no readable chart time: they follow the other notes of their "
            "stay, in the order of their ids."
        )
    if count := _one(con, "SELECT count_if(fault = 'unreadable_time') FROM admissions"):
        said.append(
            f"{count} admissions have times that are not ISO 8601 (2019-12-31 10:00): day and "
            "month are never guessed; give time_format in a mapping (schema='generic')."
        )
    return said


def _one(con: duckdb.DuckDBPyConnection, query: str) -> Any:
    return con.execute(query).fetchall()[0][0]


def _listed(counts: dict[str, int]) -> str:
    """`HOME (2,301), SNF (210) and more`."""
    parts = [f"{value} ({count:,})" for value, count in list(counts.items())[:_SHOWN]]
    return ", ".join(parts) + (" and more" if len(counts) > _SHOWN else "")
