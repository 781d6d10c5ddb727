"""Build a labelled cohort from a hospital's tables: SQL steps in DuckDB, which spills to disk."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.cohort.contents import (
    find_caveats,
    require_contents,
)
from clinical.cohort.conventions import check_zone
from clinical.cohort.definition import (
    Diagnoses,
    load_definition,
    load_schema,
)
from clinical.cohort.diagnoses import (
    group_caveats,
    group_codes,
    keep_groups,
)
from clinical.cohort.reader import CohortReader, Request
from clinical.cohort.result import (
    SUMMARY_KEY,
    Cohort,
    issues_path,
    summarise,
)
from clinical.cohort.source import (
    Tables,
    detect_schema,
    find_tables,
    step,
)
from clinical.cohort.views import tables_of
from clinical.stays.choice import CENTURY_DAYS
from clinical.stays.patients import FRACTIONS, assign_splits
from domainbert.errors import UserError
from domainbert.files import FULL, atomic_path, disk_errors, folder_beside
from domainbert.settings import check_choice
from domainbert.tables import ExactId, ReadOptions, TableError, id_key
from domainbert.tables.csv_files import NO_ROW, UNDECODABLE
from domainbert.tables.databases import open_source

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from clinical.cohort.conventions import ColumnConvention
    from domainbert.tables.sources import Source

_OWN = Diagnoses.model_fields  # rules that other steps read
MEMORY_LIMIT = "1GB"  # for DuckDB; the rest is on disk, beside the result
_SETTINGS = {
    "memory_limit": MEMORY_LIMIT,
    "autoinstall_known_extensions": "false",  # nothing is downloaded
}


def build_cohort(
    source: str | Path,
    *,
    schema: str | None = None,
    notes: str = "discharge",
    hours: float = 48,
    definition: str | Path | None = None,
    mapping: str | Path | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    data_end: str | date | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    escape: str | None = None,
    split_by: str = "patient",
    fractions: Sequence[float] = tuple(FRACTIONS.values()),
    died_locations: Sequence[str] = (),
    zone: str | None = None,
) -> Cohort:
    """Build a readmission cohort; every admission of the source is in it, kept or with a reason.

    The notes are never all in memory. The order of the rows does not change the cohort. Ids are
    compared without regard to case, surrounding spaces and a trailing ".0".

    Args:
        source: a folder of `.csv`, `.csv.gz`, `.parquet` or `.ndjson` files, a DuckDB file,
            `postgresql://…` or `sqlite:///…`.
        schema: "mimic3", "mimic4", "omop", "meds", "fhir" or "generic"; by default
            detected from the tables.
        notes: "discharge": predict at discharge, from the discharge summary and its addenda;
            "early": predict `hours` (> 0) after admission, from every other note charted by then,
            of stays that are still in hospital.
        hours: for "early" only.
        definition: an outcome and its rules: a TOML file, or the name of a shipped one:
            "readmission-30d" (default), "death-30d", "diagnoses", or "in-hospital-death" and
            "long-stay-7d", which read early notes.
        mapping: for "generic", a TOML file with the names of the source's tables and columns.
        seed: seed of the split by patient.
        out: the Parquet file to write, with a list of the source's faults (`NAME.issues.csv`)
            beside it. By default a temporary file that is deleted with the result.
        data_end: until when admissions were recorded, the midnight before a date; stays
            discharged less than the horizon before it are excluded. By default the last admission,
            and unknown for MIMIC, whose dates are shifted; "none" keeps such stays.
        delimiter: between the cells of CSV files, such as ";" or "tab"; by default a tab for .tsv,
            else a comma.
        encoding: the encoding of CSV files, such as "cp1252"; UTF-8 by default.
        escape: "backslash" or "none": whether a backslash escapes in CSV files; by default found
            out for each file.
        split_by: "patient" for sides at random; "time" for the earliest discharges to train on,
            and the latest to test on. A patient is on the side of the last stay; earlier stays that
            fall into an earlier period are excluded.
        fractions: shares of train, val and test, which sum to 1.
        died_locations: places of discharge that mean death in this source, in addition to those
            of the definition and the mapping; the case of letters does not matter.
        zone: the time zone of times that have no offset from UTC, such as "Europe/Berlin"; needed
            where others have one.

    Raises:
        TableError: a table or column that is missing or cannot be read.
        UserError: a wrong definition, mapping or argument.
    """
    check_choice("notes", notes, ("discharge", "early"))
    check_choice("split_by", split_by, ("patient", "time"))
    _check_hours(hours)
    if out is not None and Path(out).suffix.lower() != ".parquet":
        raise TableError(f"out must end in .parquet, got {Path(out).name}")
    shares = _shares_by_side(fractions)
    named_schema = None
    if schema or mapping:
        named_schema = load_schema(schema, mapping=mapping)
    rules = load_definition(definition)
    end = _moment(data_end)
    if rules.hours:
        notes = "early"
        hours = rules.hours
    keep = (
        tempfile.TemporaryDirectory(prefix="cohort-") if out is None else None
    )
    path = Path(keep.name) / "cohort.parquet" if keep else Path(str(out))
    with (
        atomic_path(path) as table,
        atomic_path(issues_path(path)) as listing,
        _scratch(path) as con,
    ):
        with open_source(
            source, con, ReadOptions(delimiter, encoding, escape=escape)
        ) as tables:
            source_schema = named_schema or detect_schema(tables)
            deaths = (
                *source_schema.died_locations,
                *map(str.upper, died_locations),
            )
            source_schema = source_schema.model_copy(
                update={
                    "died_locations": deaths,
                    "zone": check_zone(zone) or source_schema.zone,
                }
            )
            request = Request(
                source_schema,
                notes,
                hours if notes == "early" else None,
                rules,
                seed,
                end,
                data_end is None and not source_schema.shifted_dates,
                split_by,
                shares,
            )
            conventions, caveats = _read_source(
                con, tables_of(tables, source_schema), request
            )
        for name in ("texts", "issues"):
            con.execute(step(name))
        con.execute(
            "COPY listed_issues TO $path (FORMAT csv, HEADER)",
            {"path": str(listing)},
        )
        facts = {
            "conventions": [column.facts() for column in conventions],
            "caveats": caveats,
        }
        _export_cohort(con, table, request=request, facts=facts)
    return Cohort.open(path, keep=keep)


def _shares_by_side(fractions: Sequence[float]) -> dict[str, float]:
    """The checked shares of train, val and test."""
    if (
        len(fractions) != len(FRACTIONS)
        or min(fractions) <= 0
        or abs(sum(fractions) - 1) > 1e-9
    ):
        raise UserError(
            f"fractions must be three numbers above 0 that sum to 1, got {tuple(fractions)}"
        )
    return dict(zip(FRACTIONS, fractions, strict=True))


def _moment(value: str | date | None) -> datetime | None:
    """The end of the data as a datetime; None if none is given."""
    if value in (None, "none"):
        return None
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        raise UserError(
            f"data_end must be an ISO date such as '2019-12-31' or 'none', got {value!r}"
        ) from None


def _check_hours(hours: float) -> None:
    """Raise a `UserError` unless there are some hours, and less than a century."""
    if not 0 < hours < math.inf:  # also of NaN
        raise UserError(f"hours must be a number above 0, got {hours!r}")
    if hours > 24 * CENTURY_DAYS:
        raise UserError(
            f"hours must be at most {24 * CENTURY_DAYS:,} (a century), got {hours!r}"
        )


@contextmanager
def _scratch(out: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that spills to disk in `folder`, removed when the block ends.

    Its own messages are replaced: they may quote the line that failed, which may be a note.
    """
    import duckdb

    with (
        folder_beside(out.with_name("cohort"), private=True) as private,
        duckdb.connect(
            config={**_SETTINGS, "temp_directory": str(private)}
        ) as con,
    ):
        con.execute("SET TimeZone = 'UTC'")
        # In a notebook without widgets there is no progress bar, and switching it off fails.
        with suppress(duckdb.InvalidInputException):
            con.execute("SET enable_progress_bar = false")
        con.create_function(
            "python_id_key",
            id_key,
            ["VARCHAR"],
            "VARCHAR",
            null_handling="special",
        )
        con.execute(step("versions") + step("macros"))
        try:
            with disk_errors(out, FULL):
                yield con
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise TableError(
                f"the cohort cannot be built: {str(error).splitlines()[0]}"
            ) from None
        except duckdb.Error as error:
            if not _comes_from_source(error):
                raise RuntimeError(
                    f"a defect of this package, please report it: {type(error).__name__}"
                ) from None
            raise TableError(
                f"the source cannot be read to its end ({type(error).__name__}): a file is "
                "incomplete, or a connection was lost"
            ) from None


def _comes_from_source(error: duckdb.Error) -> bool:
    """Whether a file or a database fails, and not a statement or a function of ours."""
    import duckdb

    if isinstance(error, duckdb.InvalidInputException):
        return "UDF" not in str(error)
    return isinstance(error, duckdb.OperationalError | duckdb.FatalException)


def _read_source(
    con: duckdb.DuckDBPyConnection,
    source: Source,
    request: Request,
) -> tuple[list[ColumnConvention], list[str]]:
    """Read every table of the source once, and decide about every row except for the texts.

    Returns how its columns are written, and what a reader of the cohort should know.
    """
    tables = find_tables(
        source,
        request.schema,
        notes=request.notes,
        codes=request.definition.diagnoses is not None,
    )
    if request.definition.death and "death_date" not in tables.columns:
        raise UserError(
            f"{request.definition.name} needs dates of death: patients.death_date"
        )
    if request.schema.exact_ids:
        con.execute(step("exact_ids"))
    _set_rules(con, request, tables)
    reader = CohortReader(con, source, request.schema, request.choice)
    reader.read(tables)
    if request.definition.diagnoses:
        group_codes(con, request.definition.diagnoses)
    require_contents(con, source, request.schema, tables)
    caveats = find_caveats(con, request, tables, reader.conventions, source)
    return reader.conventions, caveats


def _export_cohort(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    *,
    request: Request,
    facts: Mapping[str, Any],
) -> None:
    """Write the cohort piece by piece, with the definition and the flow in its metadata."""
    import pyarrow.parquet as pq

    definition = request.definition
    _split(con, request)
    con.execute(step("cohort"))
    if definition.diagnoses:
        diagnoses = keep_groups(con, definition.diagnoses)
        caveats = [*facts["caveats"], *group_caveats(diagnoses)]
        facts = {**facts, "caveats": caveats, "diagnoses": diagnoses}
    metadata = {
        SUMMARY_KEY: json.dumps(
            summarise(con, request, facts), ensure_ascii=False
        ),
        "clinical.definition": definition.text,
        "clinical.definition_sha256": definition.sha256,
    }
    choice = request.choice.model_dump_json()
    query = step("piece")
    pieces = con.execute(
        "SELECT first_stay, last_stay FROM pieces ORDER BY first_stay"
    ).fetchall()

    def read(first: int, last: int) -> pa.Table:
        values = {"first_stay": first, "last_stay": last, "choice": choice}
        table = con.sql(query, params=values).to_arrow_table()
        return table.replace_schema_metadata(metadata)

    # The cohort of an empty source has columns too.
    with pq.ParquetWriter(
        path, read(0, 0).schema, compression="zstd"
    ) as writer:
        for first, last in pieces or [(0, 0)]:
            writer.write_table(read(first, last))


def _split(con: duckdb.DuckDBPyConnection, request: Request) -> None:
    """Create `splits`: the side of every patient with a stay that is kept."""
    import pyarrow as pa

    if request.split_by == "time":
        query = "SELECT max(discharge_time) FROM stays"
        ((latest,),) = con.execute(query).fetchall()
        if latest and latest.year > datetime.now(UTC).year:
            raise UserError(
                f"the stays end in {latest.year}: their dates are shifted, by another amount for "
                "each patient, and have no order; use split_by='patient'"
            )
        con.execute(step("split_by_time"))
        return
    has_sides = "SELECT 1 FROM patients WHERE split IS NOT NULL LIMIT 1"
    if con.execute(has_sides).fetchone():
        con.execute(step("own_sides"))
        return
    # Patients are split by their ids as they are compared.
    query = "SELECT DISTINCT patient_id FROM stays WHERE exclusion IS NULL ORDER BY 1"
    rows = con.sql(query).to_arrow_table()
    patients = rows["patient_id"].to_pylist()
    if request.schema.exact_ids:
        patients = list(map(ExactId, patients))
    sides = assign_splits(
        patients, seed=request.seed, fractions=request.fractions
    )
    splits = rows.append_column("split", pa.array(sides, pa.string()))
    con.register("splits", splits)


def _set_rules(
    con: duckdb.DuckDBPyConnection,
    request: Request,
    tables: Tables,
) -> None:
    """Create `rules`: the definition and the request as a table of one row for all SQL steps."""
    # Every step reads the same row, so rules that another outcome lacks have defaults.
    rules = request.definition.rules()
    periods = None
    if tables.follow_up:
        periods = request.schema.follow_up
    values: dict[str, Any] = {
        "planned_types": [],
        "death_after_discharge": "keep",
        "horizon_days": 0,
        **{name: rule for name, rule in rules.items() if name not in _OWN},
        "hours": request.hours or 0,
        "data_end": request.data_end,
        "derive_data_end": request.derive_data_end,
        "early": request.notes == "early",
        "discharge_categories": request.schema.summary_categories,
        "addendum_kinds": request.schema.addendum_kinds,
        "has_notes": bool(tables.notes),
        "shifted_dates": request.schema.shifted_dates,
        "trusted_periods": bool(periods and periods.trusted),
        "admissions_table": tables.admissions.name,
        "no_row": NO_ROW,
        "undecodable": UNDECODABLE,
        "val_from": request.fractions["train"],
        "test_from": request.fractions["train"] + request.fractions["val"],
        "columns": sorted(tables.columns),
    }
    for role in ("patients", "deaths", "follow_up"):
        table = getattr(tables, role)
        values[f"{role}_table"] = table.name if table else ""
    for name in ("died_locations", "alive_locations"):
        values[name] += getattr(request.schema, name)
    con.execute(step("rules"), values)
