import gzip
import os
import stat
import tracemalloc
from itertools import permutations

import hypothesis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from domainbert.errors import UserError
from domainbert.tables import (
    FORMATS,
    TableError,
    TableWriter,
    atomic_path,
    iter_table,
    read_metadata,
    read_table,
    require_columns,
    table_columns,
    table_format,
    write_table,
)

CANARY = "QUETZALCOATL"
LISTS = (".parquet", ".jsonl", ".jsonl.gz")
every_format = pytest.mark.parametrize("ending", FORMATS)


def same(found, wanted):
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True), wanted.reset_index(drop=True), check_dtype=False
    )


def write_text(path, text):
    """Text as it stands, compressed where the name says so."""
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_pieces(path, pieces):
    with TableWriter(path) as writer:
        for piece in pieces:
            writer.write(piece)


def error_of(path, **options):
    with pytest.raises(TableError) as caught:
        list(iter_table(path, **options))
    assert not shows_another(caught.value)
    return str(caught.value)


def shows_another(error):
    """Whether a traceback would show the error beneath this one too."""
    return error.__cause__ or (error.__context__ and not error.__suppress_context__)


def names_in(folder):
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def frame():
    """Eleven rows: ids with zeros, texts that try a format's patience, numbers with gaps."""
    texts = [
        *("plain", 'a "quoted" word, a comma', "two\nlines", "old\rlines", "new\r\nlines"),
        *("tab\there", "ünïcödé ☃ 😀", " spaces around ", "back\\slash \\n", "'", "a;b|c"),
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
    same(read_table(path), frame)
    assert table_columns(path) == list(frame.columns)
    assert names_in(tmp_path) == [path.name]


@every_format
@pytest.mark.parametrize("rows", [1, 4, 11, 100])
def test_pieces_are_the_whole(tmp_path, frame, ending, rows):
    path = tmp_path / f"table{ending}"
    with TableWriter(path) as writer:
        for start in range(0, 11, 3):
            writer.write(frame[start : start + 3])
    same(read_table(path), frame)
    pieces = list(iter_table(path, chunk_rows=rows))
    assert [len(piece) for piece in pieces] == [
        min(rows, 11 - start) for start in range(0, 11, rows)
    ]
    same(pd.concat(pieces).astype({"score": float}), frame)


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
    same(read_table(path, columns=["text", "patient_id"]), frame[["text", "patient_id"]])


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
    write_table(pd.DataFrame({"stay_id": ["1", "2", "3"], "text": stays}), path)
    assert [list(notes) for notes in read_table(path)["text"]] == stays
    again = tmp_path / f"again{ending}"
    write_table(read_table(path), again)
    assert [list(notes) for notes in read_table(again)["text"]] == stays


@pytest.mark.parametrize("ending", LISTS)
def test_a_first_piece_without_notes_does_not_decide_what_comes_later(tmp_path, ending):
    path = tmp_path / f"stays{ending}"
    with TableWriter(path) as writer:
        writer.write(pd.DataFrame({"text": [[], []], "reason": [None, None]}))
        writer.write(pd.DataFrame({"text": [["a note"]], "reason": ["late"]}))
    found = read_table(path)
    assert [list(notes) for notes in found["text"]] == [[], [], ["a note"]]
    assert found["reason"].tolist()[2] == "late"
    assert found["reason"].isna().tolist() == [True, True, False]


# --- ids


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_ids_keep_their_zeros(tmp_path, ending):
    path = tmp_path / f"ids{ending}"
    frame = pd.DataFrame({"stay_id": ["007", "7"], "SUBJECT_ID": ["0", "00"], "text": ["1", "02"]})
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


def test_json_ids_become_strings_and_nothing_else_does(tmp_path):
    lines = '{"stay_id": 7, "n": 7, "ok_id": true}\n{"stay_id": 7.0, "n": 8, "ok_id": null}\n'
    found = read_table(write_text(tmp_path / "ids.jsonl", lines))
    assert found["stay_id"].tolist() == ["7", "7"]
    assert found["n"].tolist() == [7, 8]
    assert found["ok_id"].tolist() == [True, None]


# --- names and columns


def test_the_ending_decides():
    assert [table_format(f"a.b{ending}") for ending in FORMATS] == list(FORMATS)
    assert table_format("NOTES.CSV.GZ") == ".csv.gz"
    for name in ("notes.xlsx", "notes", "notes.gz", "csv", "notes.parquet.gz"):
        with pytest.raises(TableError, match=r"not a table we know; legal endings are \.csv, "):
            table_format(name)
    with pytest.raises(TableError, match=r"notes\.txt"):
        TableWriter("notes.txt")


def test_a_missing_column_names_the_nearest(tmp_path):
    path = write_text(tmp_path / "notes.csv", "stay_id,TEXT,age\n1,x,2\n")
    message = error_of(path, columns=["text"])
    assert message == (
        "notes.csv has no column 'text'; did you mean 'TEXT'? Rename it to 'text'. "
        "Columns there: stay_id, TEXT, age"
    )
    with pytest.raises(TableError, match=r"did you mean 'stay_id'\? Rename it to 'hadm_stay_id'"):
        read_table(path, columns=["hadm_stay_id"])
    with pytest.raises(TableError, match=r"no column 'zzz'. Columns there: stay_id, TEXT, age$"):
        read_table(path, columns=["zzz"])


def test_many_columns_are_counted_and_none_is_said():
    with pytest.raises(TableError, match=r"c39 \(and 10 more\)$"):
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
        f"note\ufffd,{CANARY}",
    ],
)
def test_a_first_row_that_is_data_stays_unsaid(tmp_path, row):
    message = error_of(write_text(tmp_path / "notes.csv", f"{row}\n{row}\n"), columns=[CANARY[1:]])
    assert message.endswith("Columns there: 2, unsaid: they look like data, not like names")
    assert message.count(CANARY[1:]) == 1


def test_rows_may_leave_out_what_they_lack(tmp_path):
    lines = '{"text": "a"}\n\n{"stay_id": "1", "text": "b"}\n{"text": "c", "age": 3}\n'
    path = write_text(tmp_path / "notes.jsonl", lines)
    assert table_columns(path) == ["text", "stay_id", "age"]
    for rows in (1, 2, 10):
        found = pd.concat(list(iter_table(path, chunk_rows=rows)))
        assert found["text"].tolist() == ["a", "b", "c"]
        assert found["stay_id"].isna().tolist() == [True, False, True]
        assert found["age"].isna().tolist() == [True, True, False]


# --- files that are wrong


@every_format
def test_a_missing_file_and_a_folder_are_said_to_be_that(tmp_path, ending):
    path = tmp_path / f"notes{ending}"
    assert error_of(path) == f"{path}: no such file"
    path.mkdir()
    assert error_of(path) == f"{path}: a folder, not a table"


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl", ".jsonl.gz"])
def test_an_empty_file_is_an_empty_table(tmp_path, ending):
    path = write_text(tmp_path / f"notes{ending}", "")
    assert list(iter_table(path)) == []
    assert read_table(path).shape == (0, 0)
    assert table_columns(path) == []
    assert list(read_table(path, columns=["text"]).columns) == ["text"]


def test_an_empty_parquet_file_is_no_parquet(tmp_path):
    path = write_text(tmp_path / "notes.parquet", "")
    assert error_of(path) == "notes.parquet cannot be read as .parquet (ArrowInvalid)"


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_a_table_without_rows_keeps_its_columns(tmp_path, ending):
    path = tmp_path / f"notes{ending}"
    write_table(pd.DataFrame({"stay_id": [], "text": []}), path)
    assert list(iter_table(path)) == []
    assert table_columns(path) == ["stay_id", "text"]
    assert read_table(path).shape == (0, 2)
    with pytest.raises(TableError, match="has no column 'age'"):
        read_table(path, columns=["age"])


@every_format
def test_a_writer_that_is_given_nothing_writes_an_empty_table(tmp_path, ending):
    path = tmp_path / f"notes{ending}"
    with TableWriter(path):
        pass
    assert read_table(path).shape == (0, 0)


@pytest.mark.parametrize(("inside", "ending"), [*permutations(FORMATS, 2)])
def test_a_file_that_is_not_what_its_ending_says(tmp_path, inside, ending):
    source = tmp_path / f"source{inside}"
    write_table(pd.DataFrame({"text": [f"{CANARY} one", f"{CANARY}, two"], "n": [1, 2]}), source)
    path = source.rename(tmp_path / f"notes{ending}")
    message = error_of(path, columns=["text", "n"])
    assert message.startswith("notes.")
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
    assert "cannot be read as" in message
    assert CANARY not in message


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl", ".jsonl.gz"])
def test_bytes_that_are_not_utf8_cost_their_character_alone(tmp_path, ending):
    rows = {
        ".csv": b"text,n\ncaf\xe9 au lait,1\nplain,2\n",
        ".jsonl": b'{"text": "caf\xe9 au lait", "n": 1}\n{"text": "plain", "n": 2}\n',
    }
    found = read_table(write_text(tmp_path / f"notes{ending}", rows[ending.removesuffix(".gz")]))
    assert found["text"].tolist() == ["caf\ufffd au lait", "plain"]
    assert found["n"].tolist() == [1, 2]


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl", ".jsonl.gz"])
def test_the_mark_of_spreadsheets_is_no_part_of_the_first_name(tmp_path, ending):
    text = {".csv": "text\nx\n", ".jsonl": '{"text": "x"}\n'}[ending.removesuffix(".gz")]
    path = write_text(tmp_path / f"notes{ending}", b"\xef\xbb\xbf" + text.encode())
    assert table_columns(path) == ["text"]


@pytest.mark.parametrize("rows", [1, 2048])
@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (["text,n", "x,1", f"{CANARY},2,{CANARY}", "y,3"], ", line 3 "),
        (["text,n", f"{CANARY},1,{CANARY}", "y,3"], ", line 2 "),
        (["text,n", "x,1", f'"{CANARY},2', "y,3"], ", starting at row 2 "),
    ],
    ids=["later row", "first row", "open quote"],
)
def test_a_ragged_row_is_refused_by_its_line(tmp_path, lines, place, rows):
    path = write_text(tmp_path / "notes.csv", "\n".join(lines) + "\n")
    message = error_of(path, chunk_rows=rows)
    assert message == f"notes.csv{place}cannot be read as .csv (ParserError)"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"text": "' + CANARY, "column 23: not JSON (Invalid control character at)"),
        ('{"text": ' + CANARY + "}", "column 10: not JSON (Expecting value)"),
        (f'["{CANARY}"]', "expected one JSON object a line"),
        (f'"{CANARY}"', "expected one JSON object a line"),
    ],
)
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_a_line_that_is_no_json_is_named_by_its_number(tmp_path, ending, line, fault):
    path = write_text(tmp_path / f"notes{ending}", f'{{"text": "a"}}\n\n{line}\n{{"text": "b"}}\n')
    message = error_of(path, chunk_rows=1)
    assert message.startswith(f"notes{ending}, line 3")
    assert message.endswith(fault)
    assert CANARY not in message


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_is_a_character(tmp_path):
    path = write_text(
        tmp_path / "notes.jsonl", '{"text": "a\\ud83d b"}\n{"text": "\\ud83d\\ude00"}'
    )
    assert read_table(path)["text"].tolist() == ["a\ufffd b", "😀"]


def test_nulls_are_missing_and_nan_is_too(tmp_path):
    path = write_text(tmp_path / "notes.jsonl", '{"text": null, "p": NaN}\n{"text": "a", "p": 1}\n')
    found = read_table(path)
    assert found["text"].isna().tolist() == [True, False]
    assert found["p"].isna().tolist() == [True, False]
    path = write_text(tmp_path / "notes.csv", "text,p\n,\nNULL,NA\n")
    assert read_table(path).isna().all(axis=None)


# --- what a format cannot hold


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_lists_do_not_go_into_csv(tmp_path, ending):
    frame = pd.DataFrame({"n": [1], "text": [[f"{CANARY}"]]})
    with pytest.raises(TableError, match=r"column 'text' holds lists; write \.parquet or \.jsonl$"):
        write_table(frame, tmp_path / f"stays{ending}")
    assert names_in(tmp_path) == []


def test_a_column_of_two_kinds_does_not_go_into_parquet(tmp_path):
    for first, second in (([CANARY, 1], ["a"]), ([1], [CANARY])):
        pieces = [pd.DataFrame({"value": values}) for values in (first, second)]
        with pytest.raises(TableError, match="column 'value' holds values of more than") as caught:
            write_pieces(tmp_path / "x.parquet", pieces)
        assert CANARY not in str(caught.value)
        assert not shows_another(caught.value)
    assert names_in(tmp_path) == []


@every_format
def test_text_that_is_not_unicode_is_refused_unsaid(tmp_path, ending):
    frame = pd.DataFrame({"text": pd.Series([f"{CANARY} \ud800"], dtype=object)})
    with pytest.raises(TableError, match="text that is not Unicode") as caught:
        write_table(frame, tmp_path / f"notes{ending}")
    assert CANARY not in str(caught.value)
    assert names_in(tmp_path) == []


@every_format
def test_every_piece_has_the_columns_of_the_first(tmp_path, ending):
    pieces = [pd.DataFrame({"a": [1], "b": [2]}), pd.DataFrame({"b": [2], "a": [1]})]
    with pytest.raises(TableError, match=r"every piece needs the columns a, b$"):
        write_pieces(tmp_path / f"x{ending}", pieces)
    assert names_in(tmp_path) == []


# --- metadata


def test_metadata_comes_back(tmp_path):
    path = tmp_path / "cohort.parquet"
    metadata = {"definition": "länger\nals eine Zeile", "version": "1"}
    write_table(pd.DataFrame({"a": [1]}), path, metadata=metadata)
    assert read_metadata(path) == metadata
    write_table(pd.DataFrame({"a": [1]}), path)
    assert read_metadata(path) == {}


def test_only_parquet_keeps_metadata(tmp_path):
    with pytest.raises(TableError, match=r"x.csv: only .parquet keeps metadata"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "x.csv", metadata={"a": "b"})
    path = write_text(tmp_path / "x.parquet", f"{CANARY},b\n" * 10)
    with pytest.raises(TableError, match=r"x.parquet is not a Parquet file") as caught:
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
    with pytest.raises(OSError, match="disk full"), atomic_path(path) as temporary:
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


def test_a_folder_that_is_not_there_is_said_before_the_work(tmp_path):
    with (
        pytest.raises(UserError, match="no such folder; make it first"),
        TableWriter(tmp_path / "nowhere" / "x.csv"),
    ):
        pass


# --- memory


@pytest.mark.parametrize("ending", [".csv", ".jsonl.gz", ".parquet"])
def test_a_table_larger_than_its_pieces_streams(tmp_path, ending):
    rows, piece = 10_000, 500
    path = tmp_path / f"large{ending}"
    ids = [f"{n:04d}" for n in range(piece)]
    frame = pd.DataFrame({"stay_id": ids, "text": "word " * 200})

    tracemalloc.start()
    with TableWriter(path) as writer:
        for _ in range(rows // piece):
            writer.write(frame)
    read = sum(len(chunk) for chunk in iter_table(path, chunk_rows=piece))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert read == rows
    # A piece may be held several times over, as bytes, as text and as a frame; the whole never is.
    assert peak < 1000 * rows / 3
