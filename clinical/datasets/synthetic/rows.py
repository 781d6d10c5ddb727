"""The rows of the made-up hospital's tables, in the columns of MIMIC-III."""

from __future__ import annotations

import zlib
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clinical.datasets.synthetic.notes import (
    Chart,
    addendum,
    brief_summary,
    discharge_summary,
    draw_chart,
    newborn_summary,
    nursing_note,
    physician_note,
)
from clinical.datasets.synthetic.phrases import FACTS
from clinical.datasets.synthetic.stays import Patient, Stay

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from datetime import datetime

# The first three tables have the columns of MIMIC-III v1.4, in its order.
COLUMNS = {
    "PATIENTS": (
        "ROW_ID", "SUBJECT_ID", "GENDER", "DOB", "DOD", "DOD_HOSP", "DOD_SSN", "EXPIRE_FLAG",
    ),
    "ADMISSIONS": (
        "ROW_ID", "SUBJECT_ID", "HADM_ID", "ADMITTIME", "DISCHTIME", "DEATHTIME",
        "ADMISSION_TYPE", "ADMISSION_LOCATION", "DISCHARGE_LOCATION", "INSURANCE", "LANGUAGE",
        "RELIGION", "MARITAL_STATUS", "ETHNICITY", "EDREGTIME", "EDOUTTIME", "DIAGNOSIS",
        "HOSPITAL_EXPIRE_FLAG", "HAS_CHARTEVENTS_DATA",
    ),
    "NOTEEVENTS": (
        "ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY",
        "DESCRIPTION", "CGID", "ISERROR", "TEXT",
    ),
    "TRUE_RISK": ("SUBJECT_ID", "HADM_ID", "TRUE_RISK"),
}  # fmt: skip
_ADDENDA, _ERRORS = 0.05, 0.01  # share of stays with an addendum, and with a note marked as wrong

# How many short notes a stay has, and the chance that one of them tells a fact. With many notes
# most of them say nothing about the risk, as in a real chart.
NOTES_PER_STAY = {"few": ((1, 2, 2, 2, 3), 0.5), "many": (range(20, 61), 0.06)}

# Patients with their SUBJECT_ID and the HADM_ID of each stay.
Numbered = list[tuple[int, Patient, list[int]]]


def number(patients: list[Patient], rng: random.Random) -> Numbered:
    """Give patients and stays random numbers."""
    total = sum(len(patient.stays) for patient in patients)
    subjects = rng.sample(range(2, 2 + 3 * len(patients)), len(patients))
    # Another hospital has other patients: their numbers must not meet those of this one.
    hospital = zlib.crc32(repr(subjects).encode()) % 2000
    subjects = [subject + 1_000_000 * hospital for subject in subjects]
    stays = iter(rng.sample(range(100_000, 100_000 + 3 * total), total))
    pairs = zip(subjects, patients, strict=True)
    return [(subject, patient, [next(stays) for _ in patient.stays]) for subject, patient in pairs]


def patient_rows(numbered: Numbered) -> Iterator[list[Any]]:
    """The rows of PATIENTS without ROW_ID."""
    for subject, patient, _ in numbered:
        last = patient.stays[-1]
        died = _time(last.discharged) if last.kind == "death" else ""
        yield [subject, patient.sex, _time(patient.birth), died, died, "", int(bool(died))]


def admission_rows(numbered: Numbered, rng: random.Random) -> Iterator[list[Any]]:
    """The rows of ADMISSIONS without ROW_ID."""
    for subject, patient, ids in numbered:
        person = [
            rng.choice(("Medicare", "Medicare", "Private", "Medicaid", "Government", "Self Pay")),
            rng.choice(("ENGL", "ENGL", "ENGL", "SPAN", "PORT", "RUSS")),
            rng.choice(("CATHOLIC", "PROTESTANT QUAKER", "JEWISH", "NOT SPECIFIED")),
            rng.choice(("MARRIED", "SINGLE", "WIDOWED", "DIVORCED")),
            rng.choice(("WHITE", "WHITE", "WHITE", "BLACK/AFRICAN AMERICAN", "ASIAN", "HISPANIC")),
        ]
        for stay, previous, hadm in zip(patient.stays, (None, *patient.stays), ids, strict=False):
            yield [subject, hadm, *_admission(stay, previous, person, rng)]


def _admission(
    stay: Stay, previous: Stay | None, person: list[str], rng: random.Random
) -> list[Any]:
    kinds = {"elective": "ELECTIVE", "newborn": "NEWBORN"}
    kind = kinds.get(stay.kind) or rng.choice(("EMERGENCY",) * 9 + ("URGENT",))
    source = "EMERGENCY ROOM ADMIT"
    if previous and previous.kind == "transfer":
        source = "TRANSFER FROM HOSP/EXTRAM"
    elif stay.kind in kinds:
        source = "PHYS REFERRAL/NORMAL DELI"
    destination = rng.choice(("HOME", "HOME HEALTH CARE", "SNF", "REHAB/DISTINCT PART HOSP"))
    if stay.kind in ("death", "transfer", "newborn"):
        ends = {"death": "DEAD/EXPIRED", "transfer": "SHORT TERM HOSPITAL", "newborn": "HOME"}
        destination = ends[stay.kind]
    died = stay.kind == "death"
    arrived, left = "", ""
    if source == "EMERGENCY ROOM ADMIT":
        arrived = _time(stay.admitted - timedelta(minutes=rng.randint(120, 600)))
        left = _time(stay.admitted + timedelta(minutes=rng.randint(5, 60)))
    return [
        _time(stay.admitted),
        _time(stay.discharged),
        _time(stay.discharged) if died else "",
        kind,
        source,
        destination,
        *person,
        arrived,
        left,
        stay.diagnosis,
        int(died),
        1,
    ]


def note_rows(
    numbered: Numbered, rng: random.Random, *, brief: bool = False, notes_per_stay: str = "few"
) -> Iterator[list[Any]]:
    """The rows of NOTEEVENTS without ROW_ID; each is written when it is asked for."""
    for subject, patient, ids in numbered:
        coming = (*patient.stays[1:], None)
        for stay, following, hadm in zip(patient.stays, coming, ids, strict=True):
            # The part before a transfer tells the facts of the whole episode.
            facts = following.facts if stay.kind == "transfer" and following else stay.facts
            chart = draw_chart(patient, stay, facts, rng)
            if stay.kind == "newborn":
                summary = _summary_row(stay, "Report", newborn_summary(chart, rng), rng)
                yield [subject, hadm, *summary]
                continue
            for row in _short_notes(stay, chart, rng, notes_per_stay):
                yield [subject, hadm, *row]
            for row in _summaries(stay, chart, rng, brief=brief):
                yield [subject, hadm, *row]


def _short_notes(
    stay: Stay, chart: Chart, rng: random.Random, notes_per_stay: str
) -> Iterator[list[Any]]:
    """Nursing and physician notes of the first two days."""
    counts, told = NOTES_PER_STAY[notes_per_stay]
    hours = min(46.0, (stay.discharged - stay.admitted) / timedelta(hours=1) - 1)
    times = sorted(rng.uniform(1, hours) for _ in range(rng.choice(counts)))
    for hour in times:
        charted = stay.admitted + timedelta(hours=hour)
        stored = _time(charted + timedelta(minutes=rng.randint(3, 90)))
        stamps = [_day(charted), _time(charted), stored]
        if rng.random() < 0.5:
            kind, text = ["Nursing/other", "Report"], nursing_note(chart, rng, told=told)
        else:
            kind = ["Physician ", "Physician Resident Progress Note"]
            text = physician_note(chart, rng, told=told)
        yield [*stamps, *kind, rng.randint(14_000, 21_000), "", text]


def _summaries(stay: Stay, chart: Chart, rng: random.Random, *, brief: bool) -> Iterator[list[Any]]:
    """The discharge summary, sometimes with an addendum or with a wrong one before it."""
    summary = brief_summary if brief else discharge_summary
    if rng.random() < _ERRORS:
        wrong = frozenset(fact.name for fact in FACTS if rng.random() < fact.rate)
        text = summary(replace(chart, true_names=wrong), rng)
        yield _summary_row(stay, "Report", text, rng, error="1")
    yield _summary_row(stay, "Report", summary(chart, rng), rng)
    if rng.random() < _ADDENDA:
        yield _summary_row(stay, "Addendum", addendum(chart, rng), rng)


def _summary_row(
    stay: Stay, description: str, text: str, rng: random.Random, *, error: str = ""
) -> list[Any]:
    """The row of a discharge summary: as in MIMIC-III, a date without a time and no caregiver."""
    late = rng.choice((0, 0, 0, 1)) if description == "Report" else rng.randint(1, 4)
    dated = _day(stay.discharged + timedelta(days=late))
    return [dated, "", "", "Discharge summary", description, "", error, text]


def risk_rows(numbered: Numbered) -> Iterator[list[Any]]:
    """The rows of TRUE_RISK: one for each index stay."""
    for subject, patient, ids in numbered:
        for stay, hadm in zip(patient.stays, ids, strict=True):
            if stay.risk is not None:
                yield [subject, hadm, f"{stay.risk:.6f}"]


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
