"""QuestionAnswerer: the model that users hold, with tables and a display of its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from biomed.qa.model import AnswerModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import pandas as pd

    from biomed.ner.entities import TaggedView


class QuestionAnswerer(AnswerModel):
    """Finds the answer to a question in text of any length; see `biomed.qa.model.AnswerModel`."""

    @classmethod
    def from_pretrained(cls, name: str | Path = "qa", **options: Any) -> Self:
        """Load the shipped model, a model folder or `hub:owner/name`; see `Model`."""
        return super().from_pretrained(name, **options)

    def answer_frame(
        self,
        frame: pd.DataFrame,
        *,
        question: str | None = None,
        named: Mapping[str, str] | None = None,
        keep: Iterable[str] = (),
        **options: Any,
    ) -> pd.DataFrame:
        """Answers for a table, one row per answer; for its columns see `biomed.qa.task.AskTask`.

        Args:
            frame: columns `question` and `context`, or, with a `question`, `text`.
            question: to ask of every row.
            named: see `domainbert.scoring.score_frame`.
            keep: see there.
            **options: `top_k` and `threshold`, see `answer`.
        """
        from biomed.qa.task import AskTask
        from domainbert.scoring import score_frame

        task = AskTask(self, question=question, **options)
        return score_frame(task, frame, named=named, keep=keep)

    def show(self, question: str, context: str, **options: Any) -> TaggedView:
        """The answers marked in their sentences, for a notebook or `print`; see `answer`."""
        from biomed.qa.task import answer_view

        return answer_view(self.answer(question, context, **options))
