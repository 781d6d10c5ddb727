"""Agreement with people and separation by category: the reference's numbers, whole intervals."""

import numpy as np
import pandas as pd
import pytest

from biomed.terms.evaluation import (
    compare_encoders,
    evaluate_categories,
    evaluate_pairs,
    evaluate_synonyms,
    read_rated_pairs,
)
from domainbert.tables import TableError, write_table

WORDS = "heart kidney left right pain edema fever insulin clinic mother wife chest".split()


@pytest.fixture
def pairs():
    rng = np.random.default_rng(0)
    rows = [(*rng.choice(WORDS, 2, replace=False), float(rng.integers(5))) for _ in range(40)]
    return pd.DataFrame(rows, columns=["first", "second", "rating"])


@pytest.fixture
def vocabulary():
    return pd.DataFrame({"term": WORDS, "category": ["organ"] * 6 + ["other"] * 6})


def test_correlations_are_scipys(embedder, pairs):
    stats = pytest.importorskip("scipy.stats")
    found = evaluate_pairs(embedder, pairs, bootstrap=200)
    cosine = [
        embedder.similarity(a, b) for a, b in zip(pairs["first"], pairs["second"], strict=True)
    ]
    assert found.table["cosine"].tolist() == pytest.approx(cosine, abs=1e-5)
    spearman = stats.spearmanr(found.table["cosine"], pairs["rating"]).statistic
    assert found.spearman.value == pytest.approx(spearman, abs=1e-9)
    pearson = stats.pearsonr(found.table["cosine"], pairs["rating"]).statistic
    assert found.pearson.value == pytest.approx(pearson, abs=1e-9)
    assert found.spearman.low < found.spearman.value < found.spearman.high
    assert len(found.table) == 40


def test_the_worst_pairs_are_those_far_from_their_place(embedder, pairs):
    cosines = evaluate_pairs(embedder, pairs, bootstrap=2).table["cosine"]
    agreeing = pairs.assign(rating=cosines.rank())
    assert evaluate_pairs(embedder, agreeing, bootstrap=2).spearman.value == pytest.approx(1)
    agreeing.loc[cosines.idxmin(), "rating"] = 1000.0
    worst = evaluate_pairs(embedder, agreeing, bootstrap=2).worst(3)
    assert worst.loc[0, "cosine"] == cosines.min()
    assert -1 <= worst.loc[0, "disagreement"] < -0.9
    assert len(worst) == 3


def test_the_same_seed_gives_the_same_interval(embedder, pairs):
    one, two = (evaluate_pairs(embedder, pairs, bootstrap=50).spearman for _ in range(2))
    assert one == two


def test_nothing_to_compare_is_said(embedder, pairs):
    with pytest.raises(ValueError, match="of these 40 pairs are all the same"):
        evaluate_pairs(embedder, pairs.assign(rating=1.0))


@pytest.mark.parametrize(
    "columns", [("Term1", "Term2", "Mean"), ("a", "b", "c"), ("first", "second", "rating")]
)
def test_pairs_are_read_by_any_of_three_layouts(tmp_path, columns):
    rows = [("edema", "fever", "3"), ("pain", None, "2"), ("x", "y", "1"), ("u", "v", "0.5")]
    write_table(pd.DataFrame(rows, columns=columns), tmp_path / "pairs.csv")
    pairs = read_rated_pairs(tmp_path / "pairs.csv")
    assert pairs["rating"].tolist() == [3, 1, 0.5]
    assert list(pairs.columns) == ["first", "second", "rating"]


def test_umnsrs_columns_are_found_among_others(tmp_path):
    rows = [(9.0, 1.0, "a", "b", "C1", "C2"), (2.0, 1.0, "c", "d", "C3", "C4")] * 2
    columns = ["Mean", "Stdev", "Term1", "Term2", "CUI1", "CUI2"]
    write_table(pd.DataFrame(rows, columns=columns), tmp_path / "pairs.csv")
    assert read_rated_pairs(tmp_path / "pairs.csv")["rating"].tolist() == [9, 2, 9, 2]


def test_other_tables_are_refused(tmp_path):
    write_table(pd.DataFrame({"a": ["x"], "b": ["y"]}), tmp_path / "pairs.csv")
    with pytest.raises(TableError, match=r"three columns \(term, term, rating\); got 2"):
        read_rated_pairs(tmp_path / "pairs.csv")
    write_table(pd.DataFrame({"a": ["x"], "b": ["y"], "c": ["z"]}), tmp_path / "pairs.csv")
    with pytest.raises(TableError, match="0 of 1 rows have two terms and a number"):
        read_rated_pairs(tmp_path / "pairs.csv")


def test_category_accuracy_is_scikit_learns(embedder, vocabulary):
    from sklearn.metrics import silhouette_score
    from sklearn.neighbors import KNeighborsClassifier

    found = evaluate_categories(embedder, vocabulary, k=3, bootstrap=100)
    vectors = embedder.embed(WORDS)
    right = []
    for i, own in enumerate(vocabulary["category"]):
        rest = np.arange(12) != i
        knn = KNeighborsClassifier(3, metric="cosine")
        knn.fit(vectors[rest], vocabulary["category"][rest])
        right.append(knn.predict(vectors[[i]])[0] == own)
    assert found.accuracy.value == pytest.approx(np.mean(right))
    expected = silhouette_score(vectors, vocabulary["category"], metric="cosine")
    assert found.silhouette == pytest.approx(expected, abs=1e-5)
    assert found.by_category()["terms"].tolist() == [6, 6]
    assert found.accuracy.low <= found.accuracy.value <= found.accuracy.high
    assert 0 < found.purity.value < 1


def test_only_held_out_terms_are_measured_where_there_are_any(embedder, vocabulary):
    held = evaluate_categories(embedder, vocabulary.assign(held_out=[True, False] * 6), k=3)
    everyone = evaluate_categories(embedder, vocabulary, k=3).table.iloc[::2]
    assert held.table["term"].tolist() == WORDS[::2]
    assert held.table["purity"].tolist() == everyone["purity"].tolist()


def test_too_few_terms_or_categories_are_refused(embedder, vocabulary):
    with pytest.raises(ValueError, match="12 terms, 12 measured, of 1 categories"):
        evaluate_categories(embedder, vocabulary.assign(category="one"))
    with pytest.raises(ValueError, match="needed are more than 5 terms"):
        evaluate_categories(embedder, vocabulary.iloc[4:8])


def test_a_synonym_searches_its_own_term_among_all(embedder, vocabulary):
    pieces = [["heart attack", "cardiac"], [], ["edema"]]
    table = vocabulary.assign(
        synonyms=[*pieces, *[[]] * 9], held_out=[True] * 3 + [False] * 4 + [True] * 5
    )
    found = evaluate_synonyms(embedder, table, bootstrap=50)
    assert found.table["synonym"].tolist() == ["heart attack", "cardiac", "edema"]
    assert found.table["term"].tolist() == ["heart", "heart", "left"]
    for row in found.table.itertuples():
        cosines = embedder.similarity_matrix([row.synonym], WORDS).iloc[0]
        assert row.found == cosines.idxmax()
        assert row.own_rank == 1 + (cosines > cosines[row.term]).sum()
    assert found.table["found"][2] == "edema"
    assert found.first.value == pytest.approx((found.table["own_rank"] == 1).mean())
    assert found.first.low <= found.first.value <= found.first.high
    worst = found.worst(1).iloc[0]
    gaps = found.table["cosine"] - found.table["own_cosine"]
    assert worst["cosine"] - worst["own_cosine"] == pytest.approx(gaps.max())
    measures = compare_encoders([embedder], vocabulary=table)["measure"].tolist()
    assert measures[-1] == "own term first for a synonym"
    with pytest.raises(ValueError, match="no term of this vocabulary has a synonym"):
        evaluate_synonyms(embedder, table.iloc[3:])


def test_encoders_stand_side_by_side(embedder, pairs, vocabulary):
    table = compare_encoders([embedder], pairs=pairs, vocabulary=vocabulary)
    assert list(table.columns) == ["encoder", "measure", "value", "low", "high"]
    assert table["measure"].tolist() == [
        *("Spearman", "Pearson"),
        *("category accuracy of 5 neighbours", "category purity of 5 neighbours"),
    ]
    assert (table["low"] <= table["value"]).all()
    assert (table["value"] <= table["high"]).all()
    with pytest.raises(ValueError, match="nothing to measure"):
        compare_encoders([embedder])
    with pytest.raises(ValueError, match="two encoders are called 'encoder'"):
        compare_encoders([embedder, embedder], pairs=pairs)


@pytest.mark.data
def test_umnsrs_is_read(data_folder):
    pairs = read_rated_pairs(data_folder / "terms" / "umnsrs_similarity_half.csv")
    assert len(pairs) > 200
    assert pairs["rating"].between(0, 1600).all()
