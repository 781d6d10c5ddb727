"""From a source to a cohort file: SQL steps in DuckDB, which spills to disk."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.cohort.caveats import UNMATCHED, find_caveats, unmatched_values
from clinical.cohort.flow import count_flow
from clinical.cohort.reading import Reader, Tables, find_tables, step
from clinical.cohort.splits import assign_splits
from domainbert.tables import TableError
from domainbert.tables.databases import open_source
from domainbert.tables.ids import id_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import duckdb

    from clinical.cohort.definition import Definition
    from clinical.cohort.schemas import Schema

MEMORY_LIMIT = "1GB"  # for DuckDB; the rest is on disk, beside the result
SUMMARY_KEY = "clinical.cohort"
_DAY_US = 86_400_000_000
_HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class Request:
    """The checked arguments of `build_cohort`."""

    source: str | Path
    schema: Schema
    notes: str
    hours: float
    definition: Definition
    seed: int
    data_end: datetime | None
    derive_data_end: bool
    delimiter: str | None
    encoding: str | None


@contextmanager
def scratch(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that spills to disk in `folder`, removed when the block ends."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix=".cohort-", dir=folder) as private:
        con = duckdb.connect()
        try:
            con.execute("SET temp_directory = $path", {"path": private})
            con.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
            con.execute("SET TimeZone = 'UTC'")
            # In a notebook without widgets there is no progress bar, and switching it off fails.
            with suppress(duckdb.InvalidInputException):
                con.execute("SET enable_progress_bar = false")
            # Nothing may be downloaded at run time.
            con.execute("SET autoinstall_known_extensions = false")
            con.create_function(
                "python_id_key", id_key, ["VARCHAR"], "VARCHAR", null_handling="special"
            )
            with _quiet():
                yield con
        finally:
            con.close()


def read_source(con: duckdb.DuckDBPyConnection, request: Request) -> list[str]:
    """Read every table of the source once, and decide about every row except for the texts.

    Returns:
        What a reader of the cohort should know.
    """
    options = {"delimiter": request.delimiter, "encoding": request.encoding}
    with open_source(request.source, con=con, **options) as source:
        tables = find_tables(source, request.schema, notes=request.notes)
        con.execute(step("macros"))
        _set_rules(con, request, tables)
        Reader(con, source, request.schema).read(tables)
    return find_caveats(con, request, tables)


def export_issues(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Write the list of everything that was wrong with a row of the source."""
    con.execute(step("texts"))
    con.execute(step("issues"))
    con.execute("COPY (SELECT * REPLACE (no_formula(id) AS id) FROM issues "
                "ORDER BY source, problem, row) TO $path (FORMAT csv, HEADER)",
                {"path": str(path)})  # fmt: skip


def export_cohort(
    con: duckdb.DuckDBPyConnection, path: Path, *, request: Request, caveats: list[str]
) -> None:
    """Write the cohort piece by piece, with the definition and the flow in its metadata."""
    import pyarrow.parquet as pq

    _split(con, request.seed)
    con.execute(step("cohort"))
    metadata = {
        SUMMARY_KEY: json.dumps(_summary(con, request, caveats), ensure_ascii=False),
        "clinical.definition": request.definition.text,
        "clinical.definition_sha256": request.definition.sha256,
    }
    query = step("piece")
    pieces = con.execute("SELECT first_stay, last_stay FROM pieces ORDER BY first_stay").fetchall()
    writer = None
    try:
        # The cohort of an empty source has columns too.
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
    """Replace DuckDB's messages: they may quote the line that failed, which may be a note."""
    import duckdb

    try:
        yield
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        msg = f"the cohort cannot be built: {str(error).splitlines()[0]}"
        raise TableError(msg) from None
    except duckdb.Error as error:
        msg = (
            f"the source cannot be read to its end ({type(error).__name__}): a file is incomplete, "
            "or a connection was lost"
        )
        raise TableError(msg) from None


def _set_rules(con: duckdb.DuckDBPyConnection, request: Request, tables: Tables) -> None:
    """Create `rules`: the definition and the request as a table of one row for all SQL steps."""
    definition, schema = request.definition, request.schema
    rules: dict[str, tuple[Any, str]] = {
        "gap_us": (round(definition.episode.transfer_gap_hours * _HOUR_US), "BIGINT"),
        "horizon_us": (round(definition.readmission.horizon_days * _DAY_US), "BIGINT"),
        "hours_us": (round(request.hours * _HOUR_US), "BIGINT"),
        "data_end": (request.data_end, "TIMESTAMP"),
        "derive_data_end": (request.derive_data_end, "BOOLEAN"),
        "early": (request.notes == "early", "BOOLEAN"),
        "exclude_deaths": (
            definition.readmission.death_after_discharge == "exclude", "BOOLEAN"),
        "minimum_age": (definition.index.minimum_age, "DOUBLE"),
        "maximum_age": (definition.index.maximum_age, "DOUBLE"),
        "newborn_types": (list(definition.index.newborn_types), "VARCHAR[]"),
        "died_locations": (list(definition.index.died_locations), "VARCHAR[]"),
        "planned_types": (list(definition.readmission.planned_types), "VARCHAR[]"),
        "discharge_categories": (list(schema.summary_categories), "VARCHAR[]"),
        "addendum_kinds": (list(schema.addendum_kinds), "VARCHAR[]"),
        "has_patients": (tables.patients is not None, "BOOLEAN"),
        "has_notes": (bool(tables.notes), "BOOLEAN"),
        "has_types": ("admission_type" in tables.admissions.chosen, "BOOLEAN"),
        "deaths_known": ("death_date" in tables.known, "BOOLEAN"),
    }  # fmt: skip
    columns = ", ".join(f"${name}::{kind} AS {name}" for name, (_, kind) in rules.items())
    con.execute(f"CREATE TABLE rules AS SELECT {columns}", {k: v for k, (v, _) in rules.items()})


def _split(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    """Create `splits` from the patients' ids as they are compared."""
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


def _summary(
    con: duckdb.DuckDBPyConnection, request: Request, caveats: list[str]
) -> dict[str, Any]:
    definition = request.definition
    data_end = con.execute("SELECT data_end FROM rules").fetchall()[0][0]
    return {
        "schema": request.schema.name,
        "notes": request.notes,
        "hours": request.hours if request.notes == "early" else None,
        "seed": request.seed,
        "data_end": data_end.isoformat() if data_end else None,
        "definition": {
            "name": definition.name,
            "version": definition.version,
            "sha256": definition.sha256,
            "horizon_days": definition.readmission.horizon_days,
        },
        **count_flow(con, table=request.schema.admissions.table),
        "unmatched": {column: unmatched_values(con, column, limit=100) for column in UNMATCHED},
        "caveats": caveats,
    }
