"""Where each hospital keeps its facts: our column names on the left, the source's on the right."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from clinical.cohort.definition import DefinitionError, nearest, parse_toml, read_toml
from domainbert.errors import UserError

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
        time_formats: strptime formats of its times, tried in order before ISO 8601.
        category_value: the category of every note of this table, where it has no such column.
    """

    role: str
    table: str
    columns: dict[str, tuple[str, ...]]
    optional: frozenset[str] = frozenset()
    may_be_absent: bool = False
    time_formats: tuple[str, ...] = ()
    category_value: str | None = None


@dataclass(frozen=True)
class Schema:
    """The tables of one kind of hospital database.

    Attributes:
        name: "mimic3", "mimic4" or "generic".
        admissions: the table of stays.
        patients: the table of patients, or None.
        notes: the tables of notes, perhaps none.
        discharge_categories: categories of discharge summaries, upper case; empty where a mapping
            does not say.
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
        raise UserError(msg)
    if (schema == "generic") != (mapping is not None):
        msg = (
            "schema='generic' needs the names of your columns: "
            "build_cohort(source, schema='generic', mapping='columns.toml')"
            if mapping is None
            else f"mapping belongs to schema='generic', not to {schema!r}"
        )
        raise UserError(msg)
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
        discharge_categories=_upper(data, "discharge_categories", source),
        addendum_kinds=_upper(data, "addendum_kinds", source) or ("ADDENDUM",),
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
    formats = _texts(data, "time_format", where)
    for time_format in formats:
        _check_format(time_format, where)
    return TableMap(
        role=role,
        table=_texts(data, "table", where)[0],
        columns={name: _texts(data, name, where) for name in COLUMNS[role] if name in data},
        optional=frozenset(_texts(data, "optional", where)),
        may_be_absent=data.get("may_be_absent", False) is True,
        time_formats=formats,
        category_value=next(iter(_texts(data, "category_value", where)), None),
    )


def _check_format(time_format: str, where: str) -> None:
    import duckdb

    try:
        duckdb.execute("SELECT try_strptime('', $format)", {"format": time_format})
    except duckdb.Error:
        msg = (
            f"{where}: time_format {time_format!r} is not understood; write it with codes, such as "
            '"%d.%m.%Y %H:%M"'
        )
        raise DefinitionError(msg) from None


def _known(data: dict[str, Any], legal: tuple[str, ...], where: str) -> None:
    for key in data:
        if key not in legal:
            msg = (
                f"{where}: unknown key {key!r}{nearest(key, list(legal))} Legal: {', '.join(legal)}"
            )
            raise DefinitionError(msg)


def _upper(data: dict[str, Any], key: str, source: str) -> tuple[str, ...]:
    return tuple(value.strip().upper() for value in _texts(data, key, source))


def _texts(data: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    """A text or a list of texts, neither of them empty; nothing where the key is not there."""
    value = data.get(key)
    texts = [value] if isinstance(value, str) else value
    if value is None or (isinstance(texts, list) and texts and all(map(_is_text, texts))):
        return tuple(texts or ())
    msg = f"{where}: {key} must be text or a list of text, got {value!r}"
    raise DefinitionError(msg)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
