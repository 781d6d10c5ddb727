import dataclasses
import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from biomed.qa.commands import app
from biomed.qa.decisions import LABELS, DecisionQuestion
from biomed.qa.questions import QuestionError
from biomed.qa.yes_no import YesNoAnswerer, YesNoSettings
from biomed.qa.yes_no_fitting import (
    cross_validate,
    decision_loss,
    evaluate_decisions,
    fit_decisions,
)
from domainbert.encoders import EncoderError
from domainbert.training.settings import TrainingSettings

QUICK = TrainingSettings(
    epochs=6, learning_rate=6e-3, batch_tokens=512, dropout=0.0, evaluations=1, patience=9
)
WORDS = {"yes": "stable", "no": "pain", "maybe": "fever"}
SHORT = YesNoSettings(window=32)


def made_up(count, *, seed=0):
    """The label is a word of the context."""
    generator = np.random.default_rng(seed)
    questions = []
    for number in range(count):
        label = LABELS[number % 3]
        words = [str(w) for w in generator.choice(["patient", "home", "was", "the"], 12)]
        words[int(generator.integers(12))] = WORDS[label]
        questions.append(DecisionQuestion(f"{seed}-{number}", "was it?", " ".join(words), label))
    return questions


@pytest.fixture(scope="module")
def trained(tiny_encoder):
    return fit_decisions(
        made_up(120),
        validation=made_up(30, seed=1),
        encoder=tiny_encoder,
        training=QUICK,
        settings=SHORT,
    )


def test_it_learns(trained):
    scores = evaluate_decisions(trained, made_up(30, seed=2))
    assert scores.accuracy > 0.9
    decision = trained.decide("was it?", "patient at home with pain")
    assert decision.label == "no"
    assert decision.probabilities["no"] == max(decision.probabilities.values())
    assert sum(decision.probabilities.values()) == pytest.approx(1)
    assert list(decision.probabilities) == list(LABELS)


def test_windows_of_a_long_context_are_averaged(tokenizer, new_network):
    network = new_network(labels=3)
    model = YesNoAnswerer(network, tokenizer, settings=YesNoSettings(window=24, overlap=4))
    question, context = "was it?", "patient with heart failure at home, " * 6
    windows = model.windows(question, context)
    assert len(windows) > 3
    logits = []
    for ids, segments in windows:
        inputs = torch.tensor(ids)[None], torch.tensor(segments)[None]
        with torch.inference_mode():
            output = network(inputs[0], token_type_ids=inputs[1])
        logits.append(output.logits[0].numpy())
    expected = torch.tensor(np.mean(logits, axis=0)).softmax(dim=0).tolist()
    found = model.decide(question, context)
    assert list(found.probabilities.values()) == pytest.approx(expected, abs=1e-5)
    pairs = [(question, context), (question, "at home"), (question, "x " * 90)]
    together = list(model.decide_many(pairs))
    for pair, decision in zip(pairs, together, strict=True):
        alone = model.decide(*pair)
        assert decision.probabilities == pytest.approx(alone.probabilities, abs=1e-5)


def test_the_loss_is_that_of_the_mean_logits():
    logits = torch.tensor([[2.0, 0, 0], [0, 2.0, 0], [0, 0, 3.0]])
    loss = decision_loss(logits, torch.tensor([0, 0, 1]), torch.tensor([0.0, 2.0]))
    means = torch.tensor([[1.0, 1.0, 0], [0, 0, 3.0]])
    expected = -means.log_softmax(dim=1)[[0, 1], [0, 2]].mean()
    assert loss == pytest.approx(float(expected))


def test_segments_in_training_are_those_of_prediction(trained, tiny_encoder, monkeypatch):
    """The trainer tells question from context by [SEP]; the model's reader counts tokens."""
    from biomed.qa.yes_no_fitting import DecisionTrainer

    seen = {}

    def spy(self, model, inputs, **_):
        class Recorder:
            def __call__(self, **given):
                seen[given["input_ids"].numpy().tobytes()] = given
                return model(**given)

        return original(self, Recorder(), inputs)

    original = DecisionTrainer.compute_loss
    monkeypatch.setattr(DecisionTrainer, "compute_loss", spy)
    one = dataclasses.replace(QUICK, epochs=1, batch_size=1)
    questions = made_up(3)
    fit_decisions(
        questions, validation=questions, encoder=tiny_encoder, training=one, settings=SHORT
    )
    for question in questions:
        ((ids, segments),) = trained.windows(question.text, question.context)
        given = seen[ids[None].tobytes()]
        assert given["token_type_ids"].tolist() == [segments.tolist()]


def test_it_is_saved_and_loads(trained, tmp_path, tiny_encoder):
    trained.save_pretrained(tmp_path / "model")
    again = YesNoAnswerer.from_pretrained(tmp_path / "model")
    assert again.settings == SHORT
    pairs = [(q.text, q.context) for q in made_up(9, seed=5)]
    assert list(again.decide_many(pairs)) == list(trained.decide_many(pairs))
    with pytest.raises(EncoderError, match=r"without a trained head.*biomed qa yesno train QUEST"):
        YesNoAnswerer.from_pretrained(tiny_encoder)


def test_every_question_is_scored_by_a_model_that_never_saw_it(tiny_encoder):
    """Labels by chance: a model that saw them would do far better than a third."""
    generator = np.random.default_rng(0)
    random = [
        dataclasses.replace(q, label=str(generator.choice(LABELS)), context=f"patient {q.id} was")
        for q in made_up(60)
    ]
    one = dataclasses.replace(QUICK, epochs=2)
    options = {"encoder": tiny_encoder, "training": one, "settings": SHORT}
    model, scores = cross_validate(random, count=3, **options)
    assert scores.questions == 60
    assert scores.accuracy < 0.6
    assert model.manifest["counts"] == {
        "questions for training": 20,
        "to choose weights": 20,
    }


def test_the_commands(tiny_encoder, tmp_path):
    document = {
        q.id: {"QUESTION": q.text, "CONTEXTS": [q.context], "final_decision": q.label}
        for q in made_up(30)
    }
    (tmp_path / "p.json").write_text(json.dumps(document))
    (tmp_path / "r.toml").write_text('[model]\nwindow = 32\n[card]\ntitle = "Small"\n')
    model = str(tmp_path / "model")
    arguments = ["yesno", "train", str(tmp_path / "p.json"), "--out", model, "--folds", "3"]
    arguments += ["--recipe", str(tmp_path / "r.toml"), "--encoder", str(tiny_encoder)]
    result = CliRunner().invoke(app, [*arguments, "--epochs", "1"])
    assert result.exit_code == 0, result.output
    assert "3 folds: accuracy 0." in result.output
    card = (tmp_path / "model" / "README.md").read_text()
    assert "# Small" in card
    assert "3-fold cross-validation over 30 questions" in card
    arguments = ["yesno", "evaluate", str(tmp_path / "p.json"), "--model", model]
    result = CliRunner().invoke(app, [*arguments, "--json", str(tmp_path / "s.json")])
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "s.json").read_text())["questions"] == 30
    assert "macro F1" in result.output


def test_what_cannot_be_decided(trained):
    unlabelled = [dataclasses.replace(q, label=None) for q in made_up(2)]
    with pytest.raises(QuestionError, match=r"2 of 2 questions have no label \(a test file"):
        evaluate_decisions(trained, unlabelled)
    with pytest.raises(ValueError, match="the question of pair number 0 is empty"):
        trained.decide("", "text")
    with pytest.raises(ValueError, match="the context of pair number 0 is NoneType, not a string"):
        trained.decide("was it?", None)
    with pytest.raises(ValueError, match="has 40 tokens; beside a window of 32"):
        trained.decide("was " * 40, "text")
