"""Scores of answers: SQuAD's exact match and F1, and BioASQ's factoid measures. Pure functions."""

from __future__ import annotations

import re
import string
from collections import Counter
from typing import TYPE_CHECKING

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
RANKED = 5  # answers that BioASQ considers
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lower case, without punctuation, articles and extra spaces, as in SQuAD's official script."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """1 if the prediction equals one of the answers after `normalize`, otherwise 0.

    Args:
        predicted: "" if there is no answer.
        answers: the accepted texts; empty if there is no answer.
    """
    return float(normalize(predicted) in {normalize(answer) for answer in _usable(answers)})


def token_f1(predicted: str, answers: Sequence[str]) -> float:
    """The best F1 over the answers of the words shared with the prediction, in [0, 1].

    As in the script of SQuAD 2.0 (Rajpurkar et al., arXiv 1806.03822): if one side has no words,
    1 if both have none, otherwise 0.
    """
    return max(_f1(normalize(predicted).split(), normalize(a).split()) for a in _usable(answers))


def _f1(predicted: list[str], gold: list[str]) -> float:
    if not predicted or not gold:
        return float(predicted == gold)
    shared = (Counter(predicted) & Counter(gold)).total()
    return 2 * shared / (len(predicted) + len(gold))


def _usable(answers: Sequence[str]) -> Sequence[str]:
    """Answers with a word left after `normalize`; "" if there is none."""
    return [answer for answer in answers if normalize(answer)] or [""]


def score_factoids(
    ranked: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> dict[str, float]:
    """BioASQ's scores (Balikas et al. 2013) from the first five answers of each question.

    Casing and white space are ignored. A repeated answer takes no rank.

    Args:
        ranked: answers to each question, best first.
        answers: the accepted texts for each question: the answer and its synonyms.

    Returns:
        "questions": their number; means over them, in [0, 1]: "strict", the first answer is
        correct; "lenient", one of the first five is; "mrr", the mean reciprocal rank of the first
        correct one (0 if none of five is).

    Raises:
        UserError: the two have different lengths, or there are no questions.
    """
    if len(ranked) != len(answers) or not answers:
        msg = f"{len(ranked)} lists of answers for {len(answers)} questions"
        raise UserError(msg)
    ranks = [_rank(given, gold) for given, gold in zip(ranked, answers, strict=True)]
    count = len(ranks)
    return {
        "questions": count,
        "strict": sum(rank == 1 for rank in ranks) / count,
        "lenient": sum(rank is not None for rank in ranks) / count,
        "mrr": sum(1 / rank for rank in ranks if rank) / count,
    }


def _rank(given: Sequence[str], gold: Sequence[str]) -> int | None:
    accepted = {_plain(answer) for answer in gold}
    distinct = list(dict.fromkeys(map(_plain, given)))[:RANKED]
    return next((rank for rank, text in enumerate(distinct, start=1) if text in accepted), None)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
