"""AskTask: answers to a table of questions, or to one question about a table of texts."""

from __future__ import annotations

import math
from dataclasses import asdict
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


class AskTask(Task):
    """Answers for `score_frame` and `score_file`: one row per answer, best first.

    A row without an answer has `rank` 1, an empty `answer`, no positions, and in `score` that of
    the best rejected candidate. See `Answer` for the other columns.

    Args:
        answerer: the model.
        question: asked of every row's `text`; None: the table has columns `question` and
            `context` (a text or a list of texts).
        top_k: see `QuestionAnswerer.answer`.
        threshold: see `QuestionAnswerer.answer`.
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
        self._answerer, self._question = answerer, question
        self._options: dict[str, Any] = {"top_k": top_k, "threshold": threshold}
        self.columns = (QUESTION, CONTEXT) if question is None else (TEXT,)

    @property
    def output(self) -> pa.Schema:
        """Rank, answer, position, score, document, and the window it was found in."""
        import pyarrow as pa

        whole = ("start", "end", "document", "passage_start", "passage_end")
        return pa.schema(
            [
                pa.field("rank", pa.int64()),
                pa.field("answer", pa.string()),
                pa.field("score", pa.float64()),
                pa.field("score_kind", pa.string()),
                *(pa.field(name, pa.int64()) for name in whole),
            ]
        )

    def read(self, rows: Sequence[Row]) -> Pair | Fault:
        """The tokenised question and context."""
        (row,) = rows
        asked = self._question or row.cells["question"]
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
        for answers in self._answerer.answer_read(items, **self._options):
            broken = math.isnan(answers[0].score)
            yield Fault("the model's output is not a number") if broken else answers

    def rows(self, item: Pair, result: list[Answer]) -> list[dict[str, Any]]:
        """One row per answer."""
        del item
        kept = {"score", "score_kind"}
        rows = []
        for rank, answer in enumerate(result, start=1):
            row = asdict(answer) | {"rank": rank, "answer": answer.text}
            del row["text"]
            if not answer.is_found:
                row = {name: row[name] for name in kept} | {"rank": 1, "answer": ""}
            rows.append(row)
        return rows

    def facts(self) -> dict[str, Any]:
        """The model, the question and the options."""
        model = self._answerer.fingerprint()
        return {"model": model, "question": self._question, **self._options}
