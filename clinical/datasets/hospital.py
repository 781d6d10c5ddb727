"""Write the made-up hospital as the tables of MIMIC-III, with the true risk of each stay."""

from __future__ import annotations

import copy
import csv
import glob
import random
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from clinical.datasets.notes import Chart
from clinical.datasets.patients import CALENDARS, draw_facts, draw_patients
from clinical.datasets.sentences import read_data
from clinical.stays.patients import assign_splits
from domainbert.errors import UserError
from domainbert.settings import check_choice
from domainbert.tables.sources import quoted

if TYPE_CHECKING:
    from datetime import datetime

    from clinical.datasets.patients import Patient, Stay

    Cells = list[object]

_TABLES = read_data("tables.toml")
COLUMNS: dict[str, list[str]] = _TABLES["columns"]
ADDENDA, ERRORS = (
    0.05,
    0.01,
)  # share of stays with an addendum, and with a note marked as wrong
FORMS = ("mimic4", "omop", "meds", "fhir")
# How many short notes a stay has, and the chance that one of them tells a fact. With many notes
# most of them say nothing about the risk, as in a real chart.
NOTES_PER_STAY = {"few": ((1, 2, 2, 2, 3), 0.5), "many": (range(20, 61), 0.06)}


@dataclass(frozen=True)
class Hospital:
    """What was written: numbers of rows, and of `stays` that have a true risk."""

    folder: Path
    patients: int
    admissions: int
    stays: int
    notes: int


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
    and stays that end in a transfer have none.

    Args:
        folder: where to write; tables of these names are replaced.
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
    # The tables draw from one generator: their order decides the words.
    tables = {
        "PATIENTS": writer.patients(),
        "ADMISSIONS": writer.admissions(),
        "NOTEEVENTS": writer.notes(),
        "TRUE_RISK": writer.risks(),
    }
    with tempfile.TemporaryDirectory(dir=folder) as work:
        rows = {name: _write(Path(work), name, table) for name, table in tables.items()}
        if form:
            rows["ADMISSIONS"] = _translate(Path(work), folder, form)
        for name in ("TRUE_RISK",) if form else tables:
            (Path(work) / f"{name}.csv").replace(folder / f"{name}.csv")
    named = rows["PATIENTS"], rows["ADMISSIONS"], rows["TRUE_RISK"], rows["NOTEEVENTS"]
    return Hospital(folder, *named)


def _translate(mimic3: Path, folder: Path, form: str) -> int:
    """Write the tables of MIMIC-III in a form, with what is rare; returns the admissions."""
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    for place in ("data", "metadata") if form == "meds" else ():
        (folder / place).mkdir(exist_ok=True)
    with duckdb.connect() as con:
        for name in ("ADMISSIONS", "PATIENTS", "NOTEEVENTS"):
            path = quoted(glob.escape(str(mimic3 / f"{name}.csv")))
            con.execute(
                f"CREATE TABLE {name} AS FROM read_csv({path}, all_varchar = true)"
            )
        con.execute(_script("rare"))
        splits = con.sql("SELECT SUBJECT_ID AS subject_id FROM PATIENTS").df()
        con.register("SPLITS", splits.assign(split=assign_splits(splits["subject_id"])))
        target = str(folder).replace("'", "''")
        con.execute(_script(form).replace("{folder}", target))
        ((admissions,),) = con.execute("SELECT count(*) FROM ADMISSIONS").fetchall()
    for shard in folder.glob(
        "data/*.parquet"
    ):  # MEDS wants large strings, which DuckDB lacks
        table = pq.read_table(shard)
        place = table.schema.get_field_index("text_value")
        texts = table["text_value"].cast(pa.large_string())
        pq.write_table(table.set_column(place, "text_value", texts), shard)
    return int(admissions)


def _script(name: str) -> str:
    return (resources.files(__package__) / "forms" / f"{name}.sql").read_text("utf-8")


def _write(folder: Path, name: str, rows: Iterable[Cells]) -> int:
    """Write rows, with a ROW_ID if the table has one; returns their number."""
    count, columns = 0, COLUMNS[name]
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        for count, row in enumerate(rows, start=1):
            writer.writerow([count, *row] if columns[0] == "ROW_ID" else row)
    return count


class _Writer:
    """The rows of each table without ROW_ID; a row of a note is written when it is asked for."""

    def __init__(
        self,
        patients: list[Patient],
        rng: random.Random,
        *,
        brief: bool,
        notes_per_stay: str,
    ) -> None:
        self.rng, self.brief = rng, brief
        self.short_notes, self.told_share = NOTES_PER_STAY[notes_per_stay]
        total = sum(len(patient.stays) for patient in patients)
        subjects = rng.sample(range(2, 2 + 3 * len(patients)), len(patients))
        # Another hospital has other patients: their numbers must not meet those of this one.
        hospital = zlib.crc32(repr(subjects).encode()) % 2000
        stays = iter(rng.sample(range(100_000, 100_000 + 3 * total), total))
        self.numbered = [
            (
                subject + 1_000_000 * hospital,
                patient,
                [(next(stays), s) for s in patient.stays],
            )
            for subject, patient in zip(subjects, patients, strict=True)
        ]

    def patients(self) -> Iterator[Cells]:
        for subject, patient, _ in self.numbered:
            last = patient.stays[-1]
            died = _time(last.discharged) if last.kind == "death" else ""
            yield [
                subject,
                patient.sex,
                _time(patient.birth),
                died,
                died,
                "",
                int(bool(died)),
            ]

    def risks(self) -> Iterator[Cells]:
        for subject, _, stays in self.numbered:
            for hadm, stay in stays:
                if stay.risk is not None:
                    yield [subject, hadm, f"{stay.risk:.6f}"]

    def admissions(self) -> Iterator[Cells]:
        for subject, _, stays in self.numbered:
            person = [
                self.rng.choice(options) for options in _TABLES["person"].values()
            ]
            moved = False
            for hadm, stay in stays:
                yield [subject, hadm, *self._admission(stay, person, moved=moved)]
                moved = stay.kind == "transfer"

    def _admission(self, stay: Stay, person: list[str], *, moved: bool) -> Cells:
        """One row from ADMITTIME on; `moved` says that the stay before it ended in a transfer."""
        rng, planned = self.rng, {"elective": "ELECTIVE", "newborn": "NEWBORN"}
        kind = planned.get(stay.kind) or rng.choice(("EMERGENCY",) * 9 + ("URGENT",))
        source = (
            "PHYS REFERRAL/NORMAL DELI"
            if stay.kind in planned
            else "EMERGENCY ROOM ADMIT"
        )
        if moved:
            source = "TRANSFER FROM HOSP/EXTRAM"
        places = _TABLES["discharge_location"]
        usual = rng.choice(places["usual"])
        arrived = left = ""
        if source == "EMERGENCY ROOM ADMIT":
            arrived = _time(stay.admitted - timedelta(minutes=rng.randint(120, 600)))
            left = _time(stay.admitted + timedelta(minutes=rng.randint(5, 60)))
        died, discharged = stay.kind == "death", _time(stay.discharged)
        times = [_time(stay.admitted), discharged, discharged if died else ""]
        ends = [arrived, left, stay.diagnosis, int(died), 1]
        return [*times, kind, source, places.get(stay.kind, [usual])[0], *person, *ends]

    def notes(self) -> Iterator[Cells]:
        for subject, patient, stays in self.numbered:
            for number, (hadm, stay) in enumerate(stays, start=1):
                # The part before a transfer tells the facts of the whole episode.
                is_part = stay.kind == "transfer" and number < len(stays)
                facts = stays[number][1].facts if is_part else stay.facts
                chart = Chart(patient, stay, facts, self.rng)
                for row in (*self._short_notes(chart), *self._summaries(chart)):
                    yield [subject, hadm, *row]

    def _short_notes(self, chart: Chart) -> Iterator[Cells]:
        """Nursing and physician notes of the first two days; none of a newborn."""
        stay, rng, told = chart.stay, self.rng, self.told_share
        if stay.kind == "newborn":
            return
        hours = min(46.0, (stay.discharged - stay.admitted) / timedelta(hours=1) - 1)
        for hour in sorted(
            rng.uniform(1, hours) for _ in range(rng.choice(self.short_notes))
        ):
            charted = stay.admitted + timedelta(hours=hour)
            stored = _time(charted + timedelta(minutes=rng.randint(3, 90)))
            if rng.random() < 0.5:
                kind, text = (
                    ["Nursing/other", "Report"],
                    chart.short_note("nursing", told=told),
                )
            else:
                kind = ["Physician ", "Physician Resident Progress Note"]
                text = chart.short_note("physician", told=told)
            stamps = [f"{charted:%Y-%m-%d}", _time(charted), stored]
            yield [*stamps, *kind, rng.randint(14_000, 21_000), "", text]

    def _summaries(self, chart: Chart) -> Iterator[Cells]:
        """The discharge summary, sometimes with an addendum or with a wrong one before it.

        As in MIMIC-III, they have a date without a time and no caregiver.
        """
        rng = self.rng

        def row(description: str, text: str, error: str = "") -> Cells:
            late = (
                rng.choice((0, 0, 0, 1))
                if description == "Report"
                else rng.randint(1, 4)
            )
            dated = f"{chart.stay.discharged + timedelta(days=late):%Y-%m-%d}"
            return [dated, "", "", "Discharge summary", description, "", error, text]

        if chart.stay.kind == "newborn":
            yield row("Report", chart.newborn_summary())
            return
        if rng.random() < ERRORS:
            wrong = copy.copy(chart)
            wrong.true = draw_facts(rng)
            yield row("Report", wrong.discharge_summary(brief=self.brief), error="1")
        yield row("Report", chart.discharge_summary(brief=self.brief))
        if rng.random() < ADDENDA:
            yield row("Addendum", chart.addendum())


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
