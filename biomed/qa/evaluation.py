"""Score a model on questions with known answers, and choose its threshold."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.qa.metrics import RANKED, exact_match, score_factoids, token_f1
from biomed.qa.questions import QuestionError, QuestionSet, check_answered, evenly
from domainbert.console import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from biomed.qa.answerer import Answer, QuestionAnswerer
    from biomed.qa.questions import Question

RESAMPLES = 1000
FEWEST_GROUPS = 5  # an interval from fewer says nothing


@dataclass(frozen=True)
class SpanScores:
    """SQuAD's measures, means over questions.

    Attributes:
        questions: number of questions.
        exact: exact match, in [0, 1].
        f1: F1 of words, in [0, 1].
        answerable: number of questions with an answer.
        exact_answerable: exact match on these; None if there are none.
        f1_answerable: F1 on these.
        abstained: share of the questions without an answer that got none; None if all have one.
        f1_low: lower end of the 95% interval of F1, from 1,000 resamples of articles; None with
            fewer than 5 articles.
        f1_high: its upper end.
    """

    questions: int
    exact: float
    f1: float
    answerable: int
    exact_answerable: float | None
    f1_answerable: float | None
    abstained: float | None
    f1_low: float | None
    f1_high: float | None


@dataclass(frozen=True, eq=False)
class Judged:
    """A question, the model's answers, and the scores of the first one."""

    question: Question
    answers: tuple[Answer, ...] = field(repr=False)
    exact: float
    f1: float


def judge(
    answerer: QuestionAnswerer, questions: QuestionSet, *, top_k: int = 1, **options: Any
) -> list[Judged]:
    """Answer the scorable questions and score each first answer.

    If every question has an answer, the model must give one (threshold -inf), as in SQuAD 1.1;
    otherwise its own threshold decides, as in SQuAD 2.0.

    Args:
        answerer: the model.
        questions: of one file.
        top_k: answers kept for each question.
        **options: of `QuestionAnswerer.answer_many`.

    Raises:
        QuestionError: no answer is known.
    """
    check_answered(questions, what="scoring")
    scored = [question for question in questions.questions if question.is_scorable]
    if not any(question.is_impossible for question in scored):
        options.setdefault("threshold", -math.inf)
    pairs = ((q.text, [passage.text for passage in q.passages]) for q in scored)
    answers = answerer.answer_many(pairs, top_k=top_k, **options)
    return [
        Judged(q, tuple(a), exact_match(a[0].text, q.answers), token_f1(a[0].text, q.answers))
        for q, a in zip(scored, counted(answers, what="answering", total=len(scored)), strict=True)
    ]


def score(judged: Sequence[Judged]) -> SpanScores:
    """Means over questions, and the interval of F1 over articles."""
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
) -> tuple[float, float] | tuple[None, None]:
    """The 95% bootstrap interval of a mean over rows, resampling whole groups.

    Args:
        values: shape (rows,).
        groups: the group of each row.
        resamples: number of resamples.
        seed: of the resamples.

    Returns:
        Lower and upper end; None with fewer than `FEWEST_GROUPS` groups.
    """
    names, number = np.unique(np.array(groups), return_inverse=True)
    if len(names) < FEWEST_GROUPS:
        return None, None
    sums, counts = np.bincount(number, weights=values), np.bincount(number)
    chosen = np.random.default_rng(seed).integers(len(names), size=(resamples, len(names)))
    means = sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def evaluate(answerer: QuestionAnswerer, questions: QuestionSet) -> dict[str, Any]:
    """All scores that a file of questions allows, for JSON.

    Returns:
        "extractive": `SpanScores` of SQuAD files and tables; "factoid": `score_factoids` of
        BioASQ's factoid questions with snippets; "not_scored": number of questions of other
        kinds, without passages, or without a known answer.

    Raises:
        QuestionError: no question can be scored.
    """
    check_answered(questions, what="scoring")
    scorable = [question for question in questions.questions if question.is_scorable]
    extractive = questions.subset(q for q in scorable if q.kind == "extractive")
    factoid = questions.subset(q for q in scorable if q.kind == "factoid")
    result: dict[str, Any] = {}
    if len(extractive):
        result["extractive"] = asdict(score(judge(answerer, extractive)))
    if len(factoid):
        # More than five answers, because several snippets may hold the same words.
        judged = judge(answerer, factoid, top_k=4 * RANKED, threshold=-math.inf)
        ranked = [[answer.text for answer in j.answers] for j in judged]
        result["factoid"] = score_factoids(ranked, [j.question.answers for j in judged])
    if not result:
        msg = (
            f"{questions.name} has no question that a part of its passages could answer; for "
            "yes/no questions use biomed qa yesno"
        )
        raise QuestionError(msg)
    result["not_scored"] = len(questions) - len(extractive) - len(factoid)
    return result


def find_threshold(
    answerer: QuestionAnswerer, judged: Sequence[Judged], *, count: int
) -> dict[str, float]:
    """Ask questions of a wrong article too, and find the threshold that separates best.

    Args:
        answerer: the model.
        judged: questions with the answers from their own articles, whatever their scores.
        count: maximum number of questions, taken evenly from the articles.

    Returns:
        "threshold": the one with the most correct decisions, 0 if all questions are on one
        article; "questions": how many were asked of two articles; "answered" and "abstained":
        shares with an answer from their own article, and without one from the other, in [0, 1].
    """
    by_id = {j.question.id: j for j in judged if not j.question.is_impossible}
    asked = evenly(QuestionSet("", tuple(j.question for j in by_id.values())), count).questions
    other = {question.id: _another_article(question, asked) for question in asked}
    pairs = [(q.text, [p.text for p in o.passages]) for q in asked if (o := other[q.id])]
    if not pairs:
        return {"threshold": 0.0, "questions": 0, "answered": 0.0, "abstained": 0.0}
    elsewhere = np.array([a[0].score for a in answerer.answer_many(pairs, threshold=-math.inf)])
    own = np.array([by_id[q.id].answers[0].score for q in asked if other[q.id]])
    threshold = best_threshold(own, elsewhere)
    return {
        "threshold": threshold,
        "questions": len(pairs),
        "answered": float((own > threshold).mean()),
        "abstained": float((elsewhere <= threshold).mean()),
    }


def best_threshold(answerable: np.ndarray, unanswerable: np.ndarray) -> float:
    """The threshold with the best mean of answered and abstained.

    Args:
        answerable: best scores of questions with an answer, shape (n,).
        unanswerable: best scores of questions without one, shape (m,).

    Returns:
        0, or the middle of two neighbouring scores; of equally good ones the nearest to 0. It is 0
        if no threshold is better than always or never answering.
    """
    scores = np.unique(np.concatenate((answerable, unanswerable)))
    scores = scores[np.isfinite(scores)]
    thresholds = np.append(0.0, (scores[1:] + scores[:-1]) / 2)
    thresholds = thresholds[np.argsort(np.abs(thresholds), kind="stable")]
    correct = [(answerable > t).mean() + (unanswerable <= t).mean() for t in thresholds]
    # Always or never answering gives a sum of 1.
    return float(thresholds[int(np.argmax(correct))]) if max(correct) > 1 else 0.0


def _another_article(question: Question, asked: Sequence[Question]) -> Question | None:
    """The next question, cyclically, on other articles."""
    place = asked.index(question)
    around = (*asked[place + 1 :], *asked[:place])
    return next((other for other in around if not other.articles & question.articles), None)
