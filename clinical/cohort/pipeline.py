"""The steps between a source and a cohort file: SQL in DuckDB, out of core."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.cohort.flow import SINGLE_CENTRE, count_flow
from clinical.cohort.load import find, summary_categories, wanted_notes
from clinical.cohort.reading import Tables, read_rows
from clinical.cohort.splits import assign_splits
from clinical.cohort.sql import run_step, step
from domainbert.tables import TableError
from domainbert.tables.databases import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import duckdb

    from clinical.cohort.definition import Definition
    from clinical.cohort.schemas import Schema

MEMORY_LIMIT = "1GB"  # DuckDB's share; what does not fit waits on disk, beside the result
SUMMARY_KEY = "clinical.cohort"
_DAY_US = 86_400_000_000
_HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class Request:
    """What `build_cohort` was asked for, checked."""

    source: str | Path
    schema: Schema
    notes: str
    hours: float
    definition: Definition
    seed: int
    data_end: datetime | None


@contextmanager
def scratch(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that spills to disk, in `folder`, as memory fills; gone when the block ends."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix=".cohort-", dir=folder) as private:
        con = duckdb.connect()
        try:
            con.execute("SET temp_directory = $path", {"path": private})
            con.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
            con.execute("SET TimeZone = 'UTC'")
            # A notebook without widgets has no bar to switch off, and says so by failing.
            with suppress(duckdb.InvalidInputException):
                con.execute("SET enable_progress_bar = false")
            # A closed network: nothing is fetched while we run.
            con.execute("SET autoinstall_known_extensions = false")
            with _quiet():
                yield con
        finally:
            con.close()


def read_source(con: duckdb.DuckDBPyConnection, request: Request) -> list[str]:
    """Read every table of the source once, and decide on every row but for the texts.

    Returns:
        What a reader of the cohort should know.
    """
    schema = request.schema
    with open_source(request.source, con=con) as source:
        find_table = partial(find, source, schema=schema, notes=request.notes)
        admissions = find_table(schema.admissions)
        patients = find_table(schema.patients) if schema.patients else None
        wanted = wanted_notes(schema, request.notes)
        notes = [find_table(table) for table in wanted]
        if admissions is None:
            msg = f"[admissions] of the schema {schema.name!r} cannot be optional"
            raise TableError(msg)
        found = Tables(admissions, patients, [table for table in notes if table is not None])
        run_step(con, "macros")
        _set_rules(con, request, found)
        read_rows(con, source, schema, found)
    absent = [table.table for table, there in zip(wanted, notes, strict=True) if there is None]
    return _caveats(con, request, found, absent)


def export_issues(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Write the list of everything that was wrong with a row of the source."""
    run_step(con, "texts")
    run_step(con, "issues")
    con.execute("COPY (SELECT * FROM issues ORDER BY source, problem, row) TO $path (HEADER)",
                {"path": str(path)})  # fmt: skip


def export_cohort(
    con: duckdb.DuckDBPyConnection, path: Path, *, request: Request, caveats: list[str]
) -> None:
    """Write the cohort piece by piece, the definition and the flow in its metadata."""
    import pyarrow.parquet as pq

    _split(con, request.seed)
    run_step(con, "cohort")
    metadata = {
        SUMMARY_KEY: json.dumps(_summary(con, request, caveats), ensure_ascii=False),
        "clinical.definition": request.definition.text,
        "clinical.definition_sha256": request.definition.sha256,
    }
    query = step("piece")
    pieces = con.execute("SELECT first_stay, last_stay FROM pieces ORDER BY first_stay").fetchall()
    writer = None
    try:
        # An empty source has no piece, but its cohort has columns all the same.
        for first, last in pieces or [(0, 0)]:
            bounds = {"first_stay": first, "last_stay": last}
            rows = con.sql(query, params=bounds).to_arrow_table()
            if writer is None:
                schema = rows.schema.with_metadata(metadata)
                writer = pq.ParquetWriter(path, schema, compression="zstd")
            writer.write_table(rows.replace_schema_metadata(metadata))
    finally:
        if writer is not None:
            writer.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """DuckDB's messages may quote the line they failed on, and a line may be a note."""
    import duckdb

    try:
        yield
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        msg = f"the cohort cannot be built: {str(error).splitlines()[0]}"
        raise TableError(msg) from None
    except duckdb.Error as error:
        msg = (
            f"the source cannot be read to its end ({type(error).__name__}): a file that is not "
            "whole, or a connection that was lost"
        )
        raise TableError(msg) from None


def _set_rules(con: duckdb.DuckDBPyConnection, request: Request, found: Tables) -> None:
    """The definition and the request as a table of one row, which all SQL reads."""
    definition, schema = request.definition, request.schema
    patients = found.patients.chosen if found.patients else {}
    rules: dict[str, tuple[Any, str]] = {
        "gap_us": (round(definition.transfer_gap_hours * _HOUR_US), "BIGINT"),
        "horizon_us": (round(definition.horizon_days * _DAY_US), "BIGINT"),
        "hours_us": (round(request.hours * _HOUR_US), "BIGINT"),
        "data_end": (request.data_end, "TIMESTAMP"),
        "early": (request.notes == "early", "BOOLEAN"),
        "exclude_deaths": (definition.death_after_discharge == "exclude", "BOOLEAN"),
        "minimum_age": (definition.minimum_age, "DOUBLE"),
        "maximum_age": (definition.maximum_age, "DOUBLE"),
        "newborn_types": (list(definition.newborn_types), "VARCHAR[]"),
        "died_locations": (list(definition.died_locations), "VARCHAR[]"),
        "planned_types": (list(definition.planned_types), "VARCHAR[]"),
        "discharge_categories": (list(summary_categories(schema)), "VARCHAR[]"),
        "addendum_kinds": (list(schema.addendum_kinds), "VARCHAR[]"),
        "has_patients": (found.patients is not None, "BOOLEAN"),
        "has_notes": (bool(found.notes), "BOOLEAN"),
        "has_types": ("admission_type" in found.admissions.chosen, "BOOLEAN"),
        "deaths_known": (
            "death_date" in patients or "death_date" in found.admissions.chosen, "BOOLEAN"),
    }  # fmt: skip
    columns = ", ".join(f"${name}::{kind} AS {name}" for name, (_, kind) in rules.items())
    con.execute(f"CREATE TABLE rules AS SELECT {columns}", {k: v for k, (v, _) in rules.items()})


def _split(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    import pyarrow as pa

    rows = con.execute("SELECT DISTINCT patient_id FROM stays WHERE exclusion IS NULL ORDER BY 1")
    patients = [row[0] for row in rows.fetchall()]
    splits = pa.table({
        "patient_id": pa.array(patients, pa.string()),
        "split": pa.array(list(assign_splits(patients, seed=seed)), pa.string()),
    })  # fmt: skip
    con.register("assigned", splits)
    con.execute("CREATE TABLE splits AS SELECT * FROM assigned")
    con.unregister("assigned")


def _caveats(
    con: duckdb.DuckDBPyConnection, request: Request, found: Tables, absent: list[str]
) -> list[str]:
    """What the source cannot tell, in sentences for the reader of results."""
    known = set(found.admissions.chosen) | set(found.patients.chosen if found.patients else ())
    decimal = con.execute("SELECT count(*) FROM notes WHERE id_was_decimal").fetchall()[0][0]
    patients = request.schema.patients
    said = {
        SINGLE_CENTRE: True,
        f"No table of notes ({', '.join(absent) or 'none is mapped'}): "
        "the cohort has labels and no text.": not found.notes,
        f"Tables of notes that are not there: {', '.join(absent)}.": found.notes and absent,
        f"No table {patients.table if patients else ''}: age and sex may be unknown.": (
            patients and not found.patients
        ),
        "No dates of death: deaths after discharge are unknown.": "death_date" not in known,
        "Nothing tells of deaths in hospital: such stays count as discharged alive.": (
            not {"died", "death_time", "discharge_location"} & known
        ),
        "No admission types: planned returns and newborns cannot be told apart.": (
            "admission_type" not in known
        ),
        f"{decimal} notes write their stay id as a decimal; read as whole numbers.": decimal,
    }
    return [sentence for sentence, applies in said.items() if applies]


def _summary(
    con: duckdb.DuckDBPyConnection, request: Request, caveats: list[str]
) -> dict[str, Any]:
    definition = request.definition
    return {
        "schema": request.schema.name,
        "notes": request.notes,
        "hours": request.hours if request.notes == "early" else None,
        "seed": request.seed,
        "data_end": request.data_end.isoformat() if request.data_end else None,
        "definition": {
            "name": definition.name,
            "version": definition.version,
            "sha256": definition.sha256,
            "horizon_days": definition.horizon_days,
        },
        **count_flow(con, table=request.schema.admissions.table),
        "caveats": caveats,
    }
