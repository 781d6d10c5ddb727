"""What a cohort reads of FHIR: its codes, and its tables, which are those of the resources."""

import copy
from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from domainbert.files import JsonObject
from domainbert.settings import Settings

NOTES = ("DocumentReference", "Composition", "DiagnosticReport")


class Codes(Settings):
    """What a hospital's codes mean; `schemas/fhir.toml` explains each list.

    Attributes:
        discharge_summary: types of documents.
        died: dispositions that mean a death.
        died_by_claim: codes of the US claim form for a death.
        hospice: dispositions to a hospice.
    """

    discharge_summary: frozenset[str] = Field(strict=False)
    died: frozenset[str] = Field(strict=False)
    died_by_claim: frozenset[str] = Field(strict=False)
    hospice: frozenset[str] = Field(strict=False)


def _named(resource_type: str, *names: str) -> JsonObject:
    """A table of a cohort whose columns have the names that a cohort gives them."""
    return {"table": resource_type, **{name: name for name in names}}


_NOTE_COLUMNS = (
    "patient_id", "stay_id", "category", "kind", "chart_time", "fault", "state", "doc_state",
    "names", "replaces", "codes", "studies", "version", "words", "remark", "text",
)  # fmt: skip
TABLES: JsonObject = {
    # What is part of an admission is none of its own.
    "admissions": _named(
        "Encounter", "patient_id", "admit_time", "discharge_time", "admission_type",
        "discharge_location",
    ) | {
        "stay_id": "id",
        "where": {"part_of": "missing", "older_version": "missing"},
    },
    "patients": _named(
        "Patient", "sex", "birth_date", "death_date", "replaced_by", "replaces"
    ) | {
        "patient_id": "id",
        "where": {"older_version": "missing"},
        "may_be_absent": True,
    },
    "diagnoses": _named("Condition", "stay_id", "code", "system")
    | {"may_be_absent": True},
    "notes": [
        _named(resource_type, *_NOTE_COLUMNS)
        | {"note_id": "id", "may_be_absent": True}
        for resource_type in NOTES
    ],
}  # fmt: skip
"""The tables of a cohort from resources, as a schema describes them."""


class FhirTables(Settings):
    """Settings of a schema that gets its tables from here if it has the codes of FHIR.

    Attributes:
        codes: of FHIR; None for other sources.
    """

    codes: Codes | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_tables(cls, settings: Any) -> Any:
        """Add the tables; settings of others than the classes and statuses are refused."""
        if not isinstance(settings, Mapping) or "codes" not in settings:
            return settings
        for name in ("patients", "diagnoses", "notes", "files", "views"):
            if name in settings:
                raise ValueError(f"{name}: not a setting of a FHIR source")
        admissions = settings.get("admissions", {})
        where = admissions.get("where", {})
        if set(admissions) != {"where"} or not {"class", "status"} <= set(
            where
        ):
            raise ValueError(
                "admissions: expected where = { class = [...], status = [...] }"
            )
        tables = copy.deepcopy(TABLES)
        tables["admissions"]["where"] = where | tables["admissions"]["where"]
        return {**settings, **tables}
