"""The classes that users hold, with tables, training and displays: entities and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biomed.ner.entities import TaggedView
from biomed.ner.network import WordTagger
from biomed.ner.tagger import Tagger
from biomed.qa.model import AnswerModel
from domainbert.scoring import score_frame

if TYPE_CHECKING:
    import pandas as pd

    from biomed.corpora.corpus import Corpus
    from biomed.ner.medications import Medication
    from biomed.ner.training import EntityRecipe


class EntityTagger(Tagger):
    """Finds entities in raw text; see `biomed.ner.tagger.Tagger`."""

    @classmethod
    def fit(
        cls,
        corpora: Sequence[Corpus],
        recipe: EntityRecipe | None = None,
        *,
        checkpoints: str | Path | None = None,
        resume: bool = False,
    ) -> EntityTagger:
        """Train one network on corpora; see `biomed.ner.training.fit`."""
        network = WordTagger.fit(
            corpora, recipe, checkpoints=checkpoints, resume=resume
        )
        return cls(network)

    def save_pretrained(self, folder: str | Path, *, merged: bool = False) -> None:
        """Write the model's folder; see `Model.save_pretrained`."""
        self.network.save_pretrained(folder, merged=merged)

    def tag_frame(
        self,
        frame: pd.DataFrame,
        *,
        text: str | Sequence[str] | None = None,
        keep: Sequence[str] = (),
    ) -> pd.DataFrame:
        """The entities of a table with a column `text`, one row for each entity.

        Args:
            frame: texts, and ids (`id`, `*_id` and common names), which are repeated.
            text: name of the text column, if it is not recognised; of several, such as `["title",
                "abstract"]`, the output has a column `field`, in which the positions count.
            keep: other columns to repeat.

        Returns:
            Ids, `row` (the text's position in the table, from 0), `start, end, entity, label,
            score, score_kind, assertion, section, section_code, entity_id, entity_name,
            entity_codes, link_score`; of drugs `drug_status, drug_dose, drug_unit, drug_route,
            drug_frequency, drug_duration, drug_form, drug_as_needed, drug_reason, drug_reaction`
            and `drug_attributes` (JSON, with offsets); and `status, reason`. A text without
            entities has one row with empty fields; its status is "empty" if there is no text, and
            "error" if it cannot be read.
        """
        from biomed.ner.task import TagTask

        named = {"text": text} if isinstance(text, str) else None
        fields = text if text and not isinstance(text, str) else ()
        task = TagTask(self, fields=fields)
        return score_frame(task, frame, named=named, keep=keep)

    def show(self, text: str) -> TaggedView:
        """The text with its entities highlighted, for a notebook or a terminal."""
        return TaggedView(text, tuple(self.tag(text)), self.labels)


@cache
def _shipped_tagger() -> Tagger:
    return Tagger.from_pretrained()


def medications(text: str, *, tagger: Tagger | None = None) -> list[Medication]:
    """The drugs of a text with their dose, route, frequency and so on, in order.

    Args:
        text: a note, or a part of one.
        tagger: finds the drugs and diseases; the shipped model if None.
    """
    entities = (tagger or _shipped_tagger()).tag(text)
    return [e.medication for e in entities if e.medication is not None]


class QuestionAnswerer(AnswerModel):
    """Finds the answer to a question in text of any length; see `biomed.qa.model.AnswerModel`."""

    default = "qa"

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

        task = AskTask(self, question=question, **options)
        return score_frame(task, frame, named=named, keep=keep)

    def show(self, question: str, context: str, **options: Any) -> TaggedView:
        """The answers marked in their sentences, for a notebook or `print`; see `answer`."""
        from biomed.qa.task import answer_view

        return answer_view(self.answer(question, context, **options))
