import json
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from biomed.qa.commands import app
from biomed.qa.questions import QuestionError
from biomed.qa.yes_no import (
    LABELS,
    YesNoAnswerer,
    YesNoModelTable,
    YesNoRecipe,
    cross_validate,
    evaluate_decisions,
    folds,
    read_decisions,
    score_decisions,
)
from domainbert.encoders import EncoderError
from domainbert.pairs import PairSettings
from domainbert.training.settings import TrainingSettings

QUICK = TrainingSettings(
    epochs=14, learning_rate=6e-3, batch_size=8, dropout=0.0, evaluations=1, patience=9
)
WORDS = {"yes": "stable", "no": "pain", "maybe": "fever"}


def recipe(encoder, **training):
    table = YesNoModelTable(encoder=str(encoder), window=32)
    return YesNoRecipe(model=table, training=QUICK.replaced(**training))


def made_up(count, *, seed=0):
    """The label is a word of the context."""
    generator = np.random.default_rng(seed)
    questions = []
    for number in range(count):
        label = LABELS[number % 3]
        words = [str(w) for w in generator.choice(["patient", "home", "was", "the"], 12)]
        words[int(generator.integers(12))] = WORDS[label]
        questions.append((f"was {number % 9} it?", " ".join(words), label))
    return questions


@pytest.fixture(scope="module")
def trained(tiny_encoder):
    return cross_validate(made_up(240), recipe(tiny_encoder), count=3)


def test_it_learns(trained):
    assert trained.manifest["cross_validation"]["accuracy"] > 0.9
    assert evaluate_decisions(trained, made_up(30, seed=2))["accuracy"] > 0.9
    question, context, label = made_up(2, seed=3)[1]
    decision = trained.decide(question, context)
    assert decision.label == label == "no"
    assert decision.probabilities["no"] == max(decision.probabilities.values())
    assert sum(decision.probabilities.values()) == pytest.approx(1)
    assert list(decision.probabilities) == list(LABELS)


def test_it_is_saved_and_loads(trained, tmp_path, tiny_encoder):
    trained.save_pretrained(tmp_path / "model")
    again = YesNoAnswerer.from_pretrained(tmp_path / "model")
    assert again.settings == trained.settings == PairSettings(window=32)
    pairs = [(question, context) for question, context, _ in made_up(9, seed=5)]
    found = [[r.logits for r in model.predict_many(pairs)] for model in (trained, again)]
    assert np.array_equal(*found)
    assert "YesNoAnswerer.from_pretrained" in (tmp_path / "model" / "README.md").read_text()
    with pytest.raises(EncoderError, match=r"without a trained head.*biomed qa yesno train QUEST"):
        YesNoAnswerer.from_pretrained(tiny_encoder)


def test_windows_of_a_long_context_are_averaged(tokenizer, new_network):
    network = new_network(labels=3)
    settings = PairSettings(window=24, overlap=4)
    model = YesNoAnswerer(network, tokenizer, settings=settings)
    question, context = "was it?", "patient with heart failure at home, " * 6
    windows = model.windower.split(question, context)
    assert len(windows) > 3
    logits = []
    for window in windows:
        inputs = torch.tensor(window.input_ids)[None], torch.tensor(window.segments)[None]
        with torch.inference_mode():
            output = network(inputs[0], token_type_ids=inputs[1])
        logits.append(output.logits[0].numpy())
    expected = torch.tensor(np.mean(logits, axis=0)).softmax(dim=0).tolist()
    assert list(model.decide(question, context).probabilities.values()) == pytest.approx(
        expected, abs=1e-5
    )


def test_every_question_is_scored_by_a_model_that_never_saw_it(tiny_encoder):
    """Labels by chance: a model that saw them would do far better than a third."""
    generator = np.random.default_rng(0)
    random = [
        ("was it?", f"patient {number} was", str(generator.choice(LABELS))) for number in range(60)
    ]
    model = cross_validate(random, recipe(tiny_encoder, epochs=2), count=3)
    scores = model.manifest["cross_validation"]
    assert scores["questions"] == 60
    assert scores["accuracy"] < 0.6


def pubmedqa(**change):
    one = {"QUESTION": "Is it?", "CONTEXTS": ["a", "b"], "final_decision": "maybe"}
    return {"7": {**one, **change}}


def bioasq(**change):
    snippets = [{"text": "a", "document": "u"}, {"text": "b", "document": "v"}]
    one = {"id": 7, "type": "yesno", "body": "Is it?", "snippets": snippets, "exact_answer": "Yes"}
    factoid = {"id": "8", "type": "factoid", "body": "What?"}
    return {"questions": [{**one, **change}, factoid]}


@pytest.mark.parametrize(("document", "label"), [(pubmedqa(), "maybe"), (bioasq(), "yes")])
def test_both_formats(tmp_path, document, label):
    (tmp_path / "q.json").write_text(json.dumps(document))
    (only,) = read_decisions(tmp_path / "q.json")
    assert only == ("Is it?", "a\nb", label)


NOT_ANSWERED = "1 yes/no questions are not answered by yes, no, maybe"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (pubmedqa(final_decision="perhaps"), NOT_ANSWERED),
        (pubmedqa(final_decision=None), NOT_ANSWERED),
        (pubmedqa(QUESTION=" "), "q.json: question 0: QUESTION: empty"),
        (pubmedqa(CONTEXTS="a"), "q.json: question 0: CONTEXTS: expected list, got str"),
        (pubmedqa(CONTEXTS=[]), "1 yes/no questions have no context"),
        (bioasq(exact_answer=["yes", "no"]), NOT_ANSWERED),
        (bioasq(exact_answer=None), NOT_ANSWERED),
        (bioasq(snippets=None), "1 yes/no questions have no context"),
        (bioasq(type=None), r"questions\[0\].type: expected string, got NoneType"),
        ({"questions": []}, "has no yes/no question"),
        ({"questions": bioasq()["questions"] * 2}, "2 ids are given to several questions"),
        ([], "or PubMedQA .questions by PubMed id. JSON"),
        ({"x": 3}, "q.json: question 0: expected an object, got int"),
    ],
)
def test_what_cannot_be_read(tmp_path, document, message):
    (tmp_path / "q.json").write_text(json.dumps(document))
    with pytest.raises(QuestionError, match=message):
        read_decisions(tmp_path / "q.json")


@given(st.lists(st.sampled_from(LABELS), min_size=2, max_size=60), st.data())
def test_folds_share_labels_evenly_and_do_not_depend_on_order(labels, data):
    questions = [(str(n), "c", label) for n, label in enumerate(labels)]
    count = data.draw(st.integers(2, len(questions)))
    dealt = folds(questions, count=count)
    assert sorted(q for fold in dealt for q in fold) == sorted(questions)
    for label in set(labels):
        each = [Counter(each for *_, each in fold)[label] for fold in dealt]
        assert max(each) - min(each) <= 1
    assert folds(questions[::-1], count=count) == dealt


def test_too_many_folds():
    with pytest.raises(ValueError, match="folds must be between 2 and the 1 questions, got 2"):
        folds([("q", "c", "yes")], count=2)


def test_scores_by_hand():
    scores = score_decisions(["yes", "yes", "no", "yes"], ["yes", "no", "no", "maybe"])
    assert (scores["questions"], scores["accuracy"]) == (4, 0.5)
    assert scores["f1"] == pytest.approx({"yes": 0.5, "no": 2 / 3, "maybe": 0})
    assert scores["macro_f1"] == pytest.approx((0.5 + 2 / 3) / 3)


@pytest.mark.data
def test_the_shared_file(data_folder):
    questions = read_decisions(data_folder / "qa" / "pubmedqa_labeled.json")
    assert Counter(label for *_, label in questions) == {"yes": 552, "no": 338, "maybe": 110}
    assert {len(fold) for fold in folds(questions, count=10)} == {100}


def test_the_commands(tiny_encoder, tmp_path):
    document = {
        str(number): {"QUESTION": question, "CONTEXTS": [context], "final_decision": label}
        for number, (question, context, label) in enumerate(made_up(30))
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
    with pytest.raises(ValueError, match="first text of pair number 0 is empty"):
        trained.decide("", "text")
    with pytest.raises(ValueError, match="second text of pair number 0 is NoneType, expected a s"):
        trained.decide("was it?", None)
    with pytest.raises(ValueError, match="has 40 tokens; with windows of 32 tokens"):
        trained.decide("was " * 40, "text")
