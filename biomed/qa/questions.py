"""Questions with their passages and gold answers, and how they are split by article."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class QuestionError(UserError):
    """A file of questions that cannot be used as asked; the message says where the fault is."""


NEAR = 16  # characters that an answer may be away from its stated position
# How an answer was handled that is not where the file says.
MOVED = "its text is not at its answer_start: another occurrence was taken"
SEVERAL = "its text occurs several times and no answer_start is given: the first was taken"
FAR = "its text is not at its answer_start but occurs several times elsewhere: left out"
ABSENT = "its text does not occur in the context: left out"


@dataclass(frozen=True)
class Passage:
    """A paragraph, snippet or whole article, and the name of the article it comes from."""

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
    """A question with the passages to search; there may be none.

    Attributes:
        answers: texts that count as correct; empty if there is no answer or it is not known.
        places: positions of answers in the passages; training needs one.
        is_answered: whether the file gives the answer (or says that there is none).
        kind: "extractive", or BioASQ's factoid, yesno, list or summary.
        remarks: for each answer that is not where the file says, how it was handled.
    """

    id: str
    text: str = field(repr=False)
    passages: tuple[Passage, ...] = field(repr=False)
    answers: tuple[str, ...] = field(default=(), repr=False)
    places: tuple[Place, ...] = ()
    is_answered: bool = True
    kind: str = "extractive"
    remarks: tuple[str, ...] = ()

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
class QuestionSet:
    """The questions of one file."""

    name: str
    questions: tuple[Question, ...] = field(repr=False)

    def __len__(self) -> int:
        """Number of questions."""
        return len(self.questions)

    def __iter__(self) -> Iterator[Question]:
        """The questions, in the file's order."""
        return iter(self.questions)

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """The id and the remark for each remark of all questions."""
        return tuple((q.id, what) for q in self for what in q.remarks)

    def subset(self, questions: Iterable[Question]) -> QuestionSet:
        """Some of the questions."""
        return QuestionSet(self.name, tuple(questions))

    def check_answered(self, what: str) -> None:
        """Raise QuestionError unless the answer to some question is known."""
        if not any(question.is_answered for question in self):
            found = f"{self.name} has {len(self)} questions without answers"
            raise QuestionError(f"{found}; {what} needs them")

    def fingerprint(self) -> str:
        """A hash of all questions, passages and answers, for the manifest."""
        digest = hashlib.sha256()
        for q in self:
            parts = (q.id, q.text, *(p.text for p in q.passages), *q.answers, str(q.places), "\n")
            digest.update("\x1f".join(parts).encode("utf-8", "replace"))
        return digest.hexdigest()


def locate(context: str, answer: str, start: int | None) -> tuple[Place | None, str | None]:
    """The position of an answer without the white space around it, and a remark if it is moved.

    If the text is not at the stated start, its only occurrence is taken, or the nearest one if it
    is at most `NEAR` characters away; otherwise the position is None.
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
        several = f"{name}: {len(repeated)} ids are given to several questions, such as"
        raise QuestionError(f"{several} {repeated[0]!r}; give each question an id of its own")


def split_by_article(questions: QuestionSet, *, share: float) -> tuple[QuestionSet, QuestionSet]:
    """The questions to train on and those of held-out articles.

    An article is held out if the SHA-256 of its name (its title or id in the file, otherwise its
    text), read as a number in [0, 1), is below the share. So an article is always on the same
    side. A question is held out if its first passage is; a question with any passage of a held-out
    article is not trained on. A question without passages is not held out.
    """
    below = share * 2**64
    asked = (q for q in questions if q.passages)
    held = questions.subset(
        q for q in asked if int(text_hash(q.passages[0].article)[:16], 16) < below
    )
    articles = {article for question in held for article in question.articles}
    return questions.subset(q for q in questions if not q.articles & articles), held


def without_articles(questions: QuestionSet, other: QuestionSet) -> QuestionSet:
    """The questions that share no article and no passage text with another set."""
    articles = {article for question in other for article in question.articles}
    hashes, taken = _plain_hashes(questions), set(_plain_hashes(other).values())
    return questions.subset(
        question
        for question in questions
        if not question.articles & articles
        and not any(hashes[passage.text] in taken for passage in question.passages)
    )


def _plain_hashes(questions: QuestionSet) -> dict[str, str]:
    """The hash of each passage's text that ignores casing and white space."""
    texts = {passage.text for question in questions for passage in question.passages}
    return {text: text_hash(plain(text)) for text in texts}


def plain(text: str) -> str:
    """A text to compare by: casing and white space do not count."""
    return " ".join(text.split()).casefold()


def evenly(questions: QuestionSet, count: int) -> QuestionSet:
    """At most `count` scorable questions, taken as evenly as possible from the articles."""
    seen: Counter[str] = Counter()
    ranked = []
    for number, question in enumerate(questions):
        if question.is_scorable:
            article = question.passages[0].article
            seen[article] += 1
            ranked.append((seen[article], number))
    chosen = sorted(number for _, number in sorted(ranked)[:count])
    return questions.subset(questions.questions[number] for number in chosen)


def text_hash(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
