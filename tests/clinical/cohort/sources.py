"""The smallest source of each form: stays of one patient, the death, a summary of each stay."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from clinical.cohort.build import build_cohort
from clinical.cohort.result import Cohort

from .conftest import by_stay

FORMS = ("mimic3", "mimic4", "generic", "omop", "fhir", "meds")
HOME = dict(
    zip(
        FORMS,
        ("HOME", "HOME HEALTH CARE", "Home, self care", "01", "home", "HOME"),
        strict=True,
    )
)
HOSPICE = dict(
    zip(
        FORMS,
        ("HOSPICE-HOME", "HOSPICE", "Hospice", "51", "hosp", "HOSPICE"),
        strict=True,
    )
)
DIED = dict(
    zip(
        FORMS,
        ("DEAD/EXPIRED", "DIED", "Died", "20", "20", "DIED"),
        strict=True,
    )
)
UNKNOWN = dict.fromkeys(FORMS, "")
MAPPING = """
[admissions]
table = "stays"
patient_id = "patient"
stay_id = "stay"
admit_time = "in"
discharge_time = "out"
discharge_location = "to"
death_date = "died"

[notes]
table = "letters"
stay_id = "stay"
text = "text"
"""


@dataclass(frozen=True)
class Stay:
    """Times and dates are ISO 8601; `place` is in the words of the form."""

    id: str
    admitted: str
    discharged: str
    place: str = ""

    def row(self, *names: str) -> dict[str, str]:
        """The patient, the stay, its times and its place, under these names."""
        values = ("7", self.id, self.admitted, self.discharged, self.place)
        return dict(zip(names, values, strict=True))


def as_time(text: str) -> str:
    """A date as tables of timestamps write it: at midnight."""
    return f"{text} 00:00:00" if len(text) == 10 else text


def write_tables(folder: Path, **tables: list[dict]) -> None:
    for name, rows in tables.items():
        pd.DataFrame(rows).to_csv(folder / f"{name}.csv", index=False)


def write_mimic3(folder: Path, stays: list[Stay], death: str) -> None:
    names = (
        "SUBJECT_ID",
        "HADM_ID",
        "ADMITTIME",
        "DISCHTIME",
        "DISCHARGE_LOCATION",
    )
    kind = {"ADMISSION_TYPE": "EMERGENCY", "HOSPITAL_EXPIRE_FLAG": "0"}
    rows = [stay.row(*names) | kind for stay in stays]
    for row in rows:
        row["DISCHTIME"] = as_time(row["DISCHTIME"])
    note = {
        "CATEGORY": "Discharge summary",
        "CHARTDATE": "",
        "TEXT": "summary",
    }
    write_tables(
        folder,
        ADMISSIONS=rows,
        PATIENTS=[
            {
                "SUBJECT_ID": "7",
                "GENDER": "F",
                "DOB": "",
                "DOD": as_time(death),
            }
        ],
        NOTEEVENTS=[{"HADM_ID": stay.id} | note for stay in stays],
    )


def write_mimic4(folder: Path, stays: list[Stay], death: str) -> None:
    """The time of a death is with the last stay, the date with the patient."""
    names = (
        "subject_id",
        "hadm_id",
        "admittime",
        "dischtime",
        "discharge_location",
    )
    kind = {
        "admission_type": "EW EMER.",
        "hospital_expire_flag": "0",
        "deathtime": "",
    }
    rows = [stay.row(*names) | kind for stay in stays]
    for row in rows:
        row["dischtime"] = as_time(row["dischtime"])
    rows[-1]["deathtime"] = death if len(death) > 10 else ""
    write_tables(
        folder,
        admissions=rows,
        patients=[{"subject_id": "7", "gender": "F", "dod": death[:10]}],
        discharge=[
            {"hadm_id": s.id, "charttime": "", "text": "summary"}
            for s in stays
        ],
    )


def write_generic(folder: Path, stays: list[Stay], death: str) -> None:
    names = ("patient", "stay", "in", "out", "to")
    rows = [stay.row(*names) | {"died": death} for stay in stays]
    letters = [{"stay": stay.id, "text": "summary"} for stay in stays]
    write_tables(folder, stays=rows, letters=letters)
    (folder / "columns.toml").write_text(MAPPING)


def write_omop(folder: Path, stays: list[Stay], death: str) -> None:
    names = (
        "person_id", "visit_occurrence_id", "visit_start_datetime", "visit_end_datetime",
        "discharged_to_source_value",
    )  # fmt: skip
    visits = []
    for stay in stays:
        row = stay.row(*names) | {
            "visit_concept_id": "9201",
            "discharged_to_concept_id": "0",
        }
        for end in ("start", "end"):
            text = row[f"visit_{end}_datetime"]
            row[f"visit_{end}_date"] = text[:10]
            row[f"visit_{end}_datetime"] = text if len(text) > 10 else ""
        visits.append(row)
    dead = {
        "person_id": "7",
        "death_date": death[:10],
        "death_datetime": as_time(death),
    }
    note = {
        "person_id": "7",
        "note_class_concept_id": "44814637",
        "note_text": "summary",
    }
    write_tables(
        folder,
        VISIT_OCCURRENCE=visits,
        PERSON=[
            {
                "person_id": "7",
                "gender_concept_id": "8532",
                "year_of_birth": "1950",
            }
        ],
        DEATH=[
            dead
            if death
            else dead | {"person_id": "8", "death_date": "2020-01-01"}
        ],
        NOTE=[
            {"note_id": s.id, "visit_occurrence_id": s.id} | note
            for s in stays
        ],
    )


def fhir_time(text: str) -> str:
    is_instant = len(text) > 10
    return (
        text.replace(" ", "T") + "Z"
        if is_instant and len(text) == 19
        else text
    )


def write_fhir(folder: Path, stays: list[Stay], death: str) -> None:
    patient = {"resourceType": "Patient", "id": "7", "gender": "female"}
    if death:
        patient["deceasedDateTime"] = fhir_time(death)
    encounters = []
    documents = []
    for stay in stays:
        times = {
            "start": fhir_time(stay.admitted),
            "end": fhir_time(stay.discharged),
        }
        encounter = {
            "resourceType": "Encounter",
            "id": stay.id,
            "status": "finished",
            "class": {"code": "IMP"},
            "subject": {"reference": "Patient/7"},
            "period": {end: text for end, text in times.items() if text},
        }
        if stay.place:
            disposition = {"coding": [{"code": stay.place}]}
            encounter["hospitalization"] = {
                "dischargeDisposition": disposition
            }
        text = base64.b64encode(b"summary").decode()
        documents.append({
            "resourceType": "DocumentReference",
            "id": f"d{stay.id}",
            "status": "current",
            "type": {"coding": [{"code": "18842-5"}]},
            "subject": {"reference": "Patient/7"},
            "content": [{"attachment": {"contentType": "text/plain", "data": text}}],
            "context": {"encounter": [{"reference": f"Encounter/{stay.id}"}]},
        })  # fmt: skip
        encounters.append(encounter)
    kinds = {
        "Patient": [patient],
        "Encounter": encounters,
        "DocumentReference": documents,
    }
    for kind, resources in kinds.items():
        lines = "\n".join(map(json.dumps, resources))
        (folder / f"{kind}.ndjson").write_text(lines + "\n")


def write_meds(folder: Path, stays: list[Stay], death: str) -> None:
    events = [("MEDS_DEATH", death, None, None)] if death else []
    for stay in stays:
        leaving = "//".join(filter(None, ["HOSPITAL_DISCHARGE", stay.place]))
        events.append(
            ("HOSPITAL_ADMISSION//EMERGENCY", stay.admitted, stay.id, None)
        )
        if stay.discharged:
            events.append((leaving, stay.discharged, stay.id, None))
        events.append(
            ("NOTE//Discharge summary", stay.admitted, stay.id, "summary")
        )
    table = pd.DataFrame(
        events, columns=["code", "time", "hadm_id", "text_value"]
    )
    table["time"] = pd.to_datetime(table["time"], format="ISO8601")
    table.insert(0, "subject_id", 7)
    (folder / "data").mkdir()
    table.to_parquet(folder / "data" / "0.parquet", index=False)


WRITERS = {
    "mimic3": write_mimic3,
    "mimic4": write_mimic4,
    "generic": write_generic,
    "omop": write_omop,
    "fhir": write_fhir,
    "meds": write_meds,
}


def build(
    folder: Path, form: str, stays: list[Stay], *, death: str = "", **options
) -> Cohort:
    """Write a source of a form and build its cohort, without an end of data."""
    WRITERS[form](folder, stays, death)
    return rebuild(folder, form, **options)


def rebuild(folder: Path, form: str, **options) -> Cohort:
    """Build the cohort of a folder that was written before."""
    mapping = folder / "columns.toml" if form == "generic" else None
    return build_cohort(
        folder, mapping=mapping, **{"data_end": "none", **options}
    )


def fates(cohort: Cohort) -> dict[str, tuple[str | None, int | None]]:
    """The exclusion and the label of each stay."""
    rows = by_stay(cohort)
    return {
        stay: (row["exclusion"], row["readmitted"])
        for stay, row in rows.items()
    }
