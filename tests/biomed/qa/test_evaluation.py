import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.qa.answerer import QuestionAnswerer
from biomed.qa.evaluation import (
    ask_elsewhere,
    best_threshold,
    evaluate,
    find_calibration,
    find_threshold,
    judge,
)
from biomed.qa.questions import Passage, Question, QuestionSet, evenly
from domainbert.calibration import platt

SCORES = st.lists(st.integers(-5, 5), min_size=1, max_size=12).map(np.array)


@given(SCORES, SCORES)
def test_no_threshold_is_better(answerable, unanswerable):
    def right(threshold):
        return (answerable > threshold).mean() + (unanswerable <= threshold).mean()

    threshold = best_threshold(answerable, unanswerable)
    best = max(right(t) for t in np.arange(-7, 7, 0.25))
    assert right(threshold) == best or (threshold, best) == (0, 1)


def test_a_gap_is_met_in_its_middle():
    assert best_threshold(np.array([4.0, 9]), np.array([-3.0, 2])) == 3
    assert best_threshold(np.array([-np.inf]), np.array([-np.inf])) == 0


def question(number, article, word):
    text = f"patient at home with {word}"
    return Question(str(number), "was it?", (Passage(text, article),), (word,))


def test_questions_are_asked_of_another_article(answerer):
    """Half of the articles have an answer that scores 7, the others one of -1 or -5."""
    words = ["insulin", "kidney", "insulin", "fever"]
    asked = [question(n, f"article {n}", word) for n, word in enumerate(words)]
    questions = QuestionSet("q", tuple(asked))
    found = find_threshold(*ask_elsewhere(answerer, questions, count=9))
    # Own scores 7 -1 7 -5; of the next article -1 7 -5 7.
    assert (found["questions"], found["answered"] + found["abstained"]) == (4, 1.0)
    nothing = question(9, "article 9", "x")
    questions = QuestionSet("q", (asked[0], nothing))
    found = find_threshold(*ask_elsewhere(answerer, questions, count=9))
    assert found["questions"] == 2


def test_only_questions_that_a_passage_can_answer_are_judged(answerer):
    """BioASQ's files mix kinds: "yes" is in no passage, and without passages there is nothing."""
    asked = [question(n, f"article {n}", "insulin") for n in range(5)]
    asked[1] = dataclasses.replace(asked[1], kind="yesno", answers=("yes",))
    asked[2] = dataclasses.replace(asked[2], passages=())
    asked[3] = dataclasses.replace(asked[3], kind="factoid")
    asked[4] = dataclasses.replace(asked[4], is_answered=False, answers=())
    questions = QuestionSet("q", tuple(asked))
    assert [j.question.id for j in judge(answerer, questions)] == ["0", "3"]
    assert [q.id for q in evenly(questions, 9).questions] == ["0", "3"]
    assert evaluate(answerer, questions)["not_scored"] == 3


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


def test_a_model_keeps_its_threshold_and_calibration(answerer, tmp_path):
    text = "patient on renal at home"
    assert answerer.answer("was it?", text)[0].is_found
    answerer.save_pretrained(tmp_path / "model")
    again = QuestionAnswerer.from_pretrained(tmp_path / "model")
    assert again.settings == answerer.settings
    again.settings = again.settings.replaced(threshold=3.5, calibration=(0.5, -1.0))
    assert not again.answer("was it?", text)[0].is_found
    again.save_pretrained(tmp_path / "model")
    again = QuestionAnswerer.from_pretrained(tmp_path / "model")
    assert again.settings == answerer.settings.replaced(threshold=3.5, calibration=(0.5, -1.0))
    (none,) = again.answer("was it?", text)
    assert none.score == pytest.approx(3, abs=1e-3)
    assert none.probability == pytest.approx(platt(none.score, 0.5, -1.0))
    assert none.score_kind == "logit_margin"
    assert not none.is_found
