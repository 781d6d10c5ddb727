"""A made-up hospital of any number of notes, written in streams as tables of MIMIC-III.

Every stay has 40 notes in no order: a long discharge summary and shorter notes, about 2 kB on
average.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from domainbert.progress import counted

NOTES_A_STAY = 40
SUMMARY_BYTES = 10_000
NOTE_BYTES = 1_800
DAY = 24 * 60  # in minutes
FIRST_STAY_ID = 100_000
ADMISSIONS = "SUBJECT_ID,HADM_ID,ADMITTIME,DISCHTIME,ADMISSION_TYPE,HOSPITAL_EXPIRE_FLAG\n"
PATIENTS = "SUBJECT_ID,GENDER,DOB\n"
NOTEEVENTS = (
    b"ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CHARTTIME,STORETIME,CATEGORY,DESCRIPTION,CGID,ISERROR,"
    b"TEXT\n"
)
WORDS = (
    'admitted afebrile alert "baseline" blood breath, chest chronic clinic compliance, creatinine '
    "denies discharge disease dyspnea edema failure fever for from furosemide had has history home "
    "insulin kidney left medication missed no not of on pain patient pneumonia pulmonary renal "
    "right stable the to treated was weeks with without 1.2 98.6 120/80 [**2101-3-4**] mg po bid"
)
N_WORDS = 4_000_000  # of the long text from which notes are cut
LINE_WORDS = 11
SUMMARY = "Discharge summary"
CATEGORIES = (
    "Nursing",
    "Radiology",
    "Physician ",
    "Nursing/other",
    "ECG",
    "Respiratory ",
)


@dataclass(frozen=True)
class Hospital:
    """What was written: `notes` of `stays`, with `bytes` of CSV."""

    folder: Path
    stays: int
    notes: int
    bytes: int


@dataclass(frozen=True)
class Admissions:
    """Stays in the order of patients and times; arrays of shape (stays,)."""

    patient: np.ndarray
    admitted: np.ndarray
    discharged: np.ndarray
    admission_type: np.ndarray
    died: np.ndarray


def write_hospital(
    folder: Path,
    *,
    notes: int,
    seed: int = 0,
) -> Hospital:
    """Write ADMISSIONS, PATIENTS and NOTEEVENTS with so many notes."""
    folder.mkdir()
    generator = np.random.default_rng(seed)
    stays = max(1, notes // NOTES_A_STAY)
    admissions = draw_admissions(generator, stays)
    with (folder / "ADMISSIONS.csv").open("w") as file:
        file.write(ADMISSIONS)
        file.writelines(_admission_lines(admissions))
    with (folder / "PATIENTS.csv").open("w") as file:
        file.write(PATIENTS)
        file.writelines(
            f"{patient},{'FM'[patient % 2]},2040-01-01 00:00:00\n"
            for patient in np.unique(admissions.patient)
        )
    n_notes = stays * NOTES_A_STAY
    with (folder / "NOTEEVENTS.csv").open("wb", buffering=2**20) as file:
        file.write(NOTEEVENTS)
        lines = _note_lines(generator, n_notes, admissions)
        file.writelines(counted(lines, what="notes", total=n_notes))
    size = sum(path.stat().st_size for path in folder.iterdir())
    return Hospital(folder, stays, n_notes, size)


def draw_admissions(generator: np.random.Generator, stays: int) -> Admissions:
    """Draw stays; those of a patient follow one another."""
    n_patients = max(1, stays * 2 // 3)
    patient = np.sort(generator.integers(0, n_patients, stays))
    is_first = np.append(True, patient[1:] != patient[:-1])
    length = generator.integers(DAY // 2, 15 * DAY, stays)
    at_home = 60 + generator.exponential(90 * DAY, stays)
    # Minutes since the admission of the patient's first stay.
    end = np.cumsum(length + at_home.astype(int))
    start = end - length
    first_start = np.maximum.accumulate(np.where(is_first, start, 0))
    since_first = (start - first_start).astype("timedelta64[m]")
    admitted = np.datetime64("2100-01-01T00:00") + since_first
    admission_type = generator.choice(
        ["EMERGENCY", "URGENT", "ELECTIVE", "NEWBORN"],
        stays,
        p=[0.7, 0.1, 0.15, 0.05],
    )
    is_last = np.append(is_first[1:], True)  # nobody comes back from the dead
    died = (generator.random(stays) < 0.05) & is_last
    discharged = admitted + length.astype("timedelta64[m]")
    return Admissions(patient, admitted, discharged, admission_type, died)


def _admission_lines(admissions: Admissions) -> Iterator[str]:
    """The rows of ADMISSIONS."""
    for stay, patient in enumerate(admissions.patient):
        admitted = _time_text(admissions.admitted[stay])
        discharged = _time_text(admissions.discharged[stay])
        admission_type = admissions.admission_type[stay]
        died = int(admissions.died[stay])
        stay_id = FIRST_STAY_ID + stay
        yield f"{patient},{stay_id},{admitted},{discharged},{admission_type},{died}\n"


def _note_lines(
    generator: np.random.Generator,
    notes: int,
    admissions: Admissions,
) -> Iterator[bytes]:
    """The rows of NOTEEVENTS in a random order."""
    source = SourceText(generator)
    order = generator.permutation(notes)
    for row_id, note in enumerate(order, start=1):
        stay = note // NOTES_A_STAY
        is_summary = note % NOTES_A_STAY == 0
        mean_size = SUMMARY_BYTES if is_summary else NOTE_BYTES
        text = source.draw(mean_size)
        admitted = admissions.admitted[stay]
        discharged = admissions.discharged[stay]
        charted = admitted + (discharged - admitted) * generator.random()
        if is_summary:
            day = str(discharged)[:10]
            clock = ""
            category = SUMMARY
        else:
            day = str(charted)[:10]
            clock = _time_text(charted)
            category = CATEGORIES[note % len(CATEGORIES)]
        patient = admissions.patient[stay]
        ids = f"{row_id},{patient},{FIRST_STAY_ID + stay}"
        head = f'{ids},"{day}",{clock},,"{category}",Report,,,"'
        mark = f"[**Note {note}**]\n"
        yield head.encode() + mark.encode() + text + b'"\n'


class SourceText:
    """A long text of random words, of which a note is a run of lines."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        words = WORDS.replace('"', '""').split()
        numbers = generator.integers(0, len(words), N_WORDS)
        lines = []
        for first in range(0, N_WORDS, LINE_WORDS):
            line = numbers[first : first + LINE_WORDS]
            lines.append(" ".join(words[number] for number in line))
        self.text = "\n".join(lines).encode()
        characters = np.frombuffer(self.text, dtype=np.uint8)
        self.line_starts = np.flatnonzero(characters == ord("\n")) + 1

    def draw(self, mean_size: int) -> bytes:
        """Whole lines from a random one, from half to one and a half times as many bytes."""
        size = int(mean_size * (0.5 + self.generator.random()))
        last_start = len(self.text) - 2 * size
        n_starts = np.searchsorted(self.line_starts, last_start)
        begin = int(self.line_starts[self.generator.integers(0, n_starts)])
        end = self.text.index(b"\n", begin + size)
        return self.text[begin:end]


def _time_text(moment: np.datetime64) -> str:
    """A time as MIMIC-III writes it."""
    minutes = str(moment).replace("T", " ")
    return f"{minutes}:00"
