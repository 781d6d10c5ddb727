import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

import clinical


@pytest.fixture(scope="module")
def stays():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 120)
    return [f"patient {'failure' if y else 'stable'} home " * 3 for y in labels], labels


def test_fit_and_predict_the_scikit_learn_way(stays, tiny_encoder):
    texts, labels = stays
    classifier = clinical.ReadmissionClassifier(
        encoder=str(tiny_encoder), epochs=5, learning_rate=5e-3
    )
    groups = [f"patient-{n // 2}" for n in range(len(texts))]
    assert classifier.fit(texts, labels, groups=groups) is classifier
    proba = classifier.predict_proba(texts)
    assert proba.shape == (120, 2)
    assert proba.sum(axis=1) == pytest.approx(np.ones(120))
    assert roc_auc_score(labels, proba[:, 1]) > 0.9
    assert ((proba[:, 1] >= 0.5) == classifier.predict(texts)).all()
    assert list(classifier.classes_) == [0, 1]


def test_parameters_clone_and_an_unfitted_one_says_so():
    classifier = clinical.ReadmissionClassifier(epochs=1.5, objective="window")
    assert clone(classifier).get_params() == classifier.get_params()
    with pytest.raises(NotFittedError):
        classifier.predict_proba(["note"])


def test_lengths_must_agree(tiny_encoder):
    classifier = clinical.ReadmissionClassifier(encoder=str(tiny_encoder))
    with pytest.raises(ValueError, match="X, y and groups differ: 2, 1, 1 rows"):
        classifier.fit(["a", "b"], [1])
