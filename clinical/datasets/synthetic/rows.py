"""The rows of the made-up hospital's tables, in the columns of MIMIC-III."""

from __future__ import annotations

import zlib
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clinical.datasets.synthetic import notes
from clinical.datasets.synthetic.stays import Patient, Stay, draw_facts

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from datetime import datetime

    from clinical.datasets.synthetic.telling import Statement

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
    "TOLD": ("SUBJECT_ID", "HADM_ID", "FACT", "WEIGHT", "MEANING", "SENTENCE"),
}  # fmt: skip
_PERSON = (  # INSURANCE to ETHNICITY of ADMISSIONS
    ("Medicare", "Medicare", "Private", "Medicaid", "Government", "Self Pay"),
    ("ENGL", "ENGL", "ENGL", "SPAN", "PORT", "RUSS"),
    ("CATHOLIC", "PROTESTANT QUAKER", "JEWISH", "NOT SPECIFIED"),
    ("MARRIED", "SINGLE", "WIDOWED", "DIVORCED"),
    ("WHITE", "WHITE", "WHITE", "BLACK/AFRICAN AMERICAN", "ASIAN", "HISPANIC"),
)
_DESTINATIONS = ("HOME", "HOME HEALTH CARE", "SNF", "REHAB/DISTINCT PART HOSP")
_ENDS = {"death": "DEAD/EXPIRED", "transfer": "SHORT TERM HOSPITAL", "newborn": "HOME"}
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
        person = [rng.choice(options) for options in _PERSON]
        moved = False
        for stay, hadm in zip(patient.stays, ids, strict=True):
            yield [subject, hadm, *_admission(stay, person, rng, moved=moved)]
            moved = stay.kind == "transfer"


def _admission(stay: Stay, person: list[str], rng: random.Random, *, moved: bool) -> list[Any]:
    """One row from ADMITTIME on; `moved` says that the stay before it ended in a transfer."""
    kinds = {"elective": "ELECTIVE", "newborn": "NEWBORN"}
    kind = kinds.get(stay.kind) or rng.choice(("EMERGENCY",) * 9 + ("URGENT",))
    source = "PHYS REFERRAL/NORMAL DELI" if stay.kind in kinds else "EMERGENCY ROOM ADMIT"
    if moved:
        source = "TRANSFER FROM HOSP/EXTRAM"
    destination = rng.choice(_DESTINATIONS)
    arrived = left = ""
    if source == "EMERGENCY ROOM ADMIT":
        arrived = _time(stay.admitted - timedelta(minutes=rng.randint(120, 600)))
        left = _time(stay.admitted + timedelta(minutes=rng.randint(5, 60)))
    admitted, discharged, died = _time(stay.admitted), _time(stay.discharged), stay.kind == "death"
    return [
        *(admitted, discharged, discharged if died else ""),
        *(kind, source, _ENDS.get(stay.kind, destination)),
        *person,
        *(arrived, left, stay.diagnosis, int(died), 1),
    ]


def note_rows(
    numbered: Numbered,
    rng: random.Random,
    *,
    told: list[list[Any]],
    brief: bool = False,
    notes_per_stay: str = "few",
) -> Iterator[list[Any]]:
    """The rows of NOTEEVENTS without ROW_ID; each is written when it is asked for.

    Then the facts in its sentences are added to `told`, as rows of TOLD.
    """
    for subject, patient, ids in numbered:
        coming = (*patient.stays[1:], None)
        for stay, following, hadm in zip(patient.stays, coming, ids, strict=True):
            # The part before a transfer tells the facts of the whole episode.
            facts = following.facts if stay.kind == "transfer" and following else stay.facts
            chart = notes.draw_chart(patient, stay, facts, rng)
            if stay.kind != "newborn":
                for row in _short_notes(chart, rng, notes_per_stay):
                    yield [subject, hadm, *row]
            for row in _summaries(chart, rng, brief=brief):
                yield [subject, hadm, *row]
            told += [
                [subject, hadm, *_meaning(part), one.sentence]
                for one in chart.told
                for part in one.statements
            ]


def _meaning(part: Statement) -> list[Any]:
    """Name and weight of a fact, and whether it is told as true of this stay."""
    meaning = "elsewhere" if part.elsewhere else "true" if part.truth else "denied"
    return [part.fact.name, part.fact.weight, meaning]


def _short_notes(
    chart: notes.Chart, rng: random.Random, notes_per_stay: str
) -> Iterator[list[Any]]:
    """Nursing and physician notes of the first two days."""
    counts, told = NOTES_PER_STAY[notes_per_stay]
    stay = chart.stay
    hours = min(46.0, (stay.discharged - stay.admitted) / timedelta(hours=1) - 1)
    for hour in sorted(rng.uniform(1, hours) for _ in range(rng.choice(counts))):
        charted = stay.admitted + timedelta(hours=hour)
        stored = _time(charted + timedelta(minutes=rng.randint(3, 90)))
        stamps = [_day(charted), _time(charted), stored]
        if rng.random() < 0.5:
            kind, text = ["Nursing/other", "Report"], notes.nursing_note(chart, rng, told=told)
        else:
            kind = ["Physician ", "Physician Resident Progress Note"]
            text = notes.physician_note(chart, rng, told=told)
        yield [*stamps, *kind, rng.randint(14_000, 21_000), "", text]


def _summaries(chart: notes.Chart, rng: random.Random, *, brief: bool) -> Iterator[list[Any]]:
    """The discharge summary, sometimes with an addendum or with a wrong one before it.

    As in MIMIC-III, they have a date without a time and no caregiver.
    """

    def row(description: str, text: str, error: str = "") -> list[Any]:
        late = rng.choice((0, 0, 0, 1)) if description == "Report" else rng.randint(1, 4)
        dated = _day(chart.stay.discharged + timedelta(days=late))
        return [dated, "", "", "Discharge summary", description, "", error, text]

    if chart.stay.kind == "newborn":
        yield row("Report", notes.newborn_summary(chart, rng))
        return
    summary = notes.brief_summary if brief else notes.discharge_summary
    if rng.random() < _ERRORS:
        wrong = replace(chart, true_names=draw_facts(rng), told=[])
        yield row("Report", summary(wrong, rng), error="1")
    yield row("Report", summary(chart, rng))
    if rng.random() < _ADDENDA:
        yield row("Addendum", notes.addendum(chart, rng))


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
