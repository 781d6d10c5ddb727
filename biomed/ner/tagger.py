"""EntityTagger: text of any length -> its disease and drug entities, with exact positions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from biomed.corpora.words import after_blank_lines, split_words
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


@dataclass(frozen=True, eq=False)
class _ReadText:
    """A text, where its words are, the words after blank lines, and each reader's pieces."""

    text: str = field(repr=False)
    words: np.ndarray = field(repr=False)
    breaks: np.ndarray = field(repr=False)
    pieces: tuple[Pieces, ...] = field(repr=False)


class EntityTagger:
    """Finds entities in raw text with one or several networks.

    The text is cut into words as the training corpora are (`biomed.corpora.split_words`); each
    word is read in the window where it has most context; the tags are the best IOB2 sequence over
    the whole text. So entities are whole words, neighbours stay apart, and where a window ends
    does not show. An entity may go over a line break but not over a blank line.

    Make one with `from_pretrained`.

    Args:
        networks: one or several, each with entity types of its own.

    Raises:
        ValueError: no network, or two that find the same type.
    """

    score_kind = SCORE_KIND

    def __init__(self, *networks: WordTagger) -> None:
        if not networks:
            msg = 'name a model: EntityTagger.from_pretrained("disease", "drug")'
            raise UserError(msg)
        kinds = [kind for network in networks for kind in network.scheme.types]
        if twice := sorted({kind for kind in kinds if kinds.count(kind) > 1}):
            msg = f"two of the models find {', '.join(twice)}; use one of them at a time"
            raise UserError(msg)
        self.networks = networks
        self._buffer = min(network.runner.buffer_tokens for network in networks)
        # Networks with one and the same tokenizer read the same pieces.
        keys = [network.tokenizer_hash for network in networks]
        self._reader_of = [keys.index(key) for key in keys]

    @classmethod
    def from_pretrained(
        cls,
        *names: str | Path,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> Self:
        """Load shipped models by name ("disease", "drug"), model folders, or Hub ids.

        Any Hugging Face checkpoint for BERT token classification loads whose labels are IOB2.

        Raises:
            EncoderError: a name that is nothing, or an encoder without a trained head.
            ValueError: labels that are not IOB2, no name, or two models for one entity type.
        """
        from biomed.ner.network import WordTagger

        return cls(
            *(
                WordTagger.from_pretrained(name, device=device, batch_tokens=batch_tokens)
                for name in names
            )
        )

    @classmethod
    def fit(cls, corpora: Sequence[Corpus], **options: Any) -> EntityTagger:
        """Train one network on corpora; see `biomed.ner.fitting.fit` for the options."""
        from biomed.ner.fitting import fit

        return cls(fit(corpora, **options))

    def save_pretrained(self, folder: str | Path, *, merged: bool = False) -> None:
        """Write the model folder; see `WordTagger.save_pretrained`.

        Raises:
            ValueError: there are several networks, which are saved one by one.
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
        """Name the entity types."""
        return f"EntityTagger({', '.join(self.labels)})"

    def tag(self, text: str) -> list[Entity]:
        """The entities of one text, in order; `text[e.start:e.end] == e.text`.

        Entities of different networks may overlap; those of one never do.

        Raises:
            ValueError: not a string.
        """
        return next(self.tag_many([text]))

    def tag_many(self, texts: Iterable[str]) -> Iterator[list[Entity]]:
        """The entities of many texts, in the order given, as they finish, in flat memory.

        A text with no word gives an empty list.

        Raises:
            ValueError: one is not a string; the message has its number.
        """
        prepared = (self._read(text, number) for number, text in enumerate(texts))
        chunks = chunked(prepared, size=_size, limit=self._buffer)
        for chunk in read_ahead(chunks):
            found: list[list[Entity]] = [[] for _ in chunk]
            for network, reader in zip(self.networks, self._reader_of, strict=True):
                _add_entities(network, chunk, reader, found)
            for entities in found:
                yield sorted(entities, key=lambda e: (e.start, e.end, e.label))

    def _read(self, text: object, number: int) -> _ReadText:
        if not isinstance(text, str):
            msg = f"text number {number} is {type(text).__name__}, not a string"
            raise UserError(msg)
        words = split_words(text)
        strings = [text[start:end] for start, end in words.tolist()]
        pieces = tuple(
            network.reader.read(strings)
            for position, network in enumerate(self.networks)
            if self._reader_of[position] == position
        )
        return _ReadText(text, words, after_blank_lines(text, words), pieces)

    def tag_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The entities of a table of texts; see `biomed.ner.tables.tag_frame`."""
        from biomed.ner.tables import tag_frame

        return tag_frame(self, frame)

    def show(self, text: str) -> TaggedView:
        """The text with its entities marked, for a notebook or a terminal."""
        from biomed.ner.display import TaggedView

        return TaggedView(text, tuple(self.tag(text)), self.labels)


def _size(text: _ReadText) -> int:
    return 1 + max(len(pieces.ids) for pieces in text.pieces)


def _add_entities(
    network: WordTagger, chunk: Sequence[_ReadText], reader: int, found: list[list[Entity]]
) -> None:
    """One network's entities of a chunk of texts, added to each text's list."""
    pieces = [text.pieces[reader] for text in chunk]
    scores = network.log_probabilities(pieces)
    counts = np.array([int(read.is_read.sum()) for read in pieces])
    offsets = np.cumsum(counts) - counts
    words = np.concatenate([t.words[p.is_read] for t, p in zip(chunk, pieces, strict=True)])
    starts = [
        offset + np.searchsorted(np.flatnonzero(read.is_read), np.append(0, text.breaks))
        for text, read, offset in zip(chunk, pieces, offsets, strict=True)
    ]
    all_starts = np.unique(np.concatenate(starts))
    entities = find_entities(
        scores, scheme=network.scheme, starts=all_starts[all_starts < len(scores)]
    )
    owner = np.searchsorted(offsets, entities.first, side="right") - 1
    rows = zip(
        owner.tolist(),
        words[entities.first, 0].tolist(),
        words[entities.last, 1].tolist(),
        entities.kind.tolist(),
        entities.score.tolist(),
        strict=True,
    )
    for number, start, end, kind, score in rows:
        text = chunk[number].text[start:end]
        found[number].append(Entity(start, end, text, network.scheme.types[kind], score))
