"""`EntityTagger`: finds entities with exact positions in text of any length."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from biomed.corpora.words import split_words, starts_after_breaks
from biomed.ner.decoding import find_entities
from biomed.ner.entities import SCORE_KIND, Entity
from domainbert.errors import UserError
from domainbert.inference import chunked, read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import pandas as pd
    import torch

    from biomed.corpora.corpus import Corpus
    from biomed.ner.display import TaggedView
    from biomed.ner.network import WordTagger
    from biomed.ner.reading import Pieces
    from biomed.ner.training import EntityRecipe


@dataclass(frozen=True, eq=False)
class _ReadText:
    """A text, its words, the words into which no entity continues, and the pieces by tokenizer."""

    text: str = field(repr=False)
    words: np.ndarray = field(repr=False)
    breaks: np.ndarray = field(repr=False)
    pieces: dict[bytes, Pieces] = field(repr=False)

    def __len__(self) -> int:
        """Tokens, for the size of a chunk."""
        return 1 + max(len(pieces.ids) for pieces in self.pieces.values())


class EntityTagger:
    """Finds entities in raw text with one or more networks.

    The text is split into words as the training corpora are (`biomed.corpora.split_words`). Each
    word is read in the window where it has the most context, and the tags are the best IOB2
    sequence over the whole text, so results do not depend on where windows end. Entities are
    whole words with at least one letter. They may continue over a line break, but not over a blank
    line or from one list item into the next (`biomed.corpora.starts_after_breaks`).

    Make one with `from_pretrained`. Threads may share it.

    Args:
        networks: each with its own entity types.
        min_score: leave out entities with a lower `score`.

    Raises:
        UserError: no network, or two networks for one type.
    """

    score_kind = SCORE_KIND

    def __init__(self, *networks: WordTagger, min_score: float = 0.0) -> None:
        if not networks:
            msg = 'name a model: EntityTagger.from_pretrained("disease", "drug")'
            raise UserError(msg)
        kinds = [kind for network in networks for kind in network.scheme.types]
        if twice := sorted({kind for kind in kinds if kinds.count(kind) > 1}):
            msg = f"two of the models find {', '.join(twice)}; use one of them at a time"
            raise UserError(msg)
        if not 0 <= min_score <= 1:
            msg = f"min_score: expected a number from 0 to 1, got {min_score!r}"
            raise UserError(msg)
        self.networks, self.min_score = networks, min_score
        self._buffer = min(network.runner.buffer_tokens for network in networks)
        # Networks with the same tokenizer share one reader.
        self._keys = [network.tokenizer_hash for network in networks]
        self._readers = {
            key: network.reader for key, network in zip(self._keys, networks, strict=True)
        }

    @classmethod
    def from_pretrained(
        cls,
        *names: str | Path,
        min_score: float = 0.0,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> Self:
        """Load shipped models by name ("disease", "drug"), model folders, or hub:owner/name.

        Hugging Face checkpoints of BERT for token classification load if their labels are IOB2.

        Args:
            names: one or more.
            min_score: leave out entities with a lower `score`.
            device: "cpu", "cuda", …; by default CUDA if available.
            batch_tokens: tokens of a batch, padding included; the default depends on the device.

        Raises:
            EncoderError: no such model, or an encoder without a trained head.
            UserError: labels that are not IOB2, no name, or two models for one entity type.
        """
        from biomed.ner.network import WordTagger

        options: dict[str, Any] = {"device": device, "batch_tokens": batch_tokens}
        networks = [WordTagger.from_pretrained(name, **options) for name in names]
        return cls(*networks, min_score=min_score)

    @classmethod
    def fit(
        cls, corpora: Sequence[Corpus], recipe: EntityRecipe | None = None, **options: Any
    ) -> EntityTagger:
        """Train one network on corpora; see `biomed.ner.training.fit`."""
        from biomed.ner.training import fit

        return cls(fit(corpora, recipe, **options))

    def save_pretrained(self, folder: str | Path, *, merged: bool = False) -> None:
        """Write the model folder; see `WordTagger.save_pretrained`.

        Raises:
            UserError: there are several networks, which are saved one by one.
        """
        if len(self.networks) > 1:
            msg = "a folder holds one model: tagger.networks[0].save_pretrained(folder)"
            raise UserError(msg)
        self.networks[0].save_pretrained(folder, merged=merged)

    @property
    def labels(self) -> tuple[str, ...]:
        """The entity types that it finds."""
        return tuple(kind for network in self.networks for kind in network.scheme.types)

    def __repr__(self) -> str:
        """The entity types."""
        return f"EntityTagger({', '.join(self.labels)})"

    def tag(self, text: str) -> list[Entity]:
        """The entities of a text, in order; `text[e.start:e.end] == e.text`.

        Entities of different networks may overlap; those of one network never do.

        Raises:
            UserError: not a string.
        """
        return next(self.tag_many([text]))

    def tag_many(self, texts: Iterable[str]) -> Iterator[list[Entity]]:
        """The entities of each text, in the order given, in constant memory.

        Raises:
            UserError: one is not a string (the message has its number), or a string, mapping or
                DataFrame is given instead of a list.
        """
        if isinstance(texts, str | bytes):
            msg = "tag_many: expected a list of texts, got one text; use tag(text) or [text]"
            raise UserError(msg)
        if isinstance(texts, dict) or hasattr(texts, "columns"):  # their items are names
            kind = type(texts).__name__
            msg = f"tag_many: expected a list of texts, got {kind}; use tag_frame for a DataFrame"
            raise UserError(msg)
        return self._tag_many(texts)

    def _tag_many(self, texts: Iterable[str]) -> Iterator[list[Entity]]:
        read = (self._read(text, number) for number, text in enumerate(texts))
        for chunk in read_ahead(chunked(read, size=len, limit=self._buffer)):
            found: list[list[Entity]] = [[] for _ in chunk]
            for network, key in zip(self.networks, self._keys, strict=True):
                self._add_entities(network, chunk, [text.pieces[key] for text in chunk], found)
            for entities in found:
                yield sorted(entities, key=lambda e: (e.start, e.end, e.label))

    def _read(self, text: object, number: int) -> _ReadText:
        if not isinstance(text, str):
            msg = f"text number {number} is {type(text).__name__}, not a string"
            raise UserError(msg)
        words = split_words(text)
        strings = [text[start:end] for start, end in words.tolist()]
        pieces = {key: reader.read(strings) for key, reader in self._readers.items()}
        return _ReadText(text, words, starts_after_breaks(text, words), pieces)

    def _add_entities(
        self,
        network: WordTagger,
        chunk: Sequence[_ReadText],
        pieces: Sequence[Pieces],
        found: list[list[Entity]],
    ) -> None:
        """Add a network's entities of a chunk of texts to the list of each text."""
        scores = network.log_probabilities(pieces)
        counts = np.array([int(read.is_read.sum()) for read in pieces])
        offsets = np.cumsum(counts) - counts
        words = np.concatenate([t.words[p.is_read] for t, p in zip(chunk, pieces, strict=True)])
        starts = np.unique(
            np.concatenate(
                [
                    offset + np.searchsorted(np.flatnonzero(read.is_read), np.append(0, t.breaks))
                    for t, read, offset in zip(chunk, pieces, offsets, strict=True)
                ]
            )
        )
        entities = find_entities(scores, scheme=network.scheme, starts=starts[starts < len(scores)])
        rows = zip(
            (np.searchsorted(offsets, entities.first, side="right") - 1).tolist(),
            words[entities.first, 0].tolist(),
            words[entities.last, 1].tolist(),
            entities.kind.tolist(),
            entities.score.tolist(),
            strict=True,
        )
        for number, start, end, kind, score in rows:
            text = chunk[number].text[start:end]
            if score >= self.min_score and any(map(str.isalpha, text)):
                found[number].append(Entity(start, end, text, network.scheme.types[kind], score))

    def tag_frame(
        self, frame: pd.DataFrame, *, text: str | None = None, keep: Sequence[str] = ()
    ) -> pd.DataFrame:
        """The entities of a table of texts.

        Args:
            frame: a column `text`, and ids (`id`, `*_id` and common names), which are repeated.
            text: name of the text column, if it is not recognised.
            keep: other columns to repeat.

        Returns:
            One row for each entity: ids, `row` (the text's position in the table, from 0),
            `start, end, text, label, score, score_kind, status, reason`. A text without entities
            has one row with empty fields, with status "empty" if there is no text, and "error"
            with the reason if it cannot be read.

        Raises:
            TableError: no column with texts.
        """
        from biomed.ner.task import TagTask
        from domainbert.scoring import score_frame

        named = {"text": text} if text else None
        return score_frame(TagTask(self), frame, named=named, keep=keep)

    def show(self, text: str) -> TaggedView:
        """The text with its entities highlighted, for a notebook or a terminal."""
        from biomed.ner.display import TaggedView

        return TaggedView(text, tuple(self.tag(text)), self.labels)
