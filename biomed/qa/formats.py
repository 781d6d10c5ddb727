"""Read questions: SQuAD 1.1 and 2.0, BioASQ, and tables.

Errors say where in the file, never what stands there.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biomed.qa.questions import (
    ABSENT,
    Passage,
    Place,
    Question,
    QuestionError,
    QuestionSet,
    Remark,
    check_ids,
    locate,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def read_questions(path: str | Path) -> QuestionSet:
    """Read a file of questions, told apart by what is in it.

    - SQuAD JSON ("data"): versions 1.1 and 2.0, with or without answers.
    - BioASQ JSON ("questions"): training files and test files without answers. The passages are
      the snippets; a factoid's exact answers are looked for in them.
    - .csv, .parquet, .jsonl: columns `question, context`, and where there are any `id`, `answer`
      (empty: no answer), `answer_start`. Rows with one id are one question with several answers.

    An answer that does not stand where the file says is looked for and listed in `remarks`.

    Raises:
        QuestionError: no such file, malformed JSON, a field that is missing or of another type
            (each with its place), an empty question or context, two questions with one id.
        TableError: a table that cannot be read or lacks a column.
    """
    path = Path(path)
    if not path.is_file():
        msg = f"{path}: no such file"
        raise QuestionError(msg)
    if path.suffix.lower() != ".json":
        return _of_table(path)
    document = read_json(path)
    if isinstance(document, dict) and "data" in document:
        return _squad(document, path.name)
    if isinstance(document, dict) and "questions" in document:
        return _bioasq(document, path.name)
    msg = (
        f"{path.name} is JSON, but neither SQuAD (an object with 'data') nor BioASQ (an object "
        "with 'questions')"
    )
    raise QuestionError(msg)


def read_json(path: Path) -> Any:
    """A JSON document.

    Raises:
        QuestionError: it is none; the message has the line and the column.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        msg = f"{path.name} is not JSON: {error.msg} at {where}"
        raise QuestionError(msg) from None
    except UnicodeDecodeError as error:
        msg = f"{path.name} is not UTF-8: byte {error.start}"
        raise QuestionError(msg) from None


class Node:
    """A part of a JSON document that knows its place, for messages."""

    def __init__(self, value: Any, place: str) -> None:
        self.value, self.place = value, place

    def has(self, name: str) -> bool:
        """Whether there is a field of this name."""
        return isinstance(self.value, dict) and self.value.get(name) is not None

    def get(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """A field of an object.

        Raises:
            QuestionError: no object, no such field, or another type.
        """
        if not self.has(name):
            msg = f"{self.place} has no {name!r}"
            raise QuestionError(msg)
        value = self.value[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            legal = " or ".join(each.__name__ for each in kinds)
            msg = f"{self.place}.{name} is {type(value).__name__}, expected {legal}"
            raise QuestionError(msg)
        return value

    def text(self, name: str) -> str:
        """A field that is a text with something in it."""
        value = self.get(name, str)
        if not value.strip():
            msg = f"{self.place}.{name} is empty"
            raise QuestionError(msg)
        return str(value)

    def each(self, name: str) -> Iterator[Node]:
        """The members of a field that is a list."""
        for number, value in enumerate(self.get(name, list)):
            yield Node(value, f"{self.place}.{name}[{number}]")


def _squad(document: dict[str, Any], name: str) -> QuestionSet:
    questions: list[Question] = []
    remarks: list[Remark] = []
    for article in Node(document, name).each("data"):
        for paragraph in article.each("paragraphs"):
            text = paragraph.text("context")
            passage = Passage(text, _article_name(article, paragraph, text))
            for qa in paragraph.each("qas"):
                question = _squad_question(qa, passage, remarks)
                questions.append(question)
    check_ids(questions, name=name)
    return QuestionSet(name, tuple(questions), tuple(remarks))


def _article_name(article: Node, paragraph: Node, text: str) -> str:
    for node in (article, paragraph):
        for field in ("document_id", "title"):
            if node.has(field) and str(node.value[field]).strip():
                return str(node.value[field])
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _squad_question(qa: Node, passage: Passage, remarks: list[Remark]) -> Question:
    number = str(qa.get("id", (str, int)))
    texts: list[str] = []
    places: list[Place] = []
    for answer in qa.each("answers") if qa.has("answers") else ():
        text = answer.text("text")
        place, what = locate(passage.text, text, answer.get("answer_start", int))
        texts.append(text.strip())
        places += [place] if place else []
        remarks += [Remark(number, what)] if what else []
    # In version 2.0 an empty list of answers says that there is none; in a test file, nothing.
    known = bool(texts) or qa.value.get("is_impossible") is True
    if qa.value.get("is_impossible") is True:
        texts, places = [], []
    return Question(
        number,
        qa.text("question"),
        (passage,),
        tuple(dict.fromkeys(texts)),
        tuple(places),
        is_answered=known,
    )


def _bioasq(document: dict[str, Any], name: str) -> QuestionSet:
    questions: list[Question] = []
    remarks: list[Remark] = []
    for node in Node(document, name).each("questions"):
        number, kind = str(node.get("id", (str, int))), node.text("type")
        passages = tuple(
            Passage(snippet.text("text"), str(snippet.value.get("document") or number))
            for snippet in (node.each("snippets") if node.has("snippets") else ())
        )
        answers = _exact_answers(node) if node.has("exact_answer") else ()
        places = tuple(_places(passages, answers)) if kind == "factoid" else ()
        if kind == "factoid" and answers and not places:
            remarks.append(Remark(number, ABSENT))
        text = node.text("body")
        known = node.has("exact_answer")
        questions.append(Question(number, text, passages, answers, places, known, kind))
    check_ids(questions, name=name)
    return QuestionSet(name, tuple(questions), tuple(remarks))


def _exact_answers(node: Node) -> tuple[str, ...]:
    """The exact answers and their synonyms: a text, texts, or lists of texts."""
    found, waiting = dict[str, None](), [node.get("exact_answer", (str, list))]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, list):
            waiting = [*value, *waiting]
        elif isinstance(value, str) and value.strip():
            found[value.strip()] = None
        else:
            msg = f"{node.place}.exact_answer holds {type(value).__name__}, expected texts"
            raise QuestionError(msg)
    return tuple(found)


def _places(passages: tuple[Passage, ...], answers: tuple[str, ...]) -> Iterator[Place]:
    """Where answers stand as whole words, whatever their casing."""
    for number, passage in enumerate(passages):
        for answer in answers:
            pattern = rf"(?<!\w){re.escape(answer)}(?!\w)"
            for match in re.finditer(pattern, passage.text, re.IGNORECASE):
                yield Place(number, *match.span())


def _of_table(path: Path) -> QuestionSet:
    from domainbert.tables import TableError, read_table, require_columns, table_columns

    columns = table_columns(path)
    require_columns(columns, ["question", "context"], source=path.name)
    known = [c for c in ("id", "question", "context", "answer", "answer_start") if c in columns]
    rows = read_table(path, columns=known).to_dict("records")
    if not rows:
        msg = f"{path.name} has no rows"
        raise TableError(msg)
    passages: dict[str, Passage] = {}
    merged: dict[str, Question] = {}
    remarks: list[Remark] = []
    for number, row in enumerate(rows):
        question = _row(row, number, path.name, passages, remarks)
        before = merged.get(question.id)
        if before and (before.text, before.passages) != (question.text, question.passages):
            msg = f"{path.name}: 1 ids stand for several questions, such as {question.id!r}"
            raise QuestionError(msg)
        merged[question.id] = _joined(before, question) if before else question
    return QuestionSet(path.name, tuple(merged.values()), tuple(remarks))


def _joined(one: Question, other: Question) -> Question:
    answers = tuple(dict.fromkeys(one.answers + other.answers))
    return Question(one.id, one.text, one.passages, answers, one.places + other.places)


def _row(
    row: dict[str, Any],
    number: int,
    name: str,
    passages: dict[str, Passage],
    remarks: list[Remark],
) -> Question:
    for column in ("question", "context"):
        if not isinstance(row[column], str) or not row[column].strip():
            msg = f"{name}, row {number} (from 0): {column} is empty"
            raise QuestionError(msg)
    text = row["context"]
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    passage = passages.setdefault(text, Passage(text, digest))
    given = row.get("id")
    question_id = str(number) if _is_missing(given) else str(given)
    if "answer" not in row:
        return Question(question_id, row["question"], (passage,), is_answered=False)
    if _is_missing(row["answer"]) or not str(row["answer"]).strip():
        return Question(question_id, row["question"], (passage,))
    answer = str(row["answer"])
    start = _whole_number(row.get("answer_start"))
    if start is not None and start != start:
        msg = f"{name}, row {number} (from 0): answer_start is no whole number"
        raise QuestionError(msg)
    place, what = locate(text, answer, None if start is None else int(start))
    remarks += [Remark(question_id, what)] if what else []
    places = (place,) if place else ()
    return Question(question_id, row["question"], (passage,), (answer.strip(),), places)


def _whole_number(value: Any) -> float | None:
    """A number from a table; None where nothing is, NaN where something else is."""
    if _is_missing(value):
        return None
    try:
        number = float(value)
    except (ValueError, TypeError):
        return float("nan")
    return number if number.is_integer() else float("nan")


def _is_missing(value: Any) -> bool:
    return value is None or value != value or value == ""
