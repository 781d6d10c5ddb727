r"""Fit the threshold and the probability of a question-answering model as the shipped one has.

Held-out questions are asked of their own article and of another one, and further questions of
texts with several numbers. The threshold gives the largest share of right answers and refusals.
Platt scaling makes the score of an answer the probability that it is right. In both, each file of
questions weighs the same.

    python -m recipes.calibrate_answers MODEL QUESTIONS --held-out 0.2 --numbers FILE \
        --measure FILE --out MODEL
"""

from __future__ import annotations

import logging
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
import typer

from biomed.qa.evaluation import MIN_ARTICLES, token_f1
from biomed.qa.model import QuestionAnswerer
from biomed.qa.questions import (
    Question,
    QuestionSet,
    evenly,
    read_questions,
    split_by_article,
)
from biomed.qa.spans import NUMBER_MARGIN, asks_number
from domainbert.cli.console import one_line_errors, say
from domainbert.models.manifest import Calibration
from domainbert.statistics.bootstrap import resample
from domainbert.statistics.calibration import (
    calibration_error,
    fit_logistic,
    platt,
    reliability_curve,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from domainbert.statistics.bootstrap import Interval

FEWEST_QUESTIONS = 20  # to fit two numbers on
SURE = 0.8  # probability
SCORES_NOTE = (
    " The last two columns: questions with an answer, asked of their own article and of another "
    "one, with the model's own threshold, {threshold:.2f}, which was chosen on {files}."
)
CALIBRATION_NOTE = (
    "`Answer.probability` is Platt scaling of the score (slope {slope:.3f}, intercept "
    "{intercept:.3f}). It was fitted on the best answers to {questions}, which weigh the same "
    "together; the first were asked of their own article and of another one. An answer is right if "
    "it has the numbers of a gold answer and an F1 of at least a half with it. The table has maps "
    "fitted on one half of the answers and measured on the other. The expected calibration error "
    "is {errors}."
)
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
log = logging.getLogger(__name__)


def calibrate(
    model: QuestionAnswerer,
    questions: QuestionSet,
    numbers: Sequence[QuestionSet] = (),
    *,
    choosing: int = 64,
) -> None:
    """Fit threshold and probability on at most `choosing` questions; notes go to the manifest."""
    own_article, elsewhere = ask_elsewhere(model, questions, count=choosing)
    answers = {}
    if len(own_article):
        answers[questions.name] = pd.concat([own_article, elsewhere])
    for file in numbers:
        # All of them: those without an answer are the last ones of their texts.
        answers[file.name] = ask(model, [(q, q.context) for q in file])
    threshold = best_threshold(answers) if answers else 0.0
    model.settings = model.settings.replaced(
        threshold=threshold, calibration=None
    )
    manifest = model.manifest
    manifest.calibration = Calibration()
    if len(own_article):
        shares = {
            "answered from the right article": own_article["total"]
            > threshold,
            "no answer from a wrong one": elsewhere["total"] <= threshold,
        }
        manifest.scores.add_row(
            f"{len(own_article)} of {questions.name}",
            {name: float(share.mean()) for name, share in shares.items()},
        )
        note = manifest.scores.note.partition(" The last two columns:")[0]
        columns = SCORES_NOTE.format(
            threshold=threshold, files=" and ".join(answers)
        )
        manifest.scores.note = f"{note.rstrip('.')}.{columns}"
    fitted = find_calibration(answers) if answers else None
    if fitted is not None:
        model.settings = model.settings.replaced(calibration=fitted["map"])
        manifest.calibration = Calibration(
            note=calibration_note(fitted, answers),
            errors=fitted["errors"],
            bins=fitted["bins"],
        )


def calibration_note(
    fitted: Mapping[str, Any], answers: Mapping[str, pd.DataFrame]
) -> str:
    """What the card says of a map from `find_calibration` and the answers it was fitted on."""
    slope, intercept = fitted["map"]
    errors = [
        f"{side['error']:.3f} on {name}"
        for name, side in fitted["errors"].items()
    ]
    counts = [f"{len(side)} of {name}" for name, side in answers.items()]
    return CALIBRATION_NOTE.format(
        slope=slope,
        intercept=intercept,
        questions=" and ".join(counts),
        errors=", ".join(errors),
    )


def is_right(text: str, answers: Sequence[str]) -> bool:
    """Whether an answer has the numbers of a gold answer and an F1 of at least a half with it."""
    return any(
        _DIGITS.findall(text) == _DIGITS.findall(answer)
        and token_f1(text, [answer]) >= 0.5
        for answer in answers
    )


def ask(
    answerer: QuestionAnswerer, pairs: Sequence[tuple[Question, str]]
) -> pd.DataFrame:
    """The best candidate for each question from a text.

    Returns:
        `score`; `total`, which the threshold is compared with; `is_answerable`, false for a
        question without an answer and for a text that is not the question's own; and `right`.
    """
    texts = [(question.text, context) for question, context in pairs]
    best = [
        answers[0]
        for answers in answerer.answer_many(texts, threshold=-math.inf)
    ]
    answerable = [
        context == question.context and bool(question.answers)
        for question, context in pairs
    ]
    right = [
        is_answerable and is_right(answer.text, question.answers)
        for is_answerable, answer, (question, _) in zip(
            answerable, best, pairs, strict=True
        )
    ]
    scores = np.array([answer.score for answer in best])
    is_number = np.array([asks_number(question.text) for question, _ in pairs])
    columns = {
        "score": scores,
        "total": scores + NUMBER_MARGIN * is_number,
        "is_answerable": answerable,
        "right": right,
    }
    return pd.DataFrame(columns)


def ask_elsewhere(
    answerer: QuestionAnswerer, questions: QuestionSet, *, count: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What `ask` gives for at most `count` questions on their own and on another article.

    Both results are empty if all questions are on one article.
    """
    answerable = questions.subset(q for q in questions if q.answers)
    asked = evenly(answerable, count).questions
    pairs: list[tuple[Question, str]] = []
    for number, question in enumerate(asked):
        following = (*asked[number + 1 :], *asked[:number])
        other = next(
            (o for o in following if o.article != question.article), None
        )
        if other:
            pairs += [(question, question.context), (question, other.context)]
    answers = ask(answerer, pairs)
    return answers[::2], answers[1::2]


def best_threshold(answers: Mapping[str, pd.DataFrame]) -> float:
    """The threshold with the most right answers and right refusals; each file weighs the same.

    It is 0 or the middle of two neighbouring totals; of equally good ones the nearest to 0.

    Args:
        answers: what `ask` gave for each file.
    """
    totals = np.unique(pd.concat(answers)["total"])
    totals = totals[np.isfinite(totals)]
    thresholds = np.append(0.0, (totals[1:] + totals[:-1]) / 2)
    thresholds = thresholds[np.argsort(np.abs(thresholds), kind="stable")]
    shares = [
        np.mean([right_share(part, value) for part in answers.values()])
        for value in thresholds
    ]
    return float(thresholds[np.argmax(shares)])


def right_share(answers: pd.DataFrame, threshold: float) -> float:
    """The share of answers above a threshold that are right, or below it rightly refused."""
    is_accepted = answers["total"] > threshold
    is_right = np.where(
        answers["is_answerable"], answers["right"] & is_accepted, ~is_accepted
    )
    return float(is_right.mean())


def find_calibration(
    answers: Mapping[str, pd.DataFrame],
) -> dict[str, Any] | None:
    """A map from scores to the probability that an answer is right; each file weighs the same.

    Args:
        answers: what `ask` gave for each file.

    Returns:
        "map": slope and intercept. By maps fitted on the other half of the answers: "errors",
        the number of answers and the expected calibration error of each file, and "bins", mean
        probability, share that is right and number. None with fewer than 20 answers, or with
        scores that allow no calibration (see `fit_platt`), which is logged.
    """
    together = pd.concat(answers, names=["file"])
    if len(together) < FEWEST_QUESTIONS:
        return None
    scores = together["score"].to_numpy()
    right = together["right"].to_numpy(dtype=bool)
    files = together.index.get_level_values("file")
    weights = 1 / files.map(files.value_counts()).to_numpy(dtype=float)
    # Halves of questions: the answers from the own and the other article stay together.
    half = together.groupby("file").cumcount().to_numpy() // 2 % 2 == 0
    crossed = np.empty(len(together))
    for side in (half, ~half):
        fitted = fit_logistic(scores[~side], right[~side], weights[~side])
        if fitted is None:
            log.warning("no calibration: the scores tell all answers apart")
            return None
        crossed[side] = platt(scores[side], *fitted)
    bins = reliability_curve(right, crossed, bins=5)[
        ["predicted", "observed", "count"]
    ]
    errors = {
        name: {
            "questions": int((files == name).sum()),
            "error": calibration_error(
                right[files == name], crossed[files == name]
            ),
        }
        for name in answers
    }
    return {
        "map": fit_logistic(scores, right, weights),
        "errors": errors,
        "bins": [*map(list, bins.itertuples(index=False))],
    }


def measure(
    model: QuestionAnswerer, questions: QuestionSet
) -> dict[str, Interval]:
    """How often answers are right, and how often they are wrong but sure, with intervals.

    "right" counts questions without an answer that get none. "wrong, probability over 0.8" is a
    share of all questions, and "right, probability over 0.8" of the answers that are so sure.
    """
    pairs = [(question.text, question.context) for question in questions]
    best = [answers[0] for answers in model.answer_many(pairs)]
    right = np.array(
        [
            is_right(answer.text, question.answers)
            or not (answer.is_found or question.answers)
            for answer, question in zip(best, questions, strict=True)
        ]
    )
    sure = np.array([a.is_found and (a.probability or 0) > SURE for a in best])
    texts = [question.context for question in questions]
    _, groups = np.unique(texts, return_inverse=True)

    def share(counted: np.ndarray, among: np.ndarray) -> Interval:
        return resample(
            lambda weights: (weights @ counted) / max(weights @ among, 1),
            groups,
            fewest=MIN_ARTICLES,
        ).interval()

    everything = np.ones(len(right))
    return {
        "right": share(right, everything),
        f"wrong, probability over {SURE}": share(sure & ~right, everything),
        f"right of those over {SURE}": share(sure & right, sure),
    }


@one_line_errors
def main(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model folder.")
    ],
    questions: Annotated[
        Path,
        typer.Argument(metavar="QUESTIONS", help="SQuAD JSON or a table."),
    ],
    out: Annotated[
        Path, typer.Option(help="The model folder to write; may be MODEL.")
    ],
    held_out: Annotated[
        float | None,
        typer.Option(
            help="Only the articles that training held out at this share."
        ),
    ] = None,
    numbers: Annotated[
        list[Path] | None,
        typer.Option(help="More questions to fit the probability on."),
    ] = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option("--measure", help="Questions to measure on."),
    ] = None,
) -> None:
    """Fit threshold and probability on questions that the model was not trained on."""
    loaded = QuestionAnswerer.from_pretrained(model)
    gold = read_questions(questions)
    if held_out:
        _, gold = split_by_article(gold, share=held_out)
    calibrate(loaded, gold, [read_questions(path) for path in numbers or []])
    for path in measured or []:
        side = read_questions(path)
        row = f"{len(side)} questions of {path.name}"
        loaded.manifest.scores.add_row(row, measure(loaded, side))
    loaded.save_pretrained(out)
    say(f"model in {out}: threshold {loaded.settings.threshold:.2f}")


if __name__ == "__main__":
    typer.run(main)
