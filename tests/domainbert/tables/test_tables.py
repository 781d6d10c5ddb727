import contextlib
import csv
import datetime
import gzip
import os
import re
import sqlite3
import stat
import time
import tracemalloc
from itertools import permutations
from pathlib import Path

import hypothesis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from domainbert.files import atomic_path
from domainbert.tables import (
    NOTE,
    PATIENT,
    STAY,
    TEXT,
    TIME,
    ReadOptions,
    TableError,
    csv_files,
    iter_rows,
    match_columns,
    read_table,
    require_columns,
    table_columns,
    write_table,
)
from domainbert.tables.databases import _fault
from domainbert.tables.frames import read_metadata
from domainbert.tables.ids import guard
from domainbert.tables.options import FORMATS, table_format
from domainbert.tables.rows import frame_rows, spooled

CANARY = "QUETZALCOATL"
LISTS = (".parquet", ".jsonl", ".jsonl.gz")
every_format = pytest.mark.parametrize("ending", FORMATS)


def same(found, wanted):
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True),
        wanted.reset_index(drop=True),
        check_dtype=False,
    )


def write_text(path, text):
    """Text as it stands, compressed where the name says so."""
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_pieces(path, pieces):
    write_table(
        (
            pa.Table.from_pandas(piece, preserve_index=False)
            for piece in pieces
        ),
        path,
    )


SCHEMA = {"age": "int", "score": "float"}


def error_of(path, **options):
    with pytest.raises(TableError) as caught:
        read_table(path, **options)
    assert not shows_another(caught.value)
    return str(caught.value)


def shows_another(error):
    """Whether a traceback would show the error beneath this one too."""
    return error.__cause__ or (
        error.__context__ and not error.__suppress_context__
    )


def names_in(folder):
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def frame():
    """Eleven rows: ids with zeros, texts that try a format's patience, numbers with gaps."""
    texts = [
        *(
            "plain",
            'a "quoted" word, a comma',
            "two\nlines",
            "old\rlines",
            "new\r\nlines",
        ),
        *(
            "tab\there",
            "ünïcödé ☃ 😀",
            " spaces around ",
            "back\\slash \\n",
            "'",
            "a;b|c",
        ),
    ]
    return pd.DataFrame(
        {
            "patient_id": [f"{n:03d}" for n in range(11)],
            "text": texts,
            "age": range(40, 51),
            "score": [0.25 * n if n != 4 else np.nan for n in range(11)],
        }
    )


# --- what is written is what is read


@every_format
def test_what_is_written_is_read(tmp_path, frame, ending):
    path = tmp_path / f"table{ending}"
    write_table(frame, path)
    same(read_table(path, schema=SCHEMA), frame)
    assert table_columns(path) == list(frame.columns)
    assert names_in(tmp_path) == [path.name]


@every_format
def test_pieces_are_the_whole(tmp_path, frame, ending):
    path = tmp_path / f"table{ending}"
    write_pieces(path, (frame[start : start + 3] for start in range(0, 11, 3)))
    same(read_table(path, schema=SCHEMA), frame)


@pytest.mark.parametrize("ending", [".csv.gz", ".jsonl.gz"])
def test_a_name_with_gz_is_compressed(tmp_path, frame, ending):
    write_table(frame, tmp_path / f"table{ending}")
    write_table(frame, tmp_path / f"table{ending.removesuffix('.gz')}")
    assert (
        gzip.decompress((tmp_path / f"table{ending}").read_bytes())
        == (tmp_path / f"table{ending.removesuffix('.gz')}").read_bytes()
    )


@every_format
def test_columns_are_chosen_and_put_in_order(tmp_path, frame, ending):
    path = tmp_path / f"table{ending}"
    write_table(frame, path)
    same(
        read_table(path, columns=["text", "patient_id"]),
        frame[["text", "patient_id"]],
    )


def texts_of(alphabet):
    return st.lists(st.text(alphabet, min_size=1), min_size=1, max_size=5)


@hypothesis.given(texts=texts_of(st.characters(exclude_categories=["Cs"])))
@pytest.mark.parametrize("ending", [".parquet", ".jsonl"])
def test_any_text_survives(tmp_path_factory, ending, texts):
    path = tmp_path_factory.getbasetemp() / f"any{ending}"
    write_table(pd.DataFrame({"text": texts}), path)
    assert read_table(path)["text"].tolist() == texts


@hypothesis.given(texts=texts_of("ab ,\"'\n\r\t;\\#\0é☃"))
def test_any_text_survives_csv(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    write_table(pd.DataFrame({"text": texts, "last": 1}), path)
    assert read_table(path)["text"].tolist() == texts


@pytest.mark.parametrize("ending", LISTS)
def test_lists_of_texts_survive(tmp_path, ending):
    path = tmp_path / f"stays{ending}"
    stays = [["first note", 'a "second"\nnote'], [], ["ünïcödé"]]
    write_table(
        pd.DataFrame({"stay_id": ["1", "2", "3"], "text": stays}), path
    )
    assert [list(notes) for notes in read_table(path)["text"]] == stays
    again = tmp_path / f"again{ending}"
    write_table(read_table(path), again)
    assert [list(notes) for notes in read_table(again)["text"]] == stays


# --- ids


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_ids_keep_their_zeros(tmp_path, ending):
    path = tmp_path / f"ids{ending}"
    frame = pd.DataFrame(
        {
            "stay_id": ["007", "7"],
            "SUBJECT_ID": ["0", "00"],
            "text": ["1", "02"],
        }
    )
    write_table(frame, path)
    same(read_table(path), frame)


@pytest.mark.parametrize(
    "numbers",
    [
        pa.array([12345678901, None, 7]),
        pa.array([12345678901.0, None, 7.0]),
        pa.array([12345678901, None, 7]).cast(pa.decimal128(38, 0)),
    ],
    ids=["int", "float", "decimal"],
)
def test_ids_kept_as_numbers_become_the_same_strings(tmp_path, numbers):
    path = tmp_path / "ids.parquet"
    pq.write_table(pa.table({"stay_id": numbers, "n": numbers}), path)
    ids = read_table(path)["stay_id"]
    assert ids.isna().tolist() == [False, True, False]
    assert ids.dropna().tolist() == ["12345678901", "7"]
    assert not isinstance(read_table(path)["n"][0], str)


def test_everything_in_json_lines_is_text_until_a_schema_casts_it(tmp_path):
    lines = (
        '{"stay_id": 7, "n": 7, "ok": true, "x": 1e400}\n'
        '{"stay_id": 7.0, "n": 12345678901234567890123, "ok": null, "x": [1, "a", {"k": 2.50}]}\n'
    )
    path = write_text(tmp_path / "ids.jsonl", lines)
    first, second = (row.cells for row in iter_rows(path))
    assert first == {"stay_id": "7", "n": "7", "ok": "true", "x": "1e400"}
    assert second == {
        "stay_id": "7.0",
        "n": "12345678901234567890123",
        "ok": None,
        "x": ["1", "a", {"k": "2.50"}],
    }


# --- names and columns


def test_the_ending_decides():
    assert [table_format(f"a.b{ending}") for ending in FORMATS] == list(
        FORMATS
    )
    assert table_format("NOTES.CSV.GZ") == ".csv.gz"
    for name in ("notes.xlsx", "notes", "notes.gz", "csv", "notes.parquet.gz"):
        with pytest.raises(
            TableError, match=r"expected a table that ends in \.csv, "
        ):
            table_format(name)
    with pytest.raises(TableError, match=r"notes\.txt"):
        write_table(pd.DataFrame(), "notes.txt")


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


# --- files that are wrong


@every_format
def test_a_missing_file_and_an_empty_folder_are_said_to_be_that(
    tmp_path, ending
):
    path = tmp_path / f"notes{ending}"
    assert error_of(path).startswith(f"{path}: no such file; expected .csv, ")
    path.mkdir()
    assert error_of(path).startswith(
        f"{path}: no table in this folder; expected .csv, "
    )


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_an_empty_file_of_json_lines_is_an_empty_table(tmp_path, ending):
    path = write_text(tmp_path / f"notes{ending}", "")
    assert read_table(path).shape == (0, 0)
    assert table_columns(path) == []
    assert list(read_table(path, columns=["text"]).columns) == ["text"]


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv"])
def test_an_empty_csv_file_lacks_its_names(tmp_path, ending):
    path = write_text(tmp_path / f"notes{ending}", "")
    assert error_of(path).startswith(
        f"notes{ending} is empty; it needs a first line"
    )


def test_an_empty_parquet_file_is_no_parquet(tmp_path):
    path = write_text(tmp_path / "notes.parquet", "")
    assert (
        error_of(path)
        == "notes.parquet cannot be read as Parquet (ArrowInvalid)"
    )


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_a_table_without_rows_keeps_its_columns(tmp_path, ending):
    path = tmp_path / f"notes{ending}"
    write_table(pd.DataFrame({"stay_id": [], "text": []}), path)
    assert table_columns(path) == ["stay_id", "text"]
    assert read_table(path).shape == (0, 2)
    with pytest.raises(TableError, match="has no column 'age'"):
        read_table(path, columns=["age"])


@pytest.mark.parametrize(("inside", "ending"), [*permutations(FORMATS, 2)])
def test_a_file_that_is_not_what_its_ending_says(tmp_path, inside, ending):
    source = tmp_path / f"source{inside}"
    write_table(
        pd.DataFrame(
            {"text": [f"{CANARY} one", f"{CANARY}, two"], "n": [1, 2]}
        ),
        source,
    )
    path = source.rename(tmp_path / f"notes{ending}")
    message = error_of(path, columns=["text", "n"])
    assert "notes." in message
    assert CANARY not in message
    assert len(message) < 400


@pytest.mark.parametrize("ending", [".csv.gz", ".jsonl.gz", ".parquet"])
def test_a_file_cut_short(tmp_path, ending):
    path = tmp_path / f"notes{ending}"
    rng = np.random.default_rng(0)
    texts = [f"{CANARY} {rng.bytes(30).hex()}" for _ in range(2000)]
    write_table(pd.DataFrame({"text": texts}), path)
    path.write_bytes(path.read_bytes()[:-2000])
    message = error_of(path)
    assert "cannot be read " in message
    assert CANARY not in message


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl", ".jsonl.gz"])
def test_bytes_that_are_not_utf8_cost_their_character_alone(tmp_path, ending):
    rows = {
        ".csv": b"text,n\ncaf\xe9 au lait,1\nplain,2\n",
        ".jsonl": b'{"text": "caf\xe9 au lait", "n": 1}\n{"text": "plain", "n": 2}\n',
    }
    found = read_table(
        write_text(
            tmp_path / f"notes{ending}", rows[ending.removesuffix(".gz")]
        )
    )
    assert found["text"].tolist() == ["caf\ufffd au lait", "plain"]
    assert found["n"].tolist() == ["1", "2"]
    remarks = [row.remark for row in iter_rows(tmp_path / f"notes{ending}")]
    assert "U+FFFD" in remarks[0]
    assert remarks[1] == ""


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl", ".jsonl.gz"])
def test_the_mark_of_spreadsheets_is_no_part_of_the_first_name(
    tmp_path, ending
):
    text = {".csv": "text\nx\n", ".jsonl": '{"text": "x"}\n'}[
        ending.removesuffix(".gz")
    ]
    path = write_text(
        tmp_path / f"notes{ending}", b"\xef\xbb\xbf" + text.encode()
    )
    assert table_columns(path) == ["text"]


@pytest.mark.parametrize("rows", [1, 2048])
@pytest.mark.parametrize(
    ("lines", "bad"),
    [
        (["text,n", "x,1", f"{CANARY},2,{CANARY}", "y,3"], [3]),
        (["text,n", f"{CANARY},1,{CANARY}", "y,3"], [2]),
        (["text,n", "x,1", f'"{CANARY},2', "y,3", f"{CANARY}", "z,4"], [3, 5]),
        (["text,n", f'x,"{CANARY}', f'4,"{CANARY}"', "y,3"], [2]),
        (["text,n", f"x{CANARY}\r,1", "y,3"], [2]),
    ],
    ids=[
        "later row",
        "first row",
        "open quote and a short row",
        "closed by the next",
        "lone CR",
    ],
)
def test_a_line_that_is_no_row_is_listed_and_the_others_are_read(
    tmp_path, lines, bad, rows
):
    path = write_text(tmp_path / "notes.csv", "\n".join(lines) + "\n")
    message = error_of(path)
    count = "1 line" if len(bad) == 1 else f"{len(bad)} lines"
    assert message.startswith(
        f"{count} cannot be read as rows: notes.csv line {bad[0]}: line that is not a row"
    )
    assert all(f"notes.csv line {line}: " in message for line in bad)
    assert CANARY not in message
    found = list(iter_rows(path))
    assert [row.place for row in found if row.fault] == [
        f"notes.csv line {n}" for n in bad
    ]
    assert [row.number for row in found] == list(range(len(lines) - 1))
    good = [
        line.replace('"', "")
        for n, line in enumerate(lines[1:], start=2)
        if n not in bad
    ]
    assert [
        ",".join(row.cells.values()) for row in found if not row.fault
    ] == good


def test_faults_are_counted_to_the_end_and_the_first_are_listed(tmp_path):
    path = write_text(tmp_path / "notes.csv", "text,n\n" + "x,1\nbad\n" * 30)
    message = error_of(path)
    assert message.startswith(
        "30 lines cannot be read as rows: notes.csv line 3: "
    )
    assert message.count("notes.csv line") == 5
    assert message.endswith("; and 25 more. Correct or remove them")


@pytest.mark.parametrize(
    "line",
    [
        '{"text": "' + CANARY,
        '{"text": ' + CANARY + "}",
        f'["{CANARY}"]',
        f'"{CANARY}"',
    ],
)
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_a_line_that_is_no_json_is_named_by_its_number(tmp_path, ending, line):
    path = write_text(
        tmp_path / f"notes{ending}",
        f'{{"text": "a"}}\n\n{line}\n{{"text": "b"}}\n',
    )
    message = error_of(path)
    assert f"notes{ending} line 3: not a JSON object" in message
    assert CANARY not in message
    assert [
        (row.cells.get("text"), bool(row.fault)) for row in iter_rows(path)
    ] == [
        ("a", False),
        (None, True),
        ("b", False),
    ]


def test_very_deep_json_is_a_fault(tmp_path):
    path = write_text(
        tmp_path / "notes.jsonl", '{"a": ' + "[" * 200_000 + '\n{"a": "b"}\n'
    )
    assert [bool(row.fault) for row in iter_rows(path)] == [True, False]


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_is_a_character(
    tmp_path,
):
    path = write_text(
        tmp_path / "notes.jsonl",
        '{"text": "a\\ud83d b"}\n{"text": "\\ud83d\\ude00"}',
    )
    assert read_table(path)["text"].tolist() == ["a\ufffd b", "😀"]


def test_only_the_empty_cell_is_missing(tmp_path):
    path = write_text(
        tmp_path / "a.jsonl",
        '{"text": null, "p": NaN}\n{"text": "", "p": 1}\n{"text": "NaN"}\n',
    )
    cells = [dict(row.cells) for row in iter_rows(path)]
    assert cells == [
        {"text": None, "p": None},
        {"text": None, "p": "1"},
        {"text": "NaN"},
    ]
    path = write_text(
        tmp_path / "a.csv", 'text,p\n,\n"",x\nNULL,NA\nNone,038\nnan, \n'
    )
    cells = [tuple(row.cells.values()) for row in iter_rows(path)]
    nothing = [(None, None), (None, "x")]
    assert cells == [*nothing, ("NULL", "NA"), ("None", "038"), ("nan", " ")]
    assert read_table(path)["text"].tolist()[2:] == ["NULL", "None", "nan"]


def test_parquet_cells_are_the_text_of_their_values(tmp_path):
    utc = datetime.UTC
    table = pa.table(
        {
            "whole": pa.array([12345678901.0, float("nan")]),
            "half": pa.array([0.5, None]),
            "ok": pa.array([True, None]),
            "day": pa.array([datetime.date(2020, 1, 31), None]),
            "time": pa.array(
                [datetime.datetime(2020, 1, 31, 7, 5, tzinfo=utc), None]
            ),
            "nano": pa.array([1, None], pa.timestamp("ns")),
            "word": pa.array(["NA", ""]).dictionary_encode(),
            "bytes": pa.array([b"caf\xe9", None]),
            "notes": pa.array([["a", None, "NA"], None]),
            "numbers": pa.array([[1.0, 2.5], []]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    first, second = (
        list(row.cells.values()) for row in iter_rows(tmp_path / "a.parquet")
    )
    assert first == [
        *(
            "12345678901",
            "0.5",
            "true",
            "2020-01-31",
            "2020-01-31 07:05:00+00:00",
        ),
        *(
            "1970-01-01 00:00:00",
            "NA",
            "caf\ufffd",
            ["a", None, "NA"],
            ["1", "2.5"],
        ),
    ]
    assert second == [None] * 9 + [[]]
    frame = pd.DataFrame(
        {"ok": [True], "stay_id": [12.0], "n": [np.int64(3)], "t": [""]}
    )
    (row,) = frame_rows(frame)
    assert row.cells == {"ok": "true", "stay_id": "12", "n": "3", "t": None}


def test_a_column_named_twice_in_parquet_is_refused(tmp_path):
    table = pa.table([pa.array([1]), pa.array([2])], names=["text", "text"])
    pq.write_table(table, tmp_path / "a.parquet")
    assert "repeats the columns text" in error_of(tmp_path / "a.parquet")


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


# --- where tables are, and how they are spelled


def test_folders_and_patterns(tmp_path):
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    write_text(folder / "b.jsonl", '{"text": "2", "n": 1}\n')
    write_text(folder / "a.csv", "text\n1\n")
    write_text(folder / "deep" / "c.tsv.gz", "text\tn\n3,3\t2\n")
    write_text(folder / "deep" / "d.txt", "4\n\r\n5")
    write_text(folder / ".hidden" / "e.csv", "text\nno\n")
    write_text(folder / "about.md", "no table")
    rows = list(iter_rows(folder))
    assert [row.cells["text"] for row in rows] == ["1", "2", "3,3", "4\n\r\n5"]
    assert [row.number for row in rows] == [0, 1, 2, 3]
    places = ["a.csv line 2", "b.jsonl line 1", "c.tsv.gz line 2", "d.txt"]
    assert [row.place for row in rows] == places
    assert table_columns(folder) == ["text", "n", "note_id"]
    assert read_table(folder)["n"].fillna("-").tolist() == ["-", "1", "2", "-"]
    assert [row.cells["text"] for row in iter_rows(f"{tmp_path}/*/*.csv")] == [
        "1"
    ]
    assert "no such file" in error_of(f"{tmp_path}/*/*.parquet")
    lines = [
        row.cells["text"]
        for row in iter_rows(
            folder / "deep" / "d.txt", ReadOptions(lines=True)
        )
    ]
    assert lines == ["4", None, "5"]


@pytest.mark.parametrize("name", ["h[12]", "h*", "h?"])
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_a_name_with_the_signs_of_a_pattern_is_that_name(
    tmp_path, name, ending
):
    for folder in (name, "h1"):
        (tmp_path / folder).mkdir()
        write_table(
            pd.DataFrame({"text": [folder]}), tmp_path / folder / f"x{ending}"
        )
        write_table(
            pd.DataFrame({"text": [folder]}), tmp_path / f"{folder}{ending}"
        )
    for source in (
        tmp_path / name,
        tmp_path / name / f"x{ending}",
        tmp_path / f"{name}{ending}",
    ):
        assert [row.cells["text"] for row in iter_rows(source)] == [name]
        assert read_table(source)["text"].tolist() == [name]


def test_a_folder_that_a_pattern_finds_is_no_file(tmp_path):
    (tmp_path / "h1").mkdir()
    assert "no such file" in error_of(tmp_path / "h[12]")


def test_an_ending_in_capitals_and_one_in_the_middle(tmp_path):
    path = write_text(tmp_path / "A.TSV", "text\tn\na,b\t1\n")
    assert read_table(path).to_dict("list") == {"text": ["a,b"], "n": ["1"]}
    path = write_text(tmp_path / "a.tsv.csv", "text,n\na\tb,1\n")
    assert read_table(path).to_dict("list") == {"text": ["a\tb"], "n": ["1"]}


@pytest.mark.parametrize(
    ("content", "name", "advice"),
    [
        (
            "text;n\na;1\n",
            "x.csv",
            "separates its fields by ';', not ',': name the delimiter (--del",
        ),
        ("text\tn\na\t1\n", "x.csv", "(--delimiter 'tab')"),
        ("text,n\na,1\n", "x.tsv", "(--delimiter ',')"),
        (
            "text,n\na,1\n".encode("utf-16"),
            "x.csv",
            "is in UTF-16: name the encoding (--encoding utf",
        ),
        ("text,n\na,1\n".encode("utf-16-le"), "x.csv", "--encoding utf-16"),
        (
            '{"text": "a"}\n'.encode("utf-16"),
            "x.jsonl",
            "is in UTF-16: name the encoding (--encoding",
        ),
        (
            "some text".encode("utf-16"),
            "x.txt",
            "is in UTF-16: name the encoding (--encoding utf-16)",
        ),
        (
            "n\xe9,text\na,1\n".encode("latin-1"),
            "x.csv",
            "is not in UTF-8: name its encoding (--enc",
        ),
        (
            b"PK\x03\x04 and so on",
            "x.csv",
            "is a spreadsheet or a zip file: save the sheet as CSV",
        ),
        (b"PK\x03\x04 and so on", "x.xlsx", "save the sheet as CSV (UTF-8)"),
        (b"{}", "x.json", "write one JSON object a line (.jsonl)"),
        (
            "text,n\ra,1\rb,2\r",
            "x.csv",
            "a lone carriage return; save the file with ordinary line end",
        ),
    ],
)
def test_a_file_of_another_kind_names_the_option_that_reads_it(
    tmp_path, content, name, advice
):
    assert advice in error_of(write_text(tmp_path / name, content))


@pytest.mark.parametrize(
    ("content", "name", "options"),
    [
        ('text;n\n"a;b";1\n', "x.csv", {"delimiter": ";"}),
        ("text\tn\na;b\t1\n", "x.csv", {"delimiter": "tab"}),
        ("text,n\na;b,1\n", "x.tsv", {"delimiter": ","}),
        ("text^n\na;b^1\n", "x.csv", {"delimiter": "^"}),
        ("text n\na;b 1\n", "x.csv", {"delimiter": " "}),
        ("text,n\na;b,1\n".encode("utf-16"), "x.csv", {"encoding": "utf-16"}),
        (
            "text,n\na;b,1\n".encode("utf-16-be"),
            "x.csv.gz",
            {"encoding": "utf-16-be"},
        ),
        (b"\xef\xbb\xbftext,n\na;b,1\n", "x.csv", {"encoding": "UTF8"}),
        (
            '{"text": "a;b", "n": 1}'.encode("utf-16"),
            "x.jsonl",
            {"encoding": "utf-16"},
        ),
        (
            b'\xef\xbb\xbf{"text": "a;b", "n": 1}',
            "x.jsonl",
            {"encoding": "utf-8"},
        ),
    ],
)
def test_options_read_what_the_advice_says(tmp_path, content, name, options):
    path = write_text(tmp_path / name, content)
    (row,) = iter_rows(path, ReadOptions(**options))
    assert row.cells == {"text": "a;b", "n": "1"}
    assert row.remark == row.fault == ""


def test_another_encoding_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "LONGEST_ROW", 50)
    texts = [f"{n} café ☃" for n in range(200)]
    path = write_text(
        tmp_path / "x.csv", ("text\n" + "\n".join(texts)).encode("utf-16")
    )
    rows = list(iter_rows(path, ReadOptions(encoding="utf-16")))
    assert [row.cells["text"] for row in rows] == texts
    path = write_text(tmp_path / "y.csv", b"text\ncaf\x81\nplain\n")
    rows = list(iter_rows(path, ReadOptions(encoding="cp1252")))
    assert [(row.cells["text"], bool(row.remark)) for row in rows] == [
        ("caf\ufffd", True),
        ("plain", False),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"delimiter": ";;"},
            "delimiter: expected one character such as ';', or tab, got ';;'",
        ),
        ({"delimiter": '"'}, "delimiter: expected"),
        ({"delimiter": ""}, "delimiter: expected"),
        ({"delimiter": "§"}, "delimiter: expected"),
        (
            {"encoding": "utf-17"},
            "encoding: expected one such as cp1252 or utf-16, got 'utf-17'",
        ),
        ({"encoding": "base64"}, "encoding: expected"),
        ({"encoding": "idna"}, "encoding: expected"),
    ],
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(TableError, match=re.escape(message)):
        ReadOptions(**options)


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".txt"])
def test_another_encoding_than_the_one_named_is_one_line(tmp_path, ending):
    path = tmp_path / f"n{ending}"
    path.write_text('{"text": 1}\n')
    with pytest.raises(
        TableError, match=rf"n{ending} is not in utf-16; name another encoding"
    ):
        list(iter_rows(path, ReadOptions(encoding="utf-16")))


def test_a_query_reads_a_database(tmp_path):
    path = tmp_path / "hospital.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE notes (stay_id INTEGER, note TEXT, day REAL)"
        )
        rows = [(7, "a", 1.5), (8, None, 2.0), (9, "038", None)]
        database.executemany("INSERT INTO notes VALUES (?, ?, ?)", rows)
        database.commit()
    uri = f"sqlite:///{path}"
    options = ReadOptions(
        query="SELECT stay_id, note, day FROM notes ORDER BY stay_id"
    )
    kept = spooled(uri, options, folder=tmp_path)
    found = list(iter_rows(kept))
    assert [tuple(row.cells.values()) for row in found] == [
        ("7", "a", "1.5"),
        ("8", None, "2"),
        ("9", "038", None),
    ]
    assert [row.place for row in found] == [
        f"query.parquet row {n}" for n in (1, 2, 3)
    ]
    assert table_columns(kept) == ["stay_id", "note", "day"]
    for wrong, query, message in (
        (uri, None, "say what to read with --query"),
        (uri, "SELECT nothing FROM nowhere", "failed"),
        ("sqlite:///nowhere.db", "SELECT 1", "no such SQLite file"),
    ):
        with pytest.raises(TableError, match=message):
            spooled(wrong, ReadOptions(query=query), folder=tmp_path)
    assert error_of("postgresql://me:secret@host/db").startswith(
        "expected files, got a database"
    )


# --- a file that changes, and very large ones


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".txt"])
@pytest.mark.parametrize("change", ["cut", "longer", "replaced", "gone"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path, ending, change
):
    path, other = tmp_path / f"notes{ending}", tmp_path / f"other{ending}"
    texts = [f"{CANARY} {n}" for n in range(5000)]
    for file in (path, other):
        if ending == ".txt":
            file.write_text("\n".join(texts))
        else:
            write_table(pd.DataFrame({"text": texts}), file)
    rows = iter_rows(path, ReadOptions(lines=True))
    assert CANARY in next(rows).cells["text"]
    if change == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif change == "longer":
        path.write_bytes(path.read_bytes() + b"more")
    elif change == "replaced":
        other.replace(path)
    else:
        path.unlink()
    with pytest.raises(
        TableError, match=r"was changed while|cannot be read"
    ) as caught:
        list(rows)
    assert CANARY not in str(caught.value)


def test_a_table_of_a_million_columns_is_read_in_seconds(tmp_path):
    count = 1_000_000
    names = ",".join(["text", *(f"c{n}" for n in range(count))])
    path = write_text(
        tmp_path / "wide.csv",
        f"{names}\nx{',' * count}\nshort\ny{',' * count}\n",
    )
    start = time.process_time()
    found = [
        row.cells.get("text") for row in iter_rows(path, columns=["text"])
    ]
    assert match_columns(
        table_columns(path), [TEXT, STAY], source="wide.csv"
    ) == {"text": "text"}
    assert found == ["x", None, "y"]
    assert time.process_time() - start < 30


def test_a_huge_row_is_a_fault_and_memory_stays_bounded(tmp_path):
    path = tmp_path / "huge.csv"
    with path.open("w") as file:
        file.write("text,n\nfirst,1\n")
        for _ in range(200):
            file.write("word " * 200_000)
        file.write(",2\nlast,3\n")
    tracemalloc.start()
    found = list(iter_rows(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [row.cells.get("text") for row in (found[0], found[-1])] == [
        "first",
        "last",
    ]
    assert [row.place for row in found] == [
        f"huge.csv line {line}" for line in (2, 3, 4)
    ]
    assert "more than 16 MB" in found[1].fault
    assert peak < 9 * (16 << 20) < path.stat().st_size


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_only_the_columns_asked_for_are_read(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    write_table(pd.DataFrame({"a": ["1"], "b": ["2"], "c": ["3"]}), path)
    (row,) = iter_rows(path, columns=["c", "a", "z"])
    assert row.cells == {"a": "1", "c": "3"}


# --- whatever is in a table

cells = st.one_of(
    st.text("ab ,\"'\n\r\t;\\#\0é☃=+-@", min_size=1),
    st.sampled_from(["NA", "038", "None", "1e5"]),
)
tables = st.lists(
    st.tuples(cells | st.none(), cells, cells | st.none()),
    min_size=1,
    max_size=6,
)


@hypothesis.given(rows=tables)
@pytest.mark.parametrize(
    "ending", [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz"]
)
def test_rows_come_back_cell_for_cell(tmp_path_factory, ending, rows):
    path = tmp_path_factory.getbasetemp() / f"cells{ending}"
    names = ["stay_id", "text", "id"]
    write_table(pd.DataFrame(rows, columns=names, dtype=object), path)
    if ".jsonl" in ending or ".parquet" in ending:
        guarded = rows
    else:  # the reader of notes leaves texts as they are
        found = read_table(path)[names].astype(object)
        assert [
            tuple(row)
            for row in found.where(found.notna(), None).to_numpy().tolist()
        ] == rows
        guarded = [
            (first, text and guard(text), last) for first, text, last in rows
        ]
    assert [
        tuple(row.cells[name] for name in names) for row in iter_rows(path)
    ] == guarded
    assert not any(row.fault or row.remark for row in iter_rows(path))


damages = st.sampled_from(
    ["", "", "", "open", "short", "long", "return", "blank"]
)


@hypothesis.given(
    rows=st.lists(
        st.tuples(st.text('ab" ,;é', max_size=6), damages), max_size=12
    ),
    block=st.sampled_from([64, 1 << 20]),
)
def test_rows_in_are_rows_accounted_for(tmp_path_factory, rows, block):
    """Cells begin with a letter: only a quote before a comma could close an open one unseen."""
    path = tmp_path_factory.getbasetemp() / "damaged.csv"
    expected = []
    with path.open("w", newline="") as file:
        file.write("n,text,end\n")
        for number, (text, damage) in enumerate(rows):
            quoted = '"x' + text.replace('"', '""') + 'x"'
            line = {
                "open": f'{number},"x{number},y\n',
                "short": f"{number},{quoted}\n",
                "long": f"{number},{quoted},y,y\n",
                "return": f"{number},x\rx,y\n",
                "blank": "\n",
            }.get(damage, f"{number},{quoted},y\n")
            file.write(line)
            if damage != "blank":
                expected.append(
                    (None, None) if damage else (str(number), f"x{text}x")
                )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "LONGEST_ROW", block)
        patch.setattr(csv_files, "_LOOKAHEAD", block // 16)
        found = list(iter_rows(path))
    assert [
        (row.cells.get("n"), row.cells.get("text")) for row in found
    ] == expected
    assert [bool(row.fault) for row in found] == [
        n is None for n, _ in expected
    ]
    assert [row.number for row in found] == list(range(len(expected)))


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_text_is_not_written_as_formulas_and_comes_back(tmp_path, ending):
    ids = [
        "=1+2",
        "+4",
        "-5",
        "@x",
        "'=1",
        "'quoted",
        "'",
        "P-1",
        "\t=1",
        None,
    ]
    frame = pd.DataFrame(
        {"STAY_ID": ids, "id": ids, "MRN": ids, "patient": ids, "text": ids}
    )
    path = tmp_path / f"ids{ending}"
    write_table(frame, path)
    written = list(
        csv.reader(
            path.open(newline=""), delimiter="\t" if "t" in ending else ","
        )
    )[1:]
    for stay, plain, record, patient, text in written:
        assert stay == plain == record == patient == text
        assert stay[:1] not in tuple("=+-@\t\r") or not stay
    for name in frame.columns[:-1]:
        assert [row.cells[name] for row in iter_rows(path)] == ids
    assert read_table(path)["text"].fillna("").tolist() == [
        text or "" for text in ids
    ]
    write_table(frame, path, raw=True)
    assert path.read_text().splitlines()[1][:4] == "=1+2"
    assert frame["id"].fillna("").tolist() == [
        text or "" for text in ids
    ]  # the caller's own table is left alone


# --- what a format cannot hold


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_lists_do_not_go_into_csv(tmp_path, ending):
    frame = pd.DataFrame({"n": [1], "text": [[f"{CANARY}"]]})
    with pytest.raises(
        TableError,
        match=r"column 'text' holds lists; write \.parquet or \.jsonl$",
    ):
        write_table(frame, tmp_path / f"stays{ending}")
    assert names_in(tmp_path) == []


def test_a_column_of_two_kinds_does_not_go_into_parquet(tmp_path):
    with pytest.raises(
        TableError, match="column 'value' holds values of more than"
    ) as caught:
        write_table(
            pd.DataFrame({"value": [CANARY, 1]}), tmp_path / "x.parquet"
        )
    assert CANARY not in str(caught.value)
    assert not shows_another(caught.value)
    assert names_in(tmp_path) == []


@every_format
def test_text_that_is_not_unicode_is_refused_unsaid(tmp_path, ending):
    frame = pd.DataFrame(
        {"text": pd.Series([f"{CANARY} \ud800"], dtype=object)}
    )
    with pytest.raises(TableError, match="text that is not Unicode") as caught:
        write_table(frame, tmp_path / f"notes{ending}")
    assert CANARY not in str(caught.value)
    assert names_in(tmp_path) == []


# --- metadata


def test_only_parquet_keeps_metadata(tmp_path):
    path = write_text(tmp_path / "x.parquet", f"{CANARY},b\n" * 10)
    with pytest.raises(
        TableError, match=r"x.parquet cannot be read as Parquet"
    ) as caught:
        read_metadata(path)
    assert CANARY not in str(caught.value)


# --- all or nothing


@every_format
def test_an_error_half_way_leaves_the_old_file_alone(tmp_path, ending):
    path = tmp_path / f"risks{ending}"
    write_table(pd.DataFrame({"a": [1]}), path)
    before = path.read_bytes()

    def pieces():
        yield pd.DataFrame({"a": [2]})
        assert path.read_bytes() == before
        assert len(names_in(tmp_path)) == 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_pieces(path, pieces())
    assert path.read_bytes() == before
    assert names_in(tmp_path) == [path.name]


def test_a_rename_that_fails_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with (
        pytest.raises(OSError, match="disk full"),
        atomic_path(path) as temporary,
    ):
        temporary.write_text("new")
    assert path.read_text() == "old"
    assert names_in(tmp_path) == [path.name]


def test_a_written_file_has_the_rights_of_any_other(tmp_path):
    before = os.umask(0o027)
    try:
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "x.csv")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.csv").stat().st_mode) == 0o640


def test_the_names_of_columns_are_documented():
    page = (Path(__file__).parents[3] / "docs" / "scale.md").read_text("utf-8")
    for column in (PATIENT, STAY, NOTE, TIME, TEXT):
        assert (
            ", ".join(f"`{name}`" for name in (column.name, *column.also))
            in page
        )


def test_a_parquet_file_with_an_index_of_pandas_is_read(tmp_path):
    frame = pd.DataFrame({"id": ["1", "2", "3"], "text": ["a", "b", "c"]})
    frame[frame["text"] != "b"].to_parquet(tmp_path / "n.parquet")
    assert read_table(tmp_path / "n.parquet", columns=["text"])[
        "text"
    ].tolist() == [
        "a",
        "c",
    ]


def test_a_parquet_cell_that_python_cannot_hold_is_the_fault_of_its_row(
    tmp_path,
):
    buffers = [
        None,
        *map(pa.py_buffer, (np.array([0, 1, 3, 4], np.int32), b"ab\xffc")),
    ]
    texts = pa.Array.from_buffers(pa.string(), 3, buffers)
    days = pa.array([1, 2, 2**31 - 9], pa.int32()).cast(pa.date32())
    pq.write_table(
        pa.table({"text": texts, "day": days}), tmp_path / "n.parquet"
    )
    found = list(iter_rows(tmp_path / "n.parquet"))
    assert [bool(row.fault) for row in found] == [False, True, True]
    assert found[0].cells == {"text": "a", "day": "1970-01-02"}
    assert "column 'text' is not UTF-8" in found[1].fault
    assert "column 'day'" in found[2].fault


def test_a_json_key_twice_is_a_fault(tmp_path):
    (tmp_path / "n.jsonl").write_text(
        '{"text": "a", "text": "b"}\n{"text": {"x": 1, "x": 2}}\n'
    )
    assert [row.fault for row in iter_rows(tmp_path / "n.jsonl")] == 2 * [
        "a JSON object with a key twice"
    ]


@pytest.mark.parametrize("ending", [".jsonl.gz", ".txt.gz", ".csv.gz"])
def test_lines_are_bounded_after_they_are_unpacked(
    tmp_path, monkeypatch, ending
):
    monkeypatch.setattr(csv_files, "LONGEST_ROW", 1 << 16)
    path = tmp_path / f"n{ending}"
    long = '{"text": "' + "x" * (1 << 20) + '"}'
    with gzip.open(path, "wt") as file:
        file.write(f'{long}\n{{"text": "b"}}\n')
    if ending == ".csv.gz":
        with pytest.raises(
            TableError,
            match="expected a first line of names, got a line of more",
        ):
            list(iter_rows(path))
        return
    first, second = iter_rows(path, ReadOptions(lines=True))
    assert (first.fault, dict(first.cells)) == (
        "a line of more than 16 MB",
        {},
    )
    assert second.cells["text"] == (
        "b" if ending == ".jsonl.gz" else '{"text": "b"}'
    )


def test_a_pipe_that_is_named_is_refused(tmp_path):
    os.mkfifo(tmp_path / "n.csv")
    with pytest.raises(
        TableError, match=r"n\.csv is a pipe or a device; save its content"
    ):
        read_table(tmp_path / "n.csv")


def test_a_column_without_a_value_is_text_in_parquet(tmp_path):
    write_table(
        pd.DataFrame({"a": [1, 2], "b": [None, None]}), tmp_path / "t.parquet"
    )
    assert (
        pq.read_schema(tmp_path / "t.parquet").field("b").type == pa.string()
    )


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            'password authentication failed for user "x"',
            "wrong user or password",
        ),
        ('column "password_hash" does not exist', "DatabaseError"),
        (
            'invalid integer value "a" for connection option "port"',
            "host or port",
        ),
        ('invalid input syntax for type integer: "x"', "DatabaseError"),
    ],
)
def test_a_database_fault_is_told_by_its_kind(message, said):
    class DatabaseError(Exception):
        pass

    assert _fault(DatabaseError(message)).startswith(said)


def test_text_files_have_their_names_as_ids(tmp_path):
    (tmp_path / "notes" / "May").mkdir(parents=True)
    (tmp_path / "notes" / "May" / "b.TXT").write_text("second")
    (tmp_path / "notes" / "a.txt").write_text("first\nline")
    names = {
        "notes": ["May/b", "a"],
        "notes/*.txt": ["a"],
        "notes/a.txt": ["a"],
    }
    for source, ids in names.items():
        rows = iter_rows(tmp_path / source)
        assert [row.cells["note_id"] for row in rows] == ids
        assert table_columns(tmp_path / source) == ["note_id", "text"]
    lines = ReadOptions(lines=True)
    assert table_columns(tmp_path / "notes" / "a.txt", lines) == ["text"]
    assert [
        r.cells for r in iter_rows(tmp_path / "notes" / "a.txt", lines)
    ] == [
        {"text": "first"},
        {"text": "line"},
    ]
