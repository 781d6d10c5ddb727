"""The baseline on word counts: it learns, and the outcomes of the test stay unseen."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from clinical.evaluation.baselines import baselines


def cohort(n, *, seed):
    """Stays of two notes; `furosemide`, and `no` before `edema`, carry the outcome."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    drug = np.where(rng.random(n) < 0.2 + 0.6 * y, "furosemide", "aspirin")
    sign = np.where(
        rng.random(n) < 0.2 + 0.6 * y, "edema no pain", "no edema pain"
    )
    noise = rng.choice(["stable", "walking", "eating", "alert"], (n, 3))
    notes = [
        [f"on {d} {' '.join(w)}", s]
        for d, s, w in zip(drug, sign, noise, strict=True)
    ]
    return pd.DataFrame({"text": notes, "readmitted": y})


def test_it_learns_from_pairs_of_words_and_does_not_look_at_the_test():
    train, val, test = (
        cohort(400, seed=0),
        cohort(200, seed=1),
        cohort(400, seed=2),
    )
    found = baselines(train, val, test)["TF-IDF"]
    # Single words give 0.80: only a pair of words can see "no edema".
    assert roc_auc_score(test["readmitted"], found.test) > 0.83
    assert found.validation.shape == (200,)
    assert found.validation.mean() == pytest.approx(
        val["readmitted"].mean(), abs=1e-6
    )
    turned = baselines(
        train, val, test.assign(readmitted=1 - test["readmitted"])
    )["TF-IDF"]
    assert np.array_equal(found.test, turned.test)


def test_clear_errors_that_quote_no_note():
    train, val = cohort(40, seed=0), cohort(40, seed=1)
    with pytest.raises(
        ValueError,
        match="40 of 40 stays have the outcome; a baseline needs both",
    ):
        baselines(train, val.assign(readmitted=1), val)
    empty = train.assign(text=[["?!"]] * 40)
    with pytest.raises(
        ValueError, match="no word is left to count in 40 training texts"
    ):
        baselines(empty, val, val)
    scores = baselines(train, val, val)
    assert "array" not in repr(scores)
