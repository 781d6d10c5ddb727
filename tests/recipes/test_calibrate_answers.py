import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from biomed.qa.model import (
    QuestionAnswerer,
    QuestionSettings,
)
from biomed.qa.questions import Question, QuestionSet
from domainbert.models.manifest import Manifest
from domainbert.models.storage import read_manifest
from domainbert.statistics.calibration import platt
from recipes import calibrate_answers
from recipes.calibrate_answers import (
    ask,
    ask_elsewhere,
    best_threshold,
    calibrate,
    find_calibration,
    is_right,
    measure,
    right_share,
)


def answered(scores, right, answerable):
    columns = {"right": right, "is_answerable": answerable}
    table = pd.DataFrame(columns).astype(bool)
    values = np.array(scores, dtype=float)
    return table.assign(score=values, total=values)


ANSWERS = st.lists(
    st.sampled_from([(0, 0), (0, 1), (1, 1)]).flatmap(
        lambda kind: st.integers(-5, 5).map(lambda score: (score, *kind))
    ),
    min_size=1,
    max_size=12,
).map(lambda rows: answered(*zip(*rows, strict=True)))


@given(st.lists(ANSWERS, min_size=1, max_size=3))
def test_no_threshold_between_two_scores_is_better(parts):
    def mean_share(threshold):
        return np.mean([right_share(part, threshold) for part in parts])

    scores = pd.concat(parts)["score"]
    between = np.arange(scores.min(), scores.max(), 0.25)
    best = max(map(mean_share, [0, *between]))
    threshold = best_threshold(dict(enumerate(parts)))
    assert mean_share(threshold) == pytest.approx(best)


def test_right_answers_and_right_refusals_count():
    answers = answered([9, 5, 1, -1, -5], [1, 1, 0, 1, 0], [1, 1, 1, 1, 0])
    assert right_share(answers, 0.0) == pytest.approx(3 / 5)
    assert right_share(answers, -3.0) == pytest.approx(4 / 5)
    assert best_threshold({"q": answers}) == -3
    assert right_share(answers, 9.0) == pytest.approx(1 / 5)


def test_each_file_weighs_the_same():
    low = answered([4.0, 2.0], [1, 1], [1, 1])
    high = answered([3.0], [0], [0])
    together = {"low": low, "high": pd.concat([high] * 50)}
    assert right_share(low, 2.5) == 0.5
    assert best_threshold(together) == 3.5
    answers = together | {"low again": low}
    assert best_threshold(answers) == 0
    assert best_threshold(answers | {"high again": high}) == 3.5


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
    own, elsewhere = ask_elsewhere(answerer, questions, count=9)
    assert own["score"].round().tolist() == [7, -1, 7, -5]
    assert own["is_answerable"].all()
    assert elsewhere["score"].round().tolist() == [-1, 7, -5, 7]
    assert not elsewhere[["is_answerable", "right"]].any(axis=None)


def test_one_article_tells_nothing(answerer):
    asked = (question(1, "a", "insulin"), question(2, "a", "renal"))
    questions = QuestionSet("q", asked)
    assert list(map(len, ask_elsewhere(answerer, questions, count=9))) == [
        0,
        0,
    ]
    calibrate(answerer, questions)
    assert answerer.settings.threshold == 0
    assert "no answer from a wrong one" not in answerer.manifest.scores.table


@pytest.mark.parametrize(
    ("text", "answers", "right"),
    [
        ("80 mg", ["80 mg daily"], True),
        ("300 mg", ["80 mg"], False),
        ("4.1%", ["41%"], False),
        ("of the 80 who were at home and well", ["80"], False),
        ("two doses", ["two"], True),
        ("Twelve", ["one"], False),
        ("", ["one"], False),
        ("none", [], False),
    ],
)
def test_a_right_answer_has_the_right_number(text, answers, right):
    assert is_right(text, answers) == right


def test_an_answer_from_another_text_is_wrong(answerer):
    asked = question(1, "a", "insulin")
    answers = ask(answerer, [(asked, asked.context), (asked, "on insulin")])
    assert answers["right"].tolist() == [True, False]
    assert answers["score"].tolist() == pytest.approx([7, 7], abs=1e-3)
    assert answers["total"].tolist() == answers["score"].tolist()
    assert answerer.settings.calibration is None


def test_a_number_that_is_asked_for_is_accepted_below_the_threshold(answerer):
    """As `answer_many` does, so that the threshold is chosen for what it decides."""
    asked = Question("1", "how many?", "patient at home with 3", "a", ("3",))
    answers = ask(answerer, [(asked, asked.context)])
    (total,) = answers["total"]
    assert total == answers["score"][0] + 4
    for threshold, is_found in ((total - 0.1, True), (total + 0.1, False)):
        (found,) = answerer.answer(
            asked.text, asked.context, threshold=threshold
        )
        assert found.is_found == is_found


def frame(scores, right):
    return answered(scores, right, [True] * len(scores))


def test_a_probability_is_fitted_on_answers_that_weigh_the_same_by_file():
    rng = np.random.default_rng(0)
    sides = {}
    for name, size in (("few", 3000), ("several", 6000)):
        scores = rng.normal(0, 3, size)
        right = rng.uniform(size=size) < platt(scores, 0.8, 0.5)
        sides[name] = frame(scores, right)
    found = find_calibration(sides)
    assert found["map"] == pytest.approx((0.8, 0.5), abs=0.06)
    assert found["errors"]["several"]["questions"] == 6000
    assert all(side["error"] < 0.03 for side in found["errors"].values())
    assert sum(number for *_, number in found["bins"]) == 9000
    assert all(abs(mean - share) < 0.06 for mean, share, _ in found["bins"])
    # The same answers three times in a file of their own change nothing.
    sides["several"] = pd.concat([sides["several"]] * 3)
    assert find_calibration(sides)["map"] == pytest.approx(found["map"])


def test_too_few_answers_or_none_that_differ_give_no_probability():
    assert find_calibration({"q": frame([1.0] * 19, [True] * 19)}) is None
    assert find_calibration({"q": frame([1.0] * 30, [True] * 30)}) is None


def test_sure_and_wrong_answers_are_counted(answerer):
    sure = QuestionAnswerer(
        answerer.network,
        answerer.tokenizer,
        settings=answerer.settings.replaced(calibration=(1.0, 0.0)),
    )
    right = [question(n, f"a{n}", "insulin") for n in range(6)]
    wrong = dataclasses.replace(right[0], id="w", answers=("renal",))
    none = dataclasses.replace(
        right[0], id="n", answers=(), context="patient at home"
    )
    found = measure(sure, QuestionSet("q", (*right, wrong, none)))
    assert [round(share.value, 3) for share in found.values()] == [
        0.875,
        0.125,
        0.857,
    ]


def test_the_model_and_its_card_have_what_was_fitted(
    answerer, tmp_path, monkeypatch
):
    rng = np.random.default_rng(0)
    scores = rng.normal(2, 2, 30), rng.normal(-2, 2, 30)
    sides = [
        frame(values, rng.uniform(size=30) < share)
        for values, share in zip(scores, (0.9, 0.1), strict=True)
    ]
    monkeypatch.setattr(
        calibrate_answers, "ask_elsewhere", lambda *_, **__: sides
    )
    answerer.save_pretrained(tmp_path / "model")
    (tmp_path / "q.csv").write_text(
        "question,context,answer\nwas it?,insulin,insulin\n"
    )
    app = calibrate_answers.typer.Typer()
    app.command()(calibrate_answers.main)
    paths = [str(tmp_path / name) for name in ("model", "q.csv")]
    result = CliRunner().invoke(
        app,
        [*paths, "--out", str(tmp_path / "fitted"), "--measure", paths[1]],
    )
    assert result.exit_code == 0, result.output
    fitted = json.loads((tmp_path / "fitted" / "config.json").read_text())[
        "domainbert"
    ]
    manifest = read_manifest(tmp_path / "fitted", Manifest)
    assert "30 of q.csv" in manifest.scores.table["no answer from a wrong one"]
    threshold = fitted["settings"]["threshold"]
    assert f"threshold, {threshold:.2f}, which" in manifest.scores.note
    slope, intercept = fitted["settings"]["calibration"]
    card = (tmp_path / "fitted" / "README.md").read_text()
    assert f"slope {slope:.3f}, intercept {intercept:.3f}" in card
    assert "fitted on the best answers to 60 of q.csv" in card
    assert "| probability | right | answers |" in card
    assert "| 1 questions of q.csv |" in card
    assert "no answer from a wrong one" in card


def test_too_few_questions_give_a_threshold_alone(answerer):
    asked = [
        question(n, f"article {n}", word)
        for n, word in enumerate(["insulin", "kidney"])
    ]
    calibrate(answerer, QuestionSet("q", tuple(asked)))
    assert answerer.settings.calibration is None
    assert answerer.settings.threshold in (3.0, 0.0)


def test_questions_without_an_answer_calibrate_too(answerer, monkeypatch):
    """They are the last ones of a text; without them, the probability is too high."""
    asked = [
        dataclasses.replace(
            question(n, f"article {n % 2}", "insulin"),
            answers=("insulin",) if n < 600 else (),
        )
        for n in range(700)
    ]
    rows = []

    def read(_, pairs):
        rows.extend(pairs)
        return frame([1.0] * len(pairs), [True] * len(pairs))

    monkeypatch.setattr(calibrate_answers, "ask", read)
    own = QuestionSet("own", tuple(asked[:2]))
    calibrate(answerer, own, [QuestionSet("numbers", tuple(asked))])
    assert sum(not pair[0].answers for pair in rows) == 100
