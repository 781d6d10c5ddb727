"""Write the made-up hospital as the tables of MIMIC-III, with the true risk of each stay."""

from __future__ import annotations

import copy
import csv
import random
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from clinical.datasets.notes import Chart
from clinical.datasets.patients import (
    CALENDARS,
    Patient,
    draw_facts,
    draw_patients,
)
from clinical.datasets.sentences import FACTS
from clinical.stays.patients import assign_splits
from domainbert.errors import UserError
from domainbert.files import data_text, read_toml
from domainbert.settings import check_choice

if TYPE_CHECKING:
    import duckdb

    Cells = list[object]

_TABLES = read_toml(__file__, "tables.toml")
COLUMNS: dict[str, list[str]] = _TABLES["columns"]
NOTES_FILE = "NOTEEVENTS.csv"
ADDENDA = 0.05  # share of stays with an addendum
ERRORS = 0.01  # share of stays with a note marked as wrong
FORMS = ("mimic4", "omop", "meds", "fhir")
SUBFOLDERS = {"meds": ("data", "metadata"), "fhir": ("Binary",)}
# How many short notes a stay has, and the chance that one of them tells a fact. With many notes
# most of them say nothing about the risk, as in a real chart.
NOTES_PER_STAY = {"few": ((1, 2, 2, 2, 3), 0.5), "many": (range(20, 61), 0.06)}


@dataclass(frozen=True)
class Hospital:
    """What was written: numbers of rows, and of `stays` that have a true risk."""

    folder: Path
    patients: int
    admissions: int
    notes: int
    stays: int


def synthesize(
    folder: str | Path,
    *,
    stays: int = 1000,
    seed: int = 0,
    brief: bool = False,
    notes_per_stay: str = "few",
    dates: str = "shifted",
    form: str | None = None,
) -> Hospital:
    """Write a made-up hospital whose readmission risks are known.

    PATIENTS.csv, ADMISSIONS.csv and NOTEEVENTS.csv have the columns of MIMIC-III. TRUE_RISK.csv
    holds the probability with which the 30-day readmission of each index stay was drawn (the
    logistic function of the weights of its facts in `phrases.toml`); newborns, deaths in hospital
    and stays that end in a transfer have none. DIAGNOSES_ICD.csv has the codes of the facts that
    are true of a stay; the notes tell these in words, among others that are denied or of relatives.

    Args:
        folder: the folder to write to; tables of these names are replaced.
        stays: number of index stays, at least 1.
        seed: the same seed and options give the same bytes.
        brief: summaries of about 200 word-pieces, the hospital course, instead of 1,000 to 4,000.
        notes_per_stay: "few" gives each stay 1 to 3 short notes in its first two days, each with
            half of the true facts; "many" gives 20 to 60, most without any.
        dates: "shifted": over 90 years from 2100, as MIMIC-III's; "real": over 2018 and 2019.
        form: "mimic3" or one of `FORMS`: the tables of a form, in which a few patients have what
            is rare: deaths on the day of discharge and an organ donor (`forms/rare.sql`).
            `forms/*.sql` say what is lost. By default tables of MIMIC-III without these.

    Raises:
        UserError: `stays` is less than 1, or an option is not one of those above.
    """
    import duckdb
    import pandas as pd

    if stays < 1:
        raise UserError(
            f"stays is {stays}, expected at least 1: synthesize(folder, stays=1000)"
        )
    check_choice("notes_per_stay", notes_per_stay, tuple(NOTES_PER_STAY))
    check_choice("dates", dates, tuple(CALENDARS))
    if form is not None:
        check_choice("form", form, ("mimic3", *FORMS))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Separate generators: a new phrase does not change the patients.
    patients = draw_patients(stays, random.Random(seed), dates=dates)  # noqa: S311 - no secret
    rng = random.Random(f"wording {seed}")  # noqa: S311 - no secret
    writer = _Writer(patients, rng, brief=brief, notes_per_stay=notes_per_stay)
    with (
        tempfile.TemporaryDirectory(dir=folder) as temporary,
        duckdb.connect() as con,
    ):
        work = Path(temporary)
        # Notes are drawn after the stays: the order decides the words.
        rows = pd.DataFrame(writer.stays(), columns=_TABLES["stays"])
        rows["number"] = rows.index + 1
        con.register("stays", rows.convert_dtypes())  # missing is NULL
        codes = pd.DataFrame(writer.codes(), columns=_TABLES["codes"])
        con.register("codes", codes.astype(str))
        con.execute(data_text(__file__, "forms/tables.sql"))
        n_notes = _write_notes(work / NOTES_FILE, writer.notes())
        copied = ["TRUE_RISK"]
        if form:
            _translate(con, work / NOTES_FILE, folder, form)
        else:
            (work / NOTES_FILE).replace(folder / NOTES_FILE)
            copied += ["PATIENTS", "ADMISSIONS", "DIAGNOSES_ICD"]
        for name in copied:
            con.table(name).write_csv(str(work / f"{name}.csv"))
            (work / f"{name}.csv").replace(folder / f"{name}.csv")
        tables = map(con.table, ("PATIENTS", "ADMISSIONS", "TRUE_RISK"))
        n_patients, n_admissions, n_risks = map(len, tables)
    return Hospital(folder, n_patients, n_admissions, n_notes, n_risks)


def _translate(
    con: duckdb.DuckDBPyConnection, notes: Path, folder: Path, form: str
) -> None:
    """Write the tables of MIMIC-III in a form, with what is rare."""
    for name in SUBFOLDERS.get(form, ()):
        (folder / name).mkdir(exist_ok=True)
    con.read_csv(str(notes), all_varchar=True).create("NOTEEVENTS")
    con.execute(data_text(__file__, "forms/rare.sql"))
    splits = con.sql("SELECT SUBJECT_ID AS subject_id FROM PATIENTS").df()
    con.register(
        "SPLITS", splits.assign(split=assign_splits(splits["subject_id"]))
    )
    target = str(folder).replace("'", "''")
    query = data_text(__file__, f"forms/{form}.sql")
    con.execute(query.replace("{folder}", target))
    for shard in folder.glob("data/*.parquet"):
        _use_large_strings(shard)


def _use_large_strings(shard: Path) -> None:
    """Give the texts of a shard the type that MEDS prescribes and DuckDB does not have."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(shard)
    position = table.schema.get_field_index("text_value")
    texts = pa.field("text_value", pa.large_string())
    pq.write_table(table.cast(table.schema.set(position, texts)), shard)


def _write_notes(path: Path, notes: Iterable[Cells]) -> int:
    """Write the table of notes; return their number."""
    number = 0
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(COLUMNS["NOTEEVENTS"])
        for number, row in enumerate(notes, start=1):
            writer.writerow([number, *row])
    return number


class _Writer:
    """Draws stays, and then the rows of notes without ROW_ID, each when it is needed."""

    def __init__(
        self,
        patients: list[Patient],
        rng: random.Random,
        *,
        brief: bool,
        notes_per_stay: str,
    ) -> None:
        self.rng = rng
        self.brief = brief
        self.note_counts, self.telling_rate = NOTES_PER_STAY[notes_per_stay]
        n_patients = len(patients)
        n_stays = sum(len(patient.stays) for patient in patients)
        subjects = rng.sample(range(2, 2 + 3 * n_patients), n_patients)
        # Two hospitals have different patients, so their numbers must differ.
        hospital = zlib.crc32(repr(subjects).encode()) % 2000
        stay_ids = iter(
            rng.sample(range(100_000, 100_000 + 3 * n_stays), n_stays)
        )
        self.numbered = []
        for subject, patient in zip(subjects, patients, strict=True):
            stays = [(next(stay_ids), stay) for stay in patient.stays]
            self.numbered.append(
                (subject + 1_000_000 * hospital, patient, stays)
            )

    def stays(self) -> Iterator[Cells]:
        """The columns of `stays` in `tables.toml`."""
        rng = self.rng
        for subject, patient, stays in self.numbered:
            person = map(rng.choice, _TABLES["person"].values())
            facts = [subject, patient.sex, patient.birth, *person]
            course_before = ""
            for hadm, stay in stays:
                is_urgent = stay.course not in ("elective", "newborn")
                urgency = None
                if is_urgent:
                    urgency = rng.choice(("EMERGENCY",) * 9 + ("URGENT",))
                usual_location = rng.choice(_TABLES["usual_location"])
                minutes: Cells = [None, None]
                if is_urgent and course_before != "transfer":
                    minutes = [rng.randint(120, 600), rng.randint(5, 60)]
                yield [
                    *facts,
                    hadm,
                    stay.course,
                    course_before,
                    stay.admitted,
                    stay.discharged,
                    stay.diagnosis,
                    stay.risk,
                    urgency,
                    usual_location,
                    *minutes,
                ]
                course_before = stay.course

    def codes(self) -> Iterator[Cells]:
        """The columns of `codes` in `tables.toml`."""
        for subject, _, stays in self.numbered:
            for hadm, stay in stays:
                coded = [f for f in FACTS if f.icd10 and f.name in stay.facts]
                for number, fact in enumerate(coded, start=1):
                    yield [subject, hadm, number, fact.icd10, fact.icd9]

    def notes(self) -> Iterator[Cells]:
        """The rows of the table of notes."""
        for subject, patient, stays in self.numbered:
            for number, (hadm, stay) in enumerate(stays, start=1):
                facts = stay.facts
                if stay.course == "transfer" and number < len(stays):
                    # The part before a transfer tells the facts of the whole episode.
                    facts = stays[number][1].facts
                chart = Chart(patient, stay, facts, self.rng)
                for row in self._stay_notes(chart):
                    yield [subject, hadm, *row]

    def _stay_notes(self, chart: Chart) -> Iterator[Cells]:
        """Short notes and the discharge summary; a newborn has only a summary.

        Some summaries have an addendum, or follow one with wrong facts that is marked as an error.
        """
        rng = self.rng
        if chart.stay.course == "newborn":
            yield self._summary(chart, "Report", chart.newborn_summary())
            return
        yield from self._short_notes(chart)
        if rng.random() < ERRORS:
            wrong = copy.copy(chart)
            wrong.true = draw_facts(rng)
            text = wrong.discharge_summary(brief=self.brief)
            yield self._summary(chart, "Report", text, error="1")
        text = chart.discharge_summary(brief=self.brief)
        yield self._summary(chart, "Report", text)
        if rng.random() < ADDENDA:
            yield self._summary(chart, "Addendum", chart.addendum())

    def _short_notes(self, chart: Chart) -> Iterator[Cells]:
        """Nursing and physician notes of the first two days."""
        rng = self.rng
        admitted = chart.stay.admitted
        stay_hours = (chart.stay.discharged - admitted) / timedelta(hours=1)
        n_notes = rng.choice(self.note_counts)
        last_hour = min(46.0, stay_hours - 1)
        for hour in sorted(rng.uniform(1, last_hour) for _ in range(n_notes)):
            charted = admitted + timedelta(hours=hour)
            stored = charted + timedelta(minutes=rng.randint(3, 90))
            profession = "nursing" if rng.random() < 0.5 else "physician"
            category, description = _TABLES["short_notes"][profession]
            text = chart.short_note(profession, telling_rate=self.telling_rate)
            yield [
                charted.date(),
                charted.isoformat(" ", "seconds"),
                stored.isoformat(" ", "seconds"),
                category,
                description,
                rng.randint(14_000, 21_000),
                "",
                text,
            ]

    def _summary(
        self,
        chart: Chart,
        description: str,
        text: str,
        error: str = "",
    ) -> Cells:
        """As in MIMIC-III, a discharge summary has a date without a time and no caregiver."""
        delays = _TABLES["days_late"][description]
        written = chart.stay.discharged + timedelta(
            days=self.rng.choice(delays)
        )
        # From CHARTDATE to TEXT, as in `tables.toml`.
        return [
            written.date(),
            "",
            "",
            "Discharge summary",
            description,
            "",
            error,
            text,
        ]
