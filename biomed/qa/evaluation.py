"""Score answers as SQuAD and BioASQ do, and choose a model's threshold."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.qa.questions import QuestionError, QuestionSet, evenly, plain
from domainbert.calibration import bins_of, calibration_error, fit_platt, platt
from domainbert.console import counted
from domainbert.errors import UserError
from domainbert.intervals import ratio_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from biomed.qa.answerer import Answer, QuestionAnswerer
    from biomed.qa.questions import Question

FEWEST_GROUPS = 5  # an interval from fewer says nothing
FEWEST_QUESTIONS = 20  # to fit two numbers on
RANKED = 5  # answers that BioASQ considers
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lower case, without punctuation, articles and extra spaces, as in SQuAD's official script."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """1 if the prediction ("" for no answer) is one of the answers after `normalize`, else 0."""
    return float(normalize(predicted) in _normalized(answers))


def token_f1(predicted: str, answers: Sequence[str]) -> float:
    """The best F1 over the answers of the words shared with the prediction, in [0, 1].

    As in the script of SQuAD 2.0 (Rajpurkar et al., arXiv 1806.03822): if one side has no words,
    1 if both have none, otherwise 0.
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
    return [words for answer in answers if (words := normalize(answer))] or [""]


def score_factoids(
    ranked: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> dict[str, float]:
    """BioASQ's scores (Balikas et al. 2013) from the first five answers of each question.

    Casing and white space are ignored. A repeated answer takes no rank. `ranked` has the answers
    to each question, best first; `answers` the accepted ones: the answer and its synonyms.

    Returns:
        "questions", their number, and means in [0, 1]: "strict", the first answer is correct;
        "lenient", one of five is; "mrr", the reciprocal rank of the first correct one, or 0.
    """
    if len(ranked) != len(answers) or not answers:
        raise UserError(f"{len(ranked)} lists of answers for {len(answers)} questions")
    found = np.array([_reciprocal_rank(*pair) for pair in zip(ranked, answers, strict=True)])
    shares = {"strict": found == 1, "lenient": found > 0, "mrr": found}
    return {"questions": len(found), **{name: float(each.mean()) for name, each in shares.items()}}


def _reciprocal_rank(given: Sequence[str], gold: Sequence[str]) -> float:
    accepted = set(map(plain, gold))
    distinct = list(dict.fromkeys(map(plain, given)))[:RANKED]
    return next((1 / rank for rank, text in enumerate(distinct, 1) if text in accepted), 0.0)


@dataclass(frozen=True)
class SpanScores:
    """SQuAD's measures, means over questions, in [0, 1].

    `answerable` is the number of questions with an answer, to which `exact_answerable` and
    `f1_answerable` are limited; `abstained` is the share of the others that got none. They are
    None without such questions. `f1_low` and `f1_high` are the 95% interval of F1 from 1,000
    resamples of articles; None with fewer than 5 articles.
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
    answers: list[Answer] = field(repr=False)
    exact: float
    f1: float


def judge(answerer: QuestionAnswerer, questions: QuestionSet, **options: Any) -> list[Judged]:
    """Answer the scorable questions and score each first answer.

    If every question has an answer, the model must give one (threshold -inf), as in SQuAD 1.1;
    otherwise its own threshold decides, as in SQuAD 2.0. `options` are those of `answer_many`.
    QuestionError if no answer is known.
    """
    questions.check_answered("scoring")
    scored = [question for question in questions if question.is_scorable]
    if not any(question.is_impossible for question in scored):
        options.setdefault("threshold", -math.inf)
    pairs = ((q.text, [passage.text for passage in q.passages]) for q in scored)
    found = counted(answerer.answer_many(pairs, **options), what="answering", total=len(scored))
    return [
        Judged(q, a, exact_match(a[0].text, q.answers), token_f1(a[0].text, q.answers))
        for q, a in zip(scored, found, strict=True)
    ]


def score(judged: Sequence[Judged]) -> SpanScores:
    """Means over questions, and the interval of F1 over articles."""
    exact, f1 = np.array([j.exact for j in judged]), np.array([j.f1 for j in judged])
    has = np.array([not j.question.is_impossible for j in judged])
    parts = {"exact_answerable": exact[has], "f1_answerable": f1[has], "abstained": exact[~has]}
    low, high = interval(f1, [min(j.question.articles) for j in judged])
    return SpanScores(
        questions=len(judged),
        exact=float(exact.mean()),
        f1=float(f1.mean()),
        answerable=int(has.sum()),
        **{name: float(part.mean()) if len(part) else None for name, part in parts.items()},
        f1_low=low,
        f1_high=high,
    )


def interval(values: np.ndarray, groups: Sequence[str]) -> tuple[float, float] | tuple[None, None]:
    """The 95% bootstrap interval of a mean, resampling whole groups; None with fewer than 5."""
    names, number = np.unique(np.array(groups), return_inverse=True)
    if len(names) < FEWEST_GROUPS:
        return None, None
    return ratio_interval(np.bincount(number, weights=values), np.bincount(number))


def evaluate(answerer: QuestionAnswerer, questions: QuestionSet) -> dict[str, Any]:
    """All scores that a file of questions allows, for JSON.

    Returns:
        "extractive": `SpanScores` of SQuAD files and tables; "factoid": `score_factoids` of
        BioASQ's factoid questions with snippets; "not_scored": number of questions of other
        kinds, without passages, or without a known answer. QuestionError if none can be scored.
    """
    questions.check_answered("scoring")
    scorable = [question for question in questions if question.is_scorable]
    extractive = questions.subset(q for q in scorable if q.kind == "extractive")
    factoid = questions.subset(q for q in scorable if q.kind == "factoid")
    if not scorable:
        found = f"{questions.name} has no question that a part of its passages could answer"
        raise QuestionError(f"{found}; for yes/no questions use biomed qa yesno")
    result: dict[str, Any] = {}
    if len(extractive):
        result["extractive"] = asdict(score(judge(answerer, extractive)))
    if len(factoid):
        # More than five answers, because several snippets may hold the same words.
        judged = judge(answerer, factoid, top_k=4 * RANKED, threshold=-math.inf)
        ranked = [[answer.text for answer in j.answers] for j in judged]
        result["factoid"] = score_factoids(ranked, [j.question.answers for j in judged])
    return {**result, "not_scored": len(questions) - len(scorable)}


def ask_elsewhere(
    answerer: QuestionAnswerer, questions: QuestionSet, *, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The best scores of at most `count` questions from their own and from another article.

    Both results have shape (questions,), and are empty if all questions are on one article.
    """
    answerable = {q.id: q for q in questions if q.is_scorable and not q.is_impossible}
    asked = evenly(questions.subset(answerable.values()), count).questions
    pairs: list[tuple[str, list[str]]] = []
    for number, question in enumerate(asked):
        following = (*asked[number + 1 :], *asked[:number])
        other = next((o for o in following if not o.articles & question.articles), None)
        if other:
            sides = (question.passages, other.passages)
            pairs += [(question.text, [passage.text for passage in side]) for side in sides]
    # No answer has the score of the best candidate, whichever would be preferred.
    scores = np.array([a[0].score for a in answerer.answer_many(pairs, threshold=math.inf)])
    return scores[::2], scores[1::2]


def find_threshold(
    own: np.ndarray, elsewhere: np.ndarray, threshold: float | None = None
) -> dict[str, float]:
    """The given threshold, or the one that best tells the two results of `ask_elsewhere` apart.

    Also the number of questions, and the shares with an answer from their own article
    ("answered") and without one from the other ("abstained"), in [0, 1].
    """
    if threshold is None:
        threshold = best_threshold(own, elsewhere) if len(own) else 0.0
    return {
        "threshold": threshold,
        "questions": len(own),
        "answered": float((own > threshold).sum() / max(len(own), 1)),
        "abstained": float((elsewhere <= threshold).sum() / max(len(own), 1)),
    }


def find_calibration(own: np.ndarray, elsewhere: np.ndarray) -> dict[str, Any] | None:
    """A map from the scores of `ask_elsewhere` to the probability that there is an answer.

    Returns:
        "map": slope and intercept; "error" and "bins": the expected calibration error, and mean
        probability, share with an answer and number of each bin, by maps fitted on the other half
        of the questions. None with fewer than 20 questions whose scores are finite.
    """
    finite = np.isfinite(own) & np.isfinite(elsewhere)
    own, elsewhere = own[finite], elsewhere[finite]
    if len(own) < FEWEST_QUESTIONS:
        return None
    scores, right = np.concatenate((own, elsewhere)), np.arange(2 * len(own)) < len(own)
    half = np.tile(np.arange(len(own)) % 2 == 0, 2)
    crossed = np.empty(len(scores))
    for side in (half, ~half):
        crossed[side] = platt(scores[side], *fit_platt(scores[~side], right[~side]))
    return {
        "map": fit_platt(scores, right),
        "error": calibration_error(crossed, right),
        "bins": bins_of(crossed, right, bins=5),
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
    correct = [(answerable > t).mean() + (unanswerable <= t).mean() for t in thresholds]
    # Always or never answering gives a sum of 1.
    return float(thresholds[int(np.argmax(correct))]) if max(correct) > 1 else 0.0
