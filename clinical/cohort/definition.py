"""What a cohort is built from: the definition of a readmission, and the tables of a source.

Both are commented TOML files, checked key by key.
"""

import hashlib
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from clinical.cohort.conventions import known_zone
from clinical.cohort.fhir.schema import FhirTables
from clinical.stays.choice import Days, GapHours, Hours, Minutes, Years
from clinical.stays.pieces import LINE_NAMES
from clinical.stays.stays import MISSING_WORDS
from domainbert.errors import UserError
from domainbert.files import JsonObject
from domainbert.settings import Count, Settings, check_choice
from domainbert.training.recipes import read_recipe

SCHEMAS = ("mimic3", "mimic4", "omop", "meds", "fhir", "generic")
SHIPPED = Path(__file__).parent
GROUPINGS = ("category", "code")
EVENTS = {
    "readmission": "readmitted within {:g} days of discharge",
    "death": "died within {:g} days of discharge",
    "long_stay": "stayed longer than {:g} days",
    "hospital_death": "died in hospital",
    "diagnoses": "coded with a group of diagnoses",
}


def _listed(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _formats(formats: tuple[str, ...]) -> tuple[str, ...]:
    """Formats of time that DuckDB reads; others are refused."""
    import duckdb

    try:
        for time_format in formats:
            duckdb.execute(
                "SELECT try_strptime('', $format)", {"format": time_format}
            )
    except duckdb.Error:
        raise PydanticCustomError(
            "format", 'codes such as "%d.%m.%Y %H:%M"'
        ) from None
    return formats


Text = Annotated[str, Field(min_length=1)]
Upper = Annotated[str, StringConstraints(strip_whitespace=True, to_upper=True)]
Value = Annotated[Upper, BeforeValidator(str)]  # a number or true too
UpperTexts = Annotated[tuple[Upper, ...], Field(strict=False)]
# One or several: a text may stand for a list of it.
Texts = Annotated[
    tuple[Text, ...],
    Field(strict=False, min_length=1),
    BeforeValidator(_listed),
]
UpperNames = Annotated[UpperTexts, BeforeValidator(_listed)]
Values = Annotated[
    tuple[Value, ...], Field(strict=False), BeforeValidator(_listed)
]


class Episode(Settings):
    """Which stays are one episode of care."""

    transfer_gap_hours: GapHours


class Index(Settings):
    """Which episodes are followed up; ages are in whole years."""

    newborn_types: UpperTexts
    observation_types: UpperTexts = ()
    died_locations: UpperTexts
    alive_locations: UpperTexts = Field(
        default_factory=lambda: load_definition().index.alive_locations
    )
    same_day_death: Literal["by_place", "in_hospital", "after_discharge"] = (
        "by_place"
    )
    death_tolerance_minutes: Minutes = 0
    minimum_age: Years | None = None
    maximum_age: Years | None = None


class Readmission(Settings):
    """The outcome is a readmission, and what counts as one."""

    horizon_days: Days
    planned_types: UpperTexts
    death_after_discharge: Literal["keep", "exclude"]


class Death(Settings):
    """The outcome is death less than so many days after discharge."""

    horizon_days: Days


class LongStay(Settings):
    """The outcome is a stay of more days; the notes of its first hours are read."""

    horizon_days: Days
    hours: Hours


class HospitalDeath(Settings):
    """The outcome is a death in hospital; the notes of its first hours are read."""

    hours: Hours


class Diagnoses(Settings):
    """The outcomes are the groups of the diagnosis codes of a stay.

    Attributes:
        groups: "category" for the first three characters of a code (four of ICD-9's external
            causes), "code" for the codes themselves, or a table of `code`, `group` and perhaps
            `name`, beside the definition.
        minimum_stays: stays of the train side that a group needs; others are left out.
        primary_only: only the first code of a stay counts.
        hours: read the notes of the first hours; without it, the discharge summary.
    """

    groups: Text = "category"
    minimum_stays: Count = 20
    primary_only: bool = False
    hours: Hours | None = None


class Definition(Settings):
    """An outcome and its rules; `definitions/readmission-30d.toml` explains every key.

    One of the tables of `EVENTS` is there. `text` is the TOML text itself.
    """

    name: Text
    version: Text
    episode: Episode
    index: Index
    readmission: Readmission | None = None
    death: Death | None = None
    long_stay: LongStay | None = None
    hospital_death: HospitalDeath | None = None
    diagnoses: Diagnoses | None = None
    text: str = Field(default="", repr=False)

    @model_validator(mode="after")
    def _one_outcome(self) -> Self:
        if sum(getattr(self, name) is not None for name in EVENTS) != 1:
            raise ValueError(f"expected one table of {', '.join(EVENTS)}")
        return self

    @property
    def outcome(self) -> str:
        """The name of the table of the outcome."""
        return next(name for name in EVENTS if getattr(self, name))

    @property
    def horizon_days(self) -> float:
        """Days after discharge, or of a long stay; 0 for an outcome of the stay itself."""
        return float(dict(getattr(self, self.outcome)).get("horizon_days", 0))

    @property
    def hours(self) -> float | None:
        """The first hours whose notes are read, if the outcome says so."""
        return dict(getattr(self, self.outcome)).get("hours")

    @property
    def event(self) -> str:
        """What happened to a stay with the outcome, such as "readmitted within 30 days"."""
        return EVENTS[self.outcome].format(self.horizon_days)

    @property
    def label(self) -> str:
        """Name and version, with the rules that differ from the shipped definition of that name."""
        title = f"{self.name} {self.version}"
        path = SHIPPED / f"definitions/{self.name}.toml"
        if not path.is_file():
            return title
        shipped = load_definition(self.name)
        rules = self.rules()
        usual = shipped.rules()
        names = dict.fromkeys([*rules, *usual])
        changed = [
            name for name in names if rules.get(name) != usual.get(name)
        ]
        return f"{title}, changed: {', '.join(changed)}" if changed else title

    def rules(self) -> JsonObject:
        """The outcome and every rule, by name, as JSON."""
        outcome = getattr(self, self.outcome)
        tables = [
            table.model_dump(mode="json")
            for table in (self.episode, self.index, outcome)
        ]
        return dict(
            chain(*(table.items() for table in tables)), outcome=self.outcome
        )

    @property
    def sha256(self) -> str:
        """SHA-256 of the text, in hex: the same hash is the same definition."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class TableMap(Settings):
    """One table of the source; each of our columns has the names that it may have there.

    Attributes:
        table: name of the table, or of its file without the ending.
        may_be_absent: the table itself may be missing.
        where: columns of the source and the values, in any case, of the rows that are read.
        optional: our columns that the table may lack.
        time_format: strptime formats of its times, tried in order before ISO 8601.
    """

    table: Text
    may_be_absent: bool = False
    where: dict[str, Values] = Field(default={})
    optional: Texts = ()
    time_format: Annotated[Texts, AfterValidator(_formats)] = ()

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Our columns in order -> the source's names, of which the first one found is used."""
        settings = {
            *TableMap.model_fields,
            *("category_value", "system_value", "trusted"),
        }
        return {name: names for name, names in self if name not in settings}


class Admissions(TableMap):
    """The table of stays."""

    patient_id: Texts
    stay_id: Texts
    admit_time: Texts
    discharge_time: Texts
    death_time: Texts = ()
    died: Texts = ()
    admission_type: Texts = ()
    discharge_location: Texts = ()
    sex: Texts = ()
    age: Texts = ()
    birth_date: Texts = ()
    death_date: Texts = ()
    ethnicity: Texts = ()
    insurance: Texts = ()


class Patients(TableMap):
    """The table of patients; `replaced_by` and `replaces` are their other ids, one a line.

    `birth_is_guessed` is filled where the day of birth is unknown.
    """

    patient_id: Texts
    sex: Texts = ()
    birth_date: Texts = ()
    birth_is_guessed: Texts = ()
    death_date: Texts = ()
    hospital_death_date: Texts = ()
    registered_death_date: Texts = ()
    anchor_age: Texts = ()
    anchor_year: Texts = ()
    ethnicity: Texts = ()
    split: Texts = ()
    replaced_by: Texts = ()
    replaces: Texts = ()


class Deaths(TableMap):
    """A table of deaths, of which a patient may have several."""

    patient_id: Texts
    death_date: Texts


class DiagnosisCodes(TableMap):
    """A table of the codes of stays; `system_value` is the system of all of them."""

    stay_id: Texts
    code: Texts
    system: Texts = ()
    rank: Texts = ()
    system_value: Upper | None = None


class FollowUp(TableMap):
    """The table of periods in which patients were followed, whole days with both ends.

    Periods that end with the last visits of the patients are `trusted` to be follow-up on request.
    """

    patient_id: Texts
    start_date: Texts = ()
    end_date: Texts
    trusted: bool = False


class Notes(TableMap):
    """A table of notes; `category_value` is the category of all of them, without such a column.

    Rows with one `note_id` and a `line` are the pieces of one note.
    From `state` to `remark` are what `sql/documents.sql` needs to tell which are current.
    """

    note_id: Texts = ()
    line: Texts = LINE_NAMES
    patient_id: Texts = ()
    stay_id: Texts
    category: Texts = ()
    kind: Texts = ()
    chart_time: Texts = ()
    chart_date: Texts = ()
    error: Texts = ()
    fault: Texts = ()
    state: Texts = ()
    doc_state: Texts = ()
    names: Texts = ()
    replaces: Texts = ()
    codes: Texts = ()
    studies: Texts = ()
    version: Texts = ()
    words: Texts = ()
    remark: Texts = ()
    text: Texts
    category_value: Upper | None = None


class Shards(Settings):
    """A table of several Parquet files of a folder.

    Attributes:
        glob: patterns of their paths in the folder.
        columns: the columns that each file must have.
        as_is: columns in which nothing stands for an empty cell, so that they filter rows early.
    """

    glob: Texts
    columns: Texts = ()
    as_is: Texts = ()


class View(Settings):
    """A table that is made from others of the source.

    Attributes:
        reads: tables of the source and the columns, in lower case, that `sql` reads of them.
        needs: columns of the view and the table without which it lacks them.
        values: words of the source by a name for them.
        sql: a SELECT, with `{TABLE}` for each table of `reads`, and `{NAME}` for each of `values`.
    """

    reads: dict[str, Texts]
    needs: dict[str, Text] = Field(default={})
    values: dict[str, Text] = Field(default={})
    sql: Text


class Schema(FhirTables):
    """The tables of one kind of hospital database.

    Attributes:
        admissions: the table of stays.
        patients: the table of patients, or None.
        deaths: the table of deaths, or None.
        follow_up: the table of observation periods, or None.
        diagnoses: the table of diagnosis codes, or None.
        notes: the tables of notes, perhaps none.
        discharge_categories: categories of discharge summaries, upper case; may be empty.
        addendum_kinds: kinds of notes that are addenda, upper case.
        died_locations: places of discharge that mean death in this source, upper case.
        alive_locations: places of discharge that mean survival in this source, upper case.
        files: tables of several files, by name.
        views: tables that are made from others, by name.
        caveats: what a reader of every such cohort should know.
        shifted_dates: the dates of each patient are shifted by an amount of their own.
        missing: words in any case that stand for an empty cell.
        zone: the time zone of times without an offset from UTC, such as "Europe/Berlin".
        exact_ids: ids are compared as they are written, upper and lower case too.
        name: one of `SCHEMAS`.
    """

    admissions: Admissions
    patients: Patients | None = None
    deaths: Deaths | None = None
    follow_up: FollowUp | None = None
    diagnoses: DiagnosisCodes | None = None
    notes: Annotated[
        tuple[Notes, ...], Field(strict=False), BeforeValidator(_listed)
    ] = ()
    discharge_categories: UpperNames = ()
    addendum_kinds: UpperNames = ("ADDENDUM",)
    died_locations: Values = ()
    alive_locations: Values = ()
    files: dict[str, Shards] = Field(default={})
    views: dict[str, View] = Field(default={})
    caveats: Texts = ()
    shifted_dates: bool = False
    missing: UpperTexts = MISSING_WORDS
    zone: Annotated[str | None, AfterValidator(known_zone)] = None
    exact_ids: bool = False
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
        at_discharge = prediction == "discharge"
        return [
            table
            for table in self.notes
            if not table.category_value
            or (table.category_value in self.summary_categories)
            == at_discharge
        ]


def load_definition(path: str | Path | None = None) -> Definition:
    """Read and check a definition, by path or by the name of a shipped one.

    Raises:
        UserError: no such file, not TOML, a missing or unknown key, or a wrong value.
    """
    shipped = SHIPPED / f"definitions/{path or 'readmission-30d'}.toml"
    path = shipped if shipped.is_file() else Path(str(path))
    definition = read_recipe(Definition, path, {"text": _read_text(path)})
    codes = definition.diagnoses
    if codes and codes.groups not in GROUPINGS:
        codes = codes.replaced(groups=str(path.parent / codes.groups))
        definition = definition.model_copy(update={"diagnoses": codes})
    return definition


def load_schema(
    schema: str | None, *, mapping: str | Path | None = None
) -> Schema:
    """The shipped schema of that name, or the user's mapping for "generic" or None.

    Raises:
        UserError: an unknown schema, a mapping with a missing or unknown key, a mapping with a
            shipped schema, or none with "generic".
    """
    schema = schema or "generic"
    check_choice("schema", schema, SCHEMAS)
    if schema == "generic" and mapping is None:
        raise UserError(
            "schema='generic' needs the names of your columns: "
            "build_cohort(source, schema='generic', mapping='columns.toml')"
        )
    if schema != "generic" and mapping is not None:
        raise UserError(
            f"mapping belongs to schema='generic', not to {schema!r}"
        )
    path = Path(mapping or SHIPPED / f"schemas/{schema}.toml")
    _read_text(path)  # `read_recipe` would call a missing mapping a recipe
    return read_recipe(Schema, path, {"name": schema})


def _read_text(path: Path) -> str:
    """The text of a TOML file that the user named."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        names = sorted(file.stem for file in SHIPPED.glob("definitions/*"))
        raise UserError(
            f"{path} cannot be read as a TOML file ({type(error).__name__}). Expected a path, or "
            f"the name of a shipped definition: {', '.join(names)}"
        ) from None
