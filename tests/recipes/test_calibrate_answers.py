import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from biomed.qa.model import (
    QuestionAnswerer,
    QuestionManifest,
    QuestionSettings,
)
from biomed.qa.questions import Question, QuestionSet
from domainbert.models.storage import read_manifest
from domainbert.statistics.calibration import platt
from recipes import calibrate_answers
from recipes.calibrate_answers import (
    ask_elsewhere,
    best_threshold,
    calibrate,
    find_calibration,
    find_threshold,
)

SCORES = st.lists(st.integers(-5, 5), min_size=1, max_size=12).map(np.array)


@given(SCORES, SCORES)
def test_no_threshold_is_better(answerable, unanswerable):
    def right(threshold):
        return (answerable > threshold).mean() + (
            unanswerable <= threshold
        ).mean()

    threshold = best_threshold(answerable, unanswerable)
    best = max(right(t) for t in np.arange(-7, 7, 0.25))
    assert right(threshold) == best or (threshold, best) == (0, 1)


def test_a_gap_is_met_in_its_middle():
    assert best_threshold(np.array([4.0, 9]), np.array([-3.0, 2])) == 3
    assert best_threshold(np.array([-np.inf]), np.array([-np.inf])) == 0


def question(number, article, word):
    text = f"patient at home with {word}"
    return Question(str(number), "was it?", text, article, (word,))


@pytest.fixture(scope="module")
def answerer(tokenizer):
    """Scores "insulin" 7, "kidney" -1 and other words -5, whatever the question."""
    from tests.biomed.qa.conftest import make_known

    settings = QuestionSettings(window=24)
    return QuestionAnswerer(
        make_known(tokenizer), tokenizer, settings=settings
    )


def test_questions_are_asked_of_another_article(answerer):
    """Half of the articles have an answer that scores 7, the others one of -1 or -5."""
    words = ["insulin", "kidney", "insulin", "fever"]
    asked = [question(n, f"article {n}", word) for n, word in enumerate(words)]
    questions = QuestionSet("q", tuple(asked))
    found = find_threshold(*ask_elsewhere(answerer, questions, count=9))
    # Own scores 7 -1 7 -5; of the next article -1 7 -5 7.
    assert (found["questions"], found["answered"] + found["abstained"]) == (
        4,
        1.0,
    )
    nothing = question(9, "article 9", "x")
    questions = QuestionSet("q", (asked[0], nothing))
    found = find_threshold(*ask_elsewhere(answerer, questions, count=9))
    assert found["questions"] == 2


def test_one_article_tells_nothing(answerer):
    asked = (question(1, "a", "insulin"), question(2, "a", "renal"))
    questions = QuestionSet("q", asked)
    found = find_threshold(*ask_elsewhere(answerer, questions, count=9))
    assert (found["threshold"], found["questions"]) == (0.0, 0)


def test_a_probability_is_fitted_on_questions_with_and_without_an_answer():
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 3, 4000)
    has = rng.uniform(size=4000) < platt(scores, 0.8, 0.5)
    size = min(has.sum(), (~has).sum())
    found = find_calibration(scores[has][:size], scores[~has][:size])
    assert found["map"][0] == pytest.approx(0.8, abs=0.05)
    assert found["error"] < 0.03
    assert sum(number for *_, number in found["bins"]) == 2 * size
    assert all(abs(mean - share) < 0.05 for mean, share, _ in found["bins"])
    assert find_calibration(scores[:19], scores[19:38]) is None
    unread = np.append(scores[has][:size], [-np.inf, np.nan])
    same = find_calibration(unread, np.append(scores[~has][:size], [0.0, 0.0]))
    assert same["map"] == found["map"]


def test_the_model_and_its_card_have_what_was_fitted(
    answerer, tmp_path, monkeypatch
):
    rng = np.random.default_rng(0)
    scores = rng.normal(2, 2, 30), rng.normal(-2, 2, 30)
    monkeypatch.setattr(
        calibrate_answers, "ask_elsewhere", lambda *_, **__: scores
    )
    answerer.save_pretrained(tmp_path / "model")
    (tmp_path / "q.csv").write_text(
        "question,context,answer\nwas it?,insulin,insulin\n"
    )
    app = calibrate_answers.typer.Typer()
    app.command()(calibrate_answers.main)
    paths = [str(tmp_path / name) for name in ("model", "q.csv")]
    result = CliRunner().invoke(
        app, [*paths, "--out", str(tmp_path / "fitted")]
    )
    assert result.exit_code == 0, result.output
    fitted = json.loads((tmp_path / "fitted" / "config.json").read_text())[
        "domainbert"
    ]
    manifest = read_manifest(tmp_path / "fitted", QuestionManifest)
    assert manifest.no_answer.questions == 30
    assert fitted["settings"]["threshold"] == manifest.no_answer.threshold
    slope, intercept = fitted["settings"]["calibration"]
    card = (tmp_path / "fitted" / "README.md").read_text()
    assert f"slope {slope:.3f}, intercept {intercept:.3f}" in card
    assert "fitted on the 30 held-out questions" in card
    assert "| probability | there is an answer | questions |" in card
    assert "no answer from a wrong one" in card


def test_too_few_questions_give_a_threshold_alone(answerer):
    asked = [
        question(n, f"article {n}", word)
        for n, word in enumerate(["insulin", "kidney"])
    ]
    calibrate(answerer, QuestionSet("q", tuple(asked)))
    assert answerer.settings.calibration is None
    assert answerer.settings.threshold == answerer.manifest.no_answer.threshold
