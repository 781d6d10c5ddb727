"""Where tables are: files that are missing, wrong, empty or changing, folders and patterns."""

import os
from itertools import permutations

import duckdb
import numpy as np
import pandas as pd
import pytest

from domainbert.tables import (
    ReadOptions,
    TableError,
    iter_rows,
    read_table,
    table_columns,
    write_table,
)
from domainbert.tables.databases import open_source
from domainbert.tables.options import FORMATS

from .helpers import CANARY, error_of, every_format, write_text


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


def test_a_pipe_that_is_named_is_refused(tmp_path):
    os.mkfifo(tmp_path / "n.csv")
    with pytest.raises(
        TableError, match=r"n\.csv is a pipe or a device; save its content"
    ):
        read_table(tmp_path / "n.csv")


# --- folders of parts


def parts_of(folder, name="note.csv", *, count=3):
    """A table of two columns as a program with several writers leaves it, one row a part."""
    (folder / name).mkdir(parents=True)
    for number in range(count):
        frame = pd.DataFrame({"id": [str(number)], "text": [f"text {number}"]})
        ending = ".csv" if "csv" in name else ".parquet"
        write_table(frame, folder / name / f"part-0000{number}-c000{ending}")
    (folder / name / "_SUCCESS").touch()
    return folder / name


def rows_in(folder, table="note", columns=("id", "text")):
    with (
        duckdb.connect() as con,
        open_source(folder, con, ReadOptions()) as source,
    ):
        assert sorted(source.columns(table)) == sorted(columns)
        return sorted(
            con.sql(f"FROM {source.scan(table, columns)}").fetchall(), key=str
        )


@pytest.mark.parametrize("name", ["note.csv", "note.parquet", "Note"])
def test_a_folder_of_parts_is_a_table(tmp_path, name):
    folder = parts_of(tmp_path, name)
    (folder / ".part-00000-c000.csv.crc").write_text("x")
    (
        folder / "part-00009-c000.csv"
    ).touch()  # Spark's part of an empty partition
    wanted = [(str(n), f"text {n}") for n in range(3)]
    if name == "note.csv":
        assert rows_in(tmp_path) == wanted
    (folder / "part-00009-c000.csv").unlink()
    assert rows_in(tmp_path) == wanted
    with (
        duckdb.connect() as con,
        open_source(tmp_path, con, ReadOptions()) as source,
    ):
        assert source.tables() == [name]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_the_names_of_folders_give_columns(tmp_path, ending):
    for value in (
        "Radiology",
        "Discharge%20summary",
        "__HIVE_DEFAULT_PARTITION__",
    ):
        folder = tmp_path / "hospital" / "note" / f"Kind={value}"
        folder.mkdir(parents=True)
        write_table(pd.DataFrame({"id": [value[0]]}), folder / f"a{ending}")
    assert rows_in(tmp_path, columns=("Kind", "id")) == [
        ("Discharge summary", "D"),
        ("Radiology", "R"),
        (None, "_"),
    ]


def test_numbered_files_of_one_export_are_a_table(tmp_path):
    for number in range(2):
        path = tmp_path / f"note-{number:012}.csv"
        path.write_text(f"id,text\n{number},text {number}\n")
    assert rows_in(tmp_path) == [("0", "text 0"), ("1", "text 1")]


def test_parts_that_are_not_a_whole_table_are_refused(tmp_path):
    def error():
        with pytest.raises(TableError) as caught:
            rows_in(tmp_path)
        return str(caught.value)

    folder = parts_of(tmp_path)
    (folder / "_temporary" / "0").mkdir(parents=True)
    (folder / "_temporary" / "0" / "part-00000.csv").write_text(
        "id,text\n0,a\n"
    )
    assert len(rows_in(tmp_path)) == 3  # a leftover of another attempt
    assert len(list(iter_rows(folder))) == 3
    (folder / "_SUCCESS").unlink()
    assert "note.csv was not written to its end" in error()
    with pytest.raises(TableError, match="was not written to its end"):
        list(iter_rows(folder))
    (folder / "_delta_log").mkdir()
    assert "note.csv is a table of Delta Lake or Hudi" in error()
    (folder / "_delta_log").rmdir()
    (folder / "_SUCCESS").touch()
    (folder / "part-1.csv").write_text("2,text 2\n3,text 3\n")
    assert 'in Spark, option("header", True)' in error()
    (tmp_path / "note.tsv").write_text("id\ttext\n")
    assert "more than one file for note: note.csv, note.tsv" in error()
