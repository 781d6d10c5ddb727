"""Parquet: types, metadata, and files of other programs."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domainbert.tables import (
    TableError,
    iter_rows,
    read_table,
    write_table,
)
from domainbert.tables.frames import read_metadata
from domainbert.tables.rows import frame_rows

from .helpers import CANARY, error_of, names_in, shows_another, write_text


def test_an_empty_parquet_file_is_no_parquet(tmp_path):
    path = write_text(tmp_path / "notes.parquet", "")
    assert (
        error_of(path)
        == "notes.parquet cannot be read as Parquet (ArrowInvalid)"
    )


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


def test_only_parquet_keeps_metadata(tmp_path):
    path = write_text(tmp_path / "x.parquet", f"{CANARY},b\n" * 10)
    with pytest.raises(
        TableError, match=r"x.parquet cannot be read as Parquet"
    ) as caught:
        read_metadata(path)
    assert CANARY not in str(caught.value)


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


def test_a_column_without_a_value_is_text_in_parquet(tmp_path):
    write_table(
        pd.DataFrame({"a": [1, 2], "b": [None, None]}), tmp_path / "t.parquet"
    )
    assert (
        pq.read_schema(tmp_path / "t.parquet").field("b").type == pa.string()
    )
