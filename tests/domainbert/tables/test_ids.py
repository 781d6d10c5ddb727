"""Ids keep their spelling, and cells that a spreadsheet would run are guarded."""

import csv
import gzip

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domainbert.tables import (
    ReadOptions,
    iter_rows,
    read_table,
    table_columns,
    write_table,
)

from .helpers import (
    same,
)


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


def test_ids_as_formulas_of_a_spreadsheet_keep_their_zeros(tmp_path):
    path = tmp_path / "ids.csv"
    path.write_text('stay_id,text\n="007",="a"\n"=""08""",b\n9,c\n')
    frame = read_table(path)
    assert frame["stay_id"].tolist() == ["007", "08", "9"]
    assert frame["text"].tolist() == ['="a"', "b", "c"]


FORMULAS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20\ufeff"


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz"])
@pytest.mark.parametrize("start", [*FORMULAS[:-1], "'=", "\ufeff="])
def test_names_of_columns_are_not_written_as_formulas_and_come_back(
    tmp_path, ending, start
):
    name = f'{start}HYPERLINK("http://a")_id'
    frame = pd.DataFrame({name: ["1"], "text": ["a"]})
    path = tmp_path / f"table{ending}"
    write_table(frame, path)
    open_file = gzip.open if ending.endswith("gz") else open
    with open_file(path, "rt", newline="", encoding="utf-8") as file:
        separator = "\t" if ending == ".tsv" else ","
        header = next(csv.reader(file, delimiter=separator))
    assert header == [f"'{name}", "text"]
    assert table_columns(path) == [name, "text"]
    assert read_table(path)[name].tolist() == ["1"]
    assert list(frame.columns) == [name, "text"]
    write_table(frame, path, raw=True)
    with open_file(path, "rt", newline="", encoding="utf-8") as file:
        header = next(csv.reader(file, delimiter=separator))
    assert header == [name, "text"]


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
        "\n=1",
        "\uff1d1+2",
        "\uff0b4",
        "\uff0d5",
        "\uff20x",
        "'\uff1d1",
        "\ufeff=1",
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
        assert not stay or stay[0] not in FORMULAS
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
