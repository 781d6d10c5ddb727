"""Cosines, neighbours, and the tables they stand in."""

import numpy as np
import pandas as pd
import pytest

from biomed.terms.similarity import TermIndex, unit
from biomed.terms.tables import embed_frame, embed_table, nearest_table, read_terms
from domainbert.tables import TableError, read_table, write_table

VOCABULARY = ["heart failure", "renal failure", "chest pain", "edema", "insulin", "pneumonia"]


def test_unit_rows_have_length_one_and_zeros_stay():
    rows = unit(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32))
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))
    assert rows.dtype == np.float32


def test_the_matrix_is_named_and_symmetric(embedder):
    matrix = embedder.similarity_matrix(VOCABULARY)
    assert list(matrix.index) == list(matrix.columns) == VOCABULARY
    assert np.diag(matrix) == pytest.approx(np.ones(6), abs=1e-6)
    assert matrix.to_numpy() == pytest.approx(matrix.to_numpy().T, abs=1e-6)
    assert matrix.loc["edema", "insulin"] == pytest.approx(embedder.similarity("edema", "insulin"))
    other = embedder.similarity_matrix(VOCABULARY[:2], VOCABULARY[2:])
    assert other.shape == (2, 4)
    assert other.to_numpy() == pytest.approx(matrix.iloc[:2, 2:].to_numpy(), abs=1e-6)


def test_nearest_is_the_sorted_row_without_the_term_itself(embedder):
    row = embedder.similarity_matrix(["edema"], VOCABULARY).iloc[0].drop("edema")
    found = embedder.nearest("EDEMA", VOCABULARY, k=3)
    assert list(found.columns) == ["rank", "neighbour", "similarity"]
    assert found["rank"].tolist() == [1, 2, 3]
    assert found["similarity"].tolist() == pytest.approx(row.nlargest(3).tolist(), abs=1e-6)
    assert found["neighbour"].tolist() == row.nlargest(3).index.tolist()
    assert len(embedder.nearest("edema", VOCABULARY, k=99)) == 5


def test_nearest_says_what_is_wrong(embedder):
    with pytest.raises(ValueError, match="the vocabulary is empty"):
        TermIndex(embedder, [])
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        embedder.nearest("edema", VOCABULARY, k=0)


def test_a_frame_keeps_its_rows_and_says_what_became_of_each(embedder):
    terms = ["insulin", None, "", 5, "chest pain " * 50]
    frame = pd.DataFrame({"code": list("abcde"), "term": terms}, index=[9, 8, 7, 6, 5])
    table = embed_frame(embedder, frame, column="term")
    assert table.index.tolist() == [9, 8, 7, 6, 5]
    assert table.columns[:6].tolist() == [
        *("code", "term", "n_tokens", "n_windows", "status", "reason"),
    ]
    assert table["status"].tolist() == ["ok", "empty", "empty", "error", "long"]
    assert table["reason"].tolist()[3] == "it is int, not a string"
    assert table["n_windows"].tolist() == [1, 0, 0, 0, 2]
    vectors = table.filter(regex=r"^v\d+$").to_numpy()
    assert vectors.dtype == np.float32
    assert vectors[0] == pytest.approx(embedder.embed("insulin"), abs=1e-5)
    assert np.isnan(vectors[1:4]).all()


def test_a_frame_without_rows_has_the_columns(embedder):
    table = embedder.embed_frame(pd.DataFrame({"term": []}))
    assert len(table) == 0
    assert "v31" in table.columns


def test_a_frame_needs_its_column_and_room_for_ours(embedder):
    with pytest.raises(TableError, match="no column 'term'; did you mean 'terms'"):
        embedder.embed_frame(pd.DataFrame({"terms": ["edema"]}))
    with pytest.raises(TableError, match="has a column 'status' already"):
        embedder.embed_frame(pd.DataFrame({"term": ["edema"], "status": ["x"]}))


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_files_are_embedded_whole(embedder, tmp_path, monkeypatch, ending):
    monkeypatch.setattr("biomed.terms.tables.CHUNK_ROWS", 2)
    frame = pd.DataFrame({"name": ["edema", "insulin", None, "pneumonia", "chest pain"]})
    source, out = tmp_path / f"terms{ending}", tmp_path / f"vectors{ending}"
    write_table(frame, source)
    pieces = list(embed_table(embedder, source, out, column="name"))
    assert [piece.rows for piece in pieces] == [2, 2, 1]
    assert [row for piece in pieces for row in piece.rejects] == [2]
    table = read_table(out)
    assert table["status"].tolist() == ["ok", "ok", "empty", "ok", "ok"]
    vectors = table.filter(regex=r"^v\d+$").to_numpy(dtype=np.float32)
    assert vectors[4] == pytest.approx(embedder.embed("chest pain"), abs=1e-5)
    assert np.isnan(vectors[2]).all()


def test_a_text_file_has_one_term_a_line(embedder, tmp_path):
    source, out = tmp_path / "terms.txt", tmp_path / "vectors.csv"
    source.write_text("edema\n\ninsulin\n")
    (piece,) = embed_table(embedder, source, out)
    assert piece.rejects == (1,)
    assert read_table(out)["term"].fillna("").tolist() == ["edema", "", "insulin"]
    assert read_terms(source) == ["edema", "insulin"]
    with pytest.raises(TableError, match=r"absent\.txt: no such file"):
        read_terms(tmp_path / "absent.txt")


def test_an_empty_file_gives_an_empty_table(embedder, tmp_path):
    (tmp_path / "terms.txt").write_text("")
    assert list(embed_table(embedder, tmp_path / "terms.txt", tmp_path / "vectors.csv")) == []
    assert "v31" in read_table(tmp_path / "vectors.csv").columns


def test_neighbours_of_a_file_are_those_of_each_term(embedder, tmp_path):
    source, out = tmp_path / "terms.csv", tmp_path / "near.parquet"
    write_table(pd.DataFrame({"id": ["x", "y", "z"], "term": ["edema", None, "cough"]}), source)
    index = TermIndex(embedder, VOCABULARY)
    (piece,) = nearest_table(index, embedder, source, out, k=2)
    assert piece.rejects == (1,)
    table = read_table(out)
    assert table["id"].tolist() == ["x", "x", "y", "z", "z"]
    assert table["status"].tolist() == ["ok", "ok", "empty", "ok", "ok"]
    assert table["neighbour"].tolist()[:2] == index.nearest("edema", k=2)["neighbour"].tolist()
    assert table.loc[2, ["rank", "neighbour"]].isna().all()


def test_a_wrong_ending_is_said_before_any_work(embedder, tmp_path):
    with pytest.raises(TableError, match=r"legal endings are \.csv"):
        next(embed_table(embedder, tmp_path / "absent.csv", tmp_path / "vectors.xlsx"))
