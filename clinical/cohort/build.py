"""Build a labelled cohort from a hospital's tables."""

from __future__ import annotations

import math
import tempfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

from clinical.cohort.definition import load_definition
from clinical.cohort.pipeline import Request, export_cohort, export_issues, read_source, scratch
from clinical.cohort.result import Cohort, issues_path
from clinical.cohort.schemas import load_schema, nearest
from domainbert.errors import UserError
from domainbert.tables import TableError, atomic_path

NOTES = ("discharge", "early")


def build_cohort(
    source: str | Path,
    *,
    schema: str = "mimic3",
    notes: str = "discharge",
    hours: float = 48,
    definition: str | Path | None = None,
    mapping: str | Path | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    data_end: str | date | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Cohort:
    """Build a readmission cohort; every admission of the source is in it, kept or with a reason.

    The notes are never all in memory. The order of the rows does not change the cohort. Ids are
    compared without regard to case, surrounding spaces and a trailing ".0".

    Args:
        source: a folder of `.csv`, `.csv.gz` or `.parquet` files, a DuckDB file,
            `postgresql://…` or `sqlite:///…`.
        schema: "mimic3", "mimic4" or "generic".
        notes: "discharge" for prediction at discharge, from the discharge summary and its addenda
            in time order; "early" for prediction `hours` after admission, from every other note
            charted by then, of stays that are still in hospital.
        hours: hours after admission, > 0; for "early" only.
        definition: a readmission definition in TOML; by default the shipped `readmission-30d`.
        mapping: for "generic", a TOML file with the names of the source's tables and columns.
        seed: seed of the split by patient.
        out: the Parquet file to write; a list of everything that was wrong with the source is
            written beside it (`NAME.issues.csv`). By default a temporary file that is deleted with
            the result.
        data_end: until when admissions were recorded; stays discharged less than the horizon
            before it are excluded. A date without a time is the midnight at which the day begins.
            By default it is the last admission for "generic", and unknown for MIMIC, whose dates
            are shifted; "none" keeps such stays.
        delimiter: of CSV files, such as ";" or "tab"; a tab for .tsv, else a comma by default.
        encoding: of CSV files, such as "cp1252"; UTF-8 by default.

    Returns:
        The cohort with its flow.

    Raises:
        TableError: a table or column that is missing or cannot be read.
        UserError: a wrong definition, mapping or argument.
    """
    if notes not in NOTES:
        msg = f"unknown notes {notes!r}{nearest(notes, NOTES)}; expected one of {NOTES}"
        raise UserError(msg)
    if not (math.isfinite(hours) and hours > 0):
        msg = f"hours must be a number above 0, got {hours!r}"
        raise UserError(msg)
    if out is not None and Path(out).suffix.lower() != ".parquet":
        msg = f"out must end in .parquet, got {Path(out).name}"
        raise TableError(msg)
    request = Request(
        source=source,
        schema=load_schema(schema, mapping=mapping),
        notes=notes,
        hours=hours,
        definition=load_definition(definition),
        seed=seed,
        data_end=_moment(data_end),
        derive_data_end=schema == "generic" and data_end is None,
        delimiter="\t" if delimiter == "tab" else delimiter,
        encoding=encoding,
    )
    if out is not None:
        return _build(request, Path(out))
    keep = tempfile.TemporaryDirectory(prefix="cohort-")
    return _build(request, Path(keep.name) / "cohort.parquet", keep=keep)


def _build(request: Request, out: Path, *, keep: Any = None) -> Cohort:
    listed = issues_path(out)
    with atomic_path(out) as table, atomic_path(listed) as listing, scratch(out.parent) as con:
        caveats = read_source(con, request)
        export_issues(con, listing)
        export_cohort(con, table, request=request, caveats=caveats)
    return Cohort.open(out, keep=keep)


def _moment(value: str | date | None) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    if value == "none":
        return None
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - the source has no zone
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        msg = f"data_end must be an ISO date such as '2019-12-31' or 'none', got {value!r}"
        raise UserError(msg) from None
