"""Readmission models in int8: calibrated once, checked, refused where scores change too much."""

import numpy as np
import pytest

from clinical import ReadmissionModel
from clinical.risk import int8
from domainbert.encoders.int8 import int8_is_exact
from domainbert.errors import UserError

pytestmark = [
    pytest.mark.numeric,
    pytest.mark.skipif(not int8_is_exact(), reason="this processor has no VNNI"),
]


@pytest.fixture
def model(tokenizer, random_network):
    from domainbert.encoders.classifier import CLSClassifier

    network = random_network(CLSClassifier, tokenizer, head="classifier", num_labels=1)
    return ReadmissionModel(network, tokenizer, device="cpu")


def stays(number, seed=0):
    rng = np.random.default_rng(seed)
    words = ["patient", "denies", "pain", "fever", "home", "insulin", "renal", "failure", "lives"]
    return [" ".join(rng.choice(words, rng.integers(5, 80))) for _ in range(number)]


def test_ranges_are_kept_and_used_again(model, tmp_path):
    fast, change = int8.load_int8(model, tmp_path / "m.int8", lambda: stays(60))
    assert change.stays == 30
    assert 0 < change.mean <= change.worst < 0.1
    assert abs(change.expected_auroc - change.expected_auroc_int8) < 0.005
    (kept,) = (tmp_path / "m.int8").iterdir()
    assert not any(word in kept.read_text() for word in ("denies", "insulin", "failure"))
    assert fast.fingerprint() != model.fingerprint()

    def never():
        raise AssertionError

    again, same = int8.load_int8(model, tmp_path / "m.int8", never)
    assert same == change
    assert again.fingerprint() == fast.fingerprint()
    text = stays(1, seed=5)[0]
    assert again.predict(text) == fast.predict(text)
    assert fast.predict(text).score == pytest.approx(model.predict(text).score, abs=0.05)
    assert "changed the probability of 30 stays by 0." in str(change)


def test_too_few_stays_and_too_large_a_change_are_refused(model, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="at least 40 stays with text; got 12; leave --precision"):
        int8.load_int8(model, tmp_path, lambda: stays(12))
    monkeypatch.setattr(int8, "PROBABILITY_LIMIT", 1e-9)
    with pytest.raises(UserError, match=r"the limits are 0\.005 of AUROC and 1e-09 of mean"):
        int8.load_int8(model, tmp_path, lambda: stays(60))
    assert not list(tmp_path.iterdir())


def test_the_expected_auroc_is_the_auroc_of_certain_outcomes():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    outcomes, scores = rng.integers(0, 2, 50), rng.normal(size=50).round(1)
    expected = roc_auc_score(outcomes, scores)
    assert int8._expected_auroc(scores, outcomes.astype(float)) == pytest.approx(expected)


def test_the_folder_is_beside_the_model_or_in_the_users_cache(tmp_path, monkeypatch):
    (tmp_path / "m").mkdir()
    assert int8.int8_folder(tmp_path / "m") == tmp_path / "m.int8"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert int8.int8_folder("hub:owner/name") == tmp_path / "cache" / "domainbert" / "int8"
