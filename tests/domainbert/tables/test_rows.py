"""Every row is accounted for: faults by line, odd cells, very large rows."""

import csv
import gzip
import time
import tracemalloc

import hypothesis
import pandas as pd
import pytest
from hypothesis import strategies as st

from domainbert.tables import (
    STAY,
    TEXT,
    ReadOptions,
    TableError,
    csv_files,
    iter_rows,
    match_columns,
    read_table,
    table_columns,
    write_table,
)
from domainbert.tables.ids import guard

from .helpers import CANARY, error_of, write_text


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


def test_a_table_of_200_000_columns_is_read_in_seconds(tmp_path):
    count = 200_000
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
    assert time.process_time() - start < 10


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


def test_a_json_key_twice_is_a_fault(tmp_path):
    (tmp_path / "n.jsonl").write_text(
        '{"text": "a", "text": "b"}\n{"text": {"x": 1, "x": 2}}\n'
    )
    assert [row.fault for row in iter_rows(tmp_path / "n.jsonl")] == 2 * [
        "a JSON object with a key twice"
    ]


@pytest.mark.parametrize("ending", [".jsonl.gz", ".txt.gz", ".csv.gz"])
def test_lines_are_bounded_after_they_are_unpacked(tmp_path, ending):
    path = tmp_path / f"n{ending}"
    long = '{"text": "' + "x" * csv_files.LONGEST_ROW + '"}'
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write(f'{long}\n{{"text": "b"}}\n')
    if ending == ".csv.gz":
        csv.field_size_limit(1000)  # another program may have set it
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
