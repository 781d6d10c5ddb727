"""What a cohort is built from: the definition of a readmission, and the tables of a source.

Both are commented TOML files, checked key by key.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from domainbert.errors import UserError, check_choice
from domainbert.settings import Positive, Settings
from domainbert.training.recipes import read_recipe

if TYPE_CHECKING:
    from datetime import datetime

    from domainbert.tables import ReadOptions

SCHEMAS = ("mimic3", "mimic4", "generic")
SHIPPED = Path(__file__).parent


def _upper(value: Any) -> Any:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(item.strip().upper() for item in value)
    raise PydanticCustomError("list_of_text", "a list of text")


def _names(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    is_list = isinstance(names, list | tuple) and len(names) > 0
    if is_list and all(isinstance(name, str) and name.strip() for name in names):
        return tuple(names)
    raise PydanticCustomError("names", "text or a list of text")


def _formats(formats: tuple[str, ...]) -> tuple[str, ...]:
    import duckdb

    try:
        for time_format in formats:
            duckdb.execute("SELECT try_strptime('', $format)", {"format": time_format})
    except duckdb.Error:
        raise PydanticCustomError("format", 'codes such as "%d.%m.%Y %H:%M"') from None
    return formats


def _tables(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,)


Text = Annotated[str, Field(min_length=1)]
UpperTexts = Annotated[tuple[str, ...], BeforeValidator(_upper)]
NotNegative = Annotated[float, Field(ge=0)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
UpperNames = Annotated[tuple[str, ...], BeforeValidator(lambda value: _upper(_names(value)))]


class Episode(Settings):
    """Which stays are one episode of care."""

    transfer_gap_hours: NotNegative


class Index(Settings):
    """Which episodes are followed up; ages are in whole years."""

    newborn_types: UpperTexts
    died_locations: UpperTexts
    minimum_age: NotNegative | None = None
    maximum_age: NotNegative | None = None


class Readmission(Settings):
    """What counts as a readmission."""

    horizon_days: Positive
    planned_types: UpperTexts
    death_after_discharge: Literal["keep", "exclude"]


class Definition(Settings):
    """A readmission definition; `definitions/readmission-30d.toml` explains every key.

    `text` is the TOML text itself.
    """

    name: Text
    version: Text
    episode: Episode
    index: Index
    readmission: Readmission
    text: str = Field(default="", repr=False)

    @property
    def sha256(self) -> str:
        """SHA-256 of the text, in hex: the same hash is the same definition."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class TableMap(Settings):
    """One table of the source; each of our columns has the names that it may have there.

    Attributes:
        table: name of the table, or of its file without the ending.
        may_be_absent: the table itself may be missing.
        optional: our columns that the table may lack.
        time_format: strptime formats of its times, tried in order before ISO 8601.
    """

    table: Text
    may_be_absent: bool = False
    optional: Names = ()
    time_format: Annotated[Names, AfterValidator(_formats)] = ()

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Our columns in order -> the source's names, of which the first one found is used."""
        settings = {*TableMap.model_fields, "category_value"}
        return {name: names for name, names in self if name not in settings}


class Admissions(TableMap):
    """The table of stays."""

    patient_id: Names
    stay_id: Names
    admit_time: Names
    discharge_time: Names
    death_time: Names = ()
    died: Names = ()
    admission_type: Names = ()
    discharge_location: Names = ()
    sex: Names = ()
    age: Names = ()
    birth_date: Names = ()
    death_date: Names = ()
    ethnicity: Names = ()
    insurance: Names = ()


class Patients(TableMap):
    """The table of patients."""

    patient_id: Names
    sex: Names = ()
    birth_date: Names = ()
    death_date: Names = ()
    anchor_age: Names = ()
    anchor_year: Names = ()


class Notes(TableMap):
    """A table of notes; `category_value` is the category of all of them, without such a column."""

    note_id: Names = ()
    patient_id: Names = ()
    stay_id: Names
    category: Names = ()
    kind: Names = ()
    chart_time: Names = ()
    chart_date: Names = ()
    error: Names = ()
    text: Names
    category_value: Text | None = None


class Schema(Settings):
    """The tables of one kind of hospital database.

    Attributes:
        admissions: the table of stays.
        patients: the table of patients, or None.
        notes: the tables of notes, perhaps none.
        discharge_categories: categories of discharge summaries, upper case; may be empty.
        addendum_kinds: kinds of notes that are addenda, upper case.
        name: "mimic3", "mimic4" or "generic".
    """

    admissions: Admissions
    patients: Patients | None = None
    notes: Annotated[tuple[Notes, ...], BeforeValidator(_tables)] = ()
    discharge_categories: UpperNames = ()
    addendum_kinds: UpperNames = ("ADDENDUM",)
    name: str = "generic"

    @property
    def summary_categories(self) -> tuple[str, ...]:
        """Categories of discharge summaries, upper case, with a default."""
        return self.discharge_categories or ("DISCHARGE SUMMARY",)

    def notes_for(self, prediction: str) -> list[Notes]:
        """The tables of notes that a prediction, "early" or at "discharge", can use.

        A table of nothing but summaries is not opened for an early prediction, and a table without
        summaries not for one at discharge. Without a `category_value` the rows tell.
        """

        def is_usable(table: Notes) -> bool:
            category = (table.category_value or "").strip().upper()
            is_summary = category in self.summary_categories
            return not category or is_summary == (prediction == "discharge")

        return [table for table in self.notes if is_usable(table)]


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
    options: ReadOptions
    split_by: str


def load_definition(path: str | Path | None = None) -> Definition:
    """Read and check a definition; the shipped one without a path.

    Raises:
        UserError: no such file, not TOML, a missing or unknown key, or a wrong value.
    """
    path = SHIPPED / "definitions/readmission-30d.toml" if path is None else Path(path)
    return read_recipe(Definition, path, {"text": _read_text(path)})


def load_schema(schema: str, *, mapping: str | Path | None = None) -> Schema:
    """The shipped schema of that name, or the user's mapping for "generic".

    Raises:
        UserError: an unknown schema, a mapping with a missing or unknown key, a mapping with a
            shipped schema, or none with "generic".
    """
    check_choice("schema", schema, SCHEMAS)
    if schema == "generic" and mapping is None:
        raise UserError(
            "schema='generic' needs the names of your columns: "
            "build_cohort(source, schema='generic', mapping='columns.toml')"
        )
    if schema != "generic" and mapping is not None:
        raise UserError(f"mapping belongs to schema='generic', not to {schema!r}")
    path = SHIPPED / f"schemas/{schema}.toml" if mapping is None else Path(mapping)
    _read_text(path)
    return read_recipe(Schema, path, {"name": schema})


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        kind = type(error).__name__
        raise UserError(f"{path} cannot be read as a TOML file ({kind})") from None
