"""Four stays of three patients in every form, as tables of text that tests spoil."""

import base64
import json
from pathlib import Path

import pandas as pd

FORMS = ("mimic3", "mimic4", "generic", "omop", "meds", "fhir")
# stay, patient, admission, discharge, type, death in hospital
STAYS = [
    ("11", "1", "2020-03-01 08:00:00", "2020-03-05 11:00:00", "EMERGENCY", ""),
    ("12", "1", "2020-03-15 08:00:00", "2020-03-18 11:00:00", "EMERGENCY", ""),
    ("21", "2", "2020-03-01 08:00:00", "2020-03-05 11:00:00", "EMERGENCY", "2020-03-05 10:00:00"),
    ("31", "3", "2020-03-01 08:00:00", "2020-03-05 11:00:00", "EMERGENCY", ""),
]  # fmt: skip
# note, stay, category, time, text
NOTES = [
    ("1", "11", "Discharge summary", "2020-03-05 11:00:00", "Summary of 11."),
    ("2", "12", "Discharge summary", "2020-03-18 11:00:00", "Summary of 12."),
    ("3", "21", "Discharge summary", "2020-03-05 11:00:00", "Summary of 21."),
    ("4", "31", "Discharge summary", "2020-03-05 11:00:00", "Summary of 31."),
]
PATIENT = {stay: patient for stay, patient, *_ in STAYS}
MAPPING = """
discharge_categories = ["Discharge summary"]
[admissions]
table = "encounters"
where = { Class = [1] }
patient_id = "MRN"
stay_id = "Case"
admit_time = "In"
discharge_time = "Out"
death_time = "Died"
admission_type = "Urgency"
[notes]
table = "letters"
note_id = "Letter No"
patient_id = "MRN"
stay_id = "Case"
category = "Kind"
chart_time = "Written"
text = "Letter"
"""


def tables(form: str, *, stays=STAYS, notes=NOTES) -> dict[str, pd.DataFrame]:
    """The tables of a form by name, all cells text and empty ones ""."""
    made = _WRITERS[form](stays, notes)
    return {name: pd.DataFrame(rows).fillna("") for name, rows in made.items()}


ID_COLUMNS = {
    *("id", "patient", "stay"),  # of FHIR resources, see `_fhir`
    *("subject_id", "hadm_id", "row_id", "note_id"),
    *("person_id", "visit_occurrence_id", "mrn", "case", "letter no"),
}


def copies(
    form: str, hospitals: list[dict[str, pd.DataFrame]]
) -> dict[str, pd.DataFrame]:
    """Hospitals of a form as one; the ids of each begin with its number, from 1."""
    joined = {}
    for name in tables(form):
        parts = []
        for number, hospital in enumerate(hospitals, start=1):
            part = hospital[name].copy()
            for column in part.columns:
                if column.lower() in ID_COLUMNS:
                    is_id = part[column].str.fullmatch(r"\d+")
                    ids = str(number) + part[column]
                    part[column] = ids.where(is_id, part[column])
            parts.append(part)
        joined[name] = pd.concat(parts, ignore_index=True)
    return joined


def write(folder: Path, form: str, spoiled: dict[str, pd.DataFrame]) -> dict:
    """Write tables into a folder; returns the arguments of `build_cohort`."""
    folder.mkdir(exist_ok=True)
    for name, table in spoiled.items():
        if form == "fhir":
            lines = [_resource(name, row) for row in table.to_dict("records")]
            path = folder / f"{name}.ndjson"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        elif form == "meds":
            path = (
                folder
                / {
                    "data": "data/0",
                    "subject_splits": "metadata/subject_splits",
                }[name]
            )
            path.parent.mkdir(exist_ok=True)
            table.replace("", None).to_parquet(
                path.with_suffix(".parquet"), index=False
            )
        else:
            table.to_csv(folder / f"{name}.csv", index=False)
    if form != "generic":
        return {"source": folder, "data_end": "none"}
    mapping = folder / "columns.toml"
    mapping.write_text(MAPPING)
    return {"source": folder, "mapping": mapping, "data_end": "none"}


def _mimic(stays, notes, *, names):
    admissions, patients, texts = names
    return {
        admissions: [
            {
                "SUBJECT_ID": patient, "HADM_ID": stay, "ADMITTIME": start, "DISCHTIME": end,
                "DEATHTIME": death, "ADMISSION_TYPE": kind, "DISCHARGE_LOCATION": "",
                "INSURANCE": "", "ETHNICITY": "", "HOSPITAL_EXPIRE_FLAG": str(int(bool(death))),
            }
            for stay, patient, start, end, kind, death in stays
        ],
        patients: [
            {"SUBJECT_ID": patient, "GENDER": "F", "DOB": "1950-06-15", "DOD": "",
             "ANCHOR_AGE": "69", "ANCHOR_YEAR": "2019"}
            for patient in sorted({stay[1] for stay in stays})
        ],
        texts: [
            {"ROW_ID": note, "SUBJECT_ID": PATIENT[stay], "HADM_ID": stay, "CHARTDATE": time[:10],
             "CHARTTIME": time, "CATEGORY": category, "DESCRIPTION": "Report", "ISERROR": "",
             "TEXT": text}
            for note, stay, category, time, text in notes
        ],
    }  # fmt: skip


def _mimic3(stays, notes):
    return _mimic(stays, notes, names=("ADMISSIONS", "PATIENTS", "NOTEEVENTS"))


def _mimic4(stays, notes):
    made = _mimic(stays, notes, names=("admissions", "patients", "discharge"))
    return {
        name: [
            {
                column.lower().replace("row_id", "note_id"): cell
                for column, cell in row.items()
            }
            for row in rows
        ]
        for name, rows in made.items()
    }


def _generic(stays, notes):
    return {
        "encounters": [
            {"MRN": patient, "Case": stay, "Class": "1", "In": start, "Out": end, "Died": death,
             "Urgency": kind}
            for stay, patient, start, end, kind, death in stays
        ],
        "letters": [
            {"Letter No": note, "MRN": PATIENT[stay], "Case": stay, "Kind": category,
             "Written": time, "Letter": text}
            for note, stay, category, time, text in notes
        ],
    }  # fmt: skip


def _omop(stays, notes):
    return {
        "VISIT_OCCURRENCE": [
            {"visit_occurrence_id": stay, "person_id": patient, "visit_concept_id": "9201",
             "visit_start_date": start[:10], "visit_start_datetime": start,
             "visit_end_date": end[:10], "visit_end_datetime": end, "visit_source_value": kind,
             "discharged_to_concept_id": "4216643" if death else "",
             "discharged_to_source_value": ""}
            for stay, patient, start, end, kind, death in stays
        ],
        "PERSON": [
            {"person_id": patient, "gender_concept_id": "8507", "year_of_birth": "1950",
             "month_of_birth": "3", "day_of_birth": "", "birth_datetime": ""}
            for patient in sorted({stay[1] for stay in stays})
        ],
        "DEATH": [
            {"person_id": patient, "death_date": death[:10], "death_datetime": death}
            for _, patient, *_, death in stays if death
        ],
        "NOTE": [
            {"note_id": note, "person_id": PATIENT[stay], "visit_occurrence_id": stay,
             "note_date": time[:10], "note_datetime": time, "note_title": "",
             "note_type_concept_id": "", "note_source_value": category,
             "note_class_concept_id": "44814637" if "summary" in category else "44814638",
             "note_text": text}
            for note, stay, category, time, text in notes
        ],
    }  # fmt: skip


def _meds(stays, notes):
    events = []
    for stay, patient, start, end, kind, death in stays:
        events += [
            (patient, start, f"HOSPITAL_ADMISSION//{kind}", "", stay, ""),
            (
                patient,
                end,
                "HOSPITAL_DISCHARGE//" + ("DIED" if death else "HOME"),
                "",
                stay,
                "",
            ),
        ]
        events += [(patient, death, "MEDS_DEATH", "", "", "")] if death else []
    for note, stay, category, time, text in notes:
        events.append(
            (PATIENT[stay], time, f"NOTE//{category}", text, stay, note)
        )
    names = ("subject_id", "time", "code", "text_value", "hadm_id", "note_id")
    return {"data": [dict(zip(names, event, strict=True)) for event in events]}


def _fhir(stays, notes):
    def instant(time):
        return time.replace(" ", "T") + "Z" if time else ""

    return {
        "Encounter": [
            {"id": stay, "patient": patient, "start": instant(start), "end": instant(end),
             "disposition": "exp" if death else "home"}
            for stay, patient, start, end, kind, death in stays
        ],
        "Patient": [
            {"id": patient, "died": "".join(instant(s[5]) for s in stays if s[1] == patient)}
            for patient in sorted({stay[1] for stay in stays})
        ],
        "DocumentReference": [
            {"id": note, "patient": PATIENT[stay], "stay": stay, "date": instant(time),
             "type": category, "code": "18842-5" if "summary" in category else "11506-3",
             "text": text}
            for note, stay, category, time, text in notes
        ],
    }  # fmt: skip


def _resource(name, row):
    made = {"resourceType": name, "id": row["id"]}
    if name == "Encounter":
        place = {"coding": [{"code": row["disposition"]}]}
        made |= {
            "status": "finished",
            "class": {"code": row.get("class", "IMP")},
            "subject": {"reference": f"Patient/{row['patient']}"},
            "period": {"start": row["start"], "end": row["end"]},
            "priority": {"coding": [{"code": "EM"}]},
            "hospitalization": {"dischargeDisposition": place},
        }
    elif name == "Patient":
        made |= {"deceasedDateTime": row["died"]} if row["died"] else {}
    else:
        data = base64.b64encode(row["text"].encode()).decode()
        kind = {"text": row["type"], "coding": [{"code": row["code"]}]}
        made |= {
            "status": "current",
            "type": kind,
            "subject": {"reference": f"Patient/{row['patient']}"},
            "date": row["date"],
            "context": {
                "encounter": [{"reference": f"Encounter/{row['stay']}"}]
            },
            "content": [
                {
                    "attachment": {
                        "contentType": "text/plain; charset=utf-8",
                        "data": data,
                    }
                }
            ],
        }
    return made


_WRITERS = {
    "mimic3": _mimic3,
    "mimic4": _mimic4,
    "generic": _generic,
    "omop": _omop,
    "meds": _meds,
    "fhir": _fhir,
}
