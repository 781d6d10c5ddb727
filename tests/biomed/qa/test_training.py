import dataclasses
import shutil

import pytest
import torch

from biomed.qa.evaluation import evaluate
from biomed.qa.model import QuestionAnswerer, QuestionSettings
from biomed.qa.questions import Question, QuestionError, QuestionSet
from biomed.qa.training import (
    QuestionModelTable,
    QuestionRecipe,
    QuestionTraining,
    fit,
)
from domainbert.errors import UserError

from .conftest import made_up

QUICK = QuestionTraining(
    epochs=5,
    learning_rate=6e-3,
    batch_tokens=512,
    dropout=0.0,
    evaluations=1,
    patience=9,
)
SHORT = QuestionSettings(window=32)


@pytest.fixture(scope="module")
def recipe(tiny_encoder):
    """A recipe for the tiny encoder; `training` and `stages` are those of `QuestionRecipe`."""

    def make(training=QUICK, **stages):
        model = QuestionModelTable(encoder=str(tiny_encoder), window=32)
        return QuestionRecipe(model=model, training=training, stages=stages)

    return make


@pytest.fixture(scope="module")
def held_out():
    return made_up(20, name="held", words=60, seed=9)


@pytest.fixture(scope="module")
def trained(recipe, held_out):
    """An adapter trained in two stages, on short texts and then on long ones."""
    sets = [
        made_up(120, name="general"),
        made_up(120, name="special", words=60, seed=1),
    ]
    return QuestionAnswerer.fit(
        sets, recipe(negatives=[0.0, 2.0]), validation=held_out
    )


def test_it_learns_and_says_how_well(trained, held_out):
    assert trained.manifest.training.validation["f1"] > 0.8
    assert trained.manifest.data.counts == {
        "general, questions for training": 120,
        "special, questions for training": 120,
        "questions held out": 20,
        "articles held out": 20,
    }
    assert [stage.negatives for stage in trained.manifest.training.stages] == [
        0.0,
        2.0,
    ]
    assert evaluate(trained, held_out) == trained.manifest.training.validation
    text = (
        "patient was not stable " * 10
        + "treated insulin at the clinic "
        + "of home " * 20
    )
    (answer,) = trained.answer("treated?", text)
    assert text[answer.start : answer.end] == answer.text == "insulin"


def test_what_is_saved_is_what_was_measured(trained, held_out, tmp_path):
    trained.save_pretrained(tmp_path / "model")
    assert (tmp_path / "model" / "adapter_model.safetensors").is_file()
    assert not (tmp_path / "model" / "model.safetensors").exists()
    again = QuestionAnswerer.from_pretrained(tmp_path / "model")
    assert again.settings == trained.settings
    pairs = [(q.text, q.context) for q in held_out.questions]
    found = [list(a.answer_many(pairs)) for a in (trained, again)]
    assert found[0] == found[1]
    assert evaluate(again, held_out) == trained.manifest.training.validation


def test_merged_weights_load_in_hugging_face(trained, tmp_path):
    from transformers import AutoModelForQuestionAnswering

    trained.save_pretrained(tmp_path / "whole", merged=True)
    theirs = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "whole")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        expected = trained.network(ids)
        torch.testing.assert_close(
            theirs.eval()(ids).start_logits, expected.start_logits
        )
    assert QuestionAnswerer.from_pretrained(tmp_path / "whole").adapter is None


def test_full_weights_train(recipe, held_out):
    full = QUICK.replaced(full=True, learning_rate=2e-3, epochs=1)
    model = fit(
        [made_up(40, name="general")], recipe(full), validation=held_out
    )
    assert model.adapter is None
    assert model.network.dtype == torch.float32


def test_a_run_killed_between_two_stages_resumes(recipe, held_out, tmp_path):
    once = recipe(QUICK.replaced(epochs=1))
    sets = [made_up(40, name=name, seed=n) for n, name in enumerate("ab")]
    options = {"validation": held_out, "checkpoints": tmp_path}
    whole = fit(sets, once, **options)
    shutil.rmtree(tmp_path / "stage-2")
    saved = sorted((tmp_path / "stage-1").rglob("checkpoint-*/*"))
    first = [path.stat().st_mtime_ns for path in saved]
    again = fit(sets, once, **options, resume=True)
    assert sorted((tmp_path / "stage-1").rglob("checkpoint-*/*")) == saved
    assert [
        path.stat().st_mtime_ns for path in saved
    ] == first  # nothing was written anew
    for name, tensor in whole.adapter.tensors.items():
        torch.testing.assert_close(
            again.adapter.tensors[name], tensor, rtol=0, atol=1e-3
        )


def test_other_data_or_settings_do_not_resume(recipe, held_out, tmp_path):
    once = QUICK.replaced(epochs=1)
    data = made_up(40, name="a")
    fit([data], recipe(once), validation=held_out, checkpoints=tmp_path)
    other = made_up(20, name="held", words=60, seed=10)
    changes = [
        ("sha256", recipe(once), made_up(40, name="a", seed=1), held_out),
        ("training.negatives", recipe(once, negatives=[2.0]), data, held_out),
        (
            "training.learning_rate",
            recipe(once.replaced(learning_rate=1)),
            data,
            held_out,
        ),
        ("validation_sha256", recipe(once), data, other),
    ]
    for name, changed, questions, validation in changes:
        options = {
            "validation": validation,
            "checkpoints": tmp_path,
            "resume": True,
        }
        with pytest.raises(UserError, match=rf"made with another .*{name}"):
            fit([questions], changed, **options)


def test_held_out_articles_are_not_trained_on(recipe, held_out, caplog):
    clean = made_up(30, name="general")
    renamed = tuple(
        dataclasses.replace(
            q, context=q.context.upper() + " \n", article="renamed"
        )
        for q in held_out.questions[:3]
    )
    leaking = QuestionSet(
        "general", clean.questions + held_out.questions[:4] + renamed
    )
    once = recipe(QUICK.replaced(epochs=1))
    models = [
        fit([questions], once, validation=held_out)
        for questions in (clean, leaking)
    ]
    assert torch.equal(*(model.network.qa_outputs.weight for model in models))
    assert (
        "general: 7 questions are left out: they share an article with validation"
        in caplog.text
    )


def test_what_cannot_be_trained_on(recipe, held_out):
    nowhere = QuestionSet(
        "gold.json", (Question("1", "a?", "b", "c", ("x",)),)
    )
    with pytest.raises(
        QuestionError,
        match=r"gold.json has 1 questions, but none with an answer",
    ):
        fit([nowhere], recipe(), validation=held_out)
    with pytest.raises(
        UserError,
        match=r"gold.json has no articles to hold out at a share of 0.2",
    ):
        fit(
            [QuestionSet("gold.json", made_up(1, name="held").questions)],
            recipe(),
        )


def test_the_manifest_quotes_nothing(trained):
    document = trained.manifest.model_dump_json()
    assert "insulin" not in document
    assert "treated" not in document


def test_questions_without_an_answer_are_scored_too(trained, held_out):
    text = "patient was stable at home"
    none = tuple(Question(f"n{n}", "treated?", text, "n") for n in range(3))
    scores = evaluate(trained, QuestionSet("x", held_out.questions + none))
    assert (scores["questions"], scores["answerable"]) == (23, 20)
    assert scores["abstained"] is not None
    total = 20 * scores["exact_answerable"] + 3 * scores["abstained"]
    assert scores["exact"] == pytest.approx(total / 23)
