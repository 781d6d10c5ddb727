"""What is written is what is read, all or nothing."""

import os
import stat

import hypothesis
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from domainbert.files import atomic_path
from domainbert.tables import (
    TableError,
    read_table,
    table_columns,
    write_table,
)

from .helpers import CANARY, every_format, names_in, same

LISTS = (".parquet", ".jsonl", ".jsonl.gz")


def write_pieces(path, pieces):
    write_table(
        (
            pa.Table.from_pandas(piece, preserve_index=False)
            for piece in pieces
        ),
        path,
    )


SCHEMA = {"age": "int", "score": "float"}


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


def texts_of(alphabet):
    return st.lists(st.text(alphabet, min_size=1), min_size=1, max_size=5)


@hypothesis.given(texts=texts_of(st.characters(exclude_categories=["Cs"])))
@pytest.mark.parametrize("ending", [".parquet", ".jsonl"])
def test_any_text_survives(tmp_path_factory, ending, texts):
    path = tmp_path_factory.getbasetemp() / f"any{ending}"
    write_table(pd.DataFrame({"text": texts}), path)
    assert read_table(path)["text"].tolist() == texts


@hypothesis.example(
    texts=["\\\n"]
)  # one line end after a backslash, by chance
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


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_lists_do_not_go_into_csv(tmp_path, ending):
    frame = pd.DataFrame({"n": [1], "text": [[f"{CANARY}"]]})
    with pytest.raises(
        TableError,
        match=r"column 'text' holds lists; write \.parquet or \.jsonl$",
    ):
        write_table(frame, tmp_path / f"stays{ending}")
    assert names_in(tmp_path) == []


@every_format
def test_text_that_is_not_unicode_is_refused_and_not_quoted(tmp_path, ending):
    frame = pd.DataFrame(
        {"text": pd.Series([f"{CANARY} \ud800"], dtype=object)}
    )
    with pytest.raises(TableError, match="text that is not Unicode") as caught:
        write_table(frame, tmp_path / f"notes{ending}")
    assert CANARY not in str(caught.value)
    assert names_in(tmp_path) == []


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
