"""A folder of FHIR resources as tables, each file read once for a type of resource."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from clinical.cohort.fhir.files import find_files, read_resources
from clinical.cohort.fhir.resources import (
    COLUMNS,
    NOTES,
    Codes,
    read_resource,
)
from domainbert.files import data_text
from domainbert.tables.sources import Source, identifier, select_text

if TYPE_CHECKING:
    from domainbert.tables.options import Flaws

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
        self.flaws = source.flaws
        self._source = source
        self._codes = codes
        self._admissions = admissions
        self._cell = cell
        self._files: dict[str, list[Path]] = {}
        self._loaded: set[str] = set()

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
        derived = "stay_id" if name in NOTES else "older_version"
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
        elif name == "Binary":  # the first one with an id counts
            run(_step("binaries"))

    def _read(self, name: str) -> str:
        """A SELECT of the resources of a type, for one scan."""
        columns = [
            f"{self._cell(name, column)} AS {identifier(column)}"
            if column in _CELLS
            else identifier(column)
            for column in COLUMNS[name]
        ]
        read = partial(_batches, self._paths(name), name, self._codes)
        stream = self.stream(name, COLUMNS[name], read)
        return f"SELECT {', '.join(columns)} FROM {stream}"  # noqa: S608

    def _paths(self, name: str) -> list[Path]:
        if name not in self._files:
            self._files[name] = find_files(Path(self.name), name)
        return self._files[name]


def _batches(
    paths: Sequence[Path],
    name: str,
    codes: Codes,
    flaws: Flaws,
) -> Iterator[pa.RecordBatch]:
    """The resources of a type as rows, for one pass; lines that are not whole go to `flaws`."""
    schema = pa.schema(dict.fromkeys(COLUMNS[name], "string"))
    rows = (
        read_resource(resource, codes)
        for resource in read_resources(paths, name, flaws)
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
