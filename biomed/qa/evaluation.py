"""Score a model on questions with known answers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.qa.metrics import RANKED, exact_match, score_factoids, token_f1
from biomed.qa.questions import QuestionError, check_answered, without_articles
from domainbert.console import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from biomed.qa.answerer import QuestionAnswerer
    from biomed.qa.answers import Answer
    from biomed.qa.questions import Question, QuestionSet

RESAMPLES = 1000


@dataclass(frozen=True)
class SpanScores:
    """SQuAD's measures, means over questions.

    Attributes:
        questions: how many were scored.
        exact: exact match, in [0, 1].
        f1: of words, in [0, 1].
        answerable: questions that have an answer.
        exact_answerable: exact match on these; None where there are none.
        f1_answerable: F1 on these.
        abstained: share of the questions without an answer that got none; None: there are none.
        f1_low: lower end of the 95% interval of F1, articles resampled 1,000 times.
        f1_high: its upper end.
    """

    questions: int
    exact: float
    f1: float
    answerable: int
    exact_answerable: float | None
    f1_answerable: float | None
    abstained: float | None
    f1_low: float
    f1_high: float

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Judged:
    """A question, the answers given, and how good the first is."""

    question: Question
    answers: tuple[Answer, ...] = field(repr=False)
    exact: float
    f1: float


def judge(
    answerer: QuestionAnswerer, questions: QuestionSet, *, top_k: int = 1, **options: Any
) -> list[Judged]:
    """Answer the questions whose answer is known and that have a passage, and score each.

    Where every one of them has an answer, the model has to give one (threshold −∞), as in SQuAD
    1.1; else the model's own threshold decides, as in SQuAD 2.0.

    Args:
        answerer: the model.
        questions: of one file.
        top_k: answers kept of each question.
        **options: of `QuestionAnswerer.answer_many`.

    Raises:
        QuestionError: no answer is known.
    """
    check_answered(questions, what="scoring")
    scored = [q for q in questions.questions if q.is_answered and q.passages]
    if not any(q.is_impossible for q in scored):
        options.setdefault("threshold", -math.inf)
    pairs = ((q.text, [passage.text for passage in q.passages]) for q in scored)
    answers = answerer.answer_many(pairs, top_k=top_k, **options)
    return [
        Judged(q, tuple(a), exact_match(a[0].text, q.answers), token_f1(a[0].text, q.answers))
        for q, a in zip(scored, counted(answers, what="answering", total=len(scored)), strict=True)
    ]


def score(judged: Sequence[Judged]) -> SpanScores:
    """The means over questions, and the interval of F1 by article."""
    exact, f1 = np.array([j.exact for j in judged]), np.array([j.f1 for j in judged])
    has = np.array([not j.question.is_impossible for j in judged])
    low, high = interval(f1, [min(j.question.articles) for j in judged])
    return SpanScores(
        questions=len(judged),
        exact=float(exact.mean()),
        f1=float(f1.mean()),
        answerable=int(has.sum()),
        exact_answerable=float(exact[has].mean()) if has.any() else None,
        f1_answerable=float(f1[has].mean()) if has.any() else None,
        abstained=float(exact[~has].mean()) if not has.all() else None,
        f1_low=low,
        f1_high=high,
    )


def interval(
    values: np.ndarray, groups: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """The 95% bootstrap interval of a mean over rows, whole groups of rows resampled.

    Args:
        values: shape (rows,).
        groups: the group of each row.
        resamples: how many times.
        seed: of the choice.
    """
    names, number = np.unique(np.array(groups), return_inverse=True)
    sums, counts = np.bincount(number, weights=values), np.bincount(number)
    chosen = np.random.default_rng(seed).integers(len(names), size=(resamples, len(names)))
    means = sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def evaluate(answerer: QuestionAnswerer, questions: QuestionSet) -> dict[str, Any]:
    """All that can be scored of one file, for JSON.

    Returns:
        "extractive": `SpanScores` of SQuAD files and tables. "factoid": `FactoidScores` of
        BioASQ's factoid questions that have snippets. "not_scored": questions of other kinds,
        without passages, or whose answer is not known.

    Raises:
        QuestionError: no question that can be scored.
    """
    check_answered(questions, what="scoring")
    result: dict[str, Any] = {}
    extractive, factoid = questions.of_kind("extractive"), questions.of_kind("factoid")
    scored = 0
    if any(q.is_answered and q.passages for q in extractive.questions):
        judged = judge(answerer, extractive)
        scored += len(judged)
        result["extractive"] = score(judged).to_dict()
    if any(q.is_answered and q.passages for q in factoid.questions):
        # More than five, as the same words may stand in several snippets.
        judged = judge(answerer, factoid, top_k=4 * RANKED, threshold=-math.inf)
        scored += len(judged)
        ranked = [[answer.text for answer in j.answers] for j in judged]
        result["factoid"] = score_factoids(ranked, [j.question.answers for j in judged]).to_dict()
    if not scored:
        msg = (
            f"{questions.name} has no question that a span of its passages could answer; "
            "yes/no questions are for biomed qa yesno"
        )
        raise QuestionError(msg)
    result["not_scored"] = len(questions) - scored
    return result


def shared_passages(questions: QuestionSet, other: QuestionSet) -> int:
    """Questions that share an article or a passage's text with another file's."""
    return len(questions) - len(without_articles(questions, other))
