"""One made-up hospital, and the programs that write it: the same stays in other spellings.

Every writer gets the hospital and a folder, and returns the arguments of `build_cohort`. Admissions
are in the morning and discharges in the afternoon, so that labels by dates and by times agree.
"""

import base64
import html
import json
import random
import uuid
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd

import clinical

ZONE = "America/New_York"
_START = datetime(2021, 1, 4)
_GAPS = (5, 12, 29, 30, 31, 40, 90)  # days from a discharge to the return


@dataclass(frozen=True)
class Stay:
    """One row of the admissions; times are those of the clock on the wall."""

    stay: str
    patient: str
    admit: datetime
    discharge: datetime
    kind: str
    place: str
    born: datetime
    died: datetime | None
    text: str


CASES = (
    "once", "twice", "twice", "elective", "touching", "newborn", "dies", "dies at home",
    "dies on the day",
)  # fmt: skip
_DIED_AFTER = {
    "dies": timedelta(0),
    "dies at home": timedelta(days=3),
    "dies on the day": timedelta(hours=1),
}


def hospital(n_stays=500, seed=0):
    """Stays with rare things, and the label of each: 0, 1, or "" where it is excluded."""
    rng = random.Random(seed)
    stays = []
    labels = {}
    while len(stays) < n_stays:
        case = rng.choice(CASES)
        gap = rng.choice(_GAPS)
        admit = _START + timedelta(
            days=rng.randrange(300), hours=6, minutes=rng.randrange(1, 300)
        )
        end = _later(rng, admit, rng.randrange(1, 9))
        born = datetime(rng.randrange(1935, 2000), 3, rng.randrange(1, 28))
        if case == "newborn":
            born = admit.replace(hour=0, minute=0)
        visits = [(admit, end, "EMERGENCY")]
        if case in ("twice", "elective"):
            back = _morning(rng, end, gap)
            kind = "ELECTIVE" if case == "elective" else "URGENT"
            visits.append((back, _later(rng, back, 3), kind))
        elif case == "touching":
            visits.append((end, _later(rng, end, 3), "EMERGENCY"))
        died = end + _DIED_AFTER[case] if case in _DIED_AFTER else None
        first = {"twice": int(gap <= 30), "touching": ""}
        first |= {"dies": "", "newborn": ""}
        patient = str(7000 + len(stays))
        for number, (start, finish, kind) in enumerate(visits):
            stay = str(100_000 + len(stays))
            place = "EXPIRED" if case == "dies" else "HOME"
            text = f'Summary of {stay}.\nHe said "no pain", path C:\\notes.\n'
            text += "Treated with rest, fluids; follow up in clinic. " * 3
            stays.append(
                Stay(stay, patient, start, finish, kind, place, born, died, text)
            )  # fmt: skip
            labels[stay] = first.get(case, 0) if number == 0 else 0
    return stays, labels


def _later(rng, start, days):
    """An afternoon so many days later."""
    return (start + timedelta(days=days)).replace(
        hour=rng.randrange(13, 20), minute=rng.randrange(1, 60)
    )


def _morning(rng, end, days):
    return (end + timedelta(days=days)).replace(
        hour=rng.randrange(6, 12), minute=rng.randrange(1, 60)
    )


def _text(time):
    return time.strftime("%Y-%m-%d %H:%M:%S") if time else ""


def _day(time):
    return time.strftime("%Y-%m-%d") if time else ""


def _midnight(time):
    return _day(time) + " 00:00:00" if time else ""


def _offset(time):
    return time.replace(tzinfo=ZoneInfo(ZONE)).isoformat() if time else ""


def _utc(time):
    if not time:
        return ""
    instant = time.replace(tzinfo=ZoneInfo(ZONE)).astimezone(ZoneInfo("UTC"))
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


MAPPING = """
died_locations = "EXPIRED"
{extra}
[admissions]
table = "encounters"
patient_id = "MRN"
stay_id = "CSN"
admit_time = "ADM"
discharge_time = "DISCH"
admission_type = "TYPE"
discharge_location = "PLACE"
birth_date = "BORN"
death_date = "DIED"
{formats}
[notes]
table = "letters"
note_id = "NOTE_ID"
stay_id = "CSN"
chart_time = "WRITTEN"
text = "LETTER"
{formats}
"""


def tables(stays, *, time=_text, note_time=None, day=_day, died=None):
    """The tables of a hospital of its own."""
    encounters = pd.DataFrame(
        {
            "MRN": stay.patient,
            "CSN": stay.stay,
            "ADM": time(stay.admit),
            "DISCH": time(stay.discharge),
            "TYPE": stay.kind,
            "PLACE": stay.place,
            "BORN": day(stay.born),
            "DIED": (died or day)(stay.died),
        }
        for stay in stays
    )
    letters = pd.DataFrame(
        {
            "NOTE_ID": f"9{stay.stay}",
            "CSN": stay.stay,
            "WRITTEN": (note_time or time)(stay.discharge),
            "LETTER": stay.text,
        }
        for stay in stays
    )
    return encounters, letters


def _arguments(folder, *, formats="", extra="", **more):
    mapping = folder / "columns.toml"
    mapping.write_text(MAPPING.format(formats=formats, extra=extra))
    return {"source": folder, "mapping": mapping, "data_end": "none", **more}


def _csv(folder, encounters, letters, **options):
    encounters.to_csv(folder / "encounters.csv", index=False, **options)
    letters.to_csv(folder / "letters.csv", index=False, **options)


def times(stays, folder):
    _csv(folder, *tables(stays))
    return _arguments(folder)


def dates(stays, folder):
    _csv(folder, *tables(stays, time=_day))
    return _arguments(folder)


def midnight(stays, folder):
    _csv(folder, *tables(stays, time=_midnight, day=_midnight))
    return _arguments(folder)


def last_minute(stays, folder):
    """MEDS and others write the end of a day of discharge."""
    encounters, letters = tables(stays, time=_midnight)
    encounters["DISCH"] = [_day(s.discharge) + " 23:59:00" for s in stays]
    _csv(folder, encounters, letters)
    return _arguments(folder)


def pandas_timestamps(stays, folder):
    """Parquet with datetime64 of dates, and ids as floats."""
    encounters, letters = tables(stays, time=_day)
    for name in ("ADM", "DISCH", "BORN", "DIED"):
        encounters[name] = pd.to_datetime(encounters[name].replace("", None))
    encounters["MRN"] = encounters["MRN"].astype(float)
    letters["WRITTEN"] = pd.to_datetime(letters["WRITTEN"])
    letters["CSN"] = letters["CSN"].astype(float)
    encounters.to_parquet(folder / "encounters.parquet", index=False)
    letters.to_parquet(folder / "letters.parquet", index=False)
    return _arguments(folder)


def offsets(stays, folder):
    _csv(folder, *tables(stays, time=_offset))
    return _arguments(folder)


def utc(stays, folder):
    """R's fwrite; days are those of the zone, which only the user knows."""
    _csv(folder, *tables(stays, time=_utc))
    return _arguments(folder, zone=ZONE)


def notes_in_utc(stays, folder):
    _csv(folder, *tables(stays, note_time=_utc))
    return _arguments(folder)


def notes_in_utc_with_zone(stays, folder):
    return {**notes_in_utc(stays, folder), "zone": ZONE}


def oracle(stays, folder):
    """SQL Developer: DD-MON-RR for dates."""
    _csv(folder, *tables(stays, time=lambda t: t.strftime("%d-%b-%Y").upper(),
                         day=lambda t: t.strftime("%d-%b-%Y").upper() if t else ""))  # fmt: skip
    return _arguments(folder, formats='time_format = "%d-%b-%Y"')


def formats_with_offsets(stays, folder):
    def written(time):
        zoned = time.replace(tzinfo=ZoneInfo(ZONE))
        return zoned.strftime("%m/%d/%Y %H:%M %z")

    def day(time):
        return time.strftime("%m/%d/%Y") if time else ""

    _csv(folder, *tables(stays, time=written, day=day))
    formats = 'time_format = ["%m/%d/%Y %H:%M %z", "%m/%d/%Y"]'
    return _arguments(folder, formats=formats)


def cut_notes(stays, folder):
    """Epic: a note is several rows with a line number, in any order."""
    encounters, letters = tables(stays)
    rows = []
    for row in letters.to_dict("records"):
        text = row["LETTER"]
        pieces = [text[i : i + 60] for i in range(0, len(text), 60)]
        rows += [
            {**row, "LINE": number, "LETTER": piece}
            for number, piece in enumerate(pieces, start=1)
        ]
    _csv(folder, encounters, pd.DataFrame(rows).sample(frac=1, random_state=1))
    return _arguments(folder)


def wards(stays, folder):
    """One row a ward: two rows of most stays, with one id."""
    encounters, letters = tables(stays)
    rows = []
    for stay, row in zip(stays, encounters.to_dict("records"), strict=True):
        middle = stay.admit + (stay.discharge - stay.admit) / 2
        middle = middle.replace(second=0, microsecond=0)
        rows.append({**row, "DISCH": _text(middle), "PLACE": ""})
        rows.append({**row, "ADM": _text(middle)})
    _csv(folder, pd.DataFrame(rows), letters)
    return _arguments(folder)


def etl_synthea(stays, folder):
    """OMOP as ETL-Synthea fills it: midnight in every datetime, periods that have not ended."""
    pd.DataFrame(
        {
            "visit_occurrence_id": stay.stay,
            "person_id": stay.patient,
            "visit_concept_id": "262" if stay.kind == "EMERGENCY" else "9201",
            "visit_start_date": _day(stay.admit),
            "visit_start_datetime": _midnight(stay.admit),
            "visit_end_date": _day(stay.discharge),
            "visit_end_datetime": _midnight(stay.discharge),
            "visit_type_concept_id": "32827",
            "visit_source_value": stay.kind,
            "discharged_to_concept_id": "0",
            "discharged_to_source_value": "20"
            if stay.place == "EXPIRED"
            else "01",
        }
        for stay in stays
    ).to_csv(folder / "visit_occurrence.csv", index=False)
    people = {stay.patient: stay for stay in stays}
    pd.DataFrame(
        {
            "person_id": patient,
            "gender_concept_id": "8507",
            "year_of_birth": stay.born.year,
            "month_of_birth": stay.born.month,
            "day_of_birth": stay.born.day,
            "birth_datetime": _midnight(stay.born),
        }
        for patient, stay in people.items()
    ).to_csv(folder / "person.csv", index=False)
    pd.DataFrame(
        [
            {"person_id": patient, "death_date": _day(stay.died),
             "death_datetime": _midnight(stay.died)}
            for patient, stay in people.items() if stay.died
        ]
    ).to_csv(folder / "death.csv", index=False)  # fmt: skip
    pd.DataFrame(
        {
            "person_id": patient,
            "observation_period_start_date": "2015-01-01",
            "observation_period_end_date": "2099-12-31",
        }
        for patient in people
    ).to_csv(folder / "observation_period.csv", index=False)
    pd.DataFrame(
        {
            "note_id": f"9{stay.stay}",
            "person_id": stay.patient,
            "visit_occurrence_id": stay.stay,
            "note_date": _day(stay.discharge),
            "note_datetime": _midnight(stay.discharge),
            "note_type_concept_id": "44814637",
            "note_class_concept_id": "44814637",
            "note_title": "Discharge summary",
            "note_text": stay.text,
        }
        for stay in stays
    ).to_csv(folder / "note.csv", index=False)
    return {"source": folder, "data_end": "2099-01-01"}


def meds(stays, folder):
    """MEDS with dates: admissions at midnight, and discharges in the last minute of the day."""
    events = []
    for stay in stays:
        place = "DIED" if stay.place == "EXPIRED" else "HOME"
        end = stay.discharge.replace(hour=23, minute=59)
        events += [
            (stay.patient, stay.admit.replace(hour=0, minute=0),
             f"HOSPITAL_ADMISSION//{stay.kind}", None, stay.stay),
            (stay.patient, end, f"HOSPITAL_DISCHARGE//{place}", None, stay.stay),
            (stay.patient, end, "NOTE//Discharge summary", stay.text, stay.stay),
        ]  # fmt: skip
    for stay in {stay.patient: stay for stay in stays}.values():
        events.append((stay.patient, stay.born, "MEDS_BIRTH", None, None))
        if stay.died:
            died = stay.died.replace(hour=0, minute=0)
            events.append((stay.patient, died, "MEDS_DEATH", None, None))
    names = ("subject_id", "time", "code", "text_value", "hadm_id")
    table = pd.DataFrame(events, columns=names)
    table["subject_id"] = table["subject_id"].astype("int64")
    (folder / "data").mkdir()
    table.to_parquet(folder / "data" / "0.parquet", index=False)
    return {"source": folder, "data_end": "none"}


def _escaped(frame, path, *, quoted, bare=str, separator=","):
    """A CSV file whose cells a program escapes in its own way; None stays empty."""
    lines = [separator.join(frame.columns)]
    lines += [
        separator.join(_cell(cell, quoted, bare) for cell in row)
        for row in frame.itertuples(index=False)
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([*lines, ""]))


def _cell(cell, quoted, bare):
    if quoted and any(letter in cell for letter in ',"\n'):
        return f'"{quoted(cell)}"'
    return bare(cell)


def spark_csv(stays, folder):
    """Spark's defaults: folders of parts, a backslash before quotes and, in quotes, itself."""

    def quoted(cell):
        return cell.replace("\\", "\\\\").replace('"', '\\"')

    for name, frame in zip(
        ("encounters", "letters"), tables(stays), strict=True
    ):
        for number in range(4):
            part = frame.iloc[number::4]
            _escaped(
                part,
                folder / name / f"part-0000{number}-c000.csv",
                quoted=quoted,
            )
        (folder / name / "_SUCCESS").touch()
    return _arguments(folder)


def spark_2(stays, folder):
    """Spark with escape alone, which leaves a backslash before the closing quote."""
    for name, frame in zip(
        ("encounters", "letters"), tables(stays), strict=True
    ):
        _escaped(
            frame,
            folder / f"{name}.csv",
            quoted=lambda cell: cell.replace('"', '\\"'),
        )
    return _arguments(folder)


def spark_parquet(stays, folder):
    """Parts in folders of the admission type and of the year."""
    encounters, letters = tables(stays)
    for name, frame, key in (
        ("encounters", encounters, encounters["TYPE"]),
        ("letters", letters, letters["WRITTEN"].str[:4]),
    ):
        for value, part in frame.groupby(key):
            column = "TYPE" if name == "encounters" else "year"
            parts = folder / f"{name}.parquet" / f"{column}={value}"
            parts.mkdir(parents=True)
            part = part.drop(columns=column, errors="ignore")
            part.to_parquet(
                parts / "part-00000-1f2e.c000.snappy.parquet", index=False
            )
    return _arguments(folder)


def mysql(stays, folder):
    """SELECT ... INTO OUTFILE, with the names in a first line."""

    def quoted(cell):
        for letter in '\\"\n':
            cell = cell.replace(letter, f"\\{letter}")
        return cell

    for name, frame in zip(
        ("encounters", "letters"), tables(stays), strict=True
    ):
        _escaped(
            frame,
            folder / f"{name}.csv",
            quoted=quoted,
            bare=lambda cell: cell or "\\N",
        )
    return _arguments(folder)


def mysql_batch(stays, folder):
    """The client's --batch: tabs, escapes with letters, quotes without a meaning."""

    def bare(cell):
        for letter, name in (("\\", "\\"), ("\n", "n"), ("\t", "t")):
            cell = cell.replace(letter, f"\\{name}")
        return cell or "NULL"

    for name, frame in zip(
        ("encounters", "letters"), tables(stays), strict=True
    ):
        _escaped(
            frame,
            folder / f"{name}.tsv",
            quoted=None,
            bare=bare,
            separator="\t",
        )
    return _arguments(folder)


def bigquery(stays, folder):
    """Numbered files, times with UTC at the end."""
    encounters, letters = tables(
        stays, time=lambda t: _utc(t).replace("T", " ").replace("Z", " UTC")
    )
    for number in range(3):
        end = f"-{number:012}.csv"
        encounters.iloc[number::3].to_csv(
            folder / f"encounters{end}", index=False
        )
        letters.iloc[number::3].to_csv(folder / f"letters{end}", index=False)
    return _arguments(folder, zone=ZONE)


def evenings_in_utc(stays, folder):
    """Discharges in the evening are the next day in UTC; deaths and births are days."""
    stays = [
        replace(stay, discharge=stay.discharge.replace(hour=21))
        for stay in stays
    ]
    _csv(folder, *tables(stays, time=_utc))
    return _arguments(folder)


def sql_server(stays, folder):
    """Columns of datetimeoffset: seven decimals, and a space before the offset."""

    def time(moment):
        offset = moment.replace(tzinfo=ZoneInfo(ZONE)).isoformat()[-6:]
        return f"{_text(moment)}.0000000 {offset}"

    _csv(folder, *tables(stays, time=time))
    return _arguments(folder)


def hl7(stays, folder):
    """Timestamps of HL7 v2, and the minutes alone for notes."""
    _csv(
        folder,
        *tables(
            stays,
            time=lambda t: t.replace(tzinfo=ZoneInfo(ZONE)).strftime(
                "%Y%m%d%H%M%S%z"
            ),
            note_time=lambda t: t.replace(tzinfo=ZoneInfo(ZONE)).strftime(
                "%Y%m%d%H%M%z"
            ),
            day=lambda t: t.strftime("%Y%m%d") if t else "",
        ),
    )
    return _arguments(folder)


def no_death_is_1900(stays, folder):
    """A database whose column of deaths must not be empty."""
    _csv(
        folder,
        *tables(stays, died=lambda t: _text(t) or "1900-01-01 00:00:00"),
    )
    return _arguments(folder)


def parts_in_one_file(stays, folder):
    """The parts of an export, put together with the line of names of each."""
    for name, frame in zip(
        ("encounters", "letters"), tables(stays), strict=True
    ):
        parts = [
            frame.iloc[number::3].to_csv(index=False) for number in range(3)
        ]
        (folder / f"{name}.csv").write_text("".join(parts))
    return _arguments(folder)


def sas(stays, folder):
    """DATETIME20., which no format names."""
    _csv(
        folder,
        *tables(stays, time=lambda t: t.strftime("%d%b%Y:%H:%M:%S").upper()),
    )
    return _arguments(folder)


def zeros_lost(stays, folder):
    """A spreadsheet took the zeros in front of the ids of one table."""
    encounters, letters = tables(stays)
    encounters["CSN"] = "00" + encounters["CSN"]
    _csv(folder, encounters, letters)
    return _arguments(folder)


def base64_texts(stays, folder):
    encounters, letters = tables(stays)
    letters["LETTER"] = letters["LETTER"].map(_base64)
    _csv(folder, encounters, letters)
    return _arguments(folder)


def hexadecimal_texts(stays, folder):
    """A binary column of SQL Server."""
    encounters, letters = tables(stays)
    letters["LETTER"] = [
        "0x" + text.encode().hex().upper() for text in letters["LETTER"]
    ]
    _csv(folder, encounters, letters)
    return _arguments(folder)


_PRIORITIES = {"EMERGENCY": "EM", "URGENT": "UR", "ELECTIVE": "EL"}
_HL7 = "http://terminology.hl7.org/CodeSystem"


def _encounter(stay, time, *, code, place):
    """An Encounter; its class and disposition are coded as the program does."""
    system = (
        f"{_HL7}/v3-ActCode"
        if code == "IMP"
        else "urn:oid:1.2.840.114350.1.13"
    )
    return {
        "resourceType": "Encounter",
        "id": stay.stay,
        "status": "finished",
        "class": {"system": system, "code": code, "display": "Inpatient"},
        "priority": {
            "coding": [{"system": f"{_HL7}/v3-ActPriority", "code": _PRIORITIES[stay.kind]}]
        },
        "subject": {"reference": f"Patient/{stay.patient}"},
        "period": {"start": time(stay.admit), "end": time(stay.discharge)},
        "hospitalization": {"dischargeDisposition": place},
    }  # fmt: skip


def _patient(stay, time):
    patient = {
        "resourceType": "Patient",
        "id": stay.patient,
        "gender": "female",
        "birthDate": _day(stay.born),
    }
    if stay.died:
        patient["deceasedDateTime"] = time(stay.died)
    return patient


def _document(stay, time, attachments):
    return {
        "resourceType": "DocumentReference",
        "id": f"9{stay.stay}",
        "status": "current",
        "docStatus": "final",
        "type": {
            "coding": [
                {"system": "urn:oid:1.2.840.114350.1.13.1", "code": "5"},
                {"system": "http://loinc.org", "code": "18842-5"},
            ],
            "text": "Discharge Summary Note",
        },
        "subject": {"reference": f"Patient/{stay.patient}"},
        "date": time(stay.discharge),
        "content": [{"attachment": attachment} for attachment in attachments],
        "context": {"encounter": [{"reference": f"Encounter/{stay.stay}"}]},
    }


def _base64(text):
    return base64.b64encode(text.encode()).decode()


def _ndjson(folder, resources):
    """Bulk Data: a file for each type of resource."""
    by_type = {}
    for resource in resources:
        by_type.setdefault(resource["resourceType"], []).append(resource)
    for name, group in by_type.items():
        lines = "".join(json.dumps(resource) + "\n" for resource in group)
        (folder / f"{name}.000.ndjson").write_text(lines)


def _html(text):
    lines = "".join(
        f"<div>{html.escape(line)}</div>" for line in text.split("\n")
    )
    return f"<html><body><style>p {{ margin: 0 }}</style>{lines}</body></html>"


def _rtf(text):
    for letter in "\\{}":
        text = text.replace(letter, f"\\{letter}")
    return (
        r"{\rtf1\ansi\deff0{\fonttbl{\f0 Arial;}}"
        + text.replace("\n", r"\par ")
        + "}"
    )


def _bulk(stays, folder, *, time, code, places, forms):
    """Bulk Data with documents whose contents are Binary resources, in several forms."""
    resources = [
        _patient(stay, time)
        for stay in {stay.patient: stay for stay in stays}.values()
    ]
    for stay in stays:
        resources.append(
            _encounter(stay, time, code=code, place=places[stay.place])
        )
        attachments = []
        for number, (content_type, render) in enumerate(forms.items()):
            name = f"{stay.stay}.{number}"
            attachments.append(
                {"contentType": content_type, "url": f"Binary/{name}"}
            )
            data = _base64(render(stay.text))
            resources.append(
                {
                    "resourceType": "Binary",
                    "id": name,
                    "contentType": content_type,
                    "data": data,
                }
            )
        resources.append(_document(stay, time, attachments))
    _ndjson(folder, resources)
    return {"source": folder, "data_end": "none", "zone": ZONE}


def epic(stays, folder):
    """Times in UTC, classes of its own, a word for each disposition, HTML beside RTF."""
    places = {
        "HOME": {"text": "Home or Self Care"},
        "EXPIRED": {"text": "Expired"},
    }
    forms = {"text/html": _html, "text/rtf": _rtf}
    return _bulk(
        stays, folder, time=_utc, code="4", places=places, forms=forms
    )


def epic_with_its_classes(stays, folder):
    shipped = (
        Path(clinical.__file__).parent / "cohort/schemas/fhir.toml"
    ).read_text()
    mapping = folder / "epic.toml"
    mapping.write_text(
        shipped.replace('class = ["IMP", "ACUTE"]', 'class = ["4"]')
    )
    return {**epic(stays, folder), "mapping": mapping}


def cerner(stays, folder):
    """Times in UTC with milliseconds, codes of its own beside those of HL7, PDF beside HTML."""

    def time(moment):
        return _utc(moment).replace("Z", ".000Z")

    codes = {
        "HOME": [{"system": "https://fhir.cerner.com/1/codeSet/19", "code": "638671",
                  "display": "Home or Self Care", "userSelected": True},
                 {"system": f"{_HL7}/discharge-disposition", "code": "home"}],
        "EXPIRED": [{"system": "https://fhir.cerner.com/1/codeSet/19", "code": "638666",
                     "display": "Expired", "userSelected": True},
                    {"system": f"{_HL7}/discharge-disposition", "code": "exp"}],
    }  # fmt: skip
    places = {place: {"coding": coding, "text": coding[0]["display"]}
              for place, coding in codes.items()}  # fmt: skip
    forms = {
        "application/pdf": lambda text: "%PDF-1.4\n%" + text,
        "text/html;charset=utf-8": _html,
    }
    return _bulk(
        stays, folder, time=time, code="IMP", places=places, forms=forms
    )


def synthea(stays, folder):
    """A transaction for each patient: references by urn:uuid, times with an offset, plain text."""

    def named(resource):
        kind, number = resource["resourceType"], resource.pop("id")
        full_url = (
            f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{kind}/{number}')}"
        )
        return {"fullUrl": full_url, "resource": resource,
                "request": {"method": "POST", "url": kind}}  # fmt: skip

    places = {
        "HOME": {"coding": [{"system": "http://www.nubc.org/patient-discharge", "code": "01",
                             "display": "Discharged to home (routine discharge)"}]},
        "EXPIRED": {"coding": [{"system": "http://www.nubc.org/patient-discharge", "code": "20",
                                "display": "Expired"}]},
    }  # fmt: skip
    by_patient = {}
    for stay in stays:
        by_patient.setdefault(stay.patient, []).append(stay)
    for patient, group in by_patient.items():
        entries = [named(_patient(group[0], _offset))]
        for stay in group:
            attachment = {
                "contentType": "text/plain; charset=utf-8",
                "data": _base64(stay.text),
            }
            entries.append(
                named(
                    _encounter(
                        stay, _offset, code="IMP", place=places[stay.place]
                    )
                )
            )
            entries.append(named(_document(stay, _offset, [attachment])))
        text = json.dumps(
            {"resourceType": "Bundle", "type": "transaction", "entry": entries}
        )
        for kind in ("Patient", "Encounter"):
            for number in [patient, *(stay.stay for stay in group)]:
                name = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{number}")
                text = text.replace(f'"{kind}/{number}"', f'"urn:uuid:{name}"')
        (folder / f"patient_{patient}.json").write_text(text)
    return {"source": folder, "data_end": "none"}


def own_id(stay):
    """The id that `synthea` gives a stay."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"Encounter/{stay}"))


SAME = (
    times, dates, midnight, last_minute, pandas_timestamps, offsets, utc,
    notes_in_utc_with_zone, oracle, formats_with_offsets, cut_notes, wards, etl_synthea, meds,
    spark_csv, spark_2, spark_parquet, mysql, mysql_batch, bigquery, epic_with_its_classes, cerner,
    synthea, sql_server, hl7, no_death_is_1900, parts_in_one_file,
)  # fmt: skip
"""Writers whose tables have the same labels."""
STOPPED = {
    evenings_in_utc: r"times of encounters are in UTC.*may differ for \d+ stays: name the zone",
    sas: r"none of 500 times of encounters.ADM is ISO 8601.*give time_format",
    zeros_lost: "no stay id of letters is one of encounters",
    base64_texts: r"the texts of letters are no words but base64",
    hexadecimal_texts: r"the texts of letters are no words but base64 or hexadecimal",
    notes_in_utc: "cannot be compared: name the zone",
    epic: r"has no admission.*whose class is IMP or ACUTE.*class 4 \(500\)",
}
"""Writers whose tables cannot be read without a further word, and the line that says so."""
