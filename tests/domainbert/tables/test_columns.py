"""Columns by name: missing ones, chosen ones, and schemas that cast them."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from domainbert.tables import (
    NOTE,
    PATIENT,
    STAY,
    TEXT,
    TIME,
    TableError,
    iter_rows,
    match_columns,
    read_table,
    require_columns,
    table_columns,
    write_table,
)

from .helpers import CANARY, error_of, every_format, same, write_text


@every_format
def test_columns_are_chosen_and_put_in_order(tmp_path, frame, ending):
    path = tmp_path / f"table{ending}"
    write_table(frame, path)
    same(
        read_table(path, columns=["text", "patient_id"]),
        frame[["text", "patient_id"]],
    )


def test_a_missing_column_names_the_nearest(tmp_path):
    path = write_text(tmp_path / "notes.csv", "stay_id,TEXT,age\n1,x,2\n")
    message = error_of(path, columns=["text"])
    assert message == (
        "notes.csv has no column 'text'; did you mean 'TEXT'? Rename it to 'text'. "
        "Columns there: stay_id, TEXT, age"
    )
    with pytest.raises(
        TableError,
        match=r"did you mean 'stay_id'\? Rename it to 'hadm_stay_id'",
    ):
        read_table(path, columns=["hadm_stay_id"])
    with pytest.raises(
        TableError,
        match=r"no column 'zzz'. Columns there: stay_id, TEXT, age$",
    ):
        read_table(path, columns=["zzz"])


def test_all_missing_columns_are_named_at_once():
    with pytest.raises(TableError) as caught:
        require_columns(
            ["note_id", "patient_id", "text", "age"],
            ["TEXT", "SUBJECT_ID", "HADM_ID", "age", "TEXT"],
            source="notes.csv",
        )
    assert str(caught.value) == (
        "notes.csv has no column 'TEXT'; did you mean 'text'? Rename it to 'TEXT'; "
        "no column 'SUBJECT_ID'; did you mean 'patient_id'? Rename it to 'SUBJECT_ID'; "
        "no column 'HADM_ID'. Columns there: note_id, patient_id, text, age"
    )
    both = (replace(PATIENT, required=True), TEXT)
    for named in ({}, {"patient_id": "PID", "text": "BODY"}):
        missing = [named.get(column.name, column.name) for column in both]
        with pytest.raises(TableError) as caught:
            match_columns(["a", "b"], both, named=named, source="x.csv")
        assert all(repr(name) in str(caught.value) for name in missing)


@pytest.mark.parametrize(
    ("available", "missing", "offered"),
    [
        ("note_id", "patient_id", None),
        ("ROW_ID", "patient_id", None),
        ("hadm_id", "patient_id", None),
        ("stay_id", "note_id", None),
        ("mrn", "patient_id", "mrn"),
        ("patients_id", "patient_id", "patients_id"),
        ("note_text", "text", "note_text"),
        ("stay_id", "hadm_stay_id", "stay_id"),
    ],
)
def test_an_id_of_something_else_is_never_offered(available, missing, offered):
    with pytest.raises(TableError) as caught:
        require_columns(["age", available], [missing], source="x.csv")
    message = str(caught.value)
    assert ("did you mean" in message) == (offered is not None)
    if offered:
        assert f"did you mean {offered!r}" in message


def test_many_columns_are_counted_and_none_is_said():
    with pytest.raises(TableError, match=r"c39, and 10 more$"):
        require_columns([f"c{n}" for n in range(50)], ["text"], source="x")
    with pytest.raises(TableError, match=r"Columns there: none$"):
        require_columns([], ["text"], source="x")
    require_columns(["a", "text"], ["text"], source="x")


@pytest.mark.parametrize(
    "row",
    [
        f"note,{CANARY} was admitted with chest pain",
        f"note,{CANARY}{'x' * 60}",
        f"10042,{CANARY}",
        f"1950-01-31,{CANARY}",
        f"note\x07,{CANARY}",
        f"{CANARY},Maria",
        f"{CANARY},{CANARY}",
    ],
)
def test_a_first_row_that_is_data_stays_unsaid(tmp_path, row):
    message = error_of(
        write_text(tmp_path / "notes.csv", f"{row}\n{row}\n"), columns=["text"]
    )
    is_repeated = row.count(CANARY) == 2
    fault = (
        "repeats the columns; each needs"
        if is_repeated
        else "Columns there: 2, not shown"
    )
    assert fault in message
    assert CANARY not in message


def test_rows_may_leave_out_what_they_lack(tmp_path):
    lines = '{"text": "a"}\n\n{"stay_id": "1", "text": "b"}\n{"text": "c", "age": 3}\n'
    path = write_text(tmp_path / "notes.jsonl", lines)
    assert table_columns(path) == ["text", "stay_id", "age"]
    found = read_table(path, schema={"age": "int"})
    assert found["text"].tolist() == ["a", "b", "c"]
    assert found["age"].tolist() == [pd.NA, pd.NA, 3]
    assert found["stay_id"].isna().tolist() == [True, False, True]
    assert found["age"].isna().tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("kind", "texts", "values", "wrong", "expected"),
    [
        (
            "int",
            ["1", "", "9007199254740993"],
            [1, pd.NA, 9007199254740993],
            "1.5",
            "a whole number",
        ),
        ("float", ["1", "0.5", "1e3"], [1, 0.5, 1000], CANARY, "a number"),
    ],
)
def test_a_schema_casts_or_refuses(
    tmp_path, kind, texts, values, wrong, expected
):
    path = write_text(
        tmp_path / "a.csv", "v,w\n" + "".join(f"{text},x\n" for text in texts)
    )
    assert read_table(path, schema={"v": kind})["v"].tolist() == values
    path.write_text(path.read_text() + f"{wrong},x\n")
    message = error_of(path, schema={"v": kind})
    assert message == f"a.csv: column 'v': expected {expected} in every row"


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_only_the_columns_asked_for_are_read(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    write_table(pd.DataFrame({"a": ["1"], "b": ["2"], "c": ["3"]}), path)
    (row,) = iter_rows(path, columns=["c", "a", "z"])
    assert row.cells == {"a": "1", "c": "3"}


def test_the_names_of_columns_are_documented():
    page = (Path(__file__).parents[3] / "docs" / "scale.md").read_text("utf-8")
    for column in (PATIENT, STAY, NOTE, TIME, TEXT):
        assert (
            ", ".join(f"`{name}`" for name in (column.name, *column.also))
            in page
        )
