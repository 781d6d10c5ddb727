import dataclasses
import json
import shutil
from dataclasses import asdict

import numpy as np
import pytest
import torch

from biomed.qa.answerer import QuestionAnswerer, QuestionSettings
from biomed.qa.evaluation import evaluate, interval, judge, score
from biomed.qa.questions import Passage, Question, QuestionError, QuestionSet, evenly
from biomed.qa.training import QuestionStage, fit
from domainbert.errors import UserError
from domainbert.training.settings import TrainingSettings

from .conftest import made_up

QUICK = TrainingSettings(
    epochs=5, learning_rate=6e-3, batch_tokens=512, dropout=0.0, evaluations=1, patience=9
)
SHORT = QuestionSettings(window=32)


@pytest.fixture(scope="module")
def held_out():
    return made_up(20, name="held", words=60, seed=9)


@pytest.fixture(scope="module")
def trained(tiny_encoder, held_out):
    """An adapter trained in two stages, on short texts and then on long ones."""
    stages = [
        QuestionStage(made_up(120, name="general"), QUICK, negatives=0.0),
        QuestionStage(made_up(120, name="special", words=60, seed=1), QUICK, negatives=2.0),
    ]
    return fit(stages, validation=held_out, encoder=tiny_encoder, settings=SHORT)


def test_it_learns_and_says_how_well(trained, held_out):
    assert trained.manifest["validation"]["f1"] > 0.8
    assert trained.manifest["counts"] == {
        "general, questions for training": 120,
        "special, questions for training": 120,
        "questions held out": 20,
        "articles held out": 20,
    }
    found = trained.manifest["no_answer"]
    assert found["threshold"] == trained.threshold
    assert found["questions"] == 20
    # Any of these articles answers the question, so nothing tells right from wrong.
    assert 0 <= found["answered"] + found["abstained"] <= 2
    assert [facts["negatives"] for facts in trained.manifest["facts"]] == [0.0, 2.0]
    assert asdict(score(judge(trained, held_out))) == trained.manifest["validation"]
    text = "patient was not stable " * 10 + "treated insulin at the clinic " + "of home " * 20
    (answer,) = trained.answer("treated?", text)
    assert text[answer.start : answer.end] == answer.text == "insulin"


def test_what_is_saved_is_what_was_measured(trained, held_out, tmp_path):
    trained.save_pretrained(tmp_path / "model")
    assert (tmp_path / "model" / "adapter.safetensors").is_file()
    assert not (tmp_path / "model" / "model.safetensors").exists()
    again = QuestionAnswerer.from_pretrained(tmp_path / "model")
    assert again.settings == trained.settings
    fitted = {"threshold": trained.threshold, "calibration": trained.settings.calibration}
    assert again.settings == SHORT.replaced(**fitted)
    pairs = [(q.text, q.passages[0].text) for q in held_out.questions]
    found = [list(a.answer_many(pairs)) for a in (trained, again)]
    assert found[0] == found[1]
    found = evaluate(again, held_out)
    assert found["not_scored"] == 0
    assert found["extractive"]["f1"] == trained.manifest["validation"]["f1"]


def test_merged_weights_load_in_hugging_face(trained, tmp_path):
    from transformers import AutoModelForQuestionAnswering

    trained.save_pretrained(tmp_path / "whole", merged=True)
    theirs = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "whole")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        expected = trained.network(ids)
        torch.testing.assert_close(theirs.eval()(ids).start_logits, expected.start_logits)
    assert QuestionAnswerer.from_pretrained(tmp_path / "whole").adapter is None


def test_full_weights_train(tiny_encoder, held_out):
    full = QUICK.replaced(full=True, learning_rate=2e-3, epochs=1)
    stage = QuestionStage(made_up(40, name="general"), full)
    model = fit([stage], validation=held_out, encoder=tiny_encoder, settings=SHORT, choosing=3)
    assert model.adapter is None
    assert model.config.lora is None
    assert model.network.dtype == torch.float32


def test_a_run_killed_between_two_stages_resumes(tiny_encoder, held_out, tmp_path):
    once = QUICK.replaced(epochs=1)
    stages = [QuestionStage(made_up(40, name=name, seed=n), once) for n, name in enumerate("ab")]
    options = {"validation": held_out, "encoder": tiny_encoder, "settings": SHORT}
    whole = fit(stages, **options, checkpoints=tmp_path)
    shutil.rmtree(tmp_path / "stage-2")
    saved = sorted((tmp_path / "stage-1").rglob("checkpoint-*/*"))
    first = [path.stat().st_mtime_ns for path in saved]
    again = fit(stages, **options, checkpoints=tmp_path, resume=True)
    assert sorted((tmp_path / "stage-1").rglob("checkpoint-*/*")) == saved
    assert [path.stat().st_mtime_ns for path in saved] == first  # nothing was written anew
    for name, tensor in whole.adapter.items():
        torch.testing.assert_close(again.adapter[name], tensor, rtol=0, atol=1e-3)


def test_other_data_or_settings_do_not_resume(tiny_encoder, held_out, tmp_path):
    once = QUICK.replaced(epochs=1)
    data = made_up(40, name="a")
    options = {"encoder": tiny_encoder, "settings": SHORT, "checkpoints": tmp_path}
    fit([QuestionStage(data, once)], validation=held_out, **options)
    other = made_up(20, name="held", words=60, seed=10)
    changes = [
        ("sha256", QuestionStage(made_up(40, name="a", seed=1), once), held_out),
        ("negatives", QuestionStage(data, once, negatives=2.0), held_out),
        ("training.learning_rate", QuestionStage(data, once.replaced(learning_rate=1)), held_out),
        ("validation_sha256", QuestionStage(data, once), other),
    ]
    for name, stage, validation in changes:
        with pytest.raises(UserError, match=rf"made with another .*{name}"):
            fit([stage], validation=validation, **options, resume=True)


def test_held_out_articles_are_not_trained_on(tiny_encoder, held_out, caplog):
    clean = made_up(30, name="general")
    renamed = tuple(
        dataclasses.replace(
            question, passages=(Passage(question.passages[0].text.upper() + " \n", "renamed"),)
        )
        for question in held_out.questions[:3]
    )
    leaking = QuestionSet("general", clean.questions + held_out.questions[:4] + renamed)
    one = QUICK.replaced(epochs=1)
    models = [
        fit(
            [QuestionStage(questions, one)],
            validation=held_out,
            encoder=tiny_encoder,
            settings=SHORT,
            choosing=2,
        )
        for questions in (clean, leaking)
    ]
    assert torch.equal(*(model.network.qa_outputs.weight for model in models))
    assert "7 questions share an article with validation and are left out" in caplog.text


def test_what_cannot_be_trained_on(tiny_encoder, held_out):
    asked = QuestionSet(
        "test.json", (Question("1", "a?", (Passage("b", "c"),), is_answered=False),)
    )
    options = {"encoder": tiny_encoder, "settings": SHORT}
    with pytest.raises(QuestionError, match=r"test.json has 1 questions without answers; training"):
        fit([QuestionStage(asked, QUICK)], validation=held_out, **options)
    with pytest.raises(QuestionError, match="without answers; validation needs them"):
        fit([QuestionStage(held_out, QUICK)], validation=asked, **options)
    with pytest.raises(ValueError, match="fit needs at least one stage"):
        fit([], validation=held_out, **options)


def test_the_manifest_quotes_nothing(trained):
    document = json.dumps(trained.manifest)
    assert "insulin" not in document
    assert "treated" not in document


def test_questions_are_taken_evenly_from_articles(held_out):
    first = held_out.questions[0]
    many = tuple(dataclasses.replace(first, id=f"again {n}") for n in range(30))
    chosen = evenly(QuestionSet("x", many + held_out.questions[1:]), 22)
    articles = [question.passages[0].article for question in chosen.questions]
    assert len(articles) == 22
    assert articles.count("held 0") == 3


def test_questions_without_an_answer_are_scored_too(trained, held_out):
    nothing = Passage("patient was stable at home", "n")
    none = tuple(Question(f"n{n}", "treated?", (nothing,)) for n in range(3))
    found = score(judge(trained, QuestionSet("x", held_out.questions + none)))
    assert (found.questions, found.answerable) == (23, 20)
    assert found.abstained is not None
    total = 20 * found.exact_answerable + 3 * found.abstained
    assert found.exact == pytest.approx(total / 23)


def test_the_interval_resamples_groups():
    values = np.array([0.0] * 50 + [1.0] * 50)
    low, high = interval(values, [str(n // 20) for n in range(100)])
    assert low < 0.2
    assert high > 0.8
    # From one or two groups the interval would have no width, or all of it.
    assert interval(values, ["a"] * 100) == (None, None)
    assert interval(values, [str(n // 25) for n in range(100)]) == (None, None)
    low, high = interval(values, [str(n) for n in range(100)])
    assert 0.35 < low < 0.45 < 0.55 < high < 0.65
