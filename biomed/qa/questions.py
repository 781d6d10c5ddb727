"""Questions with contexts and answers, read from SQuAD JSON or tables and split by article.

Errors give the position of a fault in the file and never quote its text.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from domainbert.files import JsonObject

log = logging.getLogger(__name__)
ID = Column("id", "id", ("question_id",))
QUESTION = Column("question", "text", ("query",), required=True)
CONTEXT = Column("context", "text", ("passage", "document"), required=True)
COLUMNS = (ID, QUESTION, CONTEXT, Column("answer"), Column("answer_start"))
_NAMES = ("document_id", "title")  # of an article or paragraph, in SQuAD JSON
_SHAPE = "data[].paragraphs[] with context and qas[], each with id, question and answers"
NEAR = 16  # characters that an answer may be away from its stated position
GoldAnswer = tuple[str, int | None]  # its text, and its stated start


class QuestionError(UserError):
    """A file of questions that cannot be used; the message gives the position of the fault."""


@dataclass(frozen=True)
class Question:
    """A question with the text to search.

    Attributes:
        context: a paragraph or a whole article.
        article: name of the article that the context comes from.
        answers: texts that count as correct; empty if the context does not answer the question.
        answer_spans: characters (start, end) of answers in the context, see `locate`; training
            needs at least one.
    """

    id: str
    text: str = field(repr=False)
    context: str = field(repr=False)
    article: str
    answers: tuple[str, ...] = field(default=(), repr=False)
    answer_spans: tuple[tuple[int, int], ...] = ()


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
        rows = [
            (q.id, q.text, q.context, q.answers, q.answer_spans) for q in self
        ]
        return text_hash(repr(rows))


def read_questions(path: str | Path) -> QuestionSet:
    """Read a file of questions: SQuAD JSON (.json) or a table.

    SQuAD may be of version 1.1 or 2.0; questions without an answer in the file are left out. A
    table (see `domainbert.tables`) has the columns `question`, `context`, `answer` (empty if the
    context has no answer), and optionally `id` and `answer_start`. Rows with the same id are one
    question with several answers.

    A row without the cell `answer` is a question whose answer the file does not tell; an empty
    cell says that the context has no answer. A gold answer that is not at its stated position is
    searched for, see `locate`.

    Raises:
        QuestionError: a file that is malformed, has no answers, or has different questions with
            the same id.
    """
    path = Path(path)
    read_rows = _squad_rows if path.suffix.lower() == ".json" else _table_rows
    first_rows: dict[str, Row] = {}
    answers: dict[str, list[GoldAnswer]] = {}
    for row in read_rows(path):
        row_answers = _checked_answers(row)
        id_ = id_text(row.cells.get("id")) or str(row.number)
        first = first_rows.setdefault(id_, row).cells
        if any(
            first[name] != row.cells[name] for name in ("question", "context")
        ):
            raise QuestionError(
                f"{row.place}: the id {id_!r} belongs to another question too; "
                "give each question an id of its own"
            )
        answers.setdefault(id_, []).extend(row_answers)
    questions = [
        _question(id_, row.cells, answers[id_])
        for id_, row in first_rows.items()
        if "answer" in row.cells
    ]
    left_out = len(first_rows) - len(questions)
    if not questions:
        fault = "no questions"
        if left_out:
            fault = f"{left_out} questions without answers"
        raise QuestionError(
            f"{path.name} has {fault}; training and scoring need them"
        )
    if left_out:
        log.warning(
            "%s: %d questions without a known answer are left out",
            path.name,
            left_out,
        )
    return QuestionSet(path.name, tuple(questions))


def _squad_rows(path: Path) -> Iterator[Row]:
    """A row for each answer, or for a question without one; cells are not checked yet."""
    number = 0
    line = ""
    try:
        for article in json.loads(path.read_text("utf-8-sig"))["data"]:
            for paragraph in article["paragraphs"]:
                context = {
                    "article": _article_name(article, paragraph),
                    "context": paragraph["context"],
                }
                for qa in paragraph["qas"]:
                    number += 1
                    question = {"id": qa["id"], "question": qa["question"]}
                    for answer in _squad_answers(qa):
                        cells = context | question | answer
                        yield Row(
                            number, cells, f"{path.name} question {number}"
                        )
        return
    except json.JSONDecodeError as error:
        line = f" line {error.lineno}"
    except (AttributeError, LookupError, TypeError, ValueError):
        pass
    position = ""
    if number:
        position = f" after question {number}"
    raise QuestionError(
        f"{path.name}{line}: not SQuAD JSON{position}; expected {_SHAPE}"
    )


def _article_name(*sources: Mapping[str, Any]) -> str | None:
    """The first id or title of an article or its paragraph, None without one."""
    names = [source.get(key) for source in sources for key in _NAMES]
    filled = (str(name) for name in names if name and str(name).strip())
    return next(filled, None)


def _squad_answers(qa: Mapping[str, Any]) -> list[JsonObject]:
    """The cells `answer` and `answer_start` of each answer; no cells if the answer is unknown."""
    # Version 2.0 states that there is no answer; an empty list alone does not.
    if qa.get("is_impossible") is True:
        return [{"answer": None}]
    answers = [
        {"answer": answer["text"], "answer_start": answer["answer_start"]}
        for answer in qa.get("answers") or []
    ]
    return answers or [{}]


def _table_rows(path: Path) -> Iterator[Row]:
    columns = match_columns(table_columns(path), COLUMNS, source=path.name)
    for row in iter_rows(path):
        cells = {
            name: row.cells.get(column) for name, column in columns.items()
        }
        yield replace(row, cells=cells)


def _checked_answers(row: Row) -> list[GoldAnswer]:
    """The row's answer with its stated start, or an empty list.

    Raises:
        QuestionError: a cell that is not what it should be.
    """
    if row.fault:
        raise QuestionError(f"{row.place}: {row.fault}")
    has_answer = not is_missing(row.cells.get("answer"))
    texts = ["question", "context"]
    if has_answer:
        texts.append("answer")
    for name in texts:
        cell = row.cells[name]
        if not isinstance(cell, str) or not cell.strip():
            fault = "is not one text"
            if is_missing(cell):
                fault = "is empty"
            raise QuestionError(f"{row.place}: {name} {fault}")
    start = id_key(row.cells.get("answer_start"))
    if start is not None and not re.fullmatch(r"-?\d{1,12}", start):
        raise QuestionError(f"{row.place}: answer_start is not a whole number")
    if not has_answer:
        return []
    stated_start = None
    if start:
        stated_start = int(start)
    return [(row.cells["answer"], stated_start)]


def _question(
    id_: str,
    cells: Mapping[str, Any],
    gold: Sequence[GoldAnswer],
) -> Question:
    """A question with its different answers and their spans."""
    context = cells["context"]
    spans = [locate(context, answer, start) for answer, start in gold]
    texts = [answer.strip() for answer, _ in gold]
    return Question(
        id_,
        cells["question"],
        context,
        cells.get("article") or text_hash(context),
        answers=tuple(dict.fromkeys(texts)),
        answer_spans=tuple(span for span in spans if span),
    )


def locate(
    context: str, answer: str, start: int | None
) -> tuple[int, int] | None:
    """The span of an answer without the white space around it; None if it is ambiguous.

    If the text is not at the stated start, its only occurrence is used, or the nearest one if it
    is at most `NEAR` characters away. Without a stated start, the first occurrence is used.
    """
    text = answer.strip()
    starts = [match.start() for match in re.finditer(re.escape(text), context)]
    if not starts:
        return None
    if start is None:
        return starts[0], starts[0] + len(text)
    stated = start + len(answer) - len(answer.lstrip())
    nearest = min(starts, key=lambda candidate: abs(candidate - stated))
    if len(starts) > 1 and abs(nearest - stated) > NEAR:
        return None
    return nearest, nearest + len(text)


def split_by_article(
    questions: QuestionSet,
    *,
    share: float,
) -> tuple[QuestionSet, QuestionSet]:
    """Split questions into those to train on and those of held-out articles.

    An article is held out if the SHA-256 of its name (its title or id in the file, otherwise its
    text), read as a number in [0, 1), is below the share. So an article is on the same side in
    every file.
    """

    def is_held_out(question: Question) -> bool:
        return int(text_hash(question.article)[:16], 16) < share * 2**64

    training = questions.subset(q for q in questions if not is_held_out(q))
    held_out = questions.subset(q for q in questions if is_held_out(q))
    return training, held_out


def without_articles(
    questions: QuestionSet, other: QuestionSet
) -> QuestionSet:
    """The questions that share neither an article nor a context with another set.

    Case and white space of contexts are ignored.
    """

    def plain(question: Question) -> str:
        return " ".join(question.context.split()).casefold()

    articles = {question.article for question in other}
    contexts = {plain(question) for question in other}
    return questions.subset(
        q
        for q in questions
        if q.article not in articles and plain(q) not in contexts
    )


def evenly(questions: QuestionSet, count: int) -> QuestionSet:
    """At most `count` questions, as evenly as possible from the articles, in their order."""
    import pandas as pd

    articles = pd.Series(
        [question.article for question in questions], dtype=object
    )
    # The first question of every article, then the second ones, and so on.
    numbers_in_article = articles.groupby(articles).cumcount()
    in_turn = numbers_in_article.sort_values(kind="stable")
    chosen = sorted(in_turn.index[:count])
    return questions.subset(questions.questions[number] for number in chosen)


def text_hash(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
