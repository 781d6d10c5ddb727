"""Separation of terms by category: the reference's numbers, held-out terms, bad input."""

import numpy as np
import pandas as pd
import pytest

from biomed.terms.similarity import TermEmbedder
from recipes.categories import evaluate_categories, vocabulary_terms

WORDS = "heart kidney left right pain edema fever insulin clinic mother wife chest".split()


@pytest.fixture(scope="module")
def embedder(new_network, tokenizer):
    return TermEmbedder(new_network().bert, tokenizer)


@pytest.fixture
def vocabulary():
    return pd.DataFrame(
        {"term": WORDS, "category": ["organ"] * 6 + ["other"] * 6}
    )


def test_category_accuracy_is_scikit_learns(embedder, vocabulary):
    from sklearn.neighbors import KNeighborsClassifier

    found = evaluate_categories(embedder, vocabulary, k=3, bootstrap=100)
    vectors = embedder.embed(WORDS)
    right = []
    for i, own in enumerate(vocabulary["category"]):
        rest = np.arange(12) != i
        knn = KNeighborsClassifier(3, metric="cosine")
        knn.fit(vectors[rest], vocabulary["category"][rest])
        right.append(knn.predict(vectors[[i]])[0] == own)
    accuracy, purity = found.scores.values()
    assert next(iter(found.scores)) == "category accuracy of 3 neighbours"
    assert accuracy.value == pytest.approx(np.mean(right))
    assert accuracy.low <= accuracy.value <= accuracy.high
    assert purity.value == pytest.approx(found.table["purity"].mean())


def test_only_held_out_terms_are_measured_where_there_are_any(
    embedder, vocabulary
):
    held = evaluate_categories(
        embedder, vocabulary.assign(held_out=[True, False] * 6), k=3
    )
    everyone = evaluate_categories(embedder, vocabulary, k=3).table.iloc[::2]
    assert held.table["term"].tolist() == WORDS[::2]
    assert held.table["purity"].tolist() == everyone["purity"].tolist()


def test_too_few_terms_or_categories_are_refused(embedder, vocabulary):
    with pytest.raises(
        ValueError, match="12 terms, 12 measured, of 1 categories"
    ):
        evaluate_categories(embedder, vocabulary.assign(category="one"))
    with pytest.raises(ValueError, match="expected more than 5 terms"):
        evaluate_categories(embedder, vocabulary.iloc[4:8])


def test_a_vocabulary_needs_categories_and_each_term_once(
    embedder, vocabulary
):
    with pytest.raises(
        ValueError, match="12 terms of the vocabulary occur twice"
    ):
        evaluate_categories(embedder, pd.concat([vocabulary, vocabulary]))
    with pytest.raises(ValueError, match="no column 'category'"):
        evaluate_categories(embedder, vocabulary[["term"]])


@pytest.fixture(scope="module")
def shipped():
    return vocabulary_terms()


def test_a_group_lies_in_one_category_and_has_company(shipped):
    assert (
        len(shipped[["group", "category"]].drop_duplicates())
        == shipped["group"].nunique()
    )
    assert shipped["group"].value_counts().min() >= 2


def test_a_fifth_is_held_out_by_its_letters(shipped):
    assert 0.15 < shipped["held_out"].mean() < 0.25
    assert (shipped[shipped["held_out"]]["category"].value_counts() >= 4).all()
