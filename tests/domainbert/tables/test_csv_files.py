"""CSV files are read as they are written, and what is no row is listed, never swallowed."""

import csv
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domainbert.tables import ReadOptions, TableError, csv_files
from domainbert.tables.csv_files import csv_batches, csv_columns

HEADER = "a,b,c\n"
# What notes are made of, as far as CSV cares; a letter stands for all letters.
TEXT = st.text(alphabet='x",\n é', max_size=12)


def read(path, **options) -> tuple[list[tuple], list[tuple]]:
    """The rows and the faults, from blocks so small that every row meets their edges."""
    file_faults: list[tuple[str, int, str]] = []
    batches = csv_batches(
        path, ["a", "b", "c"], ReadOptions(), file_faults, block=7, **options
    )
    return rows_of(batches), [
        (line, problem.split(":")[0].split(",")[0])
        for _, line, problem in file_faults
    ]


def rows_of(batches) -> list[tuple]:
    return [
        tuple(row.values()) for batch in batches for row in batch.to_pylist()
    ]


@given(
    rows=st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=6),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_is_written_is_read(tmp_path_factory, rows, end):
    path = tmp_path_factory.getbasetemp() / "random.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator=end)
        writer.writerows([("a", "b", "c"), *rows])
    assert read(path) == (rows, [])


@given(text=st.text(alphabet='xé",\n', max_size=40), cut=st.booleans())
def test_rows_are_the_same_one_by_one_and_together(
    tmp_path_factory, text, cut
):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    content = (HEADER + text).encode()
    path.write_bytes(content.replace(b"\xc3", b"") if cut else content)
    with pytest.MonkeyPatch.context() as patch:
        rows, file_faults = read(path)
        patch.setattr(csv_files, "_LOOKAHEAD", 1)
        assert read(path) == (rows, file_faults)
        assert read(path, at_once=1) == (rows, file_faults)
    if '"' not in text and not cut:
        assert len(rows) + len(file_faults) == sum(
            1 for line in text.split("\n") if line
        )


@pytest.mark.parametrize(
    ("text", "rows", "file_faults"),
    [
        pytest.param(
            "1,2,3\n4,5\n6,7,8\n", ["1", "6"], [3], id="a field too few"
        ),
        pytest.param(
            "1,2,3\n4,5,6,7\n6,7,8\n", ["1", "6"], [3], id="a field too many"
        ),
        pytest.param(
            '1,2,"open\n4,5,6\n', ["4"], [2], id="a quote that is never closed"
        ),
        pytest.param(
            '1,2,"open\n4,5,"6"\n7,8,9\n',
            ["4", "7"],
            [2],
            id="closed by the next row",
        ),
        pytest.param(
            '1,2,"he "said" no"\n4,5,6\n',
            ["4"],
            [2],
            id="a quote in the middle",
        ),
        pytest.param('1,2,"last\n', [], [2], id="an open quote at the end"),
        pytest.param('1,2,5" tall\n4,5,6\n', ["1", "4"], [], id="inches"),
        pytest.param(
            "1,2,3\n\n4,5,6",
            ["1", "4"],
            [],
            id="an empty line, and no end of the last",
        ),
        pytest.param(
            '1,2,"a\nb\nc"\nx\n4,5,6\n',
            ["1", "4"],
            [5],
            id="lines within a row count",
        ),
    ],
)
def test_faulty_lines(tmp_path, text, rows, file_faults):
    path = tmp_path / "table.csv"
    path.write_text(HEADER + text)
    found, listed = read(path)
    assert [row[0] for row in found] == rows
    assert listed == [(line, "line that is not a row") for line in file_faults]


def test_bytes_that_are_no_text_cost_nothing_but_themselves(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(HEADER.encode() + "1,2,café\n4,5,6\n".encode("latin-1"))
    assert read(path) == (
        [("1", "2", "caf\ufffd"), ("4", "5", "6")],
        [(2, "undecodable bytes read as U+FFFD")],
    )


def test_a_row_longer_than_the_longest_is_listed(tmp_path):
    path = tmp_path / "table.csv"
    long = "x" * (3 * csv_files.LONGEST_ROW)
    path.write_text(f"{HEADER}1,2,{long}\n4,5,6\n")
    found, listed = read(path)
    assert [row[0] for row in found] == ["4"]
    assert listed[0] == (2, "line that is not a row")


def test_gzip_and_the_mark_of_spreadsheets(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbf"a",b,c\r\n1,2,3\r\n'))
    assert csv_columns(path, ReadOptions()) == ["a", "b", "c"]
    assert read(path) == ([("1", "2", "3")], [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"table\.csv is empty; it needs a first line"),
        (
            b"a,b,A\n",
            r"repeats the columns A, a; each needs a name of its own",
        ),
        (
            b"a;b;c\n1;2;3\n",
            r"separates its fields by ';', not ',': name the delimiter",
        ),
        ("a,b,c\n".encode("utf-16"), r"is in UTF-16: name the encoding"),
    ],
)
def test_a_header_that_is_none(tmp_path, content, message):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(TableError, match=message):
        csv_columns(path, ReadOptions())


def test_a_quoted_note_longer_than_csv_expects_is_read(tmp_path):
    note = "x" * 200_000
    path = tmp_path / "table.csv"
    path.write_text(f'{HEADER}1,2,"{note}"\n4,5\n')
    csv.field_size_limit(
        131_072
    )  # Python's own limit, that another reader may have raised
    found, listed = read(path)
    assert found == [("1", "2", note)]
    assert listed == [(3, "line that is not a row")]
