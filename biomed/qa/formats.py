"""Read questions from SQuAD, BioASQ and PubMedQA JSON, and from tables.

Errors say where in the file the fault is and never quote its text.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
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
    check_ids,
    locate,
    text_hash,
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
    from collections.abc import Iterator, Sequence

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
        QuestionError: a file that is malformed, or has two questions with one id.
    """
    path = Path(path)
    if path.suffix.lower() != ".json":
        found = _from_table(path)
    else:
        document = _read_json(path)
        if not isinstance(document, dict) or not document:
            raise QuestionError(
                f"{path.name}: expected SQuAD (an object with 'data'), BioASQ (with 'questions') "
                "or PubMedQA (questions by PubMed id) JSON"
            )
        if "data" in document:
            found = _from_squad(_parse(_Squad, document, path.name))
        elif "questions" in document:
            found = _from_bioasq(_parse(_Bioasq, document, path.name))
        else:
            found = _from_pubmedqa(document, path.name)
    questions = QuestionSet(path.name, tuple(found))
    check_ids((question.id for question in questions), name=path.name)
    return questions


def _read_json(path: Path) -> Any:
    if not path.is_file():
        raise QuestionError(f"{path}: no such file")
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        msg = f"{path.name} is not JSON: {error.msg} at {where}"
    except UnicodeDecodeError as error:
        msg = f"{path.name} is not UTF-8: byte {error.start}"
    raise QuestionError(msg)


def _parse(model: type[Parsed], document: Any, name: str) -> Parsed:
    """Check a document against its schema; a fault reads "q.json: data[0].paragraphs: missing"."""
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
        is_object = fault["type"] == "model_type"
        expected = "an object" if is_object else fault["msg"].split("valid ")[-1]
        msg = f"{place}: expected {expected}, got {type(fault['input']).__name__}"
    raise QuestionError(msg)


def _filled(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise ValueError("empty")
    return value


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _flat(value: Any) -> tuple[str, ...]:
    """BioASQ's exact answer (a text, texts, or lists of synonyms) as distinct texts."""
    if isinstance(value, list):
        return tuple(dict.fromkeys(text for each in value for text in _flat(each)))
    if isinstance(value, str) and value.strip():
        return (value.strip(),)
    raise ValueError(f"expected texts, got {type(value).__name__}")


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


class _Named(_Document):
    document_id: Id | None = None
    title: Id | None = None


class _SquadParagraph(_Named):
    context: Text
    qas: list[_SquadQuestion]


class _SquadArticle(_Named):
    paragraphs: list[_SquadParagraph]


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


def _from_squad(document: _Squad) -> Iterator[Question]:
    for article in document.data:
        for paragraph in article.paragraphs:
            names = (article.document_id, article.title, paragraph.document_id, paragraph.title)
            named = next((each for each in names if each and each.strip()), None)
            passage = Passage(paragraph.context, named or text_hash(paragraph.context))
            for qa in paragraph.qas:
                # Version 2.0 says so if there is no answer; an empty list alone does not.
                given = [] if qa.is_impossible else qa.answers or []
                answers = [(answer.text, answer.answer_start) for answer in given]
                is_answered = bool(given) or qa.is_impossible is True
                yield _extractive(qa.id, qa.question, passage, answers, is_answered)


def _extractive(
    id_: str,
    text: str,
    passage: Passage,
    given: Sequence[tuple[str, int | None]],
    is_answered: bool,  # noqa: FBT001
) -> Question:
    """A question about one passage, from its answers and their stated starts."""
    located = [locate(passage.text, answer, start) for answer, start in given]
    return Question(
        id_,
        text,
        (passage,),
        answers=tuple(dict.fromkeys(answer.strip() for answer, _ in given)),
        places=tuple(place for place, _ in located if place),
        is_answered=is_answered,
        remarks=tuple(what for _, what in located if what),
    )


def _from_bioasq(document: _Bioasq) -> Iterator[Question]:
    for each in document.questions:
        passages = tuple(Passage(s.text, s.document or each.id) for s in each.snippets or ())
        answers, is_factoid = each.exact_answer or (), each.type == "factoid"
        places = tuple(_occurrences(passages, answers)) if is_factoid else ()
        yield Question(
            each.id,
            each.body,
            passages,
            answers,
            places,
            is_answered=each.exact_answer is not None,
            kind=each.type,
            remarks=(ABSENT,) if is_factoid and answers and not places else (),
        )


def _occurrences(passages: tuple[Passage, ...], answers: tuple[str, ...]) -> Iterator[Place]:
    """Where answers occur as whole words, in any casing."""
    for number, passage in enumerate(passages):
        for answer in answers:
            pattern = rf"(?<!\w){re.escape(answer)}(?!\w)"
            for match in re.finditer(pattern, passage.text, re.IGNORECASE):
                yield Place(number, *match.span())


def _from_pubmedqa(document: dict[str, Any], name: str) -> Iterator[Question]:
    for number, (id_, value) in enumerate(document.items()):
        # The id stays out of messages: in a file of another kind the key may be a text.
        parsed = _parse(_PubmedQuestion, value, f"{name}: question {number}")
        passages = tuple(Passage(text, id_) for text in parsed.CONTEXTS)
        answers = (parsed.final_decision,) if parsed.final_decision else ()
        yield Question(id_, parsed.QUESTION, passages, answers, (), bool(answers), "yesno")


def _from_table(path: Path) -> Iterator[Question]:
    found = match_columns(table_columns(path), COLUMNS, source=path.name)
    asked: dict[str, tuple[str, str]] = {}
    given: dict[str, list[tuple[str, int | None]]] = defaultdict(list)
    for row in iter_rows(path):
        if row.fault:
            raise QuestionError(f"{row.place}: {row.fault}")
        cells = {ours: row.cells.get(theirs) for ours, theirs in found.items()}
        question, context = (_one_text(cells, name, row) for name in ("question", "context"))
        id_ = id_text(cells.get("id")) or str(row.number)
        if asked.setdefault(id_, (question, context)) != (question, context):
            check_ids([id_] * 2, name=path.name)
        if is_missing(cells.get("answer")):
            continue
        start = id_key(cells.get("answer_start"))
        if start is not None and not re.fullmatch(r"-?\d{1,12}", start):
            raise QuestionError(f"{row.place}: answer_start is not a whole number")
        given[id_].append((_one_text(cells, "answer", row), None if start is None else int(start)))
    if not asked:
        raise QuestionError(f"{path.name} has no rows")
    passages = {text: Passage(text, text_hash(text)) for _, text in asked.values()}
    for id_, (question, context) in asked.items():
        yield _extractive(id_, question, passages[context], given[id_], "answer" in found)


def _one_text(cells: dict[str, Any], name: str, row: Row) -> str:
    cell = cells[name]
    if isinstance(cell, str) and cell.strip():
        return cell
    fault = "is empty" if is_missing(cell) else "is not one text"
    raise QuestionError(f"{row.place}: {name} {fault}")
