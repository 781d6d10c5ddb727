"""The tables of a source: our column names, and the source's names for them."""

from __future__ import annotations

import difflib
from importlib import resources
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from clinical.cohort.definition import Text, read_text
from domainbert.errors import UserError
from domainbert.settings import Settings
from domainbert.training.recipes import read_recipe

SCHEMAS = ("mimic3", "mimic4", "generic")
TIMES = frozenset({
    "admit_time", "discharge_time", "death_time", "birth_date", "death_date", "chart_time",
    "chart_date",
})  # fmt: skip


def _names(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    is_list = isinstance(names, list | tuple) and len(names) > 0
    if is_list and all(isinstance(name, str) and name.strip() for name in names):
        return tuple(names)
    raise PydanticCustomError("names", "text or a list of text")


def _formats(formats: tuple[str, ...]) -> tuple[str, ...]:
    import duckdb

    for time_format in formats:
        try:
            duckdb.execute("SELECT try_strptime('', $format)", {"format": time_format})
        except duckdb.Error:
            raise PydanticCustomError("format", 'codes such as "%d.%m.%Y %H:%M"') from None
    return formats


def _tables(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,)


def _upper_names(value: Any) -> Any:
    return tuple(name.strip().upper() for name in _names(value))


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]


class TableMap(Settings):
    """One table of the source; each of our columns has the names that it may have there.

    Attributes:
        table: name of the table, or of its file without the ending.
        may_be_absent: the table itself may be missing.
        optional: our columns that the table may lack.
        time_format: strptime formats of its times, tried in order before ISO 8601.
    """

    role: ClassVar[str]
    table: Text
    may_be_absent: bool = False
    optional: Names = ()
    time_format: Annotated[Names, AfterValidator(_formats)] = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """Our columns of this kind of table, in order."""
        return tuple(name for name in cls.model_fields if name not in _NO_COLUMNS)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Our columns that are mapped -> the source's names, the first that is there being used."""
        return {name: getattr(self, name) for name in self.known() if getattr(self, name)}

    def ambiguous_formats(self) -> tuple[str, str] | None:
        """Two of its formats that read one text as two different times, if there are any."""
        import duckdb

        query = (
            "SELECT try_strptime(strftime(TIMESTAMP '2019-03-04 05:06:07', $one), $other) "
            "<> try_strptime(strftime(TIMESTAMP '2019-03-04 05:06:07', $one), $one)"
        )
        for one, other in permutations(self.time_format, 2):
            if duckdb.execute(query, {"one": one, "other": other}).fetchall()[0][0]:
                first, second = sorted((one, other), key=self.time_format.index)
                return first, second
        return None


class Admissions(TableMap):
    """The table of stays."""

    role = "admissions"
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

    role = "patients"
    patient_id: Names
    sex: Names = ()
    birth_date: Names = ()
    death_date: Names = ()
    anchor_age: Names = ()
    anchor_year: Names = ()


class Notes(TableMap):
    """A table of notes.

    Attributes:
        category_value: the category of every note of the table, if it has no such column.
    """

    role = "notes"
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


_NO_COLUMNS = {*TableMap.model_fields, "category_value"}


class Schema(Settings):
    """The tables of one kind of hospital database.

    Attributes:
        admissions: the table of stays.
        patients: the table of patients, or None.
        notes: the tables of notes, perhaps none.
        discharge_categories: categories of discharge summaries, upper case; empty where a mapping
            does not name them.
        addendum_kinds: kinds of notes that are addenda, upper case.
        name: "mimic3", "mimic4" or "generic".
    """

    admissions: Admissions
    patients: Patients | None = None
    notes: Annotated[tuple[Notes, ...], BeforeValidator(_tables)] = ()
    discharge_categories: Annotated[tuple[str, ...], BeforeValidator(_upper_names)] = ()
    addendum_kinds: Annotated[tuple[str, ...], BeforeValidator(_upper_names)] = ("ADDENDUM",)
    name: str = "generic"

    @property
    def summary_categories(self) -> tuple[str, ...]:
        """Categories of discharge summaries, upper case, with a default."""
        return self.discharge_categories or ("DISCHARGE SUMMARY",)

    def notes_for(self, prediction: str) -> list[Notes]:
        """The tables of notes that an early prediction, or one at discharge, can use.

        A table of discharge summaries only is not opened for an early prediction.
        """
        unusable = prediction == "early"
        return [table for table in self.notes if self._is_summary(table) is not unusable]

    def _is_summary(self, table: Notes) -> bool | None:
        """Whether a table holds only summaries or no summaries; None if its rows must tell."""
        if table.category_value is None:
            return None
        return table.category_value.strip().upper() in self.summary_categories


def load_schema(schema: str, *, mapping: str | Path | None = None) -> Schema:
    """The shipped schema of that name, or the user's mapping for "generic".

    Raises:
        UserError: an unknown schema, a mapping with a missing or unknown key, a mapping with a
            shipped schema, or none with "generic".
    """
    if schema not in SCHEMAS:
        msg = f"unknown schema {schema!r}{nearest(schema, SCHEMAS)}; expected one of {SCHEMAS}"
        raise UserError(msg)
    if (schema == "generic") != (mapping is not None):
        msg = (
            "schema='generic' needs the names of your columns: "
            "build_cohort(source, schema='generic', mapping='columns.toml')"
            if mapping is None
            else f"mapping belongs to schema='generic', not to {schema!r}"
        )
        raise UserError(msg)
    shipped = Path(str(resources.files("clinical.cohort"))) / "schemas" / f"{schema}.toml"
    path = shipped if mapping is None else Path(mapping)
    read_text(path)
    return read_recipe(Schema, path, {"name": schema})


def nearest(name: str, known: tuple[str, ...]) -> str:
    """`; did you mean 'x'?`, or nothing where no known name is close."""
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
