"""Questions with their passages and gold answers, and how they are split by article."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable


class QuestionError(UserError):
    """A file of questions that cannot be used as asked; the message says where the fault is."""


NEAR = 16  # characters that an answer may be away from its stated position
MOVED = "its text is not at its answer_start: another occurrence was taken"
SEVERAL = "its text occurs several times and no answer_start is given: the first was taken"
FAR = "its text is not at its answer_start but occurs several times elsewhere: left out"
ABSENT = "its text does not occur in the context: left out"


@dataclass(frozen=True)
class Passage:
    """A text that may hold an answer: a paragraph, a snippet or a whole article.

    Attributes:
        text: the whole text.
        article: name of the article it comes from; passages of one article share it.
    """

    text: str = field(repr=False)
    article: str


@dataclass(frozen=True)
class Place:
    """An answer's position: characters `start` to `end` of passage number `passage`."""

    passage: int
    start: int
    end: int


@dataclass(frozen=True)
class Question:
    """A question with the passages to search.

    Attributes:
        id: as in the file.
        text: the question.
        passages: none, one or several.
        answers: texts that count as correct; empty if there is no answer or it is not known.
        places: positions of answers in the passages; training needs one.
        is_answered: whether the file gives the answer (or says that there is none).
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
        """Whether the file says that no passage answers the question."""
        return self.is_answered and not self.answers

    @property
    def is_scorable(self) -> bool:
        """Whether an answer can be copied from a passage and compared with the known one."""
        is_span = self.kind in ("extractive", "factoid")
        return is_span and self.is_answered and bool(self.passages)

    @property
    def articles(self) -> frozenset[str]:
        """The articles its passages come from."""
        return frozenset(passage.article for passage in self.passages)


@dataclass(frozen=True)
class Remark:
    """How a gold answer was handled that is not where its file says; it quotes no text."""

    question: str
    what: str


@dataclass(frozen=True)
class QuestionSet:
    """The questions of one file, and remarks on misplaced answers."""

    name: str
    questions: tuple[Question, ...] = field(repr=False)
    remarks: tuple[Remark, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        """Number of questions."""
        return len(self.questions)

    def subset(self, questions: Iterable[Question]) -> QuestionSet:
        """Some of the questions, with their remarks."""
        chosen = tuple(questions)
        ids = {question.id for question in chosen}
        return QuestionSet(self.name, chosen, tuple(r for r in self.remarks if r.question in ids))


def locate(context: str, answer: str, start: int | None) -> tuple[Place | None, str | None]:
    """Find an answer in its context, without the white space around it.

    If the text is not at the stated start, its only occurrence is taken, or the nearest one if it
    is at most `NEAR` characters away.

    Returns:
        The position (None if it cannot be decided), and a remark (None if it is as stated).
    """
    text = answer.strip()
    stated = None if start is None else start + len(answer) - len(answer.lstrip())
    if stated is not None and text and stated >= 0 and context.startswith(text, stated):
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


def check_ids(ids: Iterable[str], *, name: str) -> None:
    """Raise QuestionError if an id is given to several questions."""
    if repeated := sorted(id_ for id_, count in Counter(ids).items() if count > 1):
        msg = (
            f"{name}: {len(repeated)} ids are given to several questions, such as {repeated[0]!r}; "
            "give each question an id of its own"
        )
        raise QuestionError(msg)


def check_answered(questions: QuestionSet, *, what: str) -> None:
    """Raise QuestionError unless the answer to some question is known."""
    if not any(question.is_answered for question in questions.questions):
        msg = f"{questions.name} has {len(questions)} questions without answers; {what} needs them"
        raise QuestionError(msg)


def split_by_article(questions: QuestionSet, *, share: float) -> tuple[QuestionSet, QuestionSet]:
    """Hold out whole articles.

    An article is held out if the SHA-256 of its name (its title or id in the file, otherwise its
    text), read as a number in [0, 1), is below the share. So an article is always on the same
    side. A question is held out if its first passage is; a question with any passage of a held-out
    article is not trained on. A question without passages is not held out.

    Returns:
        The questions to train on, and the held-out ones.
    """
    held = tuple(
        q for q in questions.questions if q.passages and _fraction(q.passages[0].article) < share
    )
    articles = {article for question in held for article in question.articles}
    train = (q for q in questions.questions if not q.articles & articles)
    return questions.subset(train), questions.subset(held)


def _fraction(name: str) -> float:
    digest = hashlib.sha256(name.encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def without_articles(questions: QuestionSet, other: QuestionSet) -> QuestionSet:
    """The questions that share no article and no passage text with another set."""
    articles = {article for q in other.questions for article in q.articles}
    texts = {_text_hash(passage) for q in other.questions for passage in q.passages}
    passages = {id(p): p for q in questions.questions for p in q.passages}  # each hashed once
    taken = {key for key, p in passages.items() if p.article in articles or _text_hash(p) in texts}
    return questions.subset(
        q for q in questions.questions if not any(id(p) in taken for p in q.passages)
    )


def _text_hash(passage: Passage) -> bytes:
    words = " ".join(passage.text.split()).casefold()
    return hashlib.sha256(words.encode("utf-8", "replace")).digest()


def evenly(questions: QuestionSet, count: int) -> QuestionSet:
    """At most `count` scorable questions, taken as evenly as possible from the articles."""
    seen: Counter[str] = Counter()
    ranked = []
    for number, question in enumerate(questions.questions):
        if question.is_scorable:
            article = question.passages[0].article
            seen[article] += 1
            ranked.append((seen[article], number))
    chosen = sorted(number for _, number in sorted(ranked)[:count])
    return questions.subset(questions.questions[number] for number in chosen)


def fingerprint(questions: QuestionSet) -> str:
    """A hash of all questions, passages and answers, for the manifest."""
    digest = hashlib.sha256()
    for q in questions.questions:
        parts = (q.id, q.text, *(p.text for p in q.passages), *q.answers, str(q.places), "\n")
        digest.update("\x1f".join(parts).encode("utf-8", "replace"))
    return digest.hexdigest()
