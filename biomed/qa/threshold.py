"""The threshold between an answer and none: what tells right articles from wrong ones best."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.qa.questions import QuestionSet, evenly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from biomed.qa.answerer import QuestionAnswerer
    from biomed.qa.evaluation import Judged
    from biomed.qa.questions import Question


@dataclass(frozen=True)
class NoAnswer:
    """How well a threshold tells whether there is an answer.

    Attributes:
        threshold: a score above it is an answer.
        questions: asked of their own article, and again of another one.
        answered: share with an answer from their own article, in [0, 1].
        abstained: share without one from the other.
    """

    threshold: float
    questions: int
    answered: float
    abstained: float

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)


def find_threshold(answerer: QuestionAnswerer, judged: Sequence[Judged], *, count: int) -> NoAnswer:
    """Ask questions of a wrong article too, and take the threshold that separates best.

    Args:
        answerer: the model.
        judged: questions with the answers from their own articles, whatever these score.
        count: how many questions to ask again, evenly over the articles, at most.

    Returns:
        The threshold with the most right decisions; 0 where all questions are on one article.
    """
    by_id = {j.question.id: j for j in judged if not j.question.is_impossible}
    asked = QuestionSet("", tuple(j.question for j in by_id.values()))
    chosen = [by_id[question.id] for question in evenly(asked, count).questions]
    wrong = [(j, other) for j in chosen if (other := _another_article(j.question, chosen))]
    if not wrong:
        return NoAnswer(0.0, 0, 0.0, 0.0)
    pairs = [(j.question.text, [passage.text for passage in other.passages]) for j, other in wrong]
    elsewhere = np.array([a[0].score for a in answerer.answer_many(pairs, threshold=-math.inf)])
    own = np.array([j.answers[0].score for j, _ in wrong])
    threshold = best_threshold(own, elsewhere)
    return NoAnswer(
        threshold=threshold,
        questions=len(wrong),
        answered=float((own > threshold).mean()),
        abstained=float((elsewhere <= threshold).mean()),
    )


def best_threshold(answerable: np.ndarray, unanswerable: np.ndarray) -> float:
    """The threshold with the best mean of answered and abstained.

    Args:
        answerable: best scores where there is an answer, shape (n,).
        unanswerable: best scores where there is none, shape (m,).

    Returns:
        0, or half-way between two neighbouring scores; of equals the nearest to 0. It is 0 too
        where the scores tell nothing.
    """
    scores = np.unique(np.concatenate((answerable, unanswerable)))
    scores = scores[np.isfinite(scores)]
    thresholds = np.append(0.0, (scores[1:] + scores[:-1]) / 2)
    thresholds = thresholds[np.argsort(np.abs(thresholds), kind="stable")]
    right = [(answerable > t).mean() + (unanswerable <= t).mean() for t in thresholds]
    # One that always answers, or never, comes to 1.
    return float(thresholds[int(np.argmax(right))]) if max(right) > 1 else 0.0


def _another_article(question: Question, judged: Sequence[Judged]) -> Question | None:
    """The next question, counted around, with passages of other articles."""
    place = next(n for n, j in enumerate(judged) if j.question is question)
    around = (judged[(place + step) % len(judged)].question for step in range(1, len(judged)))
    return next((other for other in around if not other.articles & question.articles), None)
