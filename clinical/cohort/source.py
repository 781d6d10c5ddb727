"""Match the tables of a source to a schema, and read each of them once into DuckDB."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from clinical.cohort.definition import (
    SCHEMAS,
    Schema,
    TableMap,
    load_definition,
    load_schema,
)
from clinical.cohort.views import tables_of
from clinical.stays.stays import note_time
from domainbert.errors import UserError
from domainbert.files import data_text
from domainbert.tables import TableError, require_columns
from domainbert.tables.sources import Source, identifier, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clinical.cohort.conventions import (
        Columns,
    )

    Row = Mapping[str, str | None]

_log = logging.getLogger(__name__)
REASONS = {
    "marked_error": "entered in error",
    "not_current": "not current",
    "not_final": "not final or cancelled",
    "replaced": "replaced by another",
    "replaced_by_its_own": "replaced by a newer one that it replaces",
    "older_version": "of an older version",
    "copy": "copied from another",
}
"""Why a document is not read, by the status in `sql/documents.sql`."""
_DOCUMENT = (
    "source", "id", "stay", "text", "state", "doc_state", "names", "replaces", "codes", "studies",
    "version", "written", "words",
)  # fmt: skip


ROLES = ("admissions", "patients", "deaths", "follow_up", "diagnoses")
"""The tables that are read whole, beside the notes."""
_shipped_schema = cache(load_schema)


def step(name: str) -> str:
    """The text of `sql/NAME.sql`."""
    return data_text(__file__, f"sql/{name}.sql")


@dataclass(frozen=True)
class MatchedTable:
    """A table of the source; `chosen` maps our columns that it has to its names for them.

    `where` is that of the table, with the names as the source spells them.
    """

    table: TableMap
    chosen: dict[str, str]
    where: dict[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        """The table's name in the source."""
        return self.table.table

    def query(self, source: Source, schema: Schema, *, numbered: bool) -> str:
        """A SELECT of `row` (from 1), our columns as text, NULL where there is none, and `other`.

        Row numbers follow the order of the file; without them DuckDB reads it with all cores.
        `other` names the conditions of `where` that a row does not meet, NULL if it meets all.
        """
        columns = [
            f"{self._column(ours, schema)} AS {ours}"
            for ours in self.table.columns
        ]
        scan = source.scan(
            self.name,
            list(dict.fromkeys([*self.chosen.values(), *self.where])),
        )
        row = "row_number() OVER ()" if numbered else "NULL::BIGINT"
        conditions = ["NULL"]
        for name, values in self.where.items():
            allowed = ", ".join(map(quoted, values))
            value = f"CAST({identifier(name)} AS VARCHAR)"
            conditions.append(f"unlike({quoted(name)}, {value}, [{allowed}])")
        reasons = ", ".join(conditions)
        other = f"nullif(concat_ws(', ', {reasons}), '') AS other"
        return (
            f"SELECT {row} AS row, {', '.join(columns)}, {other} FROM {scan}"  # noqa: S608
        )

    def _column(self, ours: str, schema: Schema) -> str:
        """The SQL expression for one of our columns, as text; NULL if the table lacks it."""
        if ours not in self.chosen:
            if ours == "category":
                # A table of notes that does not name its categories holds discharge summaries.
                value = getattr(self.table, "category_value", None)
                return quoted(value or schema.summary_categories[0])
            system = getattr(self.table, "system_value", None)
            if ours == "system" and system:
                return quoted(system)
            return "NULL::VARCHAR"
        column = f"CAST({identifier(self.chosen[ours])} AS VARCHAR)"
        is_time = ours.endswith(("_time", "_date"))
        formats = self.table.time_format if is_time else ()
        as_iso = []
        for time_format in formats:
            text = f"iso_text({column}, {quoted(time_format)})"
            if ours == "birth_date" and "%y" in time_format:
                text = f"({text} || '~')"  # a year of two digits may be of two centuries
            as_iso.append(text)
        if is_time:
            column = f"extended_iso({column})"
        return f"coalesce({', '.join([*as_iso, column])})"


@dataclass(frozen=True)
class Tables:
    """The tables that a source has, and the names of tables of notes that it lacks."""

    admissions: MatchedTable
    patients: MatchedTable | None
    deaths: MatchedTable | None
    follow_up: MatchedTable | None
    diagnoses: MatchedTable | None
    notes: list[MatchedTable]
    absent: list[str]

    @property
    def columns(self) -> set[str]:
        """Our columns of admissions, patients and deaths that the source has."""
        tables = filter(None, (self.admissions, self.patients, self.deaths))
        return set(chain.from_iterable(table.chosen for table in tables))

    @property
    def columns_by_role(self) -> dict[str, Columns]:
        """The name and the columns of each table of admissions, patients and deaths."""
        return {
            role: (table.name, table.chosen)
            for role in ("admissions", "patients", "deaths")
            if (table := getattr(self, role))
        }


def find_tables(
    source: Source, schema: Schema, *, notes: str, codes: bool = False
) -> Tables:
    """Find the tables of an open source, and the notes for an "early" or "discharge" prediction.

    With `codes`, the table of diagnosis codes too.

    Raises:
        TableError: a table or column that is not optional is missing.
        UserError: an early prediction from notes without a category or a time.
    """
    admissions = _find(source, schema.admissions, schema)
    patients, deaths, follow_up = (
        _find_optional(source, table, schema)
        for table in (schema.patients, schema.deaths, schema.follow_up)
    )
    mapped = schema.notes_for(notes)
    matches = (_find_optional(source, table, schema) for table in mapped)
    note_tables = list(filter(None, matches))
    names = [table.name for table in note_tables]
    absent = [table.table for table in mapped if table.table not in names]
    if notes == "early":
        for note_table in note_tables:
            _check_early(note_table, schema)
    diagnoses = None
    if codes:
        diagnoses = _find_optional(source, schema.diagnoses, schema)
        if diagnoses is None:
            expected = "none"
            if schema.diagnoses:
                expected = schema.diagnoses.table
            raise TableError(
                f"{source.name} has no table of diagnosis codes (expected: {expected}); the "
                "outcome needs one: of your own tables, describe it in [diagnoses] of the mapping"
            )
    return Tables(
        admissions, patients, deaths, follow_up, diagnoses, note_tables, absent
    )


def detect_schema(source: Source) -> Schema:
    """The shipped schema that knows most columns of an open source.

    Raises:
        TableError: the source has the table of admissions of none of them.
    """
    n_columns: Counter[str] = Counter()
    for name in SCHEMAS[:-1]:
        schema = _shipped_schema(name)
        views = tables_of(source, schema)
        if views.columns(schema.admissions.table) is None:
            continue
        for table in (schema.admissions, schema.patients, *schema.notes):
            if table:
                columns = views.columns(table.table) or ()
                spelled = set(map(str.lower, columns))
                theirs = map(str.lower, chain(*table.columns.values()))
                n_columns[name] += len(spelled.intersection(theirs))
    if not n_columns:
        raise TableError(
            f"{source.name} has the tables of none of {', '.join(SCHEMAS[:-1])}. Found there: "
            f"{', '.join(source.tables()) or 'nothing'} (of a folder: .csv, .tsv and .parquet "
            "files). Describe your own tables: clinical cohort ... --mapping columns.toml"
        )
    ((name, _),) = n_columns.most_common(1)
    return _shipped_schema(name)


def _find_optional(
    source: Source,
    table: TableMap | None,
    schema: Schema,
) -> MatchedTable | None:
    if table is None:
        return None
    if table.may_be_absent and source.columns(table.table) is None:
        return None
    return _find(source, table, schema)


def _find(source: Source, table: TableMap, schema: Schema) -> MatchedTable:
    """Match our columns with those of one table of the source."""
    available = source.columns(table.table)
    if available is None:
        raise TableError(
            f"{source.name} has no table {table.table}. Found there: "
            f"{', '.join(source.tables()) or 'nothing'} (of a folder: .csv, .tsv and .parquet "
            "files)"
        )
    named = f"{table.table} in {source.name}"
    spelled = {name.lower(): name for name in reversed(available)}
    chosen = {}
    for ours, theirs in table.columns.items():
        names = map(str.lower, theirs)
        matches = [spelled[name] for name in names if name in spelled]
        if matches:
            chosen[ours] = matches[0]
        elif ours == "line" and ours not in table.model_fields_set:
            continue
        elif theirs and ours not in table.optional:
            entry = ""
            if schema.name == "generic":  # in the user's mapping
                entry = f"{ours} = {{theirs}}"
            require_columns(
                available, theirs[:1], source=named, argument=entry
            )
    where = {name.lower(): values for name, values in table.where.items()}
    require_columns(spelled, where, source=named)
    return MatchedTable(
        table, chosen, {spelled[name]: where[name] for name in where}
    )


def _check_early(table: MatchedTable, schema: Schema) -> None:
    """Raise if a discharge summary or a late note could get into an early prediction."""
    rule = "early prediction must never see a discharge summary"
    value = getattr(table.table, "category_value", None)
    if "category" not in table.chosen and not value:
        why = f"{rule}, and {table.name} does not say what kind of note each row is"
        raise UserError(f'{why}; add to [notes]: category = "its column"')
    if not schema.discharge_categories:
        fix = 'discharge_categories = ["Discharge summary"]'
        raise UserError(
            f"{rule}; say at the top of the mapping what your notes call one: {fix}"
        )
    if not {"chart_time", "chart_date"} & set(table.chosen):
        fix = f'add to [notes] for {table.name}: chart_time = "its column"'
        raise UserError(f"early prediction needs the time of each note; {fix}")


def no_risk(encounter: Row) -> tuple[str, str]:
    """Why a FHIR encounter has no risk, and a remark if its class is no admission's, or "".

    Args:
        encounter: a row of `read_resource`, or an empty one.
    """
    schema = _shipped_schema("fhir")
    died = load_definition().index.died_locations + schema.died_locations
    status = encounter.get("status")
    reason = ""
    if status in ("cancelled", "entered-in-error"):
        reason = f"the encounter is {status}"
    elif (encounter.get("discharge_location") or "").upper() in died:
        reason = "the patient died"
    elif (encounter.get("admission_type") or "").upper() == "NEWBORN":
        reason = "the patient is a newborn"
    encounter_class = encounter.get("class")
    classes = schema.admissions.where["class"]
    if not encounter_class or encounter_class.upper() in classes:
        return reason, ""
    return reason, f"of an encounter of class {encounter_class}, no admission"


def left_out(documents: Sequence[Row]) -> dict[int, str]:
    """Why documents of one stay are not read, by their position; see `REASONS`.

    Args:
        documents: rows of `read_resource`, with the type of resource as `source`.
    """
    import duckdb
    import pyarrow as pa

    rows: list[dict[str, object]] = []
    for position, row in enumerate(documents):
        written = note_time(row["chart_time"])
        rows.append(
            {**row, "document": position, "stay": "", "written": written}
        )
    columns = {
        **dict.fromkeys(_DOCUMENT, "string"),
        "document": "int64",
        "written": pa.timestamp("us", "UTC"),
    }
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute(step("versions"))
        table = pa.Table.from_pylist(rows, pa.schema(columns))
        con.register("documents", table)
        return dict(con.execute(step("documents")).fetchall())
