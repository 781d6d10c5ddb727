"""Answers as rows of a table (`AskTask`), and marked in their sentences (`answer_view`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from biomed.ner.entities import Entity, TaggedView
from biomed.qa.model import AskSettings
from biomed.qa.questions import CONTEXT, QUESTION
from domainbert.errors import UserError
from domainbert.scoring import Fault, Task
from domainbert.tables import TEXT, is_missing

if TYPE_CHECKING:
    import pyarrow as pa

    from biomed.qa.model import Answer, AnswerModel
    from biomed.qa.spans import Pair
    from domainbert.tables import Row

NO_ANSWER = "No answer was found."
PLACES = ("start", "end", "document")
SENTENCE = ("sentence", "sentence_start", "sentence_end")
COLUMNS = ("rank", "answer", "score", "probability", *PLACES, *SENTENCE)
TYPES = {
    "answer": "string",
    "score": "double",
    "probability": "double",
    "sentence": "string",
}
NO_PLACE = dict.fromkeys([*PLACES, *SENTENCE])


class AskTask(Task):
    """Answers for `score_frame` and `score_file`: one row per answer, best first.

    Without an answer there is one row with an empty `answer`, no positions, and the score of the
    best rejected candidate. See `Answer` for the columns. With a `question`, it is asked of every
    row's `text`; otherwise the table has columns `question` and `context` (a text or a list of
    texts). `options` are those of `AskSettings`.
    """

    name = "answers"

    def __init__(
        self, answerer: AnswerModel, *, question: str | None = None, **options: Any
    ) -> None:
        if question is not None and not question.strip():
            raise UserError(
                "the question is empty; without one, the table has a column of them"
            )
        self._answerer, self._question = answerer, question
        self._options = AskSettings(**options).model_dump()
        self.columns = (QUESTION, CONTEXT) if question is None else (TEXT,)

    @property
    def output(self) -> pa.Schema:
        """Rank, answer, scores, position, document, and the sentence with the answer."""
        import pyarrow as pa

        return pa.schema([(name, TYPES.get(name, "int64")) for name in COLUMNS])

    def read(self, rows: Sequence[Row]) -> Pair | Fault:
        """The tokenised question and context."""
        (row,) = rows
        asked = row.cells["question"] if self._question is None else self._question
        context = row.cells["context" if self._question is None else "text"]
        context = context.tolist() if hasattr(context, "tolist") else context
        for name, value in (("question", asked), ("context", context)):
            if is_missing(value) or (isinstance(value, list) and not value):
                return Fault(f"the {name} is empty", "empty")
        try:
            return self._answerer.reader.pair(asked, context)
        except UserError as error:
            return Fault(str(error))

    def run(self, items: Iterable[Pair]) -> Iterator[list[Answer] | Fault]:
        """The answers of each pair."""
        for answers in self._answerer.answer_many(items, **self._options):
            broken = math.isnan(answers[0].score)
            yield Fault("the model's output is not a number") if broken else answers

    def rows(self, item: Pair, result: list[Answer]) -> list[dict[str, Any]]:
        """One row per answer."""
        del item
        rows = [
            {"rank": rank, "answer": a.text, **vars(a)}
            for rank, a in enumerate(result, start=1)
        ]
        return [row if row["answer"] else row | NO_PLACE for row in rows]

    def about(self) -> dict[str, Any]:
        """The model's name."""
        return {"model_name": self._answerer.name}

    def facts(self) -> dict[str, Any]:
        """The model, the question and the options."""
        model = self._answerer.fingerprint()
        return {"model": model, "question": self._question, **self._options}


def answer_view(answers: Iterable[Answer]) -> TaggedView:
    """Each answer marked in its sentence."""
    shown, marked = "", []
    for answer in answers:
        if answer.is_found:
            shown += "\n\n" * bool(shown)
            start = len(shown) + answer.start - answer.sentence_start
            end = start + len(answer.text)
            marked.append(Entity(start, end, answer.text, "answer", answer.score))
            shown += answer.sentence
    return TaggedView(shown or NO_ANSWER, tuple(marked), ("answer",))
