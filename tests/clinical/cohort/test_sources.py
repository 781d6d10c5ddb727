"""The same hospital gives the same cohort, wherever its tables are."""

from __future__ import annotations

import gzip
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pandas as pd
import pytest

from clinical.cohort import build_cohort
from domainbert.tables import TableError


@pytest.fixture
def example(hospital):
    """Two patients with a return, a transfer, an addendum and a newborn."""
    first = hospital.stay(0, 3)
    hospital.stay(9.5, 12)
    hospital.stay(12, 15, kind="ELECTIVE")
    hospital.stay(1, 4, patient="8", kind="NEWBORN")
    hospital.note(first, 'He said "no", and\nleft.', day=3)
    hospital.note(first, "addendum", day=4, DESCRIPTION="Addendum")
    hospital.note("102", "second summary", day=15)
    hospital.note(first, "nursing", category="Nursing", at=0.5)
    hospital.patient("7", died=20)
    hospital.patient("8", born="2100-01-02 00:00:00")
    return hospital


def assert_equal(one, other):
    pd.testing.assert_frame_equal(one.to_frame(), other.to_frame())
    assert one.flow.equals(other.flow)
    assert one.issues.equals(other.issues)


def frames(hospital) -> dict[str, pd.DataFrame]:
    """The tables as text, empty being missing, as a database would hold them."""
    return {
        name: pd.DataFrame(rows).replace("", None).astype(object)
        for name, rows in hospital.tables().items()
    }


@pytest.mark.parametrize("form", ["lower case", "gzip", "parquet", "typed parquet", "sub-folder"])
def test_files(example, tmp_path, form):
    expected = example.build()
    folder = tmp_path / "other"
    deep = folder / "hosp" / "v1"
    deep.mkdir(parents=True)
    for name, frame in frames(example).items():
        if form == "lower case":
            frame.columns = frame.columns.str.lower()
            frame.to_csv(folder / f"{name.lower()}.csv", index=False)
        elif form == "gzip":
            frame.to_csv(folder / f"{name}.csv.gz", index=False)
        elif form == "parquet":
            frame.to_parquet(folder / f"{name}.parquet")
        elif form == "typed parquet":
            typed(frame).to_parquet(folder / f"{name}.parquet")
        else:
            frame.to_csv(deep / f"{name}.CSV", index=False)
    assert_equal(build_cohort(folder), expected)


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as numbers and times as times; a whole number with a gap becomes a float."""
    frame = frame.copy()
    for name in frame.columns:
        if name.endswith("TIME") or name in ("DOB", "DOD"):
            frame[name] = pd.to_datetime(frame[name])
        elif name == "CHARTDATE":
            frame[name] = pd.to_datetime(frame[name]).dt.date
        elif name in ("SUBJECT_ID", "HADM_ID", "ROW_ID", "HOSPITAL_EXPIRE_FLAG"):
            frame[name] = pd.to_numeric(frame[name])
    return frame


def test_duckdb(example, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "hospital.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE SCHEMA mimiciii")
        for name, frame in frames(example).items():
            con.register("frame", typed(frame))
            con.execute(f"CREATE TABLE mimiciii.{name} AS SELECT * FROM frame")
    before = path.read_bytes()
    assert_equal(build_cohort(path), example.build())
    assert path.read_bytes() == before


@pytest.mark.parametrize("notes", ["discharge", "early"])
def test_sqlite(example, tmp_path, notes):
    pytest.importorskip("adbc_driver_sqlite", reason="the extra 'databases' is not installed")
    path = tmp_path / "hospital.db"
    with sqlite3.connect(path) as con:
        for name, frame in frames(example).items():
            frame.to_sql(name.lower(), con, index=False)
        # SQLite lets a column hold both: a number here and there among text.
        con.execute("UPDATE admissions SET hadm_id = CAST(hadm_id AS INTEGER) WHERE rowid % 2")
    assert_equal(build_cohort(f"sqlite:///{path}", notes=notes), example.build(notes=notes))
    relative = os.path.relpath(path)
    assert build_cohort(f"sqlite:///{relative}", notes=notes).n_admissions == 4


def test_sqlite_is_not_created_by_a_mistyped_name(tmp_path):
    pytest.importorskip("adbc_driver_sqlite", reason="the extra 'databases' is not installed")
    with pytest.raises(TableError, match=r"nowhere\.db: no such SQLite file"):
        build_cohort(f"sqlite:///{tmp_path}/nowhere.db")
    assert not (tmp_path / "nowhere.db").exists()


@pytest.fixture(scope="session")
def postgres():
    """The address of a PostgreSQL server of our own, on a socket and the loopback."""
    pytest.importorskip("adbc_driver_postgresql", reason="the extra 'databases' is not installed")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = shutil.which("initdb") or (str(found[-1]) if found else None)
    if initdb is None:
        pytest.skip("no PostgreSQL server here: install the package postgresql")
    control = str(Path(initdb).parent / "pg_ctl")
    # The server refuses to run as root; its folder must then belong to someone else.
    user = "postgres" if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    if user:
        shutil.chown(folder, user)

    def run(*command: str) -> None:
        subprocess.run(command, check=True, user=user, cwd=folder, capture_output=True, timeout=300)

    data = str(folder / "data")
    run(initdb, "-D", data, "-U", "reader", "-A", "trust", "-E", "UTF8", "--no-sync")
    options = f"-p 54329 -c listen_addresses=127.0.0.1 -c fsync=off -k {folder}"
    run(control, "-D", data, "-w", "-t", "200", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield "postgresql://reader:secret-word@127.0.0.1:54329/postgres"
    finally:
        run(control, "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("notes", ["discharge", "early"])
def test_postgres(example, postgres, notes):
    from adbc_driver_postgresql import dbapi

    types = {"TIME": "timestamp(0)", "DATE": "date", "ID": "bigint", "DOB": "date", "DOD": "date"}
    with dbapi.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS mimiciii CASCADE")
        cursor.execute("CREATE SCHEMA mimiciii")
        for name, rows in example.tables().items():
            columns = ", ".join(
                f"{c} {next((t for end, t in types.items() if c.endswith(end)), 'text')}"
                for c in rows[0]
            )
            cursor.execute(f"CREATE TABLE mimiciii.{name} ({columns})")
            for row in rows:
                values = ", ".join(
                    "NULL" if v == "" else "'" + v.replace("'", "''") + "'" for v in row.values()
                )
                cursor.execute(f"INSERT INTO mimiciii.{name} VALUES ({values})")
        connection.commit()
    # A server elsewhere may write its dates in another order.
    assert_equal(build_cohort(postgres, notes=notes), example.build(notes=notes))


def test_postgres_that_is_not_there_keeps_the_password(postgres):
    nowhere = postgres.replace("54329", "54328")
    with pytest.raises(TableError, match=r"127\.0\.0\.1:54328/postgres cannot be opened") as caught:
        build_cohort(nowhere)
    assert "secret-word" not in str(caught.value)


@pytest.fixture
def mimic4(tmp_path):
    """MIMIC-IV with its notes: a return after five days, an addendum, a radiology report."""
    folder = tmp_path / "mimiciv"
    tables = {
        "hosp/patients.csv": "subject_id,gender,anchor_age,anchor_year,anchor_year_group,dod\n"
        "10,F,60,2148,2014 - 2016,2150-02-20\n",
        "hosp/admissions.csv.gz": "subject_id,hadm_id,admittime,dischtime,deathtime,admission_type,"
        "discharge_location,insurance,race,hospital_expire_flag\n"
        "10,20,2150-01-01 10:00:00,2150-01-05 10:00:00,,EW EMER.,HOME,Medicare,WHITE,0\n"
        "10,21,2150-01-10 10:00:00,2150-01-12 10:00:00,,SURGICAL SAME DAY ADMISSION,HOME,"
        "Medicare,WHITE,0\n"
        "10,22,2150-01-20 10:00:00,2150-01-28 10:00:00,,OBSERVATION ADMIT,,Medicare,WHITE,0\n",
        "note/discharge.csv.gz": "note_id,subject_id,hadm_id,note_type,note_seq,charttime,"
        "storetime,text\n"
        "10-AD-10,10,20,AD,10,2150-01-05 00:00:00,,addendum\n"
        "10-DS-9,10,20,DS,9,2150-01-05 00:00:00,,summary\n"
        "10-DS-12,10,22,DS,12,2150-01-28 00:00:00,,last summary\n",
        "note/radiology.csv": "note_id,subject_id,hadm_id,note_type,note_seq,charttime,storetime,"
        "text\n"
        "10-RR-1,10,20,RR,1,2150-01-01 12:00:00,,chest film\n"
        "10-RR-2,10,22,RR,2,2150-01-27 12:00:00,,late film\n",
    }
    for name, text in tables.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return folder


def test_mimic4_at_discharge(mimic4):
    frame = build_cohort(mimic4, schema="mimic4").to_frame().set_index("stay_id")
    assert frame.loc["20", "text"] == ["summary", "addendum"]
    assert frame.loc["20", "days_to_readmission"] == pytest.approx(15)
    assert frame.loc["20", "age"] == 62
    assert frame.loc["20", "ethnicity"] == "WHITE"
    assert frame.loc["21", "exclusion"] == "no_text"
    assert frame.loc["22", "died_within_horizon"]
    assert frame["readmitted"].tolist() == [1, pd.NA, 0]


def test_mimic4_early_reads_radiology_and_never_the_summaries(mimic4):
    cohort = build_cohort(mimic4, schema="mimic4", notes="early", hours=24)
    frame = cohort.to_frame().set_index("stay_id")
    assert frame.loc["20", "text"] == ["chest film"]
    assert frame.loc["22", "exclusion"] == "no_text"
    assert cohort.summary["notes_read"] == {"charted_later": 1, "used": 1}


@pytest.fixture
def generic(tmp_path):
    """Two tables of somebody's own, with the mapping that names their columns."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "encounters.csv").write_text(
        "Case No,MRN,In,Out,Urgency,Years,Gone\n"
        "A-1,007,01/02/2019 10:00,05/02/2019 09:30,acute,71,\n"
        "A-2,007,20/02/2019 10:00,25/02/2019 09:30,booked,71,\n"
        "A-3,007,01/03/2019 10:00,02/03/2019 09:30,acute,71,02/04/2019\n"
        "A-4,7,2019-02-30,02/03/2019 09:30,acute,71,\n"
    )
    (folder / "letters.csv").write_text(
        "Case No,Letter,Written\nA-1,dear colleague,05/02/2019\nA-3,again,02/03/2019\n"
    )
    mapping = tmp_path / "columns.toml"
    mapping.write_text(
        "[admissions]\ntable = 'encounters'\npatient_id = 'MRN'\nstay_id = 'Case No'\n"
        "admit_time = 'In'\ndischarge_time = 'Out'\nadmission_type = 'Urgency'\nage = 'Years'\n"
        "death_date = 'Gone'\ntime_format = '%d/%m/%Y %H:%M'\n"
        "[notes]\ntable = 'letters'\nstay_id = 'Case No'\ntext = 'Letter'\n"
        "chart_date = 'Written'\ntime_format = '%d/%m/%Y'\n"
    )
    return folder, mapping


def test_generic_tables(generic, define):
    folder, mapping = generic
    cohort = build_cohort(
        folder, schema="generic", mapping=mapping, definition=define(planned_types='["Booked"]')
    )
    frame = cohort.to_frame().set_index("stay_id")
    assert frame["exclusion"].fillna("").to_dict() == {
        "A-1": "", "A-2": "no_text", "A-3": "", "A-4": "unreadable_time",
    }  # fmt: skip
    assert frame.loc["A-1", "days_to_readmission"] == pytest.approx(24 + 0.5 / 24)
    assert frame.loc["A-1", "text"] == ["dear colleague"]
    assert frame.loc["A-1", "age"] == 71
    assert frame.loc["A-1", "patient_id"] == "007"
    assert any("deaths in hospital" in said for said in cohort.caveats)


def test_generic_early_needs_to_know_what_a_note_is(generic):
    folder, mapping = generic
    with pytest.raises(ValueError, match=r"add to \[notes\]: category ="):
        build_cohort(folder, schema="generic", mapping=mapping, notes="early")
    text = mapping.read_text().replace("chart_date = 'Written'\n", "")
    mapping.write_text(text + "category = 'Letter'\n")
    with pytest.raises(ValueError, match=r"add to \[notes\] for letters: chart_time ="):
        build_cohort(folder, schema="generic", mapping=mapping, notes="early")
