"""The tables of a source: our column names, and the source's names for them."""

from __future__ import annotations

import difflib
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from clinical.cohort.definition import Text, read_text
from domainbert.errors import UserError
from domainbert.settings import Settings
from domainbert.training.recipes import read_recipe

SCHEMAS = ("mimic3", "mimic4", "generic")


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


def _upper_names(value: Any) -> tuple[str, ...]:
    return tuple(name.strip().upper() for name in _names(value))


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
UpperNames = Annotated[tuple[str, ...], BeforeValidator(_upper_names)]


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

    def ambiguous_formats(self) -> tuple[str, str] | None:
        """Two of its formats that read one text as two different times, if there are any."""
        import duckdb

        query = (
            "SELECT try_strptime(strftime(moment, $one), $other) <> "
            "try_strptime(strftime(moment, $one), $one) "
            "FROM (SELECT TIMESTAMP '2019-03-04 05:06:07' AS moment)"
        )
        for first, second in combinations(self.time_format, 2):
            for one, other in ((first, second), (second, first)):
                if duckdb.execute(query, {"one": one, "other": other}).fetchall()[0][0]:
                    return first, second
        return None


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
        summaries not for one at discharge.
        """

        def is_usable(table: Notes) -> bool:
            if table.category_value is None:  # its rows tell
                return True
            is_summary = table.category_value.strip().upper() in self.summary_categories
            return is_summary == (prediction == "discharge")

        return [table for table in self.notes if is_usable(table)]


def load_schema(schema: str, *, mapping: str | Path | None = None) -> Schema:
    """The shipped schema of that name, or the user's mapping for "generic".

    Raises:
        UserError: an unknown schema, a mapping with a missing or unknown key, a mapping with a
            shipped schema, or none with "generic".
    """
    check_choice("schema", schema, SCHEMAS)
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


def check_choice(what: str, value: str, known: tuple[str, ...]) -> None:
    """Raise `UserError` with the nearest known value if a value is not one of them."""
    if value not in known:
        near = difflib.get_close_matches(value.lower(), known, n=1)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        msg = f"unknown {what} {value!r}{guess}; expected one of {known}"
        raise UserError(msg)
