"""Scores of assertions on two texts, worked out by hand."""

import numpy as np

from benchmarks.peers import Mentions, assertion_scores

DOCUMENTS = [
    Mentions("", [], ["negated", "present", "other"]),
    Mentions("", [], ["allergy", ""]),
]


def test_mentions_that_only_one_method_knows_are_left_out():
    """One of two negations is right; of the three mentions with a known assertion, one is."""
    names = np.array(["negated", "negated", "present", "present", "negated"])
    scores = assertion_scores(
        DOCUMENTS, {"medspaCy": names, "negspaCy": names}
    )
    assert scores["mentions"] == "3"
    assert scores["negation: medspaCy"].startswith("0.667 [")
    assert scores["all: medspaCy"].startswith("0.333 [")
    assert "all: negspaCy" not in scores
