"""Agreement with people: the reference's numbers, whole intervals."""

import numpy as np
import pandas as pd
import pytest

from biomed.sentences.data import read_pairs
from biomed.sentences.evaluation import evaluate_pairs

WORDS = "heart kidney left right pain edema fever insulin clinic mother wife chest".split()


@pytest.fixture
def pairs():
    rng = np.random.default_rng(0)
    rows = [
        (*rng.choice(WORDS, 2, replace=False), float(rng.integers(5)))
        for _ in range(40)
    ]
    return pd.DataFrame(rows, columns=["first", "second", "label"])


def test_correlations_are_scipys(embedder, pairs):
    from scipy import stats

    found = evaluate_pairs(embedder, pairs, bootstrap=200)
    assert len(found.table) == 40
    for row in found.table.head(3).itertuples():
        cosine = embedder.similarity(row.first, row.second)
        assert row.similarity == pytest.approx(cosine, abs=1e-5)
    columns = found.table["similarity"], found.table["rating"]
    expected = stats.spearmanr(*columns).statistic
    assert found.scores["Spearman"].value == pytest.approx(expected, abs=1e-9)
    assert found.scores["Spearman"].low < found.scores["Spearman"].value
    assert (
        found.scores == evaluate_pairs(embedder, pairs, bootstrap=200).scores
    )


def test_the_worst_pairs_are_those_far_from_their_place(embedder, pairs):
    table = evaluate_pairs(embedder, pairs, bootstrap=2).table
    agreeing = table[["first", "second"]].assign(
        label=table["similarity"].rank()
    )
    agreed = evaluate_pairs(embedder, agreeing, bootstrap=2)
    assert agreed.scores["Spearman"].value == pytest.approx(1)
    agreeing.loc[table["similarity"].idxmin(), "label"] = 1000.0
    worst = evaluate_pairs(embedder, agreeing, bootstrap=2).table.iloc[0]
    assert worst["similarity"] == table["similarity"].min()
    assert -1 <= worst["disagreement"] < -0.9


def test_nothing_to_compare_is_said(embedder, pairs):
    with pytest.raises(ValueError, match="of these 40 pairs are all the same"):
        evaluate_pairs(embedder, pairs.assign(label="1"))
    with pytest.raises(
        ValueError, match="row number 2 has a rating that is not a number"
    ):
        evaluate_pairs(
            embedder, pairs.assign(label=["1", "2", "x", *["3"] * 37])
        )
    with pytest.raises(ValueError, match="the pairs have no ratings"):
        evaluate_pairs(embedder, pairs.drop(columns="label"))


@pytest.mark.data
def test_umnsrs_is_read(data_folder):
    pairs = read_pairs(data_folder / "terms" / "umnsrs_similarity_half.csv")
    assert len(pairs) > 200
    assert pairs["label"].astype(float).between(0, 1600).all()
