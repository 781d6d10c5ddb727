"""Read questions from SQuAD, BioASQ and PubMedQA JSON, and from tables.

Errors say where in the file the fault is and never quote its text.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
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
from domainbert.tables import (
    Column,
    id_key,
    id_text,
    is_missing,
    iter_rows,
    match_columns,
    table_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from domainbert.tables import Row

Parsed = TypeVar("Parsed", bound=BaseModel)
ID = Column("id", "id", ("question_id",))
QUESTION = Column("question", "text", ("query",), required=True)
CONTEXT = Column("context", "text", ("passage", "document"), required=True)
COLUMNS = (ID, QUESTION, CONTEXT, Column("answer"), Column("answer_start"))


def read_questions(path: str | Path) -> QuestionSet:
    """Read a file of questions; its content decides the format.

    - SQuAD JSON ("data"): versions 1.1 and 2.0, with or without answers.
    - BioASQ JSON ("questions"): training files, and test files without answers. The passages are
      the snippets; the exact answers of a factoid question are searched in them.
    - PubMedQA JSON (questions by PubMed id): of kind "yesno". The passages are the parts of the
      abstract without its conclusion.
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
    document = _read_json(path)
    if isinstance(document, dict) and "data" in document:
        return _from_squad(_parse(_Squad, document, path.name), path.name)
    if isinstance(document, dict) and "questions" in document:
        return _from_bioasq(_parse(_Bioasq, document, path.name), path.name)
    if isinstance(document, dict) and document:
        return _from_pubmedqa(document, path.name)
    msg = (
        f"{path.name}: expected SQuAD (an object with 'data'), BioASQ (with 'questions') or "
        "PubMedQA (questions by PubMed id) JSON"
    )
    raise QuestionError(msg)


def _read_json(path: Path) -> Any:
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


def _parse(model: type[Parsed], document: Any, name: str) -> Parsed:
    """Check a JSON document against its schema.

    Raises:
        QuestionError: the first fault, such as "q.json: data[0].paragraphs: missing".
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault["loc"])
    place = ": ".join(filter(None, (name, "".join(steps).lstrip("."))))
    if fault["type"] == "missing":
        msg = f"{place}: missing"
    elif fault["type"] == "value_error":
        msg = f"{place}: {fault['ctx']['error']}"
    else:
        expected = (
            "an object" if fault["type"] == "model_type" else fault["msg"].split("valid ")[-1]
        )
        msg = f"{place}: expected {expected}, got {type(fault['input']).__name__}"
    raise QuestionError(msg)


def _filled(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        msg = "empty"
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
    msg = f"expected texts, got {type(value).__name__}"
    raise ValueError(msg)


Text = Annotated[str, BeforeValidator(_filled)]
Id = Annotated[str, BeforeValidator(_as_text)]


class _Document(BaseModel):
    """Base of the JSON schemas: types are not converted, other fields are ignored."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)


class _SquadAnswer(_Document):
    text: Text
    answer_start: int


class _SquadQuestion(_Document):
    id: Id
    question: Text
    answers: list[_SquadAnswer] | None = None
    is_impossible: bool | None = None


class _SquadParagraph(_Document):
    context: Text
    qas: list[_SquadQuestion]
    document_id: Id | None = None
    title: Id | None = None


class _SquadArticle(_Document):
    paragraphs: list[_SquadParagraph]
    document_id: Id | None = None
    title: Id | None = None


class _Squad(_Document):
    data: list[_SquadArticle]


class _Snippet(_Document):
    text: Text
    document: Id | None = None


class _BioasqQuestion(_Document):
    id: Id
    type: Text
    body: Text
    snippets: list[_Snippet] | None = None
    exact_answer: Annotated[tuple[str, ...], BeforeValidator(_flat)] | None = None


class _Bioasq(_Document):
    questions: list[_BioasqQuestion]


class _PubmedQuestion(_Document):
    QUESTION: Text
    CONTEXTS: list[Text]
    final_decision: Text | None = None


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


def _from_pubmedqa(document: dict[str, Any], name: str) -> QuestionSet:
    questions = []
    for number, (id_, value) in enumerate(document.items()):
        # The id stays out of messages: in a file of another kind the key may be a text.
        parsed = _parse(_PubmedQuestion, value, f"{name}: question {number}")
        passages = tuple(Passage(text, id_) for text in parsed.CONTEXTS)
        answers = (parsed.final_decision,) if parsed.final_decision else ()
        questions.append(
            Question(id_, parsed.QUESTION, passages, answers, (), bool(answers), "yesno")
        )
    return QuestionSet(name, tuple(questions))


def _occurrences(passages: tuple[Passage, ...], answers: tuple[str, ...]) -> Iterator[Place]:
    """Where answers occur as whole words, in any casing."""
    for number, passage in enumerate(passages):
        for answer in answers:
            pattern = rf"(?<!\w){re.escape(answer)}(?!\w)"
            for match in re.finditer(pattern, passage.text, re.IGNORECASE):
                yield Place(number, *match.span())


def _from_table(path: Path) -> QuestionSet:
    found = match_columns(table_columns(path), COLUMNS, source=path.name)
    passages: dict[str, Passage] = {}
    merged: dict[str, Question] = {}
    remarks: list[Remark] = []
    for row in iter_rows(path):
        if row.fault:
            msg = f"{row.place}: {row.fault}"
            raise QuestionError(msg)
        cells = {ours: row.cells.get(theirs) for ours, theirs in found.items()}
        question = _table_question(cells, row, passages, remarks)
        before = merged.get(question.id)
        if before and (before.text, before.passages) != (question.text, question.passages):
            check_ids([question.id] * 2, name=path.name)
        merged[question.id] = _joined(before, question) if before else question
    if not merged:
        msg = f"{path.name} has no rows"
        raise QuestionError(msg)
    return QuestionSet(path.name, tuple(merged.values()), tuple(remarks))


def _joined(one: Question, other: Question) -> Question:
    answers = tuple(dict.fromkeys(one.answers + other.answers))
    return Question(one.id, one.text, one.passages, answers, one.places + other.places)


def _table_question(
    cells: dict[str, Any], row: Row, passages: dict[str, Passage], remarks: list[Remark]
) -> Question:
    for name in ("question", "context"):
        if not isinstance(cells[name], str) or not cells[name].strip():
            fault = "is empty" if is_missing(cells[name]) else "is not one text"
            msg = f"{row.place}: {name} {fault}"
            raise QuestionError(msg)
    text, id_ = cells["context"], id_text(cells.get("id")) or str(row.number)
    passage = passages.setdefault(text, Passage(text, _hash(text)))
    question = Question(id_, cells["question"], (passage,), is_answered="answer" in cells)
    if is_missing(cells.get("answer")):
        return question
    start = id_key(cells.get("answer_start"))
    if start is not None and not re.fullmatch(r"-?\d{1,12}", start):
        msg = f"{row.place}: answer_start is not a whole number"
        raise QuestionError(msg)
    place, what = locate(text, cells["answer"], None if start is None else int(start))
    remarks += [Remark(id_, what)] if what else []
    return replace(question, answers=(cells["answer"].strip(),), places=(place,) if place else ())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
