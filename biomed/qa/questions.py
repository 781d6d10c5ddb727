"""Questions, the texts that may answer them, and where gold answers stand in these."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class QuestionError(UserError):
    """A file of questions that cannot be used as asked; the message names the place."""


NEAR = 16  # characters that an answer may be off its stated place
MOVED = "its text is not at its answer_start: taken from where it stands"
SEVERAL = "its text stands in several places and none is stated: the first is taken"
FAR = "its text is not at its answer_start but in several other places: left out"
ABSENT = "its text does not stand in the context: left out"


@dataclass(frozen=True)
class Passage:
    """A text that may hold an answer: a paragraph, a snippet, a whole article.

    Attributes:
        text: the whole of it.
        article: names the article it comes from; passages of one article share it.
    """

    text: str = field(repr=False)
    article: str


@dataclass(frozen=True)
class Place:
    """Characters `start` to `end` of passage number `passage` are an answer."""

    passage: int
    start: int
    end: int


@dataclass(frozen=True)
class Question:
    """A question with the passages to look in.

    Attributes:
        id: as the file has it.
        text: the question.
        passages: one or several.
        answers: texts that count as right; empty where there is no answer or none is known.
        places: where answers stand; training needs one.
        is_answered: whether the file says what is right (that there is no answer, perhaps).
        kind: "extractive", or BioASQ's factoid, yesno, list or summary.
    """

    id: str
    text: str = field(repr=False)
    passages: tuple[Passage, ...] = field(repr=False)
    answers: tuple[str, ...] = field(default=(), repr=False)
    places: tuple[Place, ...] = ()
    is_answered: bool = True
    kind: str = "extractive"

    @property
    def is_impossible(self) -> bool:
        """Whether it is known that no passage answers it."""
        return self.is_answered and not self.answers

    @property
    def articles(self) -> frozenset[str]:
        """The articles its passages come from."""
        return frozenset(passage.article for passage in self.passages)


@dataclass(frozen=True)
class Remark:
    """What was done about a gold answer that is not where its file says; it quotes no text."""

    question: str
    what: str


@dataclass(frozen=True)
class QuestionSet:
    """The questions of one file, and remarks on answers that were not taken as they stood."""

    name: str
    questions: tuple[Question, ...] = field(repr=False)
    remarks: tuple[Remark, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        """Number of questions."""
        return len(self.questions)

    def of_kind(self, *kinds: str) -> QuestionSet:
        """The questions of these kinds, with their remarks."""
        return self._chosen(q for q in self.questions if q.kind in kinds)

    def _chosen(self, questions: Iterable[Question]) -> QuestionSet:
        chosen = tuple(questions)
        ids = {question.id for question in chosen}
        return QuestionSet(self.name, chosen, tuple(r for r in self.remarks if r.question in ids))


def locate(context: str, answer: str, start: int | None) -> tuple[Place | None, str | None]:
    """Where an answer stands in its context, white space around it left off.

    A stated start is taken if the text is there. If not, the text is taken from its only place,
    or from one at most `NEAR` characters away.

    Args:
        context: what to look in.
        answer: its text, not empty.
        start: its first character as the file says; None where it says nothing.

    Returns:
        The place (None where there is no telling) and what was done about it (None: as stated).
    """
    text = answer.strip()
    stated = None if start is None else start + len(answer) - len(answer.lstrip())
    if stated is not None and text and context.startswith(text, stated) and stated >= 0:
        return Place(0, stated, stated + len(text)), None
    found = [m.start() for m in re.finditer(re.escape(text), context)] if text else []
    if not found:
        return None, ABSENT
    if stated is None:
        return Place(0, found[0], found[0] + len(text)), SEVERAL if len(found) > 1 else None
    nearest = min(found, key=lambda at: abs(at - stated))
    if len(found) > 1 and abs(nearest - stated) > NEAR:
        return None, FAR
    return Place(0, nearest, nearest + len(text)), MOVED


def check_ids(questions: Sequence[Question], *, name: str) -> None:
    """Refuse a file that gives two questions one id.

    Raises:
        QuestionError: with the first such id, and how many there are.
    """
    seen: set[str] = set()
    twice = {q.id for q in questions if q.id in seen or seen.add(q.id)}  # type: ignore[func-returns-value]
    if twice:
        msg = f"{name}: {len(twice)} ids stand for several questions, such as {min(twice)!r}"
        raise QuestionError(msg)


def check_answered(questions: QuestionSet, *, what: str) -> None:
    """Refuse a file without answers where they are needed.

    Raises:
        QuestionError: none of its questions has a known answer, or no question is there.
    """
    if not any(question.is_answered for question in questions.questions):
        msg = (
            f"{questions.name} has {len(questions)} questions and no answers, as a test file; "
            f"{what} needs answers"
        )
        raise QuestionError(msg)


def split_by_article(questions: QuestionSet, *, share: float) -> tuple[QuestionSet, QuestionSet]:
    """Keep whole articles apart for validation.

    An article is held out if the SHA-256 of its name (title or id as the file has it, else its
    text), as a number in [0, 1), is below the share: the same article always falls on the same
    side. A question goes where its first passage's article goes. One with a passage of a held-out
    article is never trained on.

    Args:
        questions: of one file.
        share: of the articles, about; in [0, 1].

    Returns:
        The questions to train on, and those held out.
    """
    held = tuple(q for q in questions.questions if _fraction(q.passages[0].article) < share)
    articles = {article for question in held for article in question.articles}
    train = (q for q in questions.questions if not q.articles & articles)
    return questions._chosen(train), questions._chosen(held)


def _fraction(name: str) -> float:
    digest = hashlib.sha256(name.encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def without_articles(questions: QuestionSet, other: QuestionSet) -> QuestionSet:
    """The questions that share no article and no passage's text with the other set."""
    articles = {a for q in other.questions for a in q.articles}
    texts = {_fingerprint(p) for q in other.questions for p in q.passages}
    known: dict[int, bool] = {}

    def is_free(passage: Passage) -> bool:
        # Questions share their passage's object, so each long text is hashed once.
        if id(passage) not in known:
            known[id(passage)] = _fingerprint(passage) not in texts
        return known[id(passage)] and passage.article not in articles

    return questions._chosen(q for q in questions.questions if all(map(is_free, q.passages)))


def _fingerprint(passage: Passage) -> bytes:
    words = " ".join(passage.text.split()).casefold()
    return hashlib.sha256(words.encode("utf-8", "replace")).digest()


def evenly(questions: QuestionSet, count: int) -> QuestionSet:
    """At most so many answerable questions, as evenly over the articles as they allow."""
    seen: dict[str, int] = {}
    ranked = []
    for number, question in enumerate(questions.questions):
        if question.is_answered and question.passages:
            article = question.passages[0].article
            seen[article] = seen.get(article, 0) + 1
            ranked.append((seen[article], number))
    chosen = sorted(number for _, number in sorted(ranked)[:count])
    return QuestionSet(questions.name, tuple(questions.questions[n] for n in chosen))


def fingerprint(questions: QuestionSet) -> str:
    """A hash of all questions, passages and answers; says nothing about any of them."""
    digest = hashlib.sha256()
    for q in questions.questions:
        parts = (q.id, q.text, *(p.text for p in q.passages), *q.answers, str(q.places), "\n")
        digest.update("\x1f".join(parts).encode("utf-8", "replace"))
    return digest.hexdigest()
