"""The same hospital gives the same cohort, wherever its tables are."""

from __future__ import annotations

import gzip
import json
import os
import socket
import sqlite3
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pytest

from clinical.cohort.build import build_cohort
from domainbert.errors import UserError
from domainbert.tables import TableError

from .conftest import Hospital, by_stay


def example_in(folder) -> Hospital:
    """Two patients with a return, a transfer, an addendum and a newborn."""
    hospital = Hospital(folder)
    first = hospital.stay(0, 3)
    hospital.stay(9.5, 12)
    hospital.stay(12, 15, kind="ELECTIVE")
    hospital.stay(1, 4, patient="8", kind="NEWBORN")
    hospital.note(first, 'Käse; "no", and\nleft\tearly.', day=3)
    hospital.note(first, "addendum", day=4, DESCRIPTION="Addendum")
    hospital.note("102", "second summary", day=15)
    hospital.note(first, "nursing", category="Nursing", at=0.5)
    hospital.patient("7", died=20)
    hospital.patient("8", born="2100-01-02 00:00:00")
    return hospital


@pytest.fixture
def example(tmp_path):
    return example_in(tmp_path / "hospital")


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The cohorts of the example, by the notes that are read."""
    example = example_in(tmp_path_factory.mktemp("expected") / "hospital")
    return {
        notes: example.build(notes=notes) for notes in ("discharge", "early")
    }


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


@pytest.mark.parametrize(
    "form", ["lower case", "gzip", "parquet", "typed parquet", "sub-folder"]
)
def test_files(example, expected, tmp_path, form):
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
    assert_equal(build_cohort(folder), expected["discharge"])


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as numbers and times as times; a whole number with a gap becomes a float."""
    frame = frame.copy()
    for name in frame.columns:
        if name.endswith("TIME") or name in ("DOB", "DOD"):
            frame[name] = pd.to_datetime(frame[name])
        elif name == "CHARTDATE":
            frame[name] = pd.to_datetime(frame[name]).dt.date
        elif name in (
            "SUBJECT_ID",
            "HADM_ID",
            "ROW_ID",
            "HOSPITAL_EXPIRE_FLAG",
        ):
            frame[name] = pd.to_numeric(frame[name])
    return frame


def test_duckdb(example, expected, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "hospital.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE SCHEMA mimiciii")
        for name, frame in frames(example).items():
            con.register("frame", typed(frame))
            con.execute(f"CREATE TABLE mimiciii.{name} AS SELECT * FROM frame")
    before = path.read_bytes()
    assert_equal(build_cohort(path), expected["discharge"])
    assert path.read_bytes() == before


@pytest.mark.parametrize("notes", ["discharge", "early"])
def test_sqlite(example, expected, tmp_path, notes):
    pytest.importorskip(
        "adbc_driver_sqlite", reason="the extra 'databases' is not installed"
    )
    path = tmp_path / "hospital.db"
    with sqlite3.connect(path) as con:
        for name, frame in frames(example).items():
            frame.to_sql(name.lower(), con, index=False)
        # SQLite lets a column hold both: a number here and there among text.
        con.execute(
            "UPDATE admissions SET hadm_id = CAST(hadm_id AS INTEGER) WHERE rowid % 2"
        )
    assert_equal(
        build_cohort(f"sqlite:///{path}", notes=notes), expected[notes]
    )
    relative = os.path.relpath(path)
    assert build_cohort(f"sqlite:///{relative}", notes=notes).n_admissions == 4


def test_sqlite_is_not_created_by_a_mistyped_name(tmp_path):
    pytest.importorskip(
        "adbc_driver_sqlite", reason="the extra 'databases' is not installed"
    )
    with pytest.raises(TableError, match=r"nowhere\.db: no such SQLite file"):
        build_cohort(f"sqlite:///{tmp_path}/nowhere.db")
    assert not (tmp_path / "nowhere.db").exists()


@pytest.fixture
def postgres():
    """The address of a fresh database on the server that DOMAINBERT_POSTGRESQL names."""
    server = os.environ.get("DOMAINBERT_POSTGRESQL")
    if not server:
        pytest.skip(
            "no PostgreSQL server: set DOMAINBERT_POSTGRESQL=postgresql://user@host:port/database "
            "to one where tests may create a database (.ci/run starts one)"
        )
    dbapi = pytest.importorskip(
        "adbc_driver_postgresql.dbapi",
        reason="the extra 'databases' is not installed",
    )
    name = f"domainbert_test_{os.getpid()}"

    def run(command: str) -> None:
        with (
            dbapi.connect(server, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(command)

    run(f"CREATE DATABASE {name}")
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        run(f"DROP DATABASE {name}")


def fill(address: str, tables: dict[str, list[dict]]) -> None:
    """Put tables into the schema mimiciii of a PostgreSQL database, with types of their own."""
    from adbc_driver_postgresql import dbapi

    types = {
        "TIME": "timestamp(0)",
        "DATE": "date",
        "ID": "bigint",
        "DOB": "date",
        "DOD": "date",
    }
    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA mimiciii")
        for name, rows in tables.items():
            columns = ", ".join(
                f"{c} {next((t for end, t in types.items() if c.endswith(end)), 'text')}"
                for c in rows[0]
            )
            cursor.execute(f"CREATE TABLE mimiciii.{name} ({columns})")
            for row in rows:
                values = ", ".join(
                    "NULL" if v == "" else "'" + v.replace("'", "''") + "'"
                    for v in row.values()
                )
                cursor.execute(
                    f"INSERT INTO mimiciii.{name} VALUES ({values})"
                )
        # A server may be set to write its dates in another order, or in another zone.
        name = urlsplit(address).path[1:]
        cursor.execute(f"ALTER DATABASE {name} SET datestyle TO 'SQL, DMY'")
        cursor.execute(f"ALTER DATABASE {name} SET timezone TO 'Asia/Tokyo'")
        connection.commit()


@pytest.mark.parametrize("notes", ["discharge", "early"])
def test_postgres(example, expected, postgres, notes):
    fill(postgres, example.tables())
    assert_equal(build_cohort(postgres, notes=notes), expected[notes])


def test_postgres_says_what_is_missing(postgres):
    with pytest.raises(
        TableError, match=r"none of mimic3, .*Found there: nothing"
    ):
        build_cohort(postgres)


def test_postgres_that_fails_on_the_way(example, postgres):
    from adbc_driver_postgresql import dbapi

    fill(
        postgres,
        {
            name: rows
            for name, rows in example.tables().items()
            if name != "NOTEEVENTS"
        },
    )
    with dbapi.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE VIEW noteevents AS SELECT n / (1000 - n) AS row_id, 7 AS subject_id, "
            "100 AS hadm_id, '' AS category, '' AS chartdate, 'secret' AS text "
            "FROM generate_series(1, 2000) AS n"
        )
        connection.commit()
    with pytest.raises(
        TableError, match="cannot be read to its end"
    ) as caught:
        build_cohort(postgres)
    assert "secret" not in str(caught.value)


def test_postgres_that_is_not_there_keeps_the_password():
    pytest.importorskip(
        "adbc_driver_postgresql",
        reason="the extra 'databases' is not installed",
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(
        TableError,
        match=rf"127\.0\.0\.1:{port}/db cannot be read \(host or port cannot",
    ) as caught:
        build_cohort(f"postgresql://reader:secret-word@127.0.0.1:{port}/db")
    assert "secret-word" not in str(caught.value)


def test_a_missing_driver_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", None)
    with pytest.raises(
        UserError,
        match=r"no adbc_driver_postgresql: run pip install '\.\[databases\]'",
    ):
        build_cohort("postgresql://127.0.0.1:1/db")


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
        "10,22,2150-01-20 10:00:00,2150-01-28 10:00:00,,EW EMER.,,Medicare,WHITE,0\n",
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
        path.write_bytes(
            gzip.compress(text.encode())
            if name.endswith("gz")
            else text.encode()
        )
    return folder


def test_mimic4_at_discharge(mimic4):
    frame = (
        build_cohort(mimic4, schema="mimic4").to_frame().set_index("stay_id")
    )
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
        folder,
        schema="generic",
        mapping=mapping,
        definition=define(planned_types='["Booked"]'),
        data_end="none",
    )
    frame = cohort.to_frame().set_index("stay_id")
    # The death of A-3 is not written in the format of times, and no place of discharge is known.
    assert frame["exclusion"].fillna("").to_dict() == {
        "A-1": "",
        "A-2": "no_text",
        "A-3": "same_day_death",
        "A-4": "unreadable_time",
    }
    assert frame.loc["A-1", "days_to_readmission"] == pytest.approx(
        24 + 0.5 / 24
    )
    assert frame.loc["A-1", "text"] == ["dear colleague"]
    assert frame.loc["A-1", "age"] == 71
    assert frame.loc["A-1", "patient_id"] == "007"
    assert any("deaths in hospital" in said for said in cohort.caveats)


def test_the_mapping_of_the_documentation(tmp_path, define):
    page = Path(__file__).parents[3] / "docs" / "cohort.md"
    mapping = tmp_path / "columns.toml"
    mapping.write_text(
        page.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    )
    (tmp_path / "encounters.csv").write_text(
        "MRN,Case No,In,Out,Urgency,To,Date of death,Years\n"
        "7,A,01/02/2019 10:00,05/02/2019 09:30,acute,home,20/03/2019,71\n"
        "7,B,05/03/2019 09:00,2019-03-09 11:00,acute,home,20/03/2019,71\n"
    )
    (tmp_path / "letters.csv").write_text(
        "Case No,Kind,Written,Letter\nA,discharge letter,05/02/2019,dear colleague\n"
        "A,nursing,01/02/2019,slept well\nB,Discharge letter,09/03/2019,again\n"
    )
    options = {"schema": "generic", "mapping": mapping, "data_end": "none"}
    definition = define(planned_types='["booked"]')
    rows = (
        build_cohort(tmp_path, definition=definition, **options)
        .to_frame()
        .set_index("stay_id")
    )
    assert rows.loc["A", "text"] == ["dear colleague"]
    assert rows.loc["A", "days_to_readmission"] == pytest.approx(28, abs=0.03)
    assert rows["died_within_horizon"].tolist() == [False, True]
    early = (
        build_cohort(tmp_path, notes="early", **options)
        .to_frame()
        .set_index("stay_id")
    )
    assert early.loc["A", "text"] == ["slept well"]


def test_generic_early_needs_to_know_what_a_note_is(generic):
    folder, mapping = generic
    with pytest.raises(ValueError, match=r"add to \[notes\]: category ="):
        build_cohort(folder, schema="generic", mapping=mapping, notes="early")
    text = mapping.read_text().replace("chart_date = 'Written'\n", "")
    mapping.write_text(text + "category = 'Letter'\n")
    with pytest.raises(
        ValueError, match=r'discharge_categories = \["Discharge summary"\]'
    ):
        build_cohort(folder, schema="generic", mapping=mapping, notes="early")
    mapping.write_text(
        f"discharge_categories = 'DS'\n{text}category = 'Letter'\n"
    )
    with pytest.raises(
        ValueError, match=r"add to \[notes\] for letters: chart_time ="
    ):
        build_cohort(folder, schema="generic", mapping=mapping, notes="early")


@pytest.mark.parametrize(
    ("ending", "separator", "encoding", "options", "refused"),
    [
        (
            ".csv",
            ";",
            "utf-8",
            {"delimiter": ";"},
            r"separates .* by ';'.*`delimiter=",
        ),
        (".csv", "\t", "utf-8", {"delimiter": "tab"}, r"`delimiter='tab'`"),
        (
            ".csv",
            ",",
            "utf-16",
            {},
            None,
        ),
        (
            ".csv.gz",
            ";",
            "cp1252",
            {"delimiter": ";", "encoding": "cp1252"},
            "delimiter",
        ),
        (".tsv", "\t", "utf-8", {}, None),
    ],
)
def test_other_delimiters_and_encodings(
    example, expected, tmp_path, ending, separator, encoding, options, refused
):
    folder = tmp_path / "other"
    folder.mkdir()
    for name, frame in frames(example).items():
        frame.to_csv(
            folder / f"{name}{ending}",
            sep=separator,
            encoding=encoding,
            index=False,
        )
    if refused:
        with pytest.raises(TableError, match=refused):
            build_cohort(folder)
    cohort = build_cohort(folder, **options)
    assert_equal(cohort, expected["discharge"])
    if ending == ".tsv":
        with (folder / "ADMISSIONS.tsv").open("a") as file:
            file.write("7\t200\n")
        cohort = build_cohort(folder)
        assert cohort.flow.set_index("step").removed["malformed_line"] == 1


def caveats(cohort) -> str:
    return "\n".join(cohort.caveats)


@pytest.fixture
def foreign(tmp_path, define):
    """Build a cohort from a table whose words for death and urgency are not English."""
    mapping = tmp_path / "columns.toml"
    mapping.write_text(
        "[admissions]\ntable = 'stays'\npatient_id = 'p'\nstay_id = 's'\nadmit_time = 'a'\n"
        "discharge_time = 'd'\nadmission_type = 't'\ndischarge_location = 'l'\n"
    )

    def build(death="overleden", **options):
        (tmp_path / "stays.csv").write_text(
            "p,s,a,d,t,l\n1,1,2019-01-01,2019-01-05,gepland,naar huis\n"
            f"2,2,2019-02-01,2019-02-05,spoed,{death}\n"
            "3,3,2019-05-01,2019-05-05,spoed,naar huis\n"
        )
        rules = {"died_locations", "alive_locations"} & set(options)
        changes = {key: options.pop(key) for key in rules}
        definition = define(**changes) if changes else None
        return build_cohort(
            tmp_path,
            schema="generic",
            mapping=mapping,
            definition=definition,
            **options,
        )

    return build


def test_words_that_the_definition_lacks_are_listed(foreign):
    cohort = foreign(death="elders")
    said = caveats(cohort)
    assert (
        "locations that no rule knows: NAAR HUIS (2), ELDERS (1). They count as"
        in said
    )
    assert (
        "Admission types that count as unplanned: SPOED (2), GEPLAND (1)."
        in said
    )
    assert (
        "Deaths in hospital cannot be told: no discharge location is DEAD/EXPIRED or DIED"
        in said
    )
    assert cohort.summary["unmatched"]["discharge_location"] == {
        "NAAR HUIS": 2,
        "ELDERS": 1,
    }
    told = foreign(
        died_locations='["Overleden"]', alive_locations='["Naar huis"]'
    )
    assert by_stay(told)["2"]["exclusion"] == "died_in_hospital"
    assert "no rule knows" not in caveats(told)
    assert "cannot be told" not in caveats(told)


def test_without_an_end_of_data_it_is_the_last_admission(foreign):
    cohort = foreign(death="elders")
    assert by_stay(cohort)["3"]["exclusion"] == "censored"
    assert by_stay(cohort)["2"]["exclusion"] is None
    assert cohort.summary["data_end"] == "2019-05-01T00:00:00"
    assert "the last admission, 2019-05-01 00:00, is taken for it" in caveats(
        cohort
    )
    kept = foreign(death="elders", data_end="none")
    assert by_stay(kept)["3"]["exclusion"] is None
    assert (
        "discharged less than 30 days before it counts as not readmitted"
        in caveats(kept)
    )
    given = foreign(death="elders", data_end="2019-06-30")
    assert by_stay(given)["3"]["exclusion"] is None
    assert "end of data" not in caveats(given)


def test_mimic_has_shifted_dates_and_no_end(expected):
    cohort = expected["discharge"]
    assert cohort.summary["data_end"] is None
    assert (
        "the dates of MIMIC are shifted, so it cannot be derived"
        in caveats(cohort)
    )


def test_the_notes_of_the_flow_say_whom_mimic_holds(expected, mimic4):
    intensive_care = (
        "MIMIC-III itself holds only patients who were in intensive care"
    )
    assert intensive_care in caveats(expected["discharge"])
    emergency = (
        "at least once in the emergency department or in intensive care"
    )
    cohort = build_cohort(mimic4, schema="mimic4")
    assert emergency in caveats(cohort)
    assert "not that of a whole hospital" in caveats(cohort)
    assert str(cohort.path) not in repr(cohort)


def test_day_and_month_are_not_guessed_silently(generic, expected):
    folder, mapping = generic
    mapping.write_text(
        mapping.read_text().replace("time_format = '%d/%m/%Y %H:%M'\n", "", 1)
    )
    cohort = build_cohort(folder, schema="generic", mapping=mapping)
    assert "admissions have times that are not ISO 8601" in caveats(cohort)
    assert "not ISO 8601" not in caveats(expected["discharge"])


def test_notes_without_a_readable_time_are_counted(hospital):
    stay = hospital.stay(0, 3)
    hospital.note(stay, "one", day=3)
    hospital.note(stay, "two", day="03/01/2100"[:10], at="?")
    said = caveats(hospital.build())
    assert (
        "1 notes have no readable chart time: they follow the other notes of their stay"
        in said
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda u: u._replace(path="/no_such_db"), "there is no such database"),
        (lambda u: u._replace(netloc=f"ghost:secret-word@{u.netloc.split('@')[-1]}"),
         "wrong user or password"),
        (lambda u: u._replace(netloc="u:secret-word@no.such.host.invalid"),
         "host or port cannot be reached"),
    ],
)  # fmt: skip
def test_postgres_says_which_part_of_its_address_is_wrong(
    postgres, change, said
):
    with pytest.raises(TableError, match=said) as caught:
        build_cohort(change(urlsplit(postgres)).geturl())
    assert "secret-word" not in str(caught.value)


def test_postgres_says_that_the_password_is_wrong():
    pytest.importorskip(
        "adbc_driver_postgresql",
        reason="the extra 'databases' is not installed",
    )
    import threading

    def refuse(server):
        client, _ = server.accept()
        with client:
            client.settimeout(10)
            client.recv(1024)  # the request for SSL
            client.sendall(b"N")
            client.recv(1024)  # the greeting
            said = b'password authentication failed for user "reader"'
            fields = b"\0".join(
                (b"SFATAL", b"VFATAL", b"C28P01", b"M" + said, b"", b"")
            )
            client.sendall(
                b"E" + (len(fields) + 4).to_bytes(4, "big") + fields
            )
            client.recv(1024)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=refuse, args=(server,), daemon=True)
        thread.start()
        address = f"postgresql://reader:secret-word@127.0.0.1:{server.getsockname()[1]}/db"
        with pytest.raises(
            TableError, match="wrong user or password"
        ) as caught:
            build_cohort(address)
        thread.join(10)
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:pa/secret-word@127.0.0.1:1/db",
        "postgresql://u:p?secret-word@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?password=a@secret-word",
        "oracle://u:p?secret-word@127.0.0.1:1/db",
    ],
)
def test_odd_passwords_are_kept(address):
    pytest.importorskip(
        "adbc_driver_postgresql",
        reason="the extra 'databases' is not installed",
    )
    with pytest.raises(TableError) as caught:
        build_cohort(address)
    assert "secret-word" not in str(caught.value)


ODD = """x "y" 'z'; DROP TABLE é -- \\ %s {} [a].b ?"""
"""A name of a table or column that no statement may take for more than a name."""
ODD_TABLES = {
    f"stays {ODD}": {
        f"patient {ODD}": ["7", "7"],
        f"stay {ODD}": ["1", "2"],
        f"in {ODD}": ["2019-02-01 10:00", "2019-02-20 10:00"],
        f"out {ODD}": ["2019-02-05 09:30", "2019-02-25 09:30"],
    },
    f"notes {ODD}": {f"stay {ODD}": ["1"], f"text {ODD}": ["chest pain"]},
}


@pytest.fixture
def odd_mapping(tmp_path):
    """The mapping of `ODD_TABLES`."""
    roles = {
        "admissions": [
            "patient_id",
            "stay_id",
            "admit_time",
            "discharge_time",
        ],
        "notes": ["stay_id", "text"],
    }
    lines = []
    for (role, ours), table in zip(roles.items(), ODD_TABLES, strict=True):
        lines += [f"[{role}]", f"table = {json.dumps(table)}"]
        names = zip(ours, ODD_TABLES[table], strict=True)
        lines += [f"{our} = {json.dumps(name)}" for our, name in names]
    mapping = tmp_path / "columns.toml"
    mapping.write_text("\n".join(lines), encoding="utf-8")
    return mapping


def create_odd_tables(execute):
    """The statements that a database needs."""

    def quoted(name):
        return '"' + name.replace('"', '""') + '"'

    for table, columns in ODD_TABLES.items():
        names = ", ".join(f"{quoted(name)} TEXT" for name in columns)
        execute(f"CREATE TABLE {quoted(table)} ({names})")
        for row in zip(*columns.values(), strict=True):
            values = ", ".join(f"'{cell}'" for cell in row)
            execute(f"INSERT INTO {quoted(table)} VALUES ({values})")


def assert_odd_names_are_read(source, mapping):
    cohort = build_cohort(
        source, schema="generic", mapping=mapping, data_end="none"
    )
    stays = cohort.to_frame().set_index("stay_id")
    assert stays.loc["1", "text"] == ["chest pain"]
    assert stays.loc["1", "readmitted"] == 1
    assert stays.loc["2", "exclusion"] == "no_text"


def test_names_with_quotes_and_semicolons_in_files(tmp_path, odd_mapping):
    folder = tmp_path / "source"
    folder.mkdir()
    for table, columns in ODD_TABLES.items():
        pd.DataFrame(columns).to_csv(folder / f"{table}.csv", index=False)
    assert_odd_names_are_read(folder, odd_mapping)


def test_names_with_quotes_and_semicolons_in_duckdb(tmp_path, odd_mapping):
    import duckdb

    path = tmp_path / "it's a hospital;.duckdb"
    with duckdb.connect(str(path)) as con:
        create_odd_tables(con.execute)
    assert_odd_names_are_read(path, odd_mapping)


def test_names_with_quotes_and_semicolons_in_sqlite(tmp_path, odd_mapping):
    pytest.importorskip(
        "adbc_driver_sqlite", reason="the extra 'databases' is not installed"
    )
    path = tmp_path / f"hospital {ODD}.db"
    with sqlite3.connect(path) as con:
        create_odd_tables(con.execute)
    assert_odd_names_are_read(f"sqlite:///{path}", odd_mapping)


def test_names_with_quotes_and_semicolons_in_postgres(postgres, odd_mapping):
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(postgres) as con, con.cursor() as cursor:
        create_odd_tables(cursor.execute)
        con.commit()
    assert_odd_names_are_read(postgres, odd_mapping)
