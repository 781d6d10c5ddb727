"""Fit the threshold and the probability of a question-answering model, as the shipped one has them.

Held-out questions are asked of their own article and of another one. The threshold best tells the
two apart; Platt scaling makes the score the probability that there is an answer.

    python -m recipes.calibrate_answers MODEL QUESTIONS --held-out 0.2 --out MODEL
"""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from biomed.qa.model import NoAnswer, QuestionAnswerer
from biomed.qa.questions import (
    QuestionSet,
    evenly,
    read_questions,
    split_by_article,
)
from domainbert.cli.console import one_line_errors, say
from domainbert.errors import UserError
from domainbert.models.manifest import Calibration
from domainbert.statistics.calibration import (
    calibration_error,
    fit_platt,
    platt,
    reliability_curve,
)

FEWEST_QUESTIONS = 20  # to fit two numbers on
SCORES_NOTE = (
    " The last two columns: questions with an answer, asked of their own article and of another "
    "one, with the model's own threshold, {threshold:.2f}, which was chosen on these."
)
CALIBRATION_NOTE = (
    "`Answer.probability` is Platt scaling of the score (slope {slope:.3f}, intercept "
    "{intercept:.3f}). It was fitted on the {questions} held-out questions that chose the "
    "threshold, each asked of its own article and of another one; so it assumes that half of all "
    "questions have an answer. Of maps fitted on one half of these questions and "
    "measured on the other, the expected calibration error is {error:.3f}."
)
log = logging.getLogger(__name__)


def calibrate(
    model: QuestionAnswerer, questions: QuestionSet, *, choosing: int = 64
) -> None:
    """Fit threshold and probability on at most `choosing` questions; notes go to the manifest."""
    own, elsewhere = ask_elsewhere(model, questions, count=choosing)
    none = find_threshold(own, elsewhere)
    model.settings = model.settings.replaced(
        threshold=none["threshold"], calibration=None
    )
    row = f"{len(own)} of {questions.name}"
    manifest = model.manifest
    manifest.no_answer = NoAnswer(**none)
    manifest.scores.table |= {
        "answered from the right article": {row: none["answered"]},
        "no answer from a wrong one": {row: none["abstained"]},
    }
    note = manifest.scores.note.removesuffix(".").split(
        " The last two columns:"
    )[0]
    manifest.scores.note = note.rstrip(".") + "." + SCORES_NOTE.format(**none)
    manifest.calibration = Calibration()
    if fitted := find_calibration(own, elsewhere):
        slope, intercept = fitted["map"]
        model.settings = model.settings.replaced(
            calibration=(slope, intercept)
        )
        numbers = {"questions": len(own), "error": fitted["error"]}
        note = CALIBRATION_NOTE.format(
            slope=slope, intercept=intercept, **numbers
        )
        manifest.calibration = Calibration(
            note=note, errors={questions.name: numbers}, bins=fitted["bins"]
        )


def ask_elsewhere(
    answerer: QuestionAnswerer, questions: QuestionSet, *, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The best scores of at most `count` questions from their own and from another article.

    Both results have shape (questions,), and are empty if all questions are on one article.
    """
    asked = evenly(
        questions.subset(q for q in questions if q.answers), count
    ).questions
    pairs: list[tuple[str, str]] = []
    for number, question in enumerate(asked):
        following = (*asked[number + 1 :], *asked[:number])
        other = next(
            (o for o in following if o.article != question.article), None
        )
        if other:
            pairs += [
                (question.text, question.context),
                (question.text, other.context),
            ]
    # No answer has the score of the best candidate, whichever would be preferred.
    scores = np.array(
        [a[0].score for a in answerer.answer_many(pairs, threshold=math.inf)]
    )
    return scores[::2], scores[1::2]


def find_threshold(
    own: np.ndarray, elsewhere: np.ndarray, threshold: float | None = None
) -> dict[str, float]:
    """The given threshold, or the one that best tells the two results of `ask_elsewhere` apart.

    Returns:
        "threshold"; "questions"; "answered", the share of questions whose own article gives an
        answer; "abstained", the share of those that get none from another article.
    """
    if threshold is None:
        threshold = best_threshold(own, elsewhere) if len(own) else 0.0
    return {
        "threshold": threshold,
        "questions": len(own),
        "answered": float((own > threshold).sum() / max(len(own), 1)),
        "abstained": float((elsewhere <= threshold).sum() / max(len(own), 1)),
    }


def best_threshold(answerable: np.ndarray, unanswerable: np.ndarray) -> float:
    """The threshold with the best mean of answered and abstained.

    It is 0 or the middle of two neighbouring scores; of equally good ones the nearest to 0, and 0
    if none is better than always or never answering. Both arguments are the best scores of
    questions, shape (n,) and (m,).
    """
    scores = np.unique(np.concatenate((answerable, unanswerable)))
    scores = scores[np.isfinite(scores)]
    thresholds = np.append(0.0, (scores[1:] + scores[:-1]) / 2)
    thresholds = thresholds[np.argsort(np.abs(thresholds), kind="stable")]
    correct = [
        (answerable > t).mean() + (unanswerable <= t).mean()
        for t in thresholds
    ]
    # Always or never answering gives a sum of 1.
    return (
        float(thresholds[int(np.argmax(correct))]) if max(correct) > 1 else 0.0
    )


def find_calibration(
    own: np.ndarray, elsewhere: np.ndarray
) -> dict[str, Any] | None:
    """A map from the scores of `ask_elsewhere` to the probability that there is an answer.

    Returns:
        "map": slope and intercept; "error" and "bins": the expected calibration error, and mean
        probability, share with an answer and number of each bin, by maps fitted on the other half
        of the questions. None with fewer than 20 questions whose scores are finite, or with
        scores that allow no calibration (see `fit_platt`), which is logged.
    """
    finite = np.isfinite(own) & np.isfinite(elsewhere)
    own, elsewhere = own[finite], elsewhere[finite]
    if len(own) < FEWEST_QUESTIONS:
        return None
    scores, right = (
        np.concatenate((own, elsewhere)),
        np.arange(2 * len(own)) < len(own),
    )
    half = np.tile(np.arange(len(own)) % 2 == 0, 2)
    crossed = np.empty(len(scores))
    try:
        for side in (half, ~half):
            crossed[side] = platt(
                scores[side], *fit_platt(scores[~side], right[~side])
            )
        fitted = fit_platt(scores, right)
    except UserError as error:
        log.warning("no calibration: %s", error)
        return None
    bins = reliability_curve(right, crossed, bins=5)[
        ["predicted", "observed", "count"]
    ]
    return {
        "map": fitted,
        "error": calibration_error(right, crossed),
        "bins": [*map(list, bins.itertuples(index=False))],
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
) -> None:
    """Fit threshold and probability on questions that the model was not trained on."""
    loaded, gold = (
        QuestionAnswerer.from_pretrained(model),
        read_questions(questions),
    )
    calibrate(
        loaded, split_by_article(gold, share=held_out)[1] if held_out else gold
    )
    loaded.save_pretrained(out)
    say(f"model in {out}: threshold {loaded.settings.threshold:.2f}")


if __name__ == "__main__":
    typer.run(main)
