"""AskTask: answers to a table of questions, or to one question about a table of texts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from biomed.qa.formats import CONTEXT, QUESTION
from domainbert.errors import UserError
from domainbert.scoring import Fault, Task
from domainbert.tables import TEXT, is_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from biomed.qa.answerer import Answer, QuestionAnswerer
    from biomed.qa.reading import Pair
    from domainbert.tables import Row

PLACES = ("start", "end", "document", "passage_start", "passage_end")
SENTENCE = ("sentence_start", "sentence_end")


class AskTask(Task):
    """Answers for `score_frame` and `score_file`: one row per answer, best first.

    Without an answer there is one row with an empty `answer`, no positions, and the score of the
    best rejected candidate. See `Answer` for the columns. With a `question`, it is asked of every
    row's `text`; otherwise the table has columns `question` and `context` (a text or a list of
    texts). `top_k` and `threshold` are those of `QuestionAnswerer.answer`.
    """

    name = "answers"

    def __init__(
        self,
        answerer: QuestionAnswerer,
        *,
        question: str | None = None,
        top_k: int = 1,
        threshold: float | None = None,
    ) -> None:
        if question is not None and not question.strip():
            raise UserError("the question is empty; without one, the table has a column of them")
        self._answerer, self._question = answerer, question
        self._options: dict[str, Any] = {"top_k": top_k, "threshold": threshold}
        self.columns = (QUESTION, CONTEXT) if question is None else (TEXT,)

    @property
    def output(self) -> pa.Schema:
        """Rank, answer, scores, position, document, window, and the sentence with the answer."""
        import pyarrow as pa

        first = {"rank": pa.int64(), "answer": pa.string(), "score": pa.float64()}
        kind = {"score_kind": pa.string(), "probability": pa.float64()}
        places = dict.fromkeys(PLACES, pa.int64())
        sentence = {"sentence": pa.string(), **dict.fromkeys(SENTENCE, pa.int64())}
        return pa.schema({**first, **kind, **places, **sentence})

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
        found = (*PLACES, "sentence", *SENTENCE)
        return [
            {
                "rank": rank,
                "answer": answer.text,
                "score": answer.score,
                "score_kind": answer.score_kind,
                "probability": answer.probability,
                **{name: getattr(answer, name) for name in found if answer.is_found},
            }
            for rank, answer in enumerate(result, start=1)
        ]

    def facts(self) -> dict[str, Any]:
        """The model, the question and the options."""
        answerer = self._answerer
        return {"model": answerer.fingerprint(), "question": self._question, **self._options}
