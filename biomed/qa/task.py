"""The scoring task of answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from biomed.qa.model import Answer, AskSettings, QuestionAnswerer
from biomed.qa.questions import CONTEXT, QUESTION
from domainbert.errors import UserError
from domainbert.scoring import Fault, OutputRow, Task
from domainbert.tables import TEXT, Column, Row, is_missing

if TYPE_CHECKING:
    from biomed.qa.spans import QuestionPair

POSITION = ("start", "end", "document")
SENTENCE = ("sentence", "sentence_start", "sentence_end")
COLUMNS = ("rank", "answer", "score", "probability", *POSITION, *SENTENCE)
TYPES = {
    "answer": "string",
    "score": "double",
    "probability": "double",
    "sentence": "string",
}
NO_POSITION = dict.fromkeys([*POSITION, *SENTENCE])


class AskTask(Task["QuestionPair", "list[Answer]"]):
    """Answers to questions: one row per answer, best first.

    Output: `rank, answer, score, probability, start, end, document, sentence, sentence_start,
    sentence_end`; see `Answer`. Without an answer there is one row with an empty `answer`, no
    positions, and the score of the best rejected candidate.

    Args:
        answerer: the model.
        question: to ask about every row's `text`. Without one, the table has the columns
            `question` and `context` (a text or a list of texts).
        **options: see `AskSettings`.
    """

    name = "answers"
    columns: tuple[Column, ...]

    def __init__(
        self,
        answerer: QuestionAnswerer,
        *,
        question: str | None = None,
        **options: Any,
    ) -> None:
        if question is not None and not question.strip():
            raise UserError(
                "the question is empty; leave it out to read a column of questions"
            )
        self._answerer = answerer
        self._question = question
        self._options = AskSettings(**options).model_dump()
        self.columns = (TEXT,)
        if question is None:
            self.columns = (QUESTION, CONTEXT)

    @property
    def output(self) -> pa.Schema:
        """Rank, answer, scores, position, document, and the sentence with the answer."""
        return pa.schema(
            [(name, TYPES.get(name, "int64")) for name in COLUMNS]
        )

    def read(self, rows: Sequence[Row]) -> QuestionPair | Fault:
        """The tokenized question and context."""
        (row,) = rows
        question = self._question
        context = row.cells[self.columns[-1].name]
        if question is None:
            question = row.cells["question"]
        question = _as_python(question)
        context = _as_python(context)
        for name, value in (("question", question), ("context", context)):
            if is_missing(value) or value == []:
                return Fault(f"the {name} is empty", "empty")
        try:
            return self._answerer.pair_tokenizer.pair(question, context)
        except UserError as error:
            return Fault(str(error))

    def run(
        self, items: Iterable[QuestionPair]
    ) -> Iterator[list[Answer] | Fault]:
        """The answers of each pair."""
        for answers in self._answerer.answer_many(items, **self._options):
            if math.isnan(answers[0].score):
                yield Fault("the model's output is not a number")
            else:
                yield answers

    def rows(
        self, item: QuestionPair, result: list[Answer]
    ) -> list[OutputRow]:
        """One row per answer."""
        del item
        rows = []
        for rank, answer in enumerate(result, start=1):
            row = {"rank": rank, "answer": answer.text, **vars(answer)}
            if not answer.is_found:
                row |= NO_POSITION
            rows.append(row)
        return rows

    def about(self) -> dict[str, object]:
        """The model's name."""
        return {"model_name": self._answerer.name}

    def facts(self) -> dict[str, object]:
        """The model, the question and the options."""
        model = self._answerer.fingerprint()
        return {"model": model, "question": self._question, **self._options}


def _as_python(value: Any) -> Any:
    """An array as a list, anything else as it is."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return value
