import dataclasses

import pytest

from biomed.classes import QuestionAnswerer
from biomed.qa.evaluation import evaluate
from biomed.qa.questions import Question, QuestionSet
from domainbert.statistics.calibration import platt


def test_only_questions_whose_answer_is_known_are_judged(answerer):
    text = "patient at home with insulin"
    asked = [Question(str(n), "was it?", text, f"article {n}", ("insulin",)) for n in range(3)]
    asked[1] = dataclasses.replace(asked[1], is_answered=False, answers=())
    questions = QuestionSet("q", tuple(asked))
    assert evaluate(answerer, questions)["questions"] == 2


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
    assert not none.is_found
