"""Scores of answers, computed as in SQuAD's official script."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.qa.questions import QuestionError, QuestionSet
from domainbert.progress import counted
from domainbert.statistics.bootstrap import resample

if TYPE_CHECKING:
    from biomed.qa.model import QuestionAnswerer

MIN_ARTICLES = 5  # an interval from fewer is meaningless
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lower case, without punctuation, articles and extra spaces, as in SQuAD's official script."""
    plain = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """1 if the prediction ("" for no answer) is one of the answers after `normalize`, else 0."""
    return float(normalize(predicted) in _normalized(answers))


def token_f1(predicted: str, answers: Sequence[str]) -> float:
    """The best F1 of the prediction's words over the answers, in [0, 1].

    As in the script of SQuAD 2.0 (Rajpurkar et al., arXiv 1806.03822), F1 is 1 if both sides have
    no words, and 0 if only one side has none.
    """
    words = normalize(predicted).split()
    return max(_f1(words, answer.split()) for answer in _normalized(answers))


def _f1(predicted: list[str], gold: list[str]) -> float:
    if not predicted or not gold:
        return float(predicted == gold)
    shared = (Counter(predicted) & Counter(gold)).total()
    return 2 * shared / (len(predicted) + len(gold))


def _normalized(answers: Sequence[str]) -> list[str]:
    """The answers with a word left after `normalize`; "" if there is none."""
    normalized = [normalize(answer) for answer in answers]
    return [text for text in normalized if text] or [""]


def evaluate(
    answerer: QuestionAnswerer, questions: QuestionSet, **options: Any
) -> dict[str, float | int | None]:
    """Score the first answer to each question by SQuAD's measures.

    If every question has an answer, the model must give one (threshold -inf), as in SQuAD 1.1;
    otherwise its own threshold decides, as in SQuAD 2.0. `options` are those of `answer_many`.

    Returns:
        "questions", and the means "exact" and "f1" over them, in [0, 1]; "answerable", the number
        of questions with an answer, to which "exact_answerable" and "f1_answerable" are limited;
        "abstained", the share of the others that got none (None without such questions); "f1_low"
        and "f1_high", the 95% interval of F1 from 1,000 resamples of articles (None with fewer
        than 5).

    Raises:
        QuestionError: no questions.
    """
    if not questions:
        raise QuestionError(f"{questions.name} has no questions to score")
    is_answerable = np.array(
        [bool(question.answers) for question in questions]
    )
    if is_answerable.all():
        options.setdefault("threshold", -math.inf)
    pairs = ((question.text, question.context) for question in questions)
    answers = counted(
        answerer.answer_many(pairs, **options),
        what="answering",
        total=len(questions),
    )
    best = [first.text for first, *_ in answers]
    gold = [question.answers for question in questions]
    exact = np.array(list(map(exact_match, best, gold)))
    f1 = np.array(list(map(token_f1, best, gold)))
    articles = [question.article for question in questions]
    _, article_ids = np.unique(articles, return_inverse=True)
    interval = resample(
        lambda weights: weights @ f1 / weights.sum(),
        article_ids,
        fewest=MIN_ARTICLES,
    ).interval()
    return {
        "questions": len(questions),
        "exact": float(exact.mean()),
        "f1": float(f1.mean()),
        "answerable": int(is_answerable.sum()),
        "exact_answerable": _mean(exact[is_answerable]),
        "f1_answerable": _mean(f1[is_answerable]),
        "abstained": _mean(exact[~is_answerable]),
        "f1_low": interval.low,
        "f1_high": interval.high,
    }


def _mean(values: np.ndarray) -> float | None:
    if not len(values):
        return None
    return float(values.mean())
