"""Questions with their contexts and answers: read from SQuAD JSON and tables, split by article.

Errors say where in the file the fault is and never quote its text.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from domainbert.errors import UserError
from domainbert.tables import (
    Column,
    Row,
    id_key,
    id_text,
    is_missing,
    iter_rows,
    match_columns,
    table_columns,
)

log = logging.getLogger(__name__)
ID = Column("id", "id", ("question_id",))
QUESTION = Column("question", "text", ("query",), required=True)
CONTEXT = Column("context", "text", ("passage", "document"), required=True)
COLUMNS = (ID, QUESTION, CONTEXT, Column("answer"), Column("answer_start"))
_NAMES = ("document_id", "title")  # of an article or paragraph, in SQuAD JSON
_SHAPE = (
    "data[].paragraphs[] with context and qas[], each with id, question and answers"
)
NEAR = 16  # characters that an answer may be away from its stated position


class QuestionError(UserError):
    """A file of questions that cannot be used as asked; the message says where the fault is."""


@dataclass(frozen=True)
class Question:
    """A question with the text to search.

    Attributes:
        context: a paragraph or a whole article.
        article: name of the article that the context comes from.
        answers: texts that count as correct; empty if the context does not answer the question.
        places: characters (start, end) of answers in the context, see `locate`; training needs one.
    """

    id: str
    text: str = field(repr=False)
    context: str = field(repr=False)
    article: str
    answers: tuple[str, ...] = field(default=(), repr=False)
    places: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class QuestionSet:
    """The questions of one file."""

    name: str
    questions: tuple[Question, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.questions)

    def __iter__(self) -> Iterator[Question]:
        return iter(self.questions)

    def subset(self, questions: Iterable[Question]) -> QuestionSet:
        """Some of the questions."""
        return QuestionSet(self.name, tuple(questions))

    def fingerprint(self) -> str:
        """A hash of all questions, contexts and answers, for the manifest."""
        return text_hash(
            repr([(q.id, q.text, q.context, q.answers, q.places) for q in self])
        )


def read_questions(path: str | Path) -> QuestionSet:
    """Read a file of questions: SQuAD JSON (.json) or a table.

    SQuAD may be of version 1.1 or 2.0; questions whose answer it does not give are left out. A
    table (see `domainbert.tables`) has the columns `question`, `context`, `answer` (an empty cell:
    there is no answer), and optionally `id` and `answer_start`. Rows with the same id are one
    question with several answers.

    A gold answer that is not where the file says is searched for, see `locate`.

    Raises:
        QuestionError: a file that is malformed, gives no answers, or has different questions with
            one id.
    """
    path = Path(path)
    asked: dict[str, Row] = {}
    answers: dict[str, list[tuple[str, int | None]]] = {}
    for row in (
        _squad_rows(path) if path.suffix.lower() == ".json" else _table_rows(path)
    ):
        answer = _checked(row)
        id_ = id_text(row.cells.get("id")) or str(row.number)
        first = asked.setdefault(id_, row).cells
        if any(first[name] != row.cells[name] for name in ("question", "context")):
            several = f"{row.place}: the id {id_!r} belongs to another question too"
            raise QuestionError(f"{several}; give each question an id of its own")
        answers.setdefault(id_, []).extend(answer)
    known = [(id_, row.cells) for id_, row in asked.items() if "answer" in row.cells]
    if not known:
        fault = f"{len(asked)} questions without answers" if asked else "no questions"
        raise QuestionError(f"{path.name} has {fault}; training and scoring need them")
    if missing := len(asked) - len(known):
        log.warning(
            "%s: %d questions without a known answer are left out", path.name, missing
        )
    questions = (_question(id_, cells, answers[id_]) for id_, cells in known)
    return QuestionSet(path.name, tuple(questions))


def _squad_rows(path: Path) -> Iterator[Row]:
    """A row for each answer, or for a question without one; the cells are not checked yet."""
    number, line = 0, ""
    try:
        for article in json.loads(path.read_text("utf-8-sig"))["data"]:
            for paragraph in article["paragraphs"]:
                names = [
                    each.get(key) for each in (article, paragraph) for key in _NAMES
                ]
                cells = {
                    "article": next(
                        (str(name) for name in names if str(name or "").strip()), None
                    ),
                    "context": paragraph["context"],
                }
                for qa in paragraph["qas"]:
                    number += 1
                    cells |= {"id": qa["id"], "question": qa["question"]}
                    for answer in _squad_answers(qa):
                        yield Row(
                            number, cells | answer, f"{path.name} question {number}"
                        )
        return
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        line = (
            f" line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        )
    last = f"not SQuAD JSON after question {number}" if number else "not SQuAD JSON"
    raise QuestionError(f"{path.name}{line}: {last}; expected {_SHAPE}")


def _squad_answers(qa: Mapping[str, Any]) -> list[dict[str, Any]]:
    # Version 2.0 says so if there is no answer; an empty list alone does not.
    if qa.get("is_impossible") is True:
        return [{"answer": None}]
    given = qa.get("answers") or []
    return [
        {"answer": a["text"], "answer_start": a["answer_start"]} for a in given
    ] or [{}]


def _table_rows(path: Path) -> Iterator[Row]:
    columns = match_columns(table_columns(path), COLUMNS, source=path.name)
    for row in iter_rows(path):
        yield replace(
            row, cells={name: row.cells.get(column) for name, column in columns.items()}
        )


def _checked(row: Row) -> list[tuple[str, int | None]]:
    """The row's answer with its stated start, if it has one.

    Raises:
        QuestionError: a cell that is not what it should be.
    """
    if row.fault:
        raise QuestionError(f"{row.place}: {row.fault}")
    has_answer = not is_missing(row.cells.get("answer"))
    for name in ("question", "context", *["answer"] * has_answer):
        cell = row.cells[name]
        if not isinstance(cell, str) or not cell.strip():
            fault = "is empty" if is_missing(cell) else "is not one text"
            raise QuestionError(f"{row.place}: {name} {fault}")
    start = id_key(row.cells.get("answer_start"))
    if start is not None and not re.fullmatch(r"-?\d{1,12}", start):
        raise QuestionError(f"{row.place}: answer_start is not a whole number")
    return (
        [(row.cells["answer"], None if start is None else int(start))]
        if has_answer
        else []
    )


def _question(
    id_: str, cells: Mapping[str, Any], given: Sequence[tuple[str, int | None]]
) -> Question:
    places = [locate(cells["context"], answer, start) for answer, start in given]
    return Question(
        id_,
        cells["question"],
        cells["context"],
        cells.get("article") or text_hash(cells["context"]),
        answers=tuple(dict.fromkeys(answer.strip() for answer, _ in given)),
        places=tuple(place for place in places if place),
    )


def locate(context: str, answer: str, start: int | None) -> tuple[int, int] | None:
    """The position of an answer without the white space around it; None if it is not clear.

    If the text is not at the stated start, its only occurrence is taken, or the nearest one if it
    is at most `NEAR` characters away. Without a stated start, the first occurrence is taken.
    """
    text = answer.strip()
    places = [match.start() for match in re.finditer(re.escape(text), context)]
    if not places:
        return None
    stated = places[0] if start is None else start + len(answer) - len(answer.lstrip())
    nearest = min(places, key=lambda at: abs(at - stated))
    if len(places) > 1 and abs(nearest - stated) > NEAR:
        return None
    return nearest, nearest + len(text)


def split_by_article(
    questions: QuestionSet, *, share: float
) -> tuple[QuestionSet, QuestionSet]:
    """The questions to train on and those of held-out articles.

    An article is held out if the SHA-256 of its name (its title or id in the file, otherwise its
    text), read as a number in [0, 1), is below the share. So an article is always on the same
    side.
    """
    names = {question.article for question in questions}
    held = {name for name in names if int(text_hash(name)[:16], 16) < share * 2**64}
    return (
        questions.subset(
            question for question in questions if question.article not in held
        ),
        questions.subset(
            question for question in questions if question.article in held
        ),
    )


def without_articles(questions: QuestionSet, other: QuestionSet) -> QuestionSet:
    """The questions that share neither article nor context with another set.

    Casing and white space of the contexts do not count.
    """

    def plain(question: Question) -> str:
        return " ".join(question.context.split()).casefold()

    articles, contexts = (
        {question.article for question in other},
        set(map(plain, other)),
    )
    return questions.subset(
        q for q in questions if q.article not in articles and plain(q) not in contexts
    )


def evenly(questions: QuestionSet, count: int) -> QuestionSet:
    """At most `count` questions, as evenly as possible from the articles, in their order."""
    import pandas as pd

    articles = pd.Series([question.article for question in questions], dtype=object)
    ranks = articles.groupby(articles).cumcount().sort_values(kind="stable")
    chosen = sorted(ranks.index[:count])
    return questions.subset(questions.questions[number] for number in chosen)


def text_hash(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
