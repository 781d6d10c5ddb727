"""Scores of answers: SQuAD's, and BioASQ's of factoid and yes/no questions. Pure functions."""

from __future__ import annotations

import re
import string
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
RANKED = 5  # answers that BioASQ looks at
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """As SQuAD's official script does: lower case, no punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """1 if the prediction is one of the answers, else 0, after `normalize`.

    Args:
        predicted: "" says that there is no answer.
        answers: any of them is right; none where there is no answer.
    """
    return float(normalize(predicted) in {normalize(answer) for answer in _legal(answers)})


def token_f1(predicted: str, answers: Sequence[str]) -> float:
    """The best F1, over the answers, of the words shared with the prediction, in [0, 1].

    As the script of SQuAD 2.0 has it (Rajpurkar et al., arXiv 1806.03822): where one side has no
    word, 1 if both have none, else 0.
    """
    return max(_f1(normalize(predicted).split(), normalize(a).split()) for a in _legal(answers))


def _f1(predicted: list[str], right: list[str]) -> float:
    if not predicted or not right:
        return float(predicted == right)
    shared = (Counter(predicted) & Counter(right)).total()
    return 2 * shared / (len(predicted) + len(right))


def _legal(answers: Sequence[str]) -> Sequence[str]:
    """Answers with a word left after `normalize`; "" where there is none."""
    return [answer for answer in answers if normalize(answer)] or [""]


@dataclass(frozen=True)
class FactoidScores:
    """BioASQ's measures of factoid questions, means over questions, in [0, 1].

    Attributes:
        questions: how many were scored.
        strict: strict accuracy: the first answer is right.
        lenient: lenient accuracy: one of the first five is.
        mrr: mean reciprocal rank of the first right answer; 0 where none of five is right.
    """

    questions: int
    strict: float
    lenient: float
    mrr: float

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)


def score_factoids(
    ranked: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> FactoidScores:
    """BioASQ's scores (Balikas et al. 2013) from the first five answers of each question.

    Answers are compared without regard to casing and white space. One that was already given
    takes no rank.

    Args:
        ranked: answers to each question, best first.
        answers: what counts as right for each: the answer and its synonyms.

    Raises:
        ValueError: another number of questions, or none.
    """
    if len(ranked) != len(answers) or not answers:
        msg = f"{len(ranked)} lists of answers for {len(answers)} questions"
        raise UserError(msg)
    ranks = [_rank(given, right) for given, right in zip(ranked, answers, strict=True)]
    count = len(ranks)
    return FactoidScores(
        questions=count,
        strict=sum(rank == 1 for rank in ranks) / count,
        lenient=sum(rank is not None for rank in ranks) / count,
        mrr=sum(1 / rank for rank in ranks if rank) / count,
    )


def _rank(given: Sequence[str], right: Sequence[str]) -> int | None:
    legal = {_plain(answer) for answer in right}
    distinct = list(dict.fromkeys(map(_plain, given)))[:RANKED]
    return next((rank for rank, text in enumerate(distinct, start=1) if text in legal), None)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


@dataclass(frozen=True)
class DecisionScores:
    """How well yes/no (or yes/no/maybe) questions are decided.

    Attributes:
        questions: how many were scored.
        accuracy: share decided right.
        macro_f1: mean over the labels of each one's F1; a label never given nor due counts 0.
        f1: of each label.
    """

    questions: int
    accuracy: float
    macro_f1: float
    f1: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)


def score_decisions(
    predicted: Sequence[str], right: Sequence[str], *, labels: Sequence[str]
) -> DecisionScores:
    """Accuracy and macro-averaged F1.

    Args:
        predicted: a label for each question.
        right: the gold label of each.
        labels: all there are; BioASQ has yes and no, PubMedQA maybe besides.

    Raises:
        ValueError: another number of predictions, none, or a label that is not one.
    """
    if len(predicted) != len(right) or not right:
        msg = f"{len(predicted)} decisions for {len(right)} questions"
        raise UserError(msg)
    if strange := len([1 for label in (*predicted, *right) if label not in labels]):
        msg = f"{strange} decisions are none of {', '.join(labels)}"
        raise UserError(msg)
    f1 = {}
    for label in labels:
        both = sum(p == r == label for p, r in zip(predicted, right, strict=True))
        total = sum(p == label for p in predicted) + sum(r == label for r in right)
        f1[label] = 2 * both / total if total else 0.0
    correct = sum(p == r for p, r in zip(predicted, right, strict=True))
    return DecisionScores(
        questions=len(right),
        accuracy=correct / len(right),
        macro_f1=sum(f1.values()) / len(labels),
        f1=f1,
    )
