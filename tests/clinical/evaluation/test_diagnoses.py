"""Measures of many groups: equal to scikit-learn's, with ties and weights."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from clinical.evaluation.diagnoses import (
    MIN_POSITIVE,
    best_f1_threshold,
    compare_diagnoses,
    evaluate_diagnoses,
    probabilities_of,
    ranking_scores,
)
from clinical.evaluation.measures import Ranking
from domainbert.errors import UserError
from domainbert.tables import TableError


def made(stays=120, groups=6, seed=0, levels=None):
    random = np.random.default_rng(seed)
    labels = (random.random((stays, groups)) < 0.3).astype(float)
    values = np.clip(0.4 * labels + random.random(labels.shape) * 0.6, 0, 1)
    if levels:
        values = np.round(values * levels) / levels
    return labels, values


@pytest.mark.parametrize("levels", [None, 5])
def test_ranking_is_that_of_scikit_learn_with_ties_and_weights(levels):
    labels, values = made(levels=levels)
    weights = np.random.default_rng(3).integers(0, 4, len(labels)) * 1.0
    area, average = Ranking(labels, values).measured(weights)
    for column in range(labels.shape[1]):
        pair = labels[:, column], values[:, column]
        assert area[column] == pytest.approx(
            roc_auc_score(*pair, sample_weight=weights)
        )
        assert average[column] == pytest.approx(
            average_precision_score(*pair, sample_weight=weights)
        )


def test_overall_numbers_by_hand():
    labels, values = made(levels=10)
    labels[0] = 0  # a stay without any group has no ranking of its own
    scores = ranking_scores(labels, values)
    assert scores["micro AUPRC"] == pytest.approx(
        average_precision_score(labels.ravel(), values.ravel())
    )
    assert scores["micro AUROC"] == pytest.approx(
        roc_auc_score(labels.ravel(), values.ravel())
    )
    assert scores["macro AUROC"] == pytest.approx(
        np.mean(
            [
                roc_auc_score(*pair)
                for pair in zip(labels.T, values.T, strict=True)
            ]
        )
    )
    of_stays = [
        average_precision_score(a, b)
        for a, b in zip(labels, values, strict=True)
        if a.any()
    ]
    assert scores["MAP a stay"] == pytest.approx(np.mean(of_stays))


def test_recall_at_five_counts_the_first_five_groups():
    labels = np.zeros((1, 8))
    labels[0, [0, 6]] = 1
    values = np.linspace(0.9, 0.1, 8)[None]
    assert ranking_scores(labels, values)["recall@5"] == 0.5


def test_threshold_has_the_best_f1_and_keeps_ties_together():
    outcome = np.array([1, 1, 1, 0, 0, 0])
    risk = np.array([0.9, 0.8, 0.7, 0.7, 0.2, 0.1])
    threshold = best_f1_threshold(outcome, risk)
    assert threshold == pytest.approx(0.7, abs=1e-6)
    assert (risk >= threshold).sum() == 4


def test_rare_groups_claim_nothing():
    labels, values = made(stays=100, groups=3)
    labels[:, 2] = 0
    labels[: MIN_POSITIVE - 1, 2] = 1
    evaluation = evaluate_diagnoses(
        labels,
        values,
        groups=["a", "b", "c"],
        patients=range(100),
        thresholds={"a": 0.5},
        calibrated=["a"],
        bootstrap=50,
    )
    rows = evaluation.by_group.set_index("group")
    assert rows.loc["c"].drop("positive").isna().all()
    assert rows.loc["c", "positive"] == MIN_POSITIVE - 1
    assert rows.loc["a", "auroc_low"] < rows.loc["a", "auroc"]
    assert rows.loc[["a"], ["f1", "ece"]].notna().all(axis=None)
    assert rows.loc[["b"], ["f1", "ece"]].isna().all(axis=None)
    assert evaluation.overall["F1"].low is not None


def test_difference_from_itself_is_nothing():
    labels, values = made()
    runs = [
        evaluate_diagnoses(
            labels,
            values,
            groups=list("abcdef"),
            patients=range(120),
            bootstrap=30,
        )
        for _ in range(2)
    ]
    difference = runs[0].minus(runs[1])["macro AUROC"]
    assert (difference.value, difference.low, difference.high) == (0, 0, 0)


@pytest.mark.parametrize(
    ("labels", "values", "message"),
    [
        (np.ones((2, 2)), np.ones((2, 3)), "shape"),
        (np.full((2, 1), 2), np.ones((2, 1)), "0 or 1"),
        (np.ones((2, 1)), np.full((2, 1), np.nan), "between 0 and 1"),
    ],
)
def test_bad_input_is_told(labels, values, message):
    with pytest.raises(UserError, match=message):
        ranking_scores(labels, values)


@pytest.mark.parametrize("groups", [1, 2000])
def test_one_group_and_two_thousand(groups):
    labels, values = made(stays=30, groups=groups)
    scores = ranking_scores(labels, values)
    assert 0.5 < scores["macro AUROC"] <= 1


def scored(stays=("1", "2", "3"), groups=("I50", "R50"), **columns):
    """A score table as `clinical score` writes it, and the probabilities by stay and group."""
    pairs = [(stay, group) for stay in stays for group in groups]
    table = pd.DataFrame(pairs, columns=["stay_id", "group"])
    table["probability"] = np.linspace(0.1, 0.9, len(pairs))
    return table.assign(status="ok", **columns)


def test_probabilities_of_a_score_table_follow_the_stays_and_groups():
    table = scored(groups=("R50", "Z00", "I50"))
    table.loc[table["stay_id"] == "2", "status"] = "error"
    values = probabilities_of(
        table.sample(frac=1, random_state=0),
        pd.Series(["3", "2", "1.0", "4", "3"]),
        ["I50", "R50"],
    )
    assert values[:, 1] == pytest.approx(
        [0.7, np.nan, 0.1, np.nan, 0.7], nan_ok=True
    )
    assert values[[0, 2], 0] == pytest.approx([0.9, 0.3])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (scored().iloc[:5], "lacks groups of 1 stays; expected all 2 groups"),
        (pd.concat([scored(), scored().head(2)]), "2 repeated groups of a"),
        (scored().drop(columns="group"), "group"),
    ],
)
def test_a_score_table_without_all_groups_of_a_stay_is_refused(table, message):
    with pytest.raises((UserError, TableError), match=message):
        probabilities_of(table, pd.Series(["1", "2", "3"]), ["I50", "R50"])


def test_scores_are_compared_without_notes_and_without_a_model():
    cohort = pd.DataFrame(
        {
            "patient_id": list("abcdef"),
            "stay_id": list("123456"),
            "split": ["train", "test", "test", "test", "test", "val"],
            "diagnoses": [["I50"], ["I50"], ["R50"], [], None, ["R50"]],
        }
    )
    table = scored(stays=list("2345"), name="Heart", calibrated="True")
    table.loc[table["group"] == "R50", "calibrated"] = "False"
    comparison = compare_diagnoses(None, cohort, scores=table, bootstrap=0)
    assert set(comparison.evaluations) == {"model", "prevalence"}
    assert comparison.model.n_stays == 3
    assert comparison.names == {"I50": "Heart", "R50": "Heart"}
    said = " ".join(comparison.caveats)
    assert "no baseline on words" in said
    assert "1 stays of the cohort have no code" in said
    assert "1 groups have no calibrator" in said
    with pytest.raises(UserError, match="their stay_id is not in the score"):
        compare_diagnoses(None, cohort, scores=scored(stays=["9"]))
    with pytest.raises(TableError, match="stay_id"):
        compare_diagnoses(
            None, cohort.drop(columns="stay_id"), scores=table, bootstrap=0
        )
    with pytest.raises(UserError, match="neither a model nor scores"):
        compare_diagnoses(None, cohort.assign(text=[["a"]] * 6))
