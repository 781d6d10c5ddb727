"""Comparison: risks from a model or from a score table, joined to the cohort by stay_id."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from clinical.cli import app
from clinical.evaluation.comparison import compare, risks_of
from domainbert.errors import UserError
from domainbert.tables import write_table


@pytest.fixture
def cohort():
    rng = np.random.default_rng(0)
    n = 240
    return pd.DataFrame(
        {
            "patient_id": [f"p{k}" for k in range(n)],
            "stay_id": [str(1000 + k) for k in range(n)],
            "text": [["Chest pain. Heart failure."]] * n,
            "readmitted": rng.integers(0, 2, n),
            "split": rng.choice(["train", "val", "test"], n),
        }
    )


@pytest.fixture
def scores(cohort):
    risk = np.clip(
        0.3 + 0.2 * cohort["readmitted"] + np.linspace(-0.2, 0.2, len(cohort)),
        0,
        1,
    )
    table = pd.DataFrame(
        {"stay_id": cohort["stay_id"], "probability": risk, "status": "ok"}
    )
    return table.sample(frac=1, random_state=0)


def test_a_score_table_is_joined_by_stay_id_and_no_note_is_needed(
    cohort, scores
):
    scores.loc[scores["stay_id"] == cohort["stay_id"][5], "stay_id"] = (
        "another"
    )
    found = compare(
        None,
        cohort.drop(columns="text"),
        scores=scores,
        split="test",
        bootstrap=20,
    )
    side = cohort[cohort["split"] == "test"]
    known = side.merge(scores, on="stay_id")
    assert found.model.n_stays == len(known)
    assert sorted(found.stays["probability"]) == sorted(known["probability"])
    assert list(found.evaluations) == ["domainbert"]
    assert any(
        "no baseline on words was fitted" in caveat for caveat in found.caveats
    )
    assert (
        found.points["10 alerts per 100"].source
        == "this cohort's validation side"
    )


def test_a_baseline_that_cannot_be_fitted_is_named_as_missing(cohort, model):
    train = cohort["split"] == "train"
    cohort["discharge_time"] = ["soon", *["2024-03-05"] * 239]
    cohort.loc[train, "readmitted"] = 0
    comparison = compare(model, cohort, bootstrap=0)
    assert list(comparison.evaluations) == ["domainbert"]
    assert comparison.model.auroc.value is not None
    missing = (
        f"TF-IDF was not computed: 0 of {train.sum()} stays have the outcome"
    )
    assert any(caveat.startswith(missing) for caveat in comparison.caveats)


def test_without_a_side_to_fit_baselines_on_the_caveats_say_so(cohort, model):
    comparison = compare(model, cohort[cohort["split"] != "val"], bootstrap=0)
    assert list(comparison.evaluations) == ["domainbert"]
    missing = "No baseline was fitted: the cohort has no train or no val side."
    assert missing in comparison.caveats


def test_scores_that_do_not_fit_are_refused(cohort, scores):
    with pytest.raises(
        UserError, match="1 repeated stay_id; expected one row per stay"
    ):
        risks_of(pd.concat([scores, scores.head(1)]), cohort)
    with pytest.raises(
        UserError, match="their stay_id is not in the score table"
    ):
        compare(
            None, cohort, scores=scores.assign(stay_id="x" + scores["stay_id"])
        )
    assert np.isnan(risks_of(scores.assign(status="error"), cohort)).all()


def test_the_command_evaluates_a_score_table(cohort, scores, tmp_path):
    odd = "[/evil] $x^{$"  # neither rich's markup nor matplotlib's formulas
    cohort = cohort.assign(
        insurance=np.where(np.arange(240) % 2, odd, "other")
    )
    cohort.loc[cohort["split"] == "test", "insurance"] = odd
    cohort.to_parquet(tmp_path / "cohort.parquet")
    write_table(scores, tmp_path / "risks.csv")
    words = [
        "evaluate",
        str(tmp_path / "cohort.parquet"),
        "--out",
        str(tmp_path / "out"),
    ]
    nothing = CliRunner().invoke(app, words)
    assert nothing.exit_code == 1
    assert "pass --model, --scores, or both" in nothing.output
    options = ["--scores", str(tmp_path / "risks.csv"), "--bootstrap", "20"]
    result = CliRunner().invoke(app, [*words, *options])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "risks.csv on cohort.parquet" in page
    assert "Chest pain" not in page
    assert odd in page
