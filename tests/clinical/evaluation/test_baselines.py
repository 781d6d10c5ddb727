"""Baselines on word counts: they learn, validation chooses, and the test's outcomes stay unseen."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from clinical.evaluation.baselines import baselines, joined, learn_words, logistic, vectorizer
from domainbert.tables import TableError


def cohort(n, *, seed):
    """Stays of two notes; `furosemide`, and `no` before `edema`, carry the outcome."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    drug = np.where(rng.random(n) < 0.2 + 0.6 * y, "furosemide", "aspirin")
    sign = np.where(rng.random(n) < 0.2 + 0.6 * y, "edema no pain", "no edema pain")
    noise = rng.choice(["stable", "walking", "eating", "alert"], (n, 3))
    notes = [[f"on {d} {' '.join(w)}", s] for d, s, w in zip(drug, sign, noise, strict=True)]
    return pd.DataFrame({"text": notes, "readmitted": y})


def test_both_baselines_learn_and_pairs_of_words_see_more():
    train, val, test = cohort(400, seed=0), cohort(200, seed=1), cohort(400, seed=2)
    found = baselines(train, val, test)
    assert list(found) == ["bag of words", "TF-IDF"]
    areas = {name: roc_auc_score(test["readmitted"], scores.test) for name, scores in found.items()}
    assert areas["bag of words"] > 0.7
    assert areas["TF-IDF"] > areas["bag of words"] + 0.03  # only it can see "no edema"
    for scores in found.values():
        assert scores.validation.shape == (200,)
        assert scores.test.shape == (400,)


def test_the_penalty_is_the_best_on_validation_and_the_test_is_not_looked_at():
    train, val, test = cohort(150, seed=0), cohort(100, seed=1), cohort(100, seed=2)
    unlabelled = baselines(train, val, test.drop(columns="readmitted"))
    turned = baselines(train, val, test.assign(readmitted=1 - test["readmitted"]))
    words = vectorizer("bag of words", stays=150)
    features, y = learn_words(words, joined(train)), train["readmitted"].to_numpy(dtype=float)
    areas = {
        c: roc_auc_score(
            val["readmitted"],
            logistic(c).fit(features, y).predict_proba(words.transform(joined(val)))[:, 1],
        )
        for c in (0.01, 0.1, 1.0)
    }
    assert areas[unlabelled["bag of words"].c] == max(areas.values())
    for name, scores in unlabelled.items():
        assert np.array_equal(scores.test, turned[name].test)


def test_only_the_most_frequent_words_are_counted():
    texts = [f"common word{i} other{i}" for i in range(4000)]
    train = pd.DataFrame({"text": texts, "readmitted": np.arange(4000) % 2})
    found = baselines(train, train.head(50), train.head(5))
    assert found["bag of words"].n_features == 5000


def test_strings_lists_and_stays_without_notes():
    train, val = cohort(80, seed=0), cohort(60, seed=1)
    texts = ["on furosemide", ["on furosemide"], np.array(["on", "furosemide"]), [], None, [None]]
    found = baselines(train, val, pd.DataFrame({"text": texts}))["bag of words"].test
    assert found[0] == found[1] == found[2]
    assert found[3] == found[4] == found[5] != found[0]


def test_clear_errors_that_quote_no_note():
    train, val = cohort(40, seed=0), cohort(40, seed=1)
    with pytest.raises(TableError, match="val has no column 'readmitted'"):
        baselines(train, val.drop(columns="readmitted"), val)
    with pytest.raises(ValueError, match="40 of 40 stays are readmitted; a baseline needs both"):
        baselines(train, val.assign(readmitted=1), val)
    empty = train.assign(text=[["?!"]] * 40)
    with pytest.raises(ValueError, match="no word is left to count in 40 training texts"):
        baselines(empty, val, val)
    with pytest.raises(ValueError, match="y holds 1 values that are not 0 or 1"):
        baselines(train.assign(readmitted=[2, *train["readmitted"][1:]]), val, val)
    scores = baselines(train, val, val)
    assert "array" not in repr(scores)
