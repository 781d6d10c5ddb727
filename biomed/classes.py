"""The classes that users hold, with tables, training and displays: entities, answers, terms."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.ner.entities import TaggedView
from biomed.ner.tagger import Tagger
from biomed.qa.model import AnswerModel
from biomed.terms.similarity import TermIndex, TermModel
from domainbert.models.embedder import check_many
from domainbert.models.pooling import unit
from domainbert.scoring import score_frame

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from biomed.corpora.corpus import Corpus
    from biomed.ner.training import EntityRecipe
    from domainbert.models.embedder import Embedder


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

        named = {"text": text} if text else None
        return score_frame(TagTask(self), frame, named=named, keep=keep)

    def show(self, text: str) -> TaggedView:
        """The text with its entities highlighted, for a notebook or a terminal."""
        return TaggedView(text, tuple(self.tag(text)), self.labels)


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


class TermEmbedder(TermModel):
    """Medical terms as vectors; see `domainbert.models.embedder.Embedder` for its other methods."""

    _index: tuple[bytes, TermIndex] | None = None  # of the vocabulary that `nearest` searched last

    def similarity_matrix(
        self, terms: Sequence[str], others: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Cosines of all terms with all others (or with each other), named on both sides."""
        import pandas as pd

        both = (terms, terms if others is None else others)
        for names in both:
            check_many(names)
        rows, columns = (unit(self.embed(list(names))) for names in both)
        index, across = (pd.Index(list(names)) for names in both)
        return pd.DataFrame(np.clip(rows @ columns.T, -1, 1), index=index, columns=across)

    def nearest(
        self,
        term: str,
        vocabulary: Sequence[str] | pd.DataFrame | None = None,
        *,
        k: int = 10,
    ) -> pd.DataFrame:
        """The k terms of a vocabulary nearest to a term, by name, synonym and then by vector.

        The vocabulary is a list of terms, or a table with `term` and `synonyms`; by default the
        shipped one. Its vectors are kept until another vocabulary is searched. For details see
        `biomed.TermIndex.nearest`.

        Raises:
            UserError: an empty vocabulary, one string instead of a list, or k < 1.
        """
        key = hashlib.sha256(pickle.dumps(vocabulary)).digest()
        if self._index is None or self._index[0] != key:
            self._index = key, TermIndex(self, vocabulary)
        return self._index[1].nearest(term, k=k)


def embed_frame(
    embedder: Embedder,
    frame: pd.DataFrame,
    *,
    column: str | None = None,
    keep: Iterable[str] = (),
) -> pd.DataFrame:
    """The vectors of a table of terms; see `EmbedTask` for the columns.

    Args:
        embedder: gives the vectors.
        frame: the terms, and anything else; ids are carried along.
        column: the one with the terms, where it is not called `term`.
        keep: further columns to carry along.

    Raises:
        TableError: no such column.
    """
    from biomed.terms.task import EmbedTask

    named = {"term": column} if column else None
    return score_frame(EmbedTask(embedder), frame, named=named, keep=keep)


def plot_terms(
    terms: Sequence[str],
    categories: Sequence[str] | None = None,
    *,
    embedder: Embedder | None = None,
    **options: Any,
) -> Figure:
    """Draw medical terms by t-SNE: similar terms are close, and colours are categories.

    The caption gives the perplexity and the share of true neighbourhoods that the picture keeps.
    Labels never overlap; a label without room is left out.

    Args:
        terms: four or more (thousands take minutes).
        categories: one for each term, for colours and legend.
        embedder: by default the shipped one.
        **options: perplexity and seed, see `biomed.terms.plots.layout_terms`.

    Raises:
        UserError: fewer than four terms, or another number of categories.
    """
    from biomed.terms.plots import layout_terms, plot_layout

    terms = list(terms)
    vectors = (embedder or TermEmbedder.from_pretrained()).embed(terms)
    return plot_layout(layout_terms(terms, vectors, categories=categories, **options))
