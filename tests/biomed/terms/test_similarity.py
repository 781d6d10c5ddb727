"""Cosines, neighbours, and the tables that hold them."""

import numpy as np
import pandas as pd
import pytest

from biomed.terms.similarity import COLUMNS, EmbedTask, NearestTask, TermIndex
from domainbert.scoring import score_file, score_frame
from domainbert.tables import ReadOptions, TableError, read_table, write_table

VOCABULARY = [
    "heart failure",
    "renal failure",
    "chest pain",
    "edema",
    "insulin",
    "pneumonia",
]


def vectors_of(table):
    return table.filter(regex=r"^v\d+$").to_numpy(dtype=np.float32)


def test_the_matrix_is_named_and_symmetric(embedder):
    matrix = embedder.similarity_matrix(VOCABULARY)
    assert list(matrix.index) == list(matrix.columns) == VOCABULARY
    assert np.diag(matrix) == pytest.approx(np.ones(6), abs=1e-6)
    assert matrix.to_numpy() == pytest.approx(matrix.to_numpy().T, abs=1e-6)
    assert matrix.loc["edema", "insulin"] == pytest.approx(
        embedder.similarity("edema", "insulin")
    )
    other = embedder.similarity_matrix(VOCABULARY[:2], VOCABULARY[2:])
    assert other.shape == (2, 4)
    assert other.to_numpy() == pytest.approx(
        matrix.iloc[:2, 2:].to_numpy(), abs=1e-6
    )


def test_nearest_is_the_sorted_row_without_the_term_itself(embedder):
    row = (
        embedder.similarity_matrix(["edema"], VOCABULARY).iloc[0].drop("edema")
    )
    found = embedder.nearest("EDEMA", VOCABULARY, k=3)
    assert list(found.columns) == list(COLUMNS)
    assert set(found["match"]) == {"vector"}
    assert found["rank"].tolist() == [1, 2, 3]
    assert found["similarity"].tolist() == pytest.approx(
        row.nlargest(3).tolist(), abs=1e-6
    )
    assert found["neighbour"].tolist() == row.nlargest(3).index.tolist()
    assert len(embedder.nearest("edema", VOCABULARY, k=99)) == 5


def test_every_spelling_of_the_term_itself_is_left_out(embedder):
    found = embedder.nearest("edema", ["Edema", "EDEMA", *VOCABULARY], k=2)
    expected = embedder.nearest("edema", VOCABULARY, k=2)
    assert found["neighbour"].tolist() == expected["neighbour"].tolist()


def test_nearest_says_what_is_wrong(embedder):
    with pytest.raises(ValueError, match="the vocabulary is empty"):
        TermIndex(embedder, [])
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        embedder.nearest("edema", VOCABULARY, k=0)


def test_one_string_is_no_vocabulary(embedder):
    """It was read letter by letter."""
    message = r"expected a list of texts, got one string; write \[text\]"
    with pytest.raises(ValueError, match=message):
        embedder.nearest("fever", "asthma")
    with pytest.raises(ValueError, match=message):
        embedder.similarity_matrix("asthma")
    with pytest.raises(ValueError, match=message):
        embedder.similarity_matrix(["asthma"], "fever")


def test_a_frame_keeps_its_rows_and_says_what_became_of_each(embedder):
    terms = ["insulin", None, "", ["x"], "chest pain " * 50, "中文", "MS"]
    frame = pd.DataFrame({"code_id": list("abcdefg"), "term": terms})
    table = embedder.score_frame(frame)
    assert table.columns[:5].tolist() == [
        "code_id",
        "row",
        "term",
        "n_tokens",
        "n_windows",
    ]
    assert table.columns[-2:].tolist() == ["status", "reason"]
    assert table["code_id"].tolist() == list("abcdefg")
    assert table["status"].tolist() == [
        "ok",
        "empty",
        "empty",
        "error",
        "ok",
        "error",
        "ok",
    ]
    assert table["reason"].tolist()[3:] == [
        "term is list, not text",
        "read in 2 windows; the vector pools them all",
        "no word of it is in the encoder's vocabulary",
        "read as written; it may stand for multiple sclerosis or mitral stenosis",
    ]
    vectors = vectors_of(table)
    assert vectors[0] == pytest.approx(embedder.embed("insulin"), abs=1e-5)
    assert np.isnan(vectors[[1, 2, 3, 5]]).all()
    assert np.isfinite(vectors[4]).all()


def test_a_frame_without_rows_has_the_columns(embedder):
    table = embedder.score_frame(pd.DataFrame({"term": []}))
    assert len(table) == 0
    assert "v31" in table.columns


def test_a_frame_needs_its_column(embedder):
    with pytest.raises(TableError, match="no column 'term'"):
        embedder.score_frame(pd.DataFrame({"words": ["edema"]}))
    named = embedder.score_frame(
        pd.DataFrame({"words": ["edema"]}), named={"term": "words"}
    )
    assert named["status"].tolist() == ["ok"]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_files_are_embedded_whole(embedder, tmp_path, ending):
    frame = pd.DataFrame(
        {
            "name": ["edema", "insulin", None, "NA", "chest pain"],
            "id": range(5),
        }
    )
    source, out = tmp_path / f"terms{ending}", tmp_path / f"vectors{ending}"
    write_table(frame, source)
    counts = score_file(
        EmbedTask(embedder), source, out, named={"term": "name"}
    )
    assert (counts.rows, counts.items["ok"], counts.items["empty"]) == (
        5,
        4,
        1,
    )
    table = read_table(out)
    assert table["status"].tolist() == ["ok", "ok", "empty", "ok", "ok"]
    assert table["id"].astype(str).tolist() == list("01234")
    vectors = vectors_of(table)
    assert vectors[4] == pytest.approx(embedder.embed("chest pain"), abs=1e-5)
    assert vectors[3] == pytest.approx(embedder.embed("NA"), abs=1e-5)
    assert np.isnan(vectors[2]).all()


def test_a_text_file_has_one_term_on_each_line(embedder, tmp_path):
    source, out = tmp_path / "terms.txt", tmp_path / "vectors.csv"
    source.write_text("edema\n\ninsulin\n")
    score_file(
        EmbedTask(embedder), source, out, options=ReadOptions(lines=True)
    )
    table = read_table(out)
    assert table["term"].fillna("").tolist() == ["edema", "", "insulin"]
    assert table["status"].tolist() == ["ok", "empty", "ok"]


# Names before vectors


def found_by(embedder, term, vocabulary=None, **options):
    """Neighbour, match and meaning of each of the nearest terms."""
    table = TermIndex(embedder, vocabulary).nearest(term, **options)
    return list(
        table[["neighbour", "match", "meaning"]].itertuples(
            index=False, name=None
        )
    )


def test_a_synonym_comes_before_the_nearest_vector_with_its_own_cosine(
    embedder,
):
    index = TermIndex(embedder)
    first = index.nearest("heart attack", k=3).iloc[0]
    assert (first["neighbour"], first["match"]) == (
        "myocardial infarction",
        "synonym",
    )
    cosine = embedder.similarity("heart attack", "myocardial infarction")
    assert first["similarity"] == pytest.approx(cosine, abs=1e-6)
    found = index.nearest("Failures, heart", k=4)
    assert (found["neighbour"][0], found["match"][0]) == (
        "heart failure",
        "name",
    )
    assert set(found["match"][1:]) == {"vector"}
    assert found["similarity"][1:].is_monotonic_decreasing


def test_a_list_of_terms_has_the_shipped_synonyms_in_both_directions(embedder):
    assert found_by(
        embedder, "heart attack", ["pain", "myocardial infarction"], k=1
    ) == [("myocardial infarction", "synonym", "")]
    assert found_by(
        embedder, "myocardial infarction", ["pain", "heart attack"], k=1
    ) == [("heart attack", "synonym", "")]


def test_your_own_synonyms_replace_the_shipped_ones(embedder):
    table = pd.DataFrame(
        {
            "term": ["edema", "insulin"],
            "synonyms": ["heart attack|swelling", None],
        }
    )
    assert found_by(embedder, "swelling", table, k=1) == [
        ("edema", "synonym", "")
    ]
    assert found_by(embedder, "heart attack", table, k=1) == [
        ("edema", "synonym", "")
    ]
    lists = table.assign(synonyms=[["swelling"], []])
    assert found_by(embedder, "swellings", lists, k=1) == [
        ("edema", "synonym", "")
    ]
    assert (
        TermIndex(embedder, table).digest != TermIndex(embedder, lists).digest
    )


@pytest.mark.parametrize(
    ("one", "other"), [("hepatitis A", "hepatitis B"), ("all", "ALL")]
)
def test_one_letter_tells_terms_apart(embedder, one, other):
    assert found_by(embedder, one, [other, "hepatitis"], k=2)[0][1] == "vector"


def test_an_abbreviation_is_read_as_its_one_meaning(embedder):
    index = TermIndex(embedder, VOCABULARY)
    (found,) = index.look_up(["PNA"], k=2)
    assert found.reason == "PNA is read as pneumonia"
    first, second = found.nearest
    assert (first.neighbour, first.match) == ("pneumonia", "abbreviation")
    assert first.similarity == pytest.approx(1, abs=1e-6)
    cosine = embedder.similarity("pneumonia", second.neighbour)
    assert second.similarity == pytest.approx(cosine, abs=1e-6)


def test_an_ambiguous_abbreviation_has_the_neighbours_of_each_meaning(
    embedder,
):
    vocabulary = ["mitral stenosis", "multiple sclerosis", "edema"]
    (found,) = TermIndex(embedder, vocabulary).look_up(["MS"], k=2)
    assert found.reason.startswith(
        "MS is ambiguous: multiple sclerosis or mitral stenosis"
    )
    assert [(n.rank, n.meaning) for n in found.nearest] == [
        *((1, "multiple sclerosis"), (2, "multiple sclerosis")),
        *((1, "mitral stenosis"), (2, "mitral stenosis")),
    ]
    firsts = [n.neighbour for n in found.nearest if n.rank == 1]
    assert firsts == ["multiple sclerosis", "mitral stenosis"]


def test_your_own_table_decides_what_an_abbreviation_stands_for(embedder):
    table = pd.DataFrame({"term": ["mitral stenosis"], "synonyms": ["MS"]})
    own = TermIndex(embedder, table).read("MS")
    assert own == (("mitral stenosis",), "MS is read as mitral stenosis")


def test_common_words_are_no_abbreviations(embedder):
    index = TermIndex(embedder, VOCABULARY)
    for word in ("all", "All", "As", "Mr", "he"):
        assert index.read(word)[0] == (word,)
    assert index.read("ALL")[0] != ("ALL",)


def test_synonyms_of_a_frame_may_be_arrays_and_rows_may_repeat(
    embedder, tmp_path
):
    frame = pd.DataFrame(
        {
            "term": ["edema", "edema"],
            "synonyms": [["ZQX"], ["ZQX", "swelling"]],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    index = TermIndex(embedder, pd.read_parquet(tmp_path / "t.parquet"))
    assert index.read("ZQX") == (("edema",), "ZQX is read as edema")
    assert index.nearest("swelling", k=1)["match"].tolist() == ["synonym"]


def test_neighbours_of_a_table_are_those_of_each_term(embedder):
    frame = pd.DataFrame(
        {"id": ["x", "y", "z"], "term": ["edema", None, "cough"]}
    )
    index = TermIndex(embedder, VOCABULARY)
    table = score_frame(NearestTask(index, k=2), frame)
    assert table["id"].tolist() == ["x", "x", "y", "z", "z"]
    assert table["status"].tolist() == ["ok", "ok", "empty", "ok", "ok"]
    assert (
        table["neighbour"].tolist()[:2]
        == index.nearest("edema", k=2)["neighbour"].tolist()
    )
    assert table.loc[2, ["rank", "neighbour"]].isna().all()
    alone = score_frame(
        NearestTask(TermIndex(embedder, ["edema"])), frame.head(1)
    )
    assert alone["reason"].tolist() == ["the vocabulary has no other term"]


def test_tasks_with_another_vocabulary_are_other_tasks(embedder):
    first, second = (
        NearestTask(TermIndex(embedder, VOCABULARY[:n])) for n in (3, 4)
    )
    assert first.facts() != second.facts()
    assert (
        NearestTask(TermIndex(embedder, VOCABULARY[:3])).facts()
        == first.facts()
    )
