"""New discharges: the stays of a hospital's tables that a model scores, without a cohort step."""

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from clinical.cohort.build import build_cohort
from clinical.cohort.definition import SHIPPED
from clinical.cohort.result import Cohort
from clinical.cohort.source import detect_schema
from clinical.stays.choice import NoteChoice
from domainbert.errors import UserError
from domainbert.files import data_text, folder_beside
from domainbert.tables import ReadOptions, TableError
from domainbert.tables.databases import open_source
from domainbert.tables.frames import read_metadata
from domainbert.tables.options import FORMATS


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Where the admissions and notes of a source are; see `clinical.build_cohort`."""

    schema: str | None = None
    mapping: Path | None = None
    definition: str | None = None
    died_locations: tuple[str, ...] = ()
    delimiter: str | None = None
    encoding: str | None = None
    escape: str | None = None


@dataclass(frozen=True)
class Discharges:
    """The stays to score, as a cohort file.

    Attributes:
        path: the file, removed when the block of `new_discharges` ends.
        n_stays: how many stays it has.
        n_admissions: how many the source has.
        definition: name, version and changes of the definition that chose them.
        definition_sha256: of its text.
    """

    path: Path
    n_stays: int
    n_admissions: int
    definition: str
    definition_sha256: str


def has_admissions(source: str | Path, options: SourceOptions) -> bool:
    """Whether a folder holds the admissions of a form that is recognised, not notes alone."""
    if not Path(source).is_dir():
        return False
    reading = ReadOptions(
        options.delimiter, options.encoding, escape=options.escape
    )
    with duckdb.connect() as con, open_source(source, con, reading) as tables:
        try:
            detect_schema(tables)
        except TableError:
            return False
    return True


def parse_since(text: str) -> datetime:
    """The time from which discharges count, without an offset, as cohorts have them.

    Raises:
        UserError: not an ISO date or datetime.
    """
    try:
        since = datetime.fromisoformat(text.strip())
        if since.tzinfo:
            since = since.astimezone(UTC).replace(tzinfo=None)
        return since
    except (ValueError, OverflowError):
        raise UserError(
            "since: expected an ISO date or datetime such as 2026-11-25 or "
            f"'2026-11-25 18:00', got {text!r}"
        ) from None


@contextmanager
def new_discharges(
    source: str | Path,
    choice: NoteChoice | None,
    *,
    out: Path,
    since: datetime | None,
    options: SourceOptions,
) -> Iterator[Discharges]:
    """The stays of a source that were discharged since a time, or that have no discharge yet.

    Every one of them is in the file, also those that cannot be scored, with the reason in the
    column `exclusion`.

    Args:
        source: a source as for `build_cohort`, or a cohort file.
        choice: the notes that the model reads; None reads discharge summaries.
        out: the file is in a private folder beside it.
        since: all stays without it.
        options: how to read the source.

    Raises:
        TableError: the source cannot be read.
        UserError: the model's definition is not shipped, and none is named.
    """
    with folder_beside(out, private=True) as folder:
        path = folder / "stays.parquet"
        if str(source).lower().endswith(".parquet"):
            cohort = Cohort.open(source)
        elif str(source).lower().endswith(FORMATS):
            raise UserError(
                f"{source} is a table without admissions: stays are chosen by their discharge "
                "from a folder or a database with admissions and notes, or from a cohort"
            )
        else:
            cohort = _build(source, choice, folder / "cohort.parquet", options)
        definition = cohort.summary["definition"]
        yield Discharges(
            path=path,
            n_stays=_write_since(cohort.path, path, since),
            n_admissions=cohort.n_admissions,
            definition=definition["label"],
            definition_sha256=definition["sha256"],
        )


def _build(
    source: str | Path,
    choice: NoteChoice | None,
    path: Path,
    options: SourceOptions,
) -> Cohort:
    """The cohort of a source with the notes that the model reads."""
    how: dict[str, Any] = vars(options).copy()
    how["definition"] = _definition(choice, options.definition)
    if choice is not None:
        how["notes"] = choice.notes
        how["hours"] = choice.hours or 48.0
    return build_cohort(source, out=path, **how)


def _definition(choice: NoteChoice | None, named: str | None) -> str | None:
    """The definition to read a source by: the named one, or the shipped one of the model."""
    if named is not None or choice is None:
        return named
    name = choice.definition.split()[0]
    if not (SHIPPED / "definitions" / f"{name}.toml").is_file():
        raise UserError(
            f"this model was trained with the definition {choice.definition}, which is not "
            "shipped; name its file with `definition='FILE'`"
        )
    return name


def _write_since(cohort: Path, path: Path, since: datetime | None) -> int:
    """Copy the stays discharged since a time, or without a discharge yet; their number."""
    query = data_text(__file__, "forms/discharges.sql")
    values = {"path": glob.escape(str(cohort)), "since": since}
    metadata = read_metadata(cohort)
    n_stays = 0
    with duckdb.connect() as con:
        batches = con.sql(query, params=values).to_arrow_reader(1024)
        schema = batches.schema.with_metadata(metadata)
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch.replace_schema_metadata(metadata))
                n_stays += batch.num_rows
    return n_stays
