"""The smallest source of each form: stays, deaths, and a summary of each stay."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
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
    patient: str = "7"

    def row(self, *names: str) -> dict[str, str]:
        """The patient, the stay, its times and its place, under these names."""
        times = (self.admitted, self.discharged)
        values = (self.patient, self.id, *times, self.place)
        return dict(zip(names, values, strict=True))


Deaths = dict[str, str]  # of each patient; "" for one who is alive


def as_time(text: str) -> str:
    """A date as tables of timestamps write it: at midnight."""
    return f"{text} 00:00:00" if len(text) == 10 else text


def write_tables(folder: Path, **tables: list[dict]) -> None:
    for name, rows in tables.items():
        pd.DataFrame(rows).to_csv(folder / f"{name}.csv", index=False)


def write_mimic3(folder: Path, stays: list[Stay], deaths: Deaths) -> None:
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
                "SUBJECT_ID": patient,
                "GENDER": "F",
                "DOB": "",
                "DOD": as_time(death),
            }
            for patient, death in deaths.items()
        ],
        NOTEEVENTS=[{"HADM_ID": stay.id} | note for stay in stays],
    )


def write_mimic4(folder: Path, stays: list[Stay], deaths: Deaths) -> None:
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
    last_rows = {row["subject_id"]: row for row in rows}
    for patient, row in last_rows.items():
        death = deaths[patient]
        row["deathtime"] = death if len(death) > 10 else ""
    write_tables(
        folder,
        admissions=rows,
        patients=[
            {"subject_id": patient, "gender": "F", "dod": death[:10]}
            for patient, death in deaths.items()
        ],
        discharge=[
            {"hadm_id": s.id, "charttime": "", "text": "summary"}
            for s in stays
        ],
    )


def write_generic(folder: Path, stays: list[Stay], deaths: Deaths) -> None:
    names = ("patient", "stay", "in", "out", "to")
    rows = [
        stay.row(*names) | {"died": deaths[stay.patient]} for stay in stays
    ]
    letters = [{"stay": stay.id, "text": "summary"} for stay in stays]
    write_tables(folder, stays=rows, letters=letters)
    (folder / "columns.toml").write_text(MAPPING)


def write_omop(folder: Path, stays: list[Stay], deaths: Deaths) -> None:
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
    dead = [
        {
            "person_id": patient,
            "death_date": death[:10],
            "death_datetime": as_time(death),
        }
        for patient, death in deaths.items()
        if death
    ]
    stranger = {
        "person_id": "8",
        "death_date": "2020-01-01",
        "death_datetime": "",
    }
    note = {
        "note_class_concept_id": "44814637",
        "note_text": "summary",
    }
    write_tables(
        folder,
        VISIT_OCCURRENCE=visits,
        PERSON=[
            {
                "person_id": patient,
                "gender_concept_id": "8532",
                "year_of_birth": "1950",
            }
            for patient in deaths
        ],
        DEATH=dead or [stranger],
        NOTE=[
            {
                "note_id": stay.id,
                "person_id": stay.patient,
                "visit_occurrence_id": stay.id,
            }
            | note
            for stay in stays
        ],
    )


def fhir_time(text: str) -> str:
    is_instant = len(text) > 10
    return (
        text.replace(" ", "T") + "Z"
        if is_instant and len(text) == 19
        else text
    )


def write_fhir(folder: Path, stays: list[Stay], deaths: Deaths) -> None:
    patients = []
    for id, death in deaths.items():
        patient = {"resourceType": "Patient", "id": id, "gender": "female"}
        if death:
            patient["deceasedDateTime"] = fhir_time(death)
        patients.append(patient)
    encounters = []
    documents = []
    for stay in stays:
        subject = {"reference": f"Patient/{stay.patient}"}
        times = {
            "start": fhir_time(stay.admitted),
            "end": fhir_time(stay.discharged),
        }
        encounter = {
            "resourceType": "Encounter",
            "id": stay.id,
            "status": "finished",
            "class": {"code": "IMP"},
            "subject": subject,
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
            "subject": subject,
            "content": [{"attachment": {"contentType": "text/plain", "data": text}}],
            "context": {"encounter": [{"reference": f"Encounter/{stay.id}"}]},
        })  # fmt: skip
        encounters.append(encounter)
    kinds = {
        "Patient": patients,
        "Encounter": encounters,
        "DocumentReference": documents,
    }
    for kind, resources in kinds.items():
        lines = "\n".join(map(json.dumps, resources))
        (folder / f"{kind}.ndjson").write_text(lines + "\n")


def write_meds(folder: Path, stays: list[Stay], deaths: Deaths) -> None:
    events = [
        (patient, "MEDS_DEATH", death, None, None)
        for patient, death in deaths.items()
        if death
    ]
    for stay in stays:
        leaving = "//".join(filter(None, ["HOSPITAL_DISCHARGE", stay.place]))
        times = {
            "HOSPITAL_ADMISSION//EMERGENCY": stay.admitted,
            leaving: stay.discharged,
        }
        events += [
            (stay.patient, code, time, stay.id, None)
            for code, time in times.items()
            if time
        ]
        note = ("NOTE//Discharge summary", stay.admitted, stay.id, "summary")
        events.append((stay.patient, *note))
    table = pd.DataFrame(
        events, columns=["subject_id", "code", "time", "hadm_id", "text_value"]
    )
    table["subject_id"] = table["subject_id"].astype("int64")
    table["time"] = pd.to_datetime(table["time"], format="ISO8601")
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
    folder: Path,
    form: str,
    stays: list[Stay],
    *,
    death: str = "",
    deaths: Deaths | None = None,
    **options,
) -> Cohort:
    """Write a source of a form and build its cohort, without an end of data.

    `deaths` is for several patients, `death` for the one.
    """
    WRITERS[form](folder, stays, deaths or {"7": death})
    return rebuild(folder, form, **options)


def rebuild(folder: Path, form: str, **options) -> Cohort:
    """Build the cohort of a folder that was written before."""
    mapping = folder / "columns.toml" if form == "generic" else None
    return build_cohort(
        folder, mapping=mapping, **{"data_end": "none", **options}
    )


Fate = tuple[str | None, int | None]  # the exclusion and the label of a stay


def fates(cohort: Cohort) -> dict[str, Fate]:
    """The fate of each stay."""
    rows = by_stay(cohort)
    return {
        stay: (row["exclusion"], row["readmitted"])
        for stay, row in rows.items()
    }


@dataclass(frozen=True)
class Cases:
    """Cases that one source holds: each is a patient with stays of `(admitted, discharged, place)`.

    Cohorts are built once for all cases of a form, which takes less time than once for each.
    """

    spans: dict[str, list[tuple[str, ...]]]
    deaths: dict[str, str] = field(default_factory=dict)

    def patients(self) -> dict[str, str]:
        """The id of each case's patient."""
        return {case: str(n) for n, case in enumerate(self.spans, start=100)}

    def stays(self, case: str) -> list[Stay]:
        patient = self.patients()[case]
        return [
            Stay(f"{patient}{number}", *span, patient=patient)
            for number, span in enumerate(self.spans[case], start=1)
        ]

    def write(self, folder: Path, form: str) -> None:
        stays = [stay for case in self.spans for stay in self.stays(case)]
        deaths = {
            patient: self.deaths.get(case, "")
            for case, patient in self.patients().items()
        }
        WRITERS[form](folder, stays, deaths)

    def build(self, folder: Path, form: str, **options) -> Cohort:
        self.write(folder, form)
        return rebuild(folder, form, **options)

    def fates(self, cohort: Cohort) -> dict[str, list[Fate]]:
        """The fates of each case's stays, in their order."""
        by_id = fates(cohort)
        return {
            case: [by_id[stay.id] for stay in self.stays(case)]
            for case in self.spans
        }
