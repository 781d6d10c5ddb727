"""A folder of FHIR resources as tables, each file read once for a type of resource."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from clinical.cohort.fhir.files import (
    find_files,
    read_deletions,
    read_resources,
)
from clinical.cohort.fhir.resources import COLUMNS, read_resource
from clinical.cohort.fhir.schema import NOTES, Codes
from domainbert.errors import UserError
from domainbert.files import data_text
from domainbert.tables.sources import (
    Source,
    identifier,
    quoted,
    select_text,
)

if TYPE_CHECKING:
    from domainbert.tables.options import FileFaults

_BATCH_ROWS = 500  # notes among them
# Columns with words of people, in which a word may stand for an empty cell.
_CELLS = frozenset(
    (
        "class", "status", "admit_time", "discharge_time", "admission_type", "discharge_location",
        "sex", "birth_date", "death_date", "category", "kind", "chart_time", "text",
    )
)  # fmt: skip
_TYPES = {name.lower(): name for name in COLUMNS}


class FhirSource(Source):
    """Tables named as types of resources: Encounter, Patient, and the three of `NOTES`.

    Args:
        source: the folder.
        codes: what the codes of the hospital mean.
        admissions: columns of Encounter and their values, in upper case, in an admission.
        cell: the SQL of a cell of a table and column as it is read.
    """

    def __init__(
        self,
        source: Source,
        codes: Codes,
        admissions: Mapping[str, Sequence[str]],
        cell: Callable[[str, str], str],
    ) -> None:
        super().__init__(source.name, source._con)
        self.errors = source.errors
        self.file_faults = source.file_faults
        self.remarks = source.remarks
        self._source = source
        self._codes = codes
        self._admissions = admissions
        self._cell = cell
        self._files: dict[str, list[Path]] = {}
        self._loaded: set[str] = set()
        self._deleted: set[str] | None = None

    def tables(self) -> list[str]:
        """Names of the tables of the folder that are no resources."""
        return self._source.tables()

    def check_unchanged(self) -> None:
        """See `Source`."""
        self._source.check_unchanged()

    def columns(self, table: str) -> list[str] | None:
        """The columns of a type of resource, with those that other resources give."""
        name = _TYPES.get(table.lower())
        if name is None or not self._paths(name):
            return None
        if name == "Condition":
            return ["stay_id", "code", "system"]
        derived = "older_version"
        if name in NOTES:
            derived = "stay_id"
        return [*COLUMNS[name], derived]

    def scan(self, table: str, columns: Sequence[str]) -> str:
        """The resources of a type with what encounters, versions and Binary resources say."""
        name = _TYPES[table.lower()]
        if name in NOTES:
            self._load("Encounter")
            self._load("Binary")
            notes = (
                f"(WITH documents AS ({self._read(name)}) {_step('notes')})"
            )
            return f"({select_text(columns, notes)})"
        if name == "Condition":
            self._load("Encounter")
        self._load(name)
        return f"({select_text(columns, f'({_step(name)})')})"

    def _load(self, name: str) -> None:
        """Read the resources of a type into a table `fhir_NAME`, unless they were read before."""
        if name in self._loaded:
            return
        self._loaded.add(name)
        run = self._con.execute
        run(f"CREATE TABLE fhir_{name} AS {self._read(name)}")
        if name == "Encounter":
            values = {
                "classes": self._admissions["class"],
                "statuses": self._admissions["status"],
            }
            run(_step("stays"), values)
            self._check_levels()
        elif name == "Binary":  # the first one with an id counts
            run(_step("binaries"))

    def _check_levels(self) -> None:
        """Raise if more than a tenth of the admissions lie inside of longer encounters.

        Their discharges are moves to another ward, and their next ones no readmissions.
        """
        classes = self._admissions["class"]
        query = self._con.execute(_step("levels"), {"classes": classes})
        ((n_inside, n_admissions, longer),) = query.fetchall()
        if n_inside * 10 > n_admissions:
            raise UserError(
                f"{n_inside:,} of {n_admissions:,} encounters of the class "
                f"{' or '.join(classes)} are part of longer encounters of the class {longer}, "
                "which are the stays in hospital: add their classes to where of [admissions] in "
                "a copy of clinical/cohort/schemas/fhir.toml, passed as `mapping='FILE'`"
            )

    def _read(self, name: str) -> str:
        """A SELECT of the resources of a type, for one scan."""
        columns = [
            f"{self._cell(name, column)} AS {identifier(column)}"
            if column in _CELLS
            else identifier(column)
            for column in COLUMNS[name]
        ]
        read = partial(_batches, self._paths(name), name, self._codes)
        if name in NOTES:
            read = partial(self._with_one_encounter, read)
        stream = self.stream(name, COLUMNS[name], read)
        rows = f"SELECT {', '.join(columns)} FROM {stream}"  # noqa: S608
        if name not in self._deleted_types():
            return rows
        # A later version was written again. A deletion without a time holds for every version.
        version = "split_part(version, ' ', 1)"
        if "version" not in COLUMNS[name]:
            version = "NULL"
        return (
            f"{rows} ANTI JOIN fhir_deletions ON deleted_id = id "
            f"AND deleted_type = {quoted(name)} "
            f"AND coalesce(try_cast({version} AS TIMESTAMPTZ) <= deleted_at, true)"
        )

    def _deleted_types(self) -> set[str]:
        """The types with resources that were deleted; these are read into a table once."""
        if self._deleted is None:
            file_faults = self.file_faults.setdefault("deletions", [])
            paths = find_files(Path(self.name), "Bundle")
            deletions = list(read_deletions(paths, file_faults))
            self._deleted = {deletion.resource_type for deletion in deletions}
            names = ("deleted_type", "deleted_id", "time")
            columns: Iterable[Sequence[str | None]] = [()] * len(names)
            if deletions:
                columns = zip(*deletions, strict=True)
            arrays = [pa.array(column, pa.string()) for column in columns]
            self._con.register("deletions", pa.table(arrays, names))
            self._con.execute(
                "CREATE TABLE fhir_deletions AS "
                "SELECT *, try_cast(time AS TIMESTAMPTZ) AS deleted_at FROM deletions"
            )
        return self._deleted

    def _with_one_encounter(
        self,
        read: Callable[[FileFaults], Iterator[pa.RecordBatch]],
        file_faults: FileFaults,
    ) -> Iterator[pa.RecordBatch]:
        """Notes with one encounter each; see `encounter_of_note.sql`.

        A query for each batch: a dictionary of all encounters may not fit into memory.
        """
        cursor = self._con.cursor()
        position = COLUMNS["DocumentReference"].index("encounters")
        for batch in read(file_faults):
            lists = batch["encounters"].to_pylist()
            several = [row for row, text in enumerate(lists) if " " in text]
            if several:
                times = batch["chart_time"].take(several).to_pylist()
                values = {
                    "rows": several,
                    "lists": [lists[row] for row in several],
                    "times": times,
                }
                query = _step("encounter_of_note")
                for row, encounter in cursor.execute(query, values).fetchall():
                    lists[row] = encounter
                column = pa.array(lists, pa.string())
                yield batch.set_column(position, "encounters", column)
            else:
                yield batch

    def _paths(self, name: str) -> list[Path]:
        if name not in self._files:
            self._files[name] = find_files(Path(self.name), name)
        return self._files[name]


def _batches(
    paths: Sequence[Path],
    name: str,
    codes: Codes,
    file_faults: FileFaults,
) -> Iterator[pa.RecordBatch]:
    """The resources of a type as rows, for one pass; broken lines go to `file_faults`."""
    schema = pa.schema(dict.fromkeys(COLUMNS[name], "string"))
    rows = (
        read_resource(resource, codes)
        for resource in read_resources(paths, name, file_faults)
    )
    while batch := list(islice(rows, _BATCH_ROWS)):
        # Column by column takes a fifth of the time of `from_pylist`.
        columns = [
            pa.array([row[column] for row in batch], pa.string())
            for column in schema.names
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _step(name: str) -> str:
    """The text of `NAME.sql`."""
    return data_text(__file__, f"{name.lower()}.sql")
