"""Whatever is wrong with a source is said exactly, and listed row by row."""

import traceback

import pandas as pd
import pyarrow as pa
import pytest

from clinical.cohort import build
from clinical.cohort.build import build_cohort
from clinical.cohort.result import issues_path
from domainbert.tables import TableError

from .conftest import by_stay, list_issues


def listed(cohort) -> set[tuple]:
    """(row, id, problem) of every issue of the source."""
    frame = list_issues(cohort).astype(object)
    return {
        (None if pd.isna(r.row) else r.row, r.id, r.problem)
        for r in frame.itertuples()
    }


def test_a_good_source_has_no_issues(hospital):
    hospital.note(hospital.stay(0, 3), "summary", day=3)
    hospital.patient()
    cohort = hospital.build()
    assert len(cohort.issues) == 0
    assert listed(cohort) == set()


GUESSES = (
    "01/02/19", "2100/01/02", "2100-01-02 10:00 PM", "2100-02-30", "2100-1-2", "yesterday",
    "2100-01-02 10:00:00 Europe/Berlin", "infinity", "now", "73051",
)  # fmt: skip


def test_times_are_never_guessed(hospital):
    stays = {
        text: hospital.stay(text, 9)
        for text, _ in hospital.cases(dict.fromkeys(GUESSES))
    }
    cohort = hospital.build()
    rows = by_stay(cohort)
    exclusions = {
        text: rows[stay]["exclusion"] for text, stay in stays.items()
    }
    assert exclusions == dict.fromkeys(GUESSES, "unreadable_time")
    unreadable = {
        (row, stay, "admission time unreadable")
        for row, stay in enumerate(stays.values(), start=1)
    }
    issues = listed(cohort)
    assert unreadable <= issues
    others = {problem for *_, problem in issues - unreadable}
    assert all(problem.startswith("label may") for problem in others)


TIMES = {
    "2100-01-02": "2100-01-02 00:00:00",
    "2100-01-02 10:30": "2100-01-02 10:30:00",
    " 2100-01-02T10:30:15 ": "2100-01-02 10:30:15",
    "2100-01-02 10:30:15.25": "2100-01-02 10:30:15.250000",
    "2100-01-02 10:30:15Z": "2100-01-02 10:30:15",
    "2100-01-02 10:30:15 UTC": "2100-01-02 10:30:15",
    "2100-01-02T10:30:15.000+02:00": "2100-01-02 08:30:15",
    "2100-01-02 10:30:15-05": "2100-01-02 15:30:15",
}


def test_times_of_iso_8601(hospital):
    stays = {text: hospital.stay(text, 9) for text, _ in hospital.cases(TIMES)}
    rows = hospital.rows(zone="UTC")
    times = {
        text: str(rows[stay]["admit_time"]) for text, stay in stays.items()
    }
    assert times == TIMES


def test_rows_of_admissions_are_listed_by_number(hospital):
    hospital.stay(0, 3, patient="1", id="10")
    hospital.stay("?", "?", patient="2", id="20", DEATHTIME="?")
    hospital.stay("", 3, patient="3", id="30")
    hospital.stay(3, 1, patient="4", id="40")
    hospital.stay(0, 3, patient="", id="50")
    hospital.stay(0, 3, patient="6", id="60")
    hospital.stay(0, 4, patient="6", id="60")
    hospital.stay(0, 3, patient="1", id="10")
    hospital.stay(
        0, 3, patient="9.0", id="90.0", kind="", HOSPITAL_EXPIRE_FLAG="perhaps"
    )
    may_miss = "label may miss a stay of the patient that had to be left out"
    found = listed(hospital.build(data_end="2099-12-31"))
    after = {
        (row, id, problem)
        for row, id, problem in found
        if problem.startswith("admitted after")
    }
    assert len(after) == 7
    assert found - after == {
        (
            2,
            "20",
            "admission time unreadable, discharge time unreadable, death time unreadable",
        ),
        (3, "30", "no admission or no discharge time"),
        (4, "40", "discharge before admission"),
        (5, "50", "no patient id or no stay id"),
        (6, "60", "stay id with contradicting rows"),
        (7, "60", "stay id with contradicting rows"),
        (8, "10", "copy of another row"),
        (9, "90", "no admission type, counted as unplanned"),
        (9, "90", "died is neither yes nor no, counted as no"),
    }
    assert may_miss not in {problem for _, _, problem in found}


def test_a_label_that_may_miss_a_stay_is_listed(hospital):
    good = hospital.stay(0, 3, patient="1")
    hospital.stay("?", 9, patient="1")
    assert (
        1,
        good,
        "label may miss a stay of the patient that had to be left out",
    ) in listed(hospital.build())


def test_a_stay_after_death_is_listed(hospital):
    hospital.stay(0, 3)
    late = hospital.stay(9, 12)
    hospital.patient(died=8)
    cohort = hospital.build()
    assert listed(cohort) == {(2, late, "admitted after the patient's death")}
    assert by_stay(cohort)[late]["exclusion"] == "after_death"


def test_rows_of_patients_are_listed_by_number(hospital):
    for patient in ("1", "2", "3", "4"):
        hospital.stay(0, 3, patient=patient, id=f"{patient}0")
    hospital.patient("1", born="15.6.50")
    hospital.patient("2", sex="F")
    hospital.patient("2", sex="M")
    hospital.patient("3.0")
    hospital.patient("")
    cohort = hospital.build()
    assert listed(cohort) == {
        (1, "1", "birth or death date unreadable"),
        (2, "2", "patient id with contradicting rows, none used"),
        (3, "2", "patient id with contradicting rows, none used"),
        (5, "", "no patient id"),
        (4, "40", "patient not in the table of patients"),
    }
    rows = by_stay(cohort)
    assert [rows[f"{n}0"]["sex"] for n in range(1, 5)] == [
        "F",
        None,
        "F",
        None,
    ]


def test_ages_that_are_no_numbers_are_listed(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "stays.csv").write_text(
        "p,s,a,d,years\n"
        + "".join(
            f"{n},{n},2100-01-01,2100-01-02,{years}\n"
            for n, years in enumerate(["71.9", "old", "NaN", "", "-1"])
        )
    )
    mapping = tmp_path / "columns.toml"
    mapping.write_text(
        "[admissions]\ntable = 'stays'\npatient_id = 'p'\nstay_id = 's'\nadmit_time = 'a'\n"
        "discharge_time = 'd'\nage = 'years'\n"
    )
    cohort = build_cohort(folder, schema="generic", mapping=mapping)
    assert [row["age"] for row in by_stay(cohort).values()] == [
        71,
        None,
        None,
        None,
        None,
    ]
    assert listed(cohort) == {
        (2, "1", "age is no number, counted as unknown"),  # NaN is an empty cell
        (5, "4", "birth after the admission, or age over 120: age counted as unknown"),
    }  # fmt: skip


def test_lines_that_are_no_rows_are_counted_and_the_rest_is_read(hospital):
    stay = hospital.stay(0, 3)
    hospital.note(stay, "summary", day=3)
    folder = hospital.write()
    with (folder / "ADMISSIONS.csv").open("a") as file:
        file.write(
            '7,200,2100-01-09 00:00:00\n8,201,"2100-01-01 00:00:00,,,,,,,0\n'
        )
    with (folder / "NOTEEVENTS.csv").open("a") as file:
        file.write('9,7,100,2100-01-04,,Discharge summary,Addendum,,"secret\n')
    cohort = build_cohort(folder)
    problem = (
        "line that is not a row: too few or too many fields, a quote or carriage return out of "
        "place, or more than 16 MB"
    )
    assert listed(cohort) == {(3, "", problem), (4, "", problem)}
    assert set(list_issues(cohort)["source"]) == {
        "ADMISSIONS.csv",
        "NOTEEVENTS.csv",
    }
    assert (cohort.n_admissions, cohort.n_stays) == (3, 1)
    removed = {
        row.step: row.removed
        for row in cohort.flow.itertuples()
        if row.removed
    }
    assert removed == {"malformed_line": 2}
    assert by_stay(cohort)[stay]["text"] == ["summary"]
    assert "secret" not in issues_path(cohort.path).read_text()


def test_a_missing_table_says_what_is_there(hospital):
    hospital.patient()
    with pytest.raises(
        TableError,
        match=r"has no table ADMISSIONS\. Found there: PATIENTS\.csv",
    ):
        hospital.build(schema="mimic3")
    with pytest.raises(
        TableError, match=r"none of mimic3, .*\. Found there: PATIENTS\.csv"
    ):
        hospital.build()


@pytest.mark.parametrize("table", ["ADMISSIONS", "NOTEEVENTS"])
def test_a_missing_column_names_the_nearest(hospital, table):
    hospital.note(hospital.stay(0, 3), "secret", day=3)
    path = hospital.write() / f"{table}.csv"
    path.write_text(path.read_text().replace("HADM_ID", "HADMID"))
    with pytest.raises(
        TableError, match=f"{table} in .* has no column 'HADM_ID'.*'HADMID'"
    ):
        build_cohort(hospital.folder)


def test_two_files_for_one_table(hospital):
    hospital.stay(0, 3)
    folder = hospital.write()
    (folder / "admissions.parquet").write_bytes(b"")
    with pytest.raises(
        TableError,
        match=r"more than one file for ADMISSIONS: .*Keep only one",
    ):
        build_cohort(folder)


def test_a_file_that_is_cut_short(hospital, tmp_path):
    import gzip

    hospital.stay(0, 3)
    path = hospital.write() / "ADMISSIONS.csv"
    whole = gzip.compress(path.read_bytes())
    path.unlink()
    (hospital.folder / "ADMISSIONS.csv.gz").write_bytes(whole[:-9])
    with pytest.raises(
        TableError,
        match=r"ADMISSIONS\.csv\.gz cannot be read to its end \(EOFError\)",
    ):
        build_cohort(hospital.folder, out=tmp_path / "out.parquet")
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"notes": "erly"},
            r"unknown notes 'erly'; did you mean 'early'\?; expected one of \('discharge'",
        ),
        ({"hours": 0}, "hours must be a number above 0, got 0"),
        ({"hours": float("nan")}, "hours must be a number above 0, got nan"),
        ({"schema": "mimic5"}, "unknown schema 'mimic5'; did you mean 'mimic"),
        ({"schema": "generic"}, r"mapping='columns\.toml'"),
        (
            {"schema": "mimic3", "mapping": "x.toml"},
            "mapping belongs to schema='generic', not to 'mimic3'",
        ),
        (
            {"data_end": "31/12/2019"},
            "data_end must be an ISO date such as '2019-12-31' or 'none', got",
        ),
        (
            {"definition": "readmision-30d"},
            r"readmision-30d cannot be read as .* definition: .*readmission-30d",
        ),
        ({"out": "cohort.csv"}, r"out must end in \.parquet, got cohort\.csv"),
        ({"out": "no/where.parquet"}, "no: no such folder; make it first"),
    ],
)
def test_arguments(hospital, options, message):
    hospital.stay(0, 3)
    with pytest.raises(ValueError, match=message):
        hospital.build(**options)


def test_a_source_that_is_none(tmp_path):
    with pytest.raises(
        TableError,
        match=r"nowhere: no such folder or file\. A source is a folder",
    ):
        build_cohort(tmp_path / "nowhere")
    path = tmp_path / "notes.txt"
    path.write_text("secret")
    with pytest.raises(
        TableError,
        match=r"notes\.txt is neither a folder nor a DuckDB file .*name the folder",
    ):
        build_cohort(path)
    with pytest.raises(TableError, match="host/db: no such folder") as caught:
        build_cohort("mysql://user:secret@host/db")
    assert "secret" not in str(caught.value)


def rewrite_while_read(monkeypatch, path, change):
    """Change a file right after its first scan began, as a copy that is still running does."""
    from domainbert.tables.sources import FolderSource

    scan = FolderSource.scan

    def changing(self, table, columns):
        relation = scan(self, table, columns)
        if table == "NOTEEVENTS":
            change(path)
        return relation

    monkeypatch.setattr(FolderSource, "scan", changing)


@pytest.mark.parametrize("change", ["cut", "longer"])
def test_a_file_that_changes_while_it_is_read(
    hospital, tmp_path, monkeypatch, change
):
    stays = [hospital.stay(n * 60, n * 60 + 3) for n in range(50)]
    for stay in stays:
        hospital.note(stay, "summary", day=stays.index(stay) * 60 + 3)
    path = hospital.write() / "NOTEEVENTS.csv"
    rows = path.read_text().splitlines(keepends=True)
    content = "".join(rows[:31] if change == "cut" else [*rows, rows[-1]])
    rewrite_while_read(
        monkeypatch, path, lambda file: file.write_text(content)
    )
    with pytest.raises(
        TableError, match=r"NOTEEVENTS\.csv was changed while it was read"
    ):
        build_cohort(hospital.folder, out=tmp_path / "out.parquet")
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_path_is_never_a_pattern(hospital, tmp_path, form):
    import pandas as pd

    hospital.stay(0, 3, id="wrong")
    hospital.folder = tmp_path / "h1"
    hospital.write()
    hospital.admissions.clear()
    stay = hospital.stay(0, 3, id="right")
    hospital.note(stay, "summary", day=3)
    hospital.folder = tmp_path / "h[12]"
    hospital.write()
    for path in list(tmp_path.glob("h*/*.csv")) if form == "parquet" else []:
        pd.read_csv(path, dtype=str).to_parquet(path.with_suffix(".parquet"))
        path.unlink()
    cohort = build_cohort(
        tmp_path / "h[12]", out=tmp_path / "h[12]" / "out[*].parquet"
    )
    assert list(by_stay(cohort)) == ["right"]


def test_a_folder_named_like_a_partition_adds_no_column(hospital, tmp_path):
    import pandas as pd

    stay = hospital.stay(0, 3, patient="7")
    hospital.folder = tmp_path / "SUBJECT_ID=9"
    path = hospital.write() / "ADMISSIONS.csv"
    pd.read_csv(path, dtype=str).to_parquet(path.with_suffix(".parquet"))
    path.unlink()
    assert by_stay(build_cohort(hospital.folder))[stay]["patient_id"] == "7"


def test_ids_are_compared_after_one_normalisation(hospital):
    first = hospital.stay(0, 3, patient="P1", id="A1")
    second = hospital.stay(9, 12, patient="p1 ", id="a2")
    wide = hospital.stay(18, 21, patient="\uff301", id="A3")
    other = hospital.stay(0, 3, patient="0012", id="B1")
    plain = hospital.stay(9, 12, patient="12", id="B2")
    for stay, patient in (
        ("a1.0", "7"),
        ("a1", "P1"),
        (" A2\t", "p1"),
        ("a3", "P1"),
        ("b1", "0012"),
    ):
        hospital.note(stay, f"note {stay.strip()}", SUBJECT_ID=patient, day=3)
    hospital.patient("p1", sex="M")
    cohort = hospital.build()
    rows = by_stay(cohort)
    assert {rows[stay]["patient_id"] for stay in (first, second, wide)} == {
        "P1"
    }
    assert {rows[stay]["sex"] for stay in (first, second, wide)} == {"M"}
    assert len({rows[stay]["split"] for stay in (first, second, wide)}) == 1
    assert rows["A1"]["text"] == ["note a1"]
    assert rows["a2"]["text"] == ["note A2"]
    assert rows["A1"]["readmission_stay_id"] == "a2"
    assert (rows[other]["patient_id"], rows[plain]["patient_id"]) == (
        "0012",
        "12",
    )
    assert rows[other]["readmitted"] == 0
    problem = "patient id written in more than one way, read as one"
    assert {(2, "a2", problem), (3, "A3", problem)} <= listed(cohort)


def test_offsets_may_change_within_a_stay(hospital):
    stay = hospital.stay(
        "2100-03-28 00:30:00+01:00", "2100-03-30 12:00:00+02:00"
    )
    hospital.note(
        stay, "second", category="Nursing", at="2100-03-28 03:10:00+02:00"
    )
    hospital.note(
        stay, "first", category="Nursing", at="2100-03-28 01:50:00+01:00"
    )
    hospital.note(stay, "third", category="Nursing", at="2100-03-28 01:30:00Z")
    row = hospital.rows(notes="early", hours=48)[stay]
    assert row["text"] == ["first", "second", "third"]
    assert str(row["admit_time"]) == "2100-03-27 23:30:00"


def test_ids_that_a_spreadsheet_would_run_are_quoted(hospital):
    for id in ("=1+1", "+x", "@x", "-x", "-5"):
        hospital.stay("?", 3, id=id)
    cohort = hospital.build()
    written = issues_path(cohort.path).read_text()
    for id in ("=1+1", "+x", "@x", "-x"):
        assert f",'{id}," in written
    assert ",-5," in written
    assert set(list_issues(cohort)["id"]) == {"=1+1", "+x", "@x", "-x", "-5"}


def test_a_table_of_very_many_columns_is_read_by_name(hospital):
    import time

    stay = hospital.stay(0, 3)
    hospital.note(stay, "summary", day=3)
    path = hospital.write() / "NOTEEVENTS.csv"
    names, row = path.read_text().splitlines()
    more = 200_000
    path.write_text(
        f"{names},{','.join(f'c{n}' for n in range(more))}\n{row},{','.join('0' * more)}\n"
    )
    started = time.perf_counter()
    assert by_stay(build_cohort(hospital.folder))[stay]["text"] == ["summary"]
    assert time.perf_counter() - started < 60


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT CAST('secret note' AS INTEGER)",
        "SELECT no_such_column, 'secret note'",
        "SELEC 'secret note'",
        "SELECT * FROM no_such_table",
        "SELECT failing('secret note')",
    ],
)
def test_a_failure_of_a_statement_of_ours_is_a_bug_without_text(
    statement, tmp_path
):
    """It is not told as a file that is incomplete, and its message may quote a note."""

    def fails(text):
        raise ValueError(text)

    def run():
        with build._scratch(tmp_path / "cohort.parquet") as con:
            con.create_function("failing", fails, ["VARCHAR"], "VARCHAR")
            con.execute(statement).fetchall()

    with pytest.raises(RuntimeError, match="defect of this package") as caught:
        run()
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_a_stream_that_ends_early_is_the_source_s_fault(tmp_path):
    batch = pa.record_batch({"text": ["secret note"]})

    def batches():
        yield batch
        raise OSError("the connection was closed: secret")

    def run():
        with build._scratch(tmp_path / "cohort.parquet") as con:
            stream = pa.RecordBatchReader.from_batches(batch.schema, batches())
            con.register("notes", stream)
            con.execute("CREATE TABLE texts AS SELECT * FROM notes")

    with pytest.raises(TableError, match="read to its end") as caught:
        run()
    assert "secret" not in str(caught.value)
