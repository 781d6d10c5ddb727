"""Read questions from SQuAD, BioASQ and PubMedQA JSON, and from tables.

Errors say where in the file the fault is and never quote its text.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

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

Parsed = TypeVar("Parsed", bound=BaseModel)


def read_questions(path: str | Path) -> QuestionSet:
    """Read a file of questions; its content decides the format.

    - SQuAD JSON ("data"): versions 1.1 and 2.0, with or without answers.
    - BioASQ JSON ("questions"): training files, and test files without answers. The passages are
      the snippets; the exact answers of a factoid question are searched in them.
    - Tables (see `domainbert.tables`): columns `question`, `context`, and optionally `id`,
      `answer` (an empty cell: there is no answer) and `answer_start`. Rows with the same id are
      one question with several answers.

    A gold answer that is not where the file says is searched for and listed in `remarks`.

    Raises:
        QuestionError: no such file, malformed JSON, a missing field or one of the wrong type, an
            empty question or context, or two questions with one id.
        TableError: a table that cannot be read or lacks a column.
    """
    path = Path(path)
    if path.suffix.lower() != ".json":
        return _from_table(path)
    document = read_json(path)
    if isinstance(document, dict) and "data" in document:
        return _from_squad(parse(_Squad, document, path.name), path.name)
    if isinstance(document, dict) and "questions" in document:
        return _from_bioasq(parse(_Bioasq, document, path.name), path.name)
    msg = f"{path.name}: expected SQuAD (an object with 'data') or BioASQ (with 'questions') JSON"
    raise QuestionError(msg)


def read_json(path: Path) -> Any:
    """Read a JSON file; raises QuestionError with the line and column of a fault."""
    if not path.is_file():
        msg = f"{path}: no such file"
        raise QuestionError(msg)
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        msg = f"{path.name} is not JSON: {error.msg} at {where}"
    except UnicodeDecodeError as error:
        msg = f"{path.name} is not UTF-8: byte {error.start}"
    raise QuestionError(msg)


def parse(model: type[Parsed], document: Any, name: str) -> Parsed:
    """Check a JSON document against its schema.

    Raises:
        QuestionError: the first fault, such as "q.json: data[0].paragraphs: Field required".
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
        place = "".join(steps).lstrip(".")
        msg = f"{name}: {place}: {first['msg'].removeprefix('Value error, ')}"
    raise QuestionError(msg)


def _filled(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        msg = "is empty"
        raise ValueError(msg)
    return value


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _flat(value: Any) -> tuple[str, ...]:
    """BioASQ's exact answer (a text, texts, or lists of synonyms) as distinct texts."""
    if isinstance(value, list):
        return tuple(dict.fromkeys(text for each in value for text in _flat(each)))
    if isinstance(value, str) and value.strip():
        return (value.strip(),)
    msg = f"expected texts, found {type(value).__name__}"
    raise ValueError(msg)


Text = Annotated[str, BeforeValidator(_filled)]
Id = Annotated[str, BeforeValidator(_as_text)]


class Document(BaseModel):
    """Base of the JSON schemas: types are not converted, other fields are ignored."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)


class _SquadAnswer(Document):
    text: Text
    answer_start: int


class _SquadQuestion(Document):
    id: Id
    question: Text
    answers: list[_SquadAnswer] | None = None
    is_impossible: bool | None = None


class _SquadParagraph(Document):
    context: Text
    qas: list[_SquadQuestion]
    document_id: Id | None = None
    title: Id | None = None


class _SquadArticle(Document):
    paragraphs: list[_SquadParagraph]
    document_id: Id | None = None
    title: Id | None = None


class _Squad(Document):
    data: list[_SquadArticle]


class _Snippet(Document):
    text: Text
    document: Id | None = None


class BioasqQuestion(Document):
    """A question of BioASQ; `exact_answer` is None in a test file."""

    id: Id
    type: Text
    body: Text
    snippets: list[_Snippet] | None = None
    exact_answer: Annotated[tuple[str, ...], BeforeValidator(_flat)] | None = None


class _Bioasq(Document):
    questions: list[BioasqQuestion]


def _from_squad(document: _Squad, name: str) -> QuestionSet:
    questions: list[Question] = []
    remarks: list[Remark] = []
    for article in document.data:
        for paragraph in article.paragraphs:
            names = (article.document_id, article.title, paragraph.document_id, paragraph.title)
            named = next((each for each in names if each and each.strip()), None)
            passage = Passage(paragraph.context, named or _hash(paragraph.context))
            questions += [_squad_question(qa, passage, remarks) for qa in paragraph.qas]
    check_ids((question.id for question in questions), name=name)
    return QuestionSet(name, tuple(questions), tuple(remarks))


def _squad_question(qa: _SquadQuestion, passage: Passage, remarks: list[Remark]) -> Question:
    # In version 2.0 `is_impossible` says that there is no answer; an empty list alone does not.
    given = [] if qa.is_impossible else qa.answers or []
    places: list[Place] = []
    for answer in given:
        place, what = locate(passage.text, answer.text, answer.answer_start)
        places += [place] if place else []
        remarks += [Remark(qa.id, what)] if what else []
    return Question(
        qa.id,
        qa.question,
        (passage,),
        answers=tuple(dict.fromkeys(answer.text.strip() for answer in given)),
        places=tuple(places),
        is_answered=bool(given) or qa.is_impossible is True,
    )


def _from_bioasq(document: _Bioasq, name: str) -> QuestionSet:
    questions: list[Question] = []
    remarks: list[Remark] = []
    for each in document.questions:
        passages = tuple(Passage(s.text, s.document or each.id) for s in each.snippets or ())
        answers = each.exact_answer or ()
        places = tuple(_occurrences(passages, answers)) if each.type == "factoid" else ()
        if each.type == "factoid" and answers and not places:
            remarks.append(Remark(each.id, ABSENT))
        is_answered = each.exact_answer is not None
        questions.append(
            Question(each.id, each.body, passages, answers, places, is_answered, each.type)
        )
    check_ids((question.id for question in questions), name=name)
    return QuestionSet(name, tuple(questions), tuple(remarks))


def _occurrences(passages: tuple[Passage, ...], answers: tuple[str, ...]) -> Iterator[Place]:
    """Where answers occur as whole words, in any casing."""
    for number, passage in enumerate(passages):
        for answer in answers:
            pattern = rf"(?<!\w){re.escape(answer)}(?!\w)"
            for match in re.finditer(pattern, passage.text, re.IGNORECASE):
                yield Place(number, *match.span())


def _from_table(path: Path) -> QuestionSet:
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
            check_ids([question.id] * 2, name=path.name)
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
    passage = passages.setdefault(text, Passage(text, _hash(text)))
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


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
