"""Formats by their endings, delimiters and encodings."""

import gzip
import re

import pandas as pd
import pytest

from domainbert.tables import (
    ReadOptions,
    TableError,
    iter_rows,
    read_table,
    write_table,
)
from domainbert.tables.options import FORMATS, table_format

from .helpers import error_of, write_text


@pytest.mark.parametrize("ending", [".csv.gz", ".jsonl.gz"])
def test_a_name_with_gz_is_compressed(tmp_path, frame, ending):
    write_table(frame, tmp_path / f"table{ending}")
    write_table(frame, tmp_path / f"table{ending.removesuffix('.gz')}")
    assert (
        gzip.decompress((tmp_path / f"table{ending}").read_bytes())
        == (tmp_path / f"table{ending.removesuffix('.gz')}").read_bytes()
    )


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
            "separates its fields by ';', not ',': name the delimiter (`deli",
        ),
        ("text\tn\na\t1\n", "x.csv", "(`delimiter='tab'`)"),
        ("text,n\na,1\n", "x.tsv", "(`delimiter=','`)"),
        ("text,n\na,1\n".encode("utf-16-le"), "x.csv", "encoding='utf-16-le'"),
        ("text,n\na,1\n".encode("utf-16-be"), "x.csv", "encoding='utf-16-be'"),
        (
            '{"text": "a"}\n'.encode("utf-16-le"),
            "x.jsonl",
            "is in UTF-16: name the encoding (`encoding=",
        ),
        ("some text".encode("utf-16-le"), "x.txt", "encoding='utf-16-le'"),
        (
            "n\xe9,text\na,1\n".encode("latin-1"),
            "x.csv",
            "is not in UTF-8: name its encoding (`enc",
        ),
        (
            b"PK\x03\x04 and so on",
            "x.csv",
            "is a spreadsheet or a zip file: save the sheet as CSV",
        ),
        (b"PK\x03\x04 and so on", "x.xlsx", "save the sheet as CSV (UTF-8)"),
        (b"{}", "x.json", "write one JSON object per line (.jsonl)"),
        (
            "text,n\ra,1\rb,2\r",
            "x.csv",
            "a lone carriage return; save the file with ordinary line end",
        ),
    ],
)
def test_a_file_of_another_kind_names_the_argument_that_reads_it(
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
        ("text,n\na;b,1\n".encode("utf-16"), "x.csv", {}),
        ('{"text": "a;b", "n": 1}'.encode("utf-16"), "x.jsonl", {}),
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


def test_another_encoding_is_read_in_pieces(tmp_path):
    texts = [f"{n} café ☃" * 1000 for n in range(400)]
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


def test_latin_1_means_windows_1252(tmp_path):
    """Its control characters are the dash and the euro sign of Windows programs."""
    path = write_text(tmp_path / "x.csv", "text\n10 – 20 €\n".encode("cp1252"))
    rows = list(iter_rows(path, ReadOptions(encoding="ISO-8859-1")))
    assert [row.cells["text"] for row in rows] == ["10 – 20 €"]


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
