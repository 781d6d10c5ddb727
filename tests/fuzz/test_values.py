"""One hostile value in one row: every other row comes out as without it.

Under a minute by default; with FUZZ every value goes into every column of every format.
"""

import datetime as dt
import decimal
import json
import logging
import random
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clinical import ReadmissionModel, ReadmissionSettings, build_cohort
from clinical.evidence.task import ExplainTask
from clinical.risk.task import ReadmissionTask, TrajectoryTask
from clinical.stays.choice import NoteChoice
from domainbert.scoring import score_file, score_frame
from domainbert.tables import read_table

sys.path.insert(0, str(Path(__file__).parent))
from test_fuzz import random_answerer, random_tagger

pytestmark = pytest.mark.slow

DATES = [
    "0001-01-01",
    "1600-01-01",
    "1677-09-21 00:12:43",
    "2262-04-11 23:47:17",
    "9999-12-31 23:59:59",
    "9999-12-31T23:00:00-14:00",
    "0001-01-01T00:00:00+14:00",
    "-2020-01-01",
    "12345-01-01",
    "2020-02-30",
    "2020-13-01",
    "0000-00-00",
    "2020-01-01T24:00:00",
    "2020-01-01 10:00:00.123456789123",
    "2020-01-01\ud80010:00",
    "2020-01-01 10:00:00+99:99",
    "01/02/2020",
    "now",
    "２０２０-01-01",
    "NaT",
]
NUMBERS = [
    "1e999999",
    "-inf",
    "nan",
    "NA",
    "9" * 5000,
    "1e308",
    "0x1",
    "١٢",
    "-0.0",
    "1_0",
]
TEXTS = [
    "x" * 200_000,
    " " * 100_000,
    "a" + "\u0301" * 100_000,
    "\ud800",
    "\udfff\ud800 heart",
    "\x00",
    "\ufeff",
    "[MASK] [**" * 20_000,
    "<![x[ <a " * 5_000,
    "=1+1",
    "'",
    '"',
    "\r",
    "{\\rtf1",
    "P1 ",
    "p1.0",
    "s" * 100_000 + "0" * 6_000,
    "../../x",
]
OBJECTS = [
    None,
    float("nan"),
    float("inf"),
    pd.NA,
    pd.NaT,
    True,
    5,
    10**5000,
    decimal.Decimal("sNaN"),
    decimal.Decimal("NaN"),
    decimal.Decimal("1e999999"),
    complex(1, 2),
    b"\xff\xfe",
    dt.datetime.max,
    dt.date.min,
    np.datetime64("20000-01-01"),
    np.datetime64("NaT"),
    pd.Timestamp.max,
    pd.Timedelta(days=3),
    [],
    {},
    [None],
    [["nested"]],
    {"a": [1]},
    ["heart failure"] * 5_000,
    np.array(5),
    np.array([1.5, np.nan]),
    object(),
    ("a", 3),
]
CHOICES = {
    "none": None,
    "discharge": NoteChoice(
        notes="discharge",
        summaries=("DISCHARGE SUMMARY",),
        addenda=("ADDENDUM",),
        transfer_gap_hours=0.0,
        definition="readmission-30d 1.0.0",
        definition_sha256="0",
    ),
}
CHOICES["early"] = CHOICES["discharge"].replaced(notes="early", hours=48.0)
TASKS = {
    "score": ReadmissionTask,
    "explain": ExplainTask,
    "trajectory": TrajectoryTask,
}
HIT = 2  # the row that is changed; row 3 is of the same stay


def notes(*, choice):
    """Four stays, the second with two notes."""
    category = "Nursing" if choice == "early" else "Discharge summary"
    stays = ["S1", "S2", "S3", "S3", "S4"]
    return pd.DataFrame(
        {
            "patient_id": [f"P{stay}" for stay in stays],
            "stay_id": stays,
            "note_id": [f"N{number}" for number in range(5)],
            "chart_time": [
                f"2020-01-01 {hour:02d}:00" for hour in range(8, 13)
            ],
            "chart_date": "2020-01-01",
            "admit_time": "2020-01-01 07:00",
            "category": category,
            "kind": "Report",
            "error": "",
            "exclusion": None,
            "scorable": None,
            "died_within_horizon": None,
            "note_choice": None,
            "age": "63",
            "text": [
                f"chest pain and fever {number} ." for number in range(5)
            ],
        },
        dtype=object,
    )


@pytest.fixture(scope="module")
def make_task(new_network, tokenizer):
    """A task of a tiny model by its name and choice of notes."""
    from clinical.risk.reading import ColumnEffect

    network = new_network()

    def make(name, choice):
        settings = ReadmissionSettings(
            calibration=(1.0, -0.5),
            alert_threshold=0.5,
            notes=CHOICES[choice],
            columns=(ColumnEffect(name="age", median=60.0, weight=0.01),),
        )
        return TASKS[name](
            ReadmissionModel(network, tokenizer, settings=settings)
        )

    return make


def rows_but(frame, stay):
    """The result without the rows of a stay; numbers depend a little on their batch."""
    others = frame[frame["stay_id"].isin({"S1", "S2", "S3", "S4"} - {stay})]
    text = others.to_json(orient="records", double_precision=15)
    return json.loads(text, parse_float=lambda digits: round(float(digits), 4))


def with_value(frame, column, value):
    """The table with one cell changed."""
    cells = list(frame[column])
    cells[HIT] = value
    changed = pd.Series(index=frame.index, dtype=object)
    for number, cell in enumerate(cells):
        changed.iloc[number] = cell  # a list is one cell
    return frame.assign(**{column: changed})


VALUES = [*DATES, *NUMBERS, *TEXTS, *OBJECTS]


@pytest.fixture
def sampled(request):
    """Some values for a column, seeded by the names of both; with FUZZ all."""
    times = request.config.getoption("--fuzz")

    def sample(values, *, size, seed):
        if times > 1:
            return values
        return random.Random(seed).sample(values, k=min(len(values), size))

    return sample


def faults_of(run, table, columns, values_of, *, stay="S3"):
    """What a value in one row does to the rows of other stays, a line each."""
    expected = rows_but(run(table), stay)
    assert {row["status"] for row in expected} == {"ok"}
    for column in columns:
        for number, value in enumerate(values_of(column)):
            place = f"{column}, value {number}, {type(value).__name__}"
            try:
                result = run(with_value(table, column, value))
            except Exception as error:
                yield f"{place}: {type(error).__name__}"
                continue
            if rows_but(result, stay) != expected:
                yield f"{place}: other rows changed"
            if not set(result["status"]) <= {"ok", "empty", "error"}:
                yield f"{place}: {set(result['status'])}"


SIZES = {"score": 15, "trajectory": 6, "explain": 3}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", TASKS)
def test_a_value_in_a_frame_is_the_business_of_its_row(
    name, choice, make_task, sampled, caplog
):
    caplog.set_level(logging.ERROR)
    task = make_task(name, choice)
    table = notes(choice=choice)

    def values_of(column):
        seed = f"{name} {choice} {column}"
        return sampled(VALUES, size=SIZES[name], seed=seed)

    faults = faults_of(
        lambda frame: score_frame(task, frame), table, table.columns, values_of
    )
    assert list(faults) == []


@pytest.mark.parametrize("name", TASKS)
def test_a_text_of_20_mb_is_the_business_of_its_row(name, make_task):
    task = make_task(name, "discharge")
    faults = faults_of(
        lambda frame: score_frame(task, frame),
        notes(choice="discharge"),
        ["text"],
        lambda _: ["x" * 20_000_000],
    )
    assert list(faults) == []


def test_50_000_notes_are_the_business_of_their_row(make_task):
    task = make_task("score", "discharge")
    faults = faults_of(
        lambda frame: score_frame(task, frame),
        notes(choice="discharge"),
        ["text"],
        lambda _: [["pain"] * 50_000],
    )
    assert list(faults) == []


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_text_in_a_file_is_the_business_of_its_row(
    ending, make_task, sampled, tmp_path
):
    task = make_task("score", "discharge")

    def run(frame):
        source = tmp_path / f"in{ending}"
        rows = frame.map(lambda cell: cell.encode("utf-8", "replace").decode())
        if ending == ".csv":
            rows.to_csv(source, index=False)
        else:
            rows.to_json(source, orient="records", lines=True)
        score_file(task, source, tmp_path / "out.jsonl", restart=True)
        numbers = dict.fromkeys(
            ("probability", "score", "p_max", "p_mean"), "float"
        )
        return read_table(tmp_path / "out.jsonl", schema=numbers)

    def values_of(column):
        return sampled(
            [*DATES, *NUMBERS, *TEXTS], size=4, seed=f"{ending} {column}"
        )

    table = notes(choice="discharge").fillna("")
    assert list(faults_of(run, table, table.columns, values_of)) == []


ADMISSIONS = (
    "SUBJECT_ID,HADM_ID,ADMITTIME,DISCHTIME,DEATHTIME,ADMISSION_TYPE,DISCHARGE_LOCATION,"
    "INSURANCE,ETHNICITY,HOSPITAL_EXPIRE_FLAG"
).split(",")
PATIENTS = ["SUBJECT_ID", "GENDER", "DOB", "DOD"]
NOTES = (
    "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CHARTTIME,CATEGORY,DESCRIPTION,ISERROR,TEXT"
).split(",")


def tables(count):
    """A hospital of so many patients with a stay and a summary each."""
    stays = [f"10{number}" for number in range(count)]
    admissions = [
        [
            f"7{stay}",
            stay,
            "2101-01-01 08:00:00",
            "2101-01-05 10:00:00",
            "",
            "URGENT",
        ]
        + ["HOME", "Medicare", "WHITE", "0"]
        for stay in stays
    ]
    patients = [[f"7{stay}", "F", "2050-01-01", ""] for stay in stays]
    summaries = [
        [
            str(n),
            f"7{stay}",
            stay,
            "2101-01-05",
            "",
            "Discharge summary",
            "Report",
            "",
        ]
        + [f"heart failure {n}"]
        for n, stay in enumerate(stays, start=1)
    ]
    return {
        "ADMISSIONS": pd.DataFrame(admissions, columns=ADMISSIONS),
        "PATIENTS": pd.DataFrame(patients, columns=PATIENTS),
        "NOTEEVENTS": pd.DataFrame(summaries, columns=NOTES),
    }


@pytest.mark.parametrize("name", ["ADMISSIONS", "PATIENTS", "NOTEEVENTS"])
def test_a_text_in_a_source_is_the_business_of_its_stay(
    name, sampled, tmp_path
):
    """All values are in one hospital; the first four stays are built as without them."""
    columns = tables(1)[name].columns
    cases = [
        (column, value.encode("utf-8", "replace").decode())
        for column in columns
        for value in sampled([*DATES, *NUMBERS, *TEXTS], size=2, seed=column)
    ]
    hospital = tables(4 + len(cases))
    for other, frame in hospital.items():
        frame.to_csv(tmp_path / f"{other}.csv", index=False)

    def others():
        columns = ["stay_id", "text", "readmitted", "exclusion", "age"]
        frame = build_cohort(tmp_path).to_frame()
        kept = frame[frame["stay_id"].isin(["100", "101", "102", "103"])]
        return json.loads(kept[columns].to_json(orient="records"))

    def faults_with(cases):
        """The cases whose values together change other stays; if several do, of each half."""
        changed = hospital[name].copy()
        for row, (column, cell) in enumerate(cases, start=4):
            changed.loc[row, column] = cell
        changed.to_csv(tmp_path / f"{name}.csv", index=False)
        try:
            if others() == expected:
                return []
            kind = "other stays changed"
        except Exception as error:
            kind = type(error).__name__
        if len(cases) == 1:
            ((column, cell),) = cases
            return [f"{column}, {cell!r:.40}: {kind}"]
        half = len(cases) // 2
        faults = faults_with(cases[:half]) + faults_with(cases[half:])
        return faults or [f"{len(cases)} values together: {kind}"]

    expected = others()
    assert len(expected) == 4
    assert faults_with(cases) == []


@pytest.fixture(scope="module")
def biomed_tasks(random_network, tokenizer, new_network):
    """Tasks of biomed with a column each that holds text."""
    from biomed.ner.task import TagTask
    from biomed.qa.task import AskTask
    from biomed.sentences.task import PairTask
    from domainbert.models.pairs import PairModel

    return {
        "entities": TagTask(random_tagger(random_network, tokenizer)),
        "answers": AskTask(random_answerer(random_network, tokenizer)),
        "pairs": PairTask(PairModel(new_network(), tokenizer)),
    }


@pytest.mark.parametrize("name", ["entities", "answers", "pairs"])
def test_a_value_in_a_biomedical_table_is_the_business_of_its_row(
    name, biomed_tasks, sampled, caplog
):
    caplog.set_level(logging.ERROR)
    task = biomed_tasks[name]
    names = [column.name for column in task.columns]
    table = pd.DataFrame(
        {
            column: [f"chest pain {column} {number}" for number in range(5)]
            for column in names
        }
        | {"stay_id": ["S1", "S2", "S3", "S3", "S4"]},
        dtype=object,
    )
    columns = [column for column in table.columns if column != "stay_id"]
    faults = faults_of(
        lambda frame: score_frame(task, frame, keep=["stay_id"]),
        table,
        columns,
        lambda column: sampled(VALUES, size=12, seed=f"{name} {column}"),
    )
    assert list(faults) == []
