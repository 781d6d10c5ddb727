import pytest

from biomed.qa.evaluation import evaluate
from biomed.qa.model import QuestionAnswerer
from biomed.qa.questions import QuestionError, QuestionSet
from domainbert.statistics.calibration import platt


def test_nothing_to_score_is_said(answerer):
    with pytest.raises(QuestionError, match="q has no questions to score"):
        evaluate(answerer, QuestionSet("q", ()))


def test_a_model_keeps_its_threshold_and_calibration(answerer, tmp_path):
    text = "patient on renal at home"
    assert answerer.answer("was it?", text)[0].is_found
    answerer.save_pretrained(tmp_path / "model")
    again = QuestionAnswerer.from_pretrained(tmp_path / "model")
    assert again.settings == answerer.settings
    again.settings = again.settings.replaced(
        threshold=3.5, calibration=(0.5, -1.0)
    )
    assert not again.answer("was it?", text)[0].is_found
    again.save_pretrained(tmp_path / "model")
    again = QuestionAnswerer.from_pretrained(tmp_path / "model")
    assert again.settings == answerer.settings.replaced(
        threshold=3.5, calibration=(0.5, -1.0)
    )
    (none,) = again.answer("was it?", text)
    assert none.score == pytest.approx(3, abs=1e-3)
    assert none.probability == pytest.approx(platt(none.score, 0.5, -1.0))
    assert not none.is_found
