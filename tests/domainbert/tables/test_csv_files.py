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
        ("a,b,c\n".encode("utf-16-le"), r"is in UTF-16: name the encoding"),
    ],
)
def test_a_header_that_is_none(tmp_path, content, message):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(TableError, match=message):
        csv_columns(path, ReadOptions())


ROWS = [("1", "2", "3"), ("4", "5", "6")]


@pytest.mark.parametrize(
    ("before", "n_titles"),
    [
        ("sep=;\n", 0),
        ('"sep=;"\r\n', 0),
        ("\n\n", 0),
        (";;\r\n", 0),
        ("Ward list, May 2024\n\n", 1),
        ("Ward list\nmade by A. Nurse\n\n\n", 2),
        ("Ward list;;\n", 1),
        ("Ward list;;\n;;\n", 1),
        ('sep=;\n"Ward; list"\n\n', 1),
    ],
)
def test_lines_before_the_names_are_left_out(tmp_path, before, n_titles):
    path = tmp_path / "table.csv"
    path.write_text(f"{before}a;b;c\n1;2;3\n4;5\n4;5;6\n")
    delimiter = None
    if "sep" not in before:
        delimiter = ";"
    options = ReadOptions(delimiter=delimiter)
    file_faults: list[tuple[str, int, str]] = []
    batches = csv_batches(path, ["a", "b", "c"], options, file_faults)
    assert rows_of(batches) == ROWS
    n_lines = before.count("\n")
    assert [line for _, line, _ in file_faults] == [n_lines + 3]
    cells = [
        tuple(values.values())
        for values, _, fault, _ in csv_files.csv_cells(path, options, None)
        if not fault
    ]
    assert cells == ROWS
    remark = csv_files.csv_header(path, options).remark("table.csv")
    assert remark.startswith(f"table.csv: {n_lines} lines") == bool(n_titles)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("text\nWell, well.\nHome\n", ["text"]),
        ("text\n\nWell, well.\nHome\n", ["text"]),
        (",text\n0,Home\n1,Home\n", ["", "text"]),
        ("\ntext\nHome\n", ["text"]),
        ("sep=,\na,b\n1,2\n", ["a", "b"]),
        ("note,\nHome,1\nHome,2\n", ["note", ""]),
    ],
)
def test_names_are_not_taken_for_a_title(tmp_path, content, names):
    path = tmp_path / "table.csv"
    path.write_text(content)
    assert csv_columns(path, ReadOptions()) == names


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_byte_order_mark_names_the_encoding(tmp_path, encoding):
    path = tmp_path / "table.csv"
    path.write_bytes("a,b,c\n1,2,Größe\n".encode(encoding))
    assert csv_columns(path, ReadOptions()) == ["a", "b", "c"]
    assert read(path) == ([("1", "2", "Größe")], [])


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


# What Spark 4.3 wrote of these texts; it does not write the backslash twice in fields without
# quotes around them.
TEXTS = [
    'He said "no pain", path C:\\notes.\nEnd.',
    "ends with \\",
    '"q" a\\"b',
    'told "come back",\n"or call".',
    "\\\\server\\x",
]
SPARK = r"""id,text
1,"He said \"no pain\", path C:\\notes.
End."
2,ends with \
3,"\"q\" a\\\"b"
4,"told \"come back\",
\"or call\"."
5,\\server\x
"""
SPARK_ALL_IN_QUOTES = r""""id","text"
"1","He said \"no pain\", path C:\\notes.
End."
"2","ends with \\"
"3","\"q\" a\\\"b"
"4","told \"come back\",
\"or call\"."
"5","\\\\server\\x"
"""
MYSQL = SPARK_ALL_IN_QUOTES.replace("\n", "\\\n").replace('"\\\n', '"\n')
CLIENT = r"""id	text
1	He said "no pain", path C:\\notes.\nEnd.
2	ends with \\
3	"q" a\\"b
4	told "come back",\n"or call".
5	\\\\server\\x
6	\N
"""


def texts_of(path, columns=("id", "text"), **options):
    """The rows as both readers have them, and the faults."""
    reading = ReadOptions(**options)
    file_faults: list[tuple[str, int, str]] = []
    batches = csv_batches(path, columns, reading, file_faults, at_once=1000)
    rows = [(number, text or None) for number, text in rows_of(batches)]
    one_by_one = [
        (values["id"], values["text"])
        for values, _, fault, _ in csv_files.csv_cells(path, reading, None)
        if not fault
    ]
    assert rows == one_by_one
    return dict(rows), [line for _, line, _ in file_faults]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("a.csv", SPARK, id="Spark"),
        pytest.param("a.csv", SPARK_ALL_IN_QUOTES, id="Spark, quoteAll"),
        pytest.param("a.csv", MYSQL, id="MySQL"),
        pytest.param("a.tsv", CLIENT, id="mysql --batch, COPY of PostgreSQL"),
    ],
)
def test_backslash_escapes_are_recognised(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    texts, file_faults = texts_of(tmp_path / name)
    wanted = {str(n): text for n, text in enumerate(TEXTS, start=1)}
    assert {n: text for n, text in texts.items() if text} == wanted
    assert file_faults == []


@given(texts=st.lists(st.text(alphabet='x"\\,\n ', max_size=9), max_size=6))
def test_doubled_quotes_are_read_whatever_the_backslashes(
    tmp_path_factory, texts
):
    path = tmp_path_factory.getbasetemp() / "doubled.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("id", "text"), ("0", 'He said "no", then "yes".'), *enumerate(texts, 1)]
        )  # fmt: skip
    rows, file_faults = texts_of(path)
    assert (list(rows.values())[1:], file_faults) == (
        [text or None for text in texts],
        [],
    )


def test_spark_can_leave_a_backslash_before_the_closing_quote(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        r"""id,text
1,"Said \"no\", C:\scans
and back"
2,"Path, to C:\scans\ct\"
3,"Said \"yes\"."
"""
    )
    texts, file_faults = texts_of(path)
    assert texts == {
        "1": 'Said "no", C:\\scans\nand back',
        "2": "Path, to C:\\scans\\ct\\",
        "3": 'Said "yes".',
    }
    assert file_faults == []


def test_a_row_that_may_have_been_cut_at_an_escaped_quote_is_listed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        'id,text,more\n1,"said ""a""",\n2,"told \\",\nand \\"b\\".",\n3,c,\n'
    )
    rows, file_faults = texts_of(path)
    assert list(rows) == ["1", "3"]
    assert file_faults == [3, 4]


@pytest.mark.parametrize(
    ("content", "remark"),
    [
        (SPARK, "a backslash before quotes, backslashes and line ends is read as an escape"),
        ('id,text\n1,"see C:\\\\scans, a"\n', "the backslashes in quotes come in pairs (1)"),
        ('id,text\n1,"see C:\\scans, ""a"""\n', ""),
    ],
)  # fmt: skip
def test_how_backslashes_are_read_is_said(tmp_path, content, remark):
    path = tmp_path / "a.csv"
    path.write_text(content)
    sentence = csv_files.csv_dialect(path, ReadOptions()).remark("a.csv")
    assert remark in sentence
    assert bool(sentence) == bool(remark)


def test_the_escape_can_be_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,text\n1,"see C:\\\\scans, a"\n')
    assert texts_of(path)[0]["1"] == "see C:\\\\scans, a"
    assert texts_of(path, escape="backslash")[0]["1"] == "see C:\\scans, a"
    with pytest.raises(TableError, match="escape: expected backslash or none"):
        ReadOptions(escape="\\")


def test_a_row_that_ends_beyond_what_was_read_is_not_cut(
    tmp_path, monkeypatch
):
    path = tmp_path / "a.csv"
    rows = [f'{n},"told \\"a\\",\n\\"b\\" C:\\x"\n' for n in range(50)]
    path.write_text("id,text\n" + "".join(rows))
    monkeypatch.setattr(csv_files, "_LOOKAHEAD", 7)
    texts, file_faults = texts_of(path)
    assert set(texts.values()) == {'told "a",\n"b" C:\\x'}
    assert (len(texts), file_faults) == (50, [])
