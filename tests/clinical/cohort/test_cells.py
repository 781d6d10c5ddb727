"""Exports of every form: words for empty cells, floats, copies, and patients without a side."""

import pandas as pd
import pytest

from clinical.cohort.build import build_cohort

from .conftest import by_stay, list_issues
from .small import FORMS, NOTES, copies, tables, write

KEPT = {"11": None, "12": None, "21": "died_in_hospital", "31": None}
TABLES = [
    form for form in FORMS if form != "fhir"
]  # that programs export cell by cell


def read(folder, form, spoiled):
    """Exclusion, label and texts of each stay, and the notes of the flow."""
    cohort = build_cohort(**write(folder, form, spoiled))
    rows = by_stay(cohort)
    facts = {
        stay: (row["exclusion"], row["readmitted"], list(row["text"]))
        for stay, row in rows.items()
    }
    return facts, cohort


def expected(number="", **texts):
    """The facts of the small hospital, or of its copy with that number."""
    return {
        f"{number}{stay}": (
            exclusion,
            None if exclusion else int(stay == "11"),
            []
            if exclusion
            else texts.get(f"s{stay}", [f"Summary of {stay}."]),
        )
        for stay, exclusion in KEPT.items()
    }


def expected_copies(number):
    """The facts of so many copies of the small hospital."""
    facts = {}
    for copy in range(1, number + 1):
        facts |= expected(copy)
    return facts


@pytest.mark.parametrize("form", FORMS)
def test_the_small_hospital_is_the_same_in_every_form(tmp_path, form):
    assert read(tmp_path / form, form, tables(form))[0] == expected()


WORDS = ("NULL", "null  ", "\\N", "NaT", "nan", "N/A", "None", "<NA>")


@pytest.mark.parametrize("form", TABLES)
def test_words_for_empty_cells_are_missing(tmp_path, form):
    """A copy of the small hospital for each word."""
    hospitals = [
        {name: table.replace("", word) for name, table in tables(form).items()}
        for word in WORDS
    ]
    found, cohort = read(tmp_path / form, form, copies(form, hospitals))
    assert found == expected_copies(len(WORDS))
    assert not len(cohort.issues)
    is_counted = any(
        line.startswith("Words for an empty") for line in cohort.caveats
    )
    # The empty cells of MEDS are in rows that are not read.
    assert is_counted == (form != "meds")


def test_a_word_as_the_stay_id_of_meds_is_none(tmp_path):
    spoiled = tables("meds")
    spoiled["data"].loc[spoiled["data"]["subject_id"] == "3", "hadm_id"] = (
        "NaN"
    )
    found, cohort = read(tmp_path / "meds", "meds", spoiled)
    assert found["3-1"] == (None, 0, ["Summary of 31."])
    assert any("data.hadm_id (2)" in line for line in cohort.caveats)


def test_words_for_empty_cells_are_counted_by_column(tmp_path):
    spoiled = {
        name: table.replace("", "NULL")
        for name, table in tables("generic").items()
    }
    _, cohort = read(tmp_path / "own", "generic", spoiled)
    (line,) = (line for line in cohort.caveats if line.startswith("Words for"))
    assert (
        line
        == "Words for an empty cell, read as missing (cells): encounters.Died (3)."
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_note_whose_text_is_such_a_word_has_no_text(tmp_path, form):
    notes = [*NOTES[:3], (*NOTES[3][:4], "NULL")]
    found, cohort = read(tmp_path / form, form, tables(form, notes=notes))
    assert found["31"] == ("no_text", None, [])
    problems = {
        "note without text",
        "note whose text cannot be read: not base64, not text, or a link",
    }
    assert set(cohort.issues["problem"]) & problems


def test_a_word_for_an_empty_cell_may_be_a_date(tmp_path):
    """Zeros of MySQL, and dates that a mapping names."""
    dates = ["0000-00-00 00:00:00", "1900-01-01 00:00:00", "-"]
    hospitals = []
    for date in dates:
        spoiled = tables("generic")
        died = spoiled["encounters"]["Died"]
        spoiled["encounters"]["Died"] = died.replace("", date)
        hospitals.append(spoiled)
    options = write(tmp_path, "generic", copies("generic", hospitals))
    words = 'missing = ["1900-01-01 00:00:00", "-"]\n'
    options["mapping"].write_text(words + options["mapping"].read_text())
    cohort = build_cohort(**options)
    kept = {s: row["exclusion"] for s, row in by_stay(cohort).items()}
    assert kept == {s: e for s, (e, *_) in expected_copies(3).items()}
    assert any("encounters.Died (9)" in line for line in cohort.caveats)


def test_a_sign_for_an_empty_cell_is_told_with_the_setting(tmp_path):
    spoiled = tables("generic")
    spoiled["encounters"]["Died"] = spoiled["encounters"]["Died"].replace(
        "", "-"
    )
    _, cohort = read(tmp_path / "own", "generic", spoiled)
    assert any("missing = ['-']" in line for line in cohort.caveats)


def test_a_table_of_words_is_the_schemas(tmp_path):
    spoiled = tables("generic")
    spoiled["encounters"] = spoiled["encounters"].replace("", "leer")
    options = write(tmp_path / "own", "generic", spoiled)
    mapping = options["mapping"]
    mapping.write_text('missing = ["LEER"]\n' + mapping.read_text())
    assert by_stay(build_cohort(**options))["11"]["exclusion"] is None


@pytest.mark.parametrize("form", FORMS)
def test_a_copy_of_a_note_is_read_once_and_listed(tmp_path, form):
    stay, category, time, text = NOTES[3][1:]
    repeated = [
        ("5", stay, category, time, text),
        ("6", stay, category, time, text + " \n"),
        ("7", stay, category, time, text + "\r\n"),
        ("8", stay, category, time, "Another text."),
        # A copy of a note of another stay.
        ("9", "11", category, time, NOTES[1][4]),
    ]
    found, cohort = read(
        tmp_path / form, form, tables(form, notes=[*NOTES, *repeated])
    )
    texts = {
        "s31": [text, "Another text."],
        "s11": ["Summary of 11.", "Summary of 12."],
    }
    assert found == expected(**texts)
    listed = list_issues(cohort)
    assert set(listed["problem"]) == {
        "copy of another note of the stay, not read again"
    }
    assert sorted(listed["id"]) == ["5", "6", "7"]


def as_floats(table: pd.DataFrame, form: str) -> pd.DataFrame:
    """The table after a program that reads every column of numbers as floats."""
    numbers = {
        name: pd.to_numeric(column.replace("", None))
        for name, column in table.items()
        if column.replace("", None).dropna().str.fullmatch(r"\d+").all()
        and any(column)
    }
    if form != "meds":
        numbers = {
            name: [f"{x:.1f}" if x == x else "" for x in c]
            for name, c in numbers.items()
        }
        return table.assign(**numbers)
    return table.assign(
        **{name: column.astype("float64") for name, column in numbers.items()}
    )


@pytest.mark.parametrize("form", TABLES)
def test_whole_numbers_that_became_floats_are_read(tmp_path, form):
    spoiled = {
        name: as_floats(table, form) for name, table in tables(form).items()
    }
    found, cohort = read(tmp_path / form, form, spoiled)
    assert found == expected()
    assert any(
        "Whole numbers written as decimals" in line for line in cohort.caveats
    )


def test_ids_as_formulas_of_a_spreadsheet_are_read(tmp_path):
    spoiled = tables("mimic3")
    for name in ("ADMISSIONS", "NOTEEVENTS"):
        ids = spoiled[name]["HADM_ID"]
        spoiled[name]["HADM_ID"] = '="' + ids + '"'
    spoiled["ADMISSIONS"]["ADMITTIME"] = (
        '="' + spoiled["ADMISSIONS"]["ADMITTIME"] + '"'
    )
    found, _ = read(tmp_path / "mimic3", "mimic3", spoiled)
    assert found == expected()


def test_every_way_of_writing_a_concept_is_read(tmp_path):
    """A copy of the small hospital for each way."""
    numbers = ("9201.0", " 9201 ", " 9201.0 ", "9.201E3", "9201.000")
    hospitals = []
    for number in numbers:
        hospital = tables("omop")
        hospital["VISIT_OCCURRENCE"]["visit_concept_id"] = number
        hospitals.append(hospital)
    spoiled = copies("omop", hospitals)
    facts = read(tmp_path / "omop", "omop", spoiled)[0]
    assert facts == expected_copies(len(numbers))


def test_concepts_as_floats_in_parquet_are_read(tmp_path):
    folder = tmp_path / "omop"
    folder.mkdir()
    for name, table in tables("omop").items():
        as_floats(table, "meds").replace("", None).to_parquet(
            folder / f"{name}.parquet"
        )
    rows = by_stay(build_cohort(folder, data_end="none"))
    assert {stay: row["exclusion"] for stay, row in rows.items()} == KEPT


def test_ids_that_lost_digits_are_no_ids(tmp_path):
    """A copy of the small hospital for each id."""
    hospitals = []
    for id in ("9007199254740992.0", "1e+16", "4.48146E+07"):
        hospital = tables("mimic3")
        hospital["ADMISSIONS"].loc[3, "SUBJECT_ID"] = id
        hospitals.append(hospital)
    spoiled = copies("mimic3", hospitals)
    found, cohort = read(tmp_path / "mimic3", "mimic3", spoiled)
    stays = ("131", "231", "331")
    assert [found[stay] for stay in stays] == [("missing_id", None, [])] * 3
    issues = list_issues(cohort)
    problem = "id rounded by a column of floats: its last digits are lost"
    assert set(issues["id"][issues["problem"] == problem]) == set(stays)


def test_large_ids_in_columns_of_integers_are_exact(tmp_path):
    folder = tmp_path / "omop"
    folder.mkdir()
    ids = {"1": 9007199254740992, "2": 9007199254740993, "3": 3}
    for name, table in tables("omop").items():
        if "person_id" in table.columns:
            table = table.assign(
                person_id=table["person_id"].map(ids).astype("int64")
            )
        table.replace("", None).to_parquet(folder / f"{name}.parquet")
    rows = by_stay(build_cohort(folder, data_end="none"))
    assert {row["patient_id"] for row in rows.values()} == {
        str(id) for id in ids.values()
    }


def test_a_text_keeps_its_decimals_and_ids_their_zeros(tmp_path):
    notes = [(*NOTES[0][:4], " 98.0 "), *NOTES[1:]]
    spoiled = tables("mimic3", notes=notes)
    for table in spoiled.values():
        table["SUBJECT_ID"] = "00" + table["SUBJECT_ID"]
    found, cohort = read(tmp_path / "mimic3", "mimic3", spoiled)
    assert found["11"] == (None, 1, [" 98.0 "])
    assert by_stay(cohort)["11"]["patient_id"] == "001"


# -- files as database clients and older systems write them ---------------------------------------


def test_what_sql_server_writes_around_a_table_is_listed(tmp_path):
    options = write(tmp_path / "own", "generic", tables("generic"))
    path = options["source"] / "encounters.csv"
    header, *lines = path.read_text().splitlines()
    padded = ",".join(f"{name}   " for name in header.split(","))
    rule = ",".join("-" * 8 for _ in header.split(","))
    path.write_text(
        "\n".join([padded, rule, *lines, "", "(4 rows affected)", ""])
    )
    cohort = build_cohort(**options)
    assert set(by_stay(cohort)) == set(KEPT)
    listed = list_issues(cohort)
    assert listed["row"].tolist() == [2, 8]
    assert (
        listed["problem"].iloc[0].endswith("a rule of dashes below the names")
    )


@pytest.mark.parametrize("n_damaged", [1, 4])
def test_a_wrong_encoding_is_one_issue_with_the_option_that_mends_it(
    tmp_path, n_damaged
):
    notes = [
        (*n[:4], f"Müde {n[0]}." if int(n[0]) <= n_damaged else "x")
        for n in NOTES
    ]
    options = write(
        tmp_path / "own", "generic", tables("generic", notes=notes)
    )
    path = options["source"] / "letters.csv"
    path.write_bytes(path.read_text(encoding="utf-8").encode("cp1252"))
    cohort = build_cohort(**options)
    (line,) = (line for line in cohort.caveats if "name the encoding" in line)
    assert line.startswith(f"{n_damaged} of 4 rows of letters.csv have bytes")
    (issue,) = cohort.issues.to_dict("records")
    assert issue["count"] == 1
    assert issue["problem"].endswith("in 4 of 4 rows") == (n_damaged == 4)
    mended = build_cohort(**options, encoding="cp1252")
    assert by_stay(mended)["11"]["text"] == ["Müde 1."]
    assert not any("name the encoding" in line for line in mended.caveats)


def test_issues_are_summed_with_three_examples(tmp_path):
    small = tables("mimic3")
    more = small["NOTEEVENTS"].head(1)
    copies = [more.assign(ROW_ID=str(n), HADM_ID="99") for n in range(5, 10)]
    small["NOTEEVENTS"] = pd.concat([small["NOTEEVENTS"], *copies])
    _, cohort = read(tmp_path / "mimic3", "mimic3", small)
    (issue,) = cohort.issues.to_dict("records")
    assert issue["count"] == 5
    assert list(issue["examples"]) == ["5", "6", "7"]
    assert len(list_issues(cohort)) == 5


# -- sides of a MEDS dataset ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "side"),
    [
        ("train", "train"),
        ("Tuning ", "val"),
        ("held_out", "test"),
        ("external", "external"),
        (None, "none"),
    ],
)
def test_every_subject_is_on_a_side(tmp_path, split, side):
    splits = pd.DataFrame(
        {"subject_id": [1, 2, 3], "split": ["train", "train", split]}
    )
    spoiled = tables("meds") | {"subject_splits": splits.dropna()}
    _, cohort = read(tmp_path / "meds", "meds", spoiled)
    assert by_stay(cohort)["31"]["split"] == side
    assert cohort.summary["splits"][side]["stays"] == 1 + 2 * (side == "train")
    lines = [
        line for line in cohort.caveats if line.startswith("Patients on sides")
    ]
    is_other = side in ("external", "none")
    assert [f"{side} (1)" in line for line in lines] == [True] * is_other
    assert "<svg" in cohort.flow_svg()
