"""Where each hospital keeps its facts: our column names on the left, the source's on the right."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from clinical.cohort.definition import DefinitionError, nearest, parse_toml, read_toml

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS = ("mimic3", "mimic4", "generic")

# Our columns of each table; those in _NEEDED must be mapped.
COLUMNS: dict[str, tuple[str, ...]] = {
    "admissions": (
        "patient_id", "stay_id", "admit_time", "discharge_time", "death_time", "died",
        "admission_type", "discharge_location", "sex", "age", "birth_date", "death_date",
        "ethnicity", "insurance",
    ),
    "patients": ("patient_id", "sex", "birth_date", "death_date", "anchor_age", "anchor_year"),
    "notes": (
        "note_id", "patient_id", "stay_id", "category", "kind", "chart_time", "chart_date",
        "error", "text",
    ),
}  # fmt: skip
_NEEDED = {
    "admissions": ("patient_id", "stay_id", "admit_time", "discharge_time"),
    "patients": ("patient_id",),
    "notes": ("stay_id", "text"),
}
_SETTINGS = ("table", "may_be_absent", "optional", "time_format", "category_value")
TIMES = frozenset({
    "admit_time", "discharge_time", "death_time", "birth_date", "death_date", "chart_time",
    "chart_date",
})  # fmt: skip


@dataclass(frozen=True)
class TableMap:
    """One table of the source.

    Attributes:
        role: "admissions", "patients" or "notes".
        table: name of the table, or of its file without the ending.
        columns: our name -> the source's names, the first that is there being taken.
        optional: our names whose column may be missing from the table.
        may_be_absent: the table itself may be missing.
        time_format: strptime format of its times; None for ISO 8601.
        category_value: the category of every note of this table, where it has no such column.
    """

    role: str
    table: str
    columns: dict[str, tuple[str, ...]]
    optional: frozenset[str] = frozenset()
    may_be_absent: bool = False
    time_format: str | None = None
    category_value: str | None = None


@dataclass(frozen=True)
class Schema:
    """The tables of one kind of hospital database.

    Attributes:
        name: "mimic3", "mimic4" or "generic".
        admissions: the table of stays.
        patients: the table of patients, or None.
        notes: the tables of notes, perhaps none.
        discharge_categories: categories of discharge summaries, upper case.
        addendum_kinds: kinds of notes that are addenda, upper case.
    """

    name: str
    admissions: TableMap
    patients: TableMap | None
    notes: tuple[TableMap, ...]
    discharge_categories: tuple[str, ...]
    addendum_kinds: tuple[str, ...]


def load_schema(schema: str, *, mapping: str | Path | None = None) -> Schema:
    """The shipped schema of that name, or the user's mapping for "generic".

    Raises:
        ValueError: an unknown schema, or a mapping where none belongs or none where one does.
        DefinitionError: a mapping with a missing or unknown key.
    """
    if schema not in SCHEMAS:
        msg = f"unknown schema {schema!r}{nearest(schema, list(SCHEMAS))} Legal: {list(SCHEMAS)}"
        raise ValueError(msg)
    if (schema == "generic") != (mapping is not None):
        msg = (
            "schema='generic' needs the names of your columns: "
            "build_cohort(source, schema='generic', mapping='columns.toml')"
            if mapping is None
            else f"mapping belongs to schema='generic', not to {schema!r}"
        )
        raise ValueError(msg)
    if mapping is not None:
        text, source = read_toml(mapping)
    else:
        source = f"{schema}.toml"
        text = (resources.files("clinical.cohort") / "schemas" / source).read_text("utf-8")
    return _schema(schema, parse_toml(text, source=source), source)


def _schema(name: str, data: dict[str, Any], source: str) -> Schema:
    _known(data, ("admissions", "patients", "notes", "discharge_categories", "addendum_kinds"),
           source)  # fmt: skip
    if "admissions" not in data:
        needed = ", ".join(("table", *_NEEDED["admissions"]))
        msg = f"{source} has no [admissions] table; it needs {needed}"
        raise DefinitionError(msg)
    notes = data.get("notes", [])
    return Schema(
        name=name,
        admissions=_table("admissions", data["admissions"], source),
        patients=_table("patients", data["patients"], source) if "patients" in data else None,
        notes=tuple(
            _table("notes", entry, source)
            for entry in (notes if isinstance(notes, list) else [notes])
        ),
        discharge_categories=_upper(
            data.get("discharge_categories", ["Discharge summary"]), "discharge_categories", source
        ),
        addendum_kinds=_upper(data.get("addendum_kinds", ["Addendum"]), "addendum_kinds", source),
    )


def _table(role: str, data: Any, source: str) -> TableMap:
    where = f"{source} [{role}]"
    if not isinstance(data, dict):
        msg = f"{where} must be a table of column names, got {type(data).__name__}"
        raise DefinitionError(msg)
    _known(data, (*_SETTINGS, *COLUMNS[role]), where)
    for needed in ("table", *_NEEDED[role]):
        if needed not in data:
            msg = f'{where} has no {needed!r}; add: {needed} = "the source\'s name for it"'
            raise DefinitionError(msg)
    columns = {
        name: (data[name],) if isinstance(data[name], str) else tuple(data[name])
        for name in COLUMNS[role]
        if name in data
    }
    return TableMap(
        role=role,
        table=data["table"],
        columns=columns,
        optional=frozenset(data.get("optional", ())),
        may_be_absent=bool(data.get("may_be_absent", False)),
        time_format=data.get("time_format"),
        category_value=data.get("category_value"),
    )


def _known(data: dict[str, Any], legal: tuple[str, ...], where: str) -> None:
    for key in data:
        if key not in legal:
            msg = (
                f"{where}: unknown key {key!r}{nearest(key, list(legal))} Legal: {', '.join(legal)}"
            )
            raise DefinitionError(msg)


def _upper(values: Any, key: str, source: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        msg = f"{source}: {key} must be a list of text, got {values!r}"
        raise DefinitionError(msg)
    return tuple(value.strip().upper() for value in values)
