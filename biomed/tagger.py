"""`EntityTagger`: the tagger that users hold, with training, tables and a view in colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from biomed.ner.entities import TaggedView
from biomed.ner.tagger import Tagger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from biomed.corpora.corpus import Corpus
    from biomed.ner.training import EntityRecipe


class EntityTagger(Tagger):
    """Finds entities in raw text; see `biomed.ner.tagger.Tagger`."""

    @classmethod
    def fit(
        cls, corpora: Sequence[Corpus], recipe: EntityRecipe | None = None, **options: Any
    ) -> EntityTagger:
        """Train one network on corpora; see `biomed.ner.training.fit`."""
        from biomed.ner.training import fit

        return cls(fit(corpora, recipe, **options))

    def save_pretrained(self, folder: str | Path, *, merged: bool = False) -> None:
        """Write the model's folder; see `Model.save_pretrained`."""
        self.network.save_pretrained(folder, merged=merged)

    def tag_frame(
        self, frame: pd.DataFrame, *, text: str | None = None, keep: Sequence[str] = ()
    ) -> pd.DataFrame:
        """The entities of a table with a column `text`, one row for each entity.

        Args:
            frame: texts, and ids (`id`, `*_id` and common names), which are repeated.
            text: name of the text column, if it is not recognised.
            keep: other columns to repeat.

        Returns:
            Ids, `row` (the text's position in the table, from 0), `start, end, entity, label,
            score, score_kind, assertion, entity_id, entity_name, link_score, status, reason`. A
            text without entities has one row with empty fields; its status is "empty" if there is
            no text, and "error" if it cannot be read.
        """
        from biomed.ner.task import TagTask
        from domainbert.scoring import score_frame

        named = {"text": text} if text else None
        return score_frame(TagTask(self), frame, named=named, keep=keep)

    def show(self, text: str) -> TaggedView:
        """The text with its entities highlighted, for a notebook or a terminal."""
        return TaggedView(text, tuple(self.tag(text)), self.labels)
