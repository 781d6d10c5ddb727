"""`EntityTagger`: finds entities with exact positions in text of any length."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from biomed.corpora import words as marks
from biomed.ner.assertion import assert_spans
from biomed.ner.entities import CALIBRATED, SCORE_KIND, Entity, TaggedView
from domainbert.errors import UserError
from domainbert.inference import chunked, read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import numpy as np
    import pandas as pd
    import torch

    from biomed.corpora.corpus import Corpus
    from biomed.ner.linking import EntityLinker
    from biomed.ner.network import WordTagger
    from biomed.ner.reading import Pieces
    from biomed.ner.training import EntityRecipe


@dataclass(frozen=True, eq=False, repr=False)
class _ReadText:
    """A text, its words, those of `biomed.corpora.words`, and the pieces by tokenizer."""

    text: str
    words: np.ndarray
    breaks: np.ndarray
    shorthand: np.ndarray
    joined: np.ndarray
    pieces: dict[bytes, Pieces]

    def __len__(self) -> int:
        """Tokens, for the size of a chunk."""
        return 1 + max(len(pieces.ids) for pieces in self.pieces.values())


class EntityTagger:
    """Finds entities in raw text with one or more networks.

    The text is split into words as the training corpora are (`biomed.corpora.split_words`). Each
    word is read in the window where it has the most context, and the tags are the best IOB2
    sequence over the whole text, so results do not depend on where windows end. Entities are
    whole words with at least one letter. They may continue over a line break, but not over a blank
    line, into the next list item, or into shorthand such as "s/p" (`biomed.corpora.words`). They
    do not end before an attached number ("COVID-19").

    Make one with `from_pretrained`. Each network has its own entity types. Threads may share it.
    """

    def __init__(
        self, *networks: WordTagger, min_score: float = 0.0, linker: EntityLinker | None = None
    ) -> None:
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
        self.networks, self.min_score, self.linker = networks, min_score, linker
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
        linker: EntityLinker | None = None,
        labels: str | None = None,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> Self:
        """Load shipped models by name ("disease", "drug"), model folders, or hub:owner/name.

        Hugging Face checkpoints for token classification load too, of any encoder family that has
        a fast tokenizer; `labels` names and explains their outputs, see
        `biomed.ner.labels.read_labels`. Entities with a score below `min_score` are left out;
        `linker` gives them ids. See `domainbert.model.Model` for `device` and `batch_tokens`.

        Raises:
            EncoderError: no such model, or an encoder without a trained head.
            UserError: labels that are not IOB2, no name, or two models for one entity type.
        """
        from biomed.ner.network import WordTagger

        networks = [
            WordTagger.from_pretrained(
                name, labels=labels, device=device, batch_tokens=batch_tokens
            )
            for name in names
        ]
        return cls(*networks, min_score=min_score, linker=linker)

    @classmethod
    def fit(
        cls, corpora: Sequence[Corpus], recipe: EntityRecipe | None = None, **options: Any
    ) -> EntityTagger:
        """Train one network on corpora; see `biomed.ner.training.fit`."""
        from biomed.ner.training import fit

        return cls(fit(corpora, recipe, **options))

    def save_pretrained(self, folder: str | Path, *, merged: bool = False) -> None:
        """Write the folder of the only network; see `domainbert.model.Model.save_pretrained`."""
        if len(self.networks) > 1:
            msg = "a folder holds one model: tagger.networks[0].save_pretrained(folder)"
            raise UserError(msg)
        self.networks[0].save_pretrained(folder, merged=merged)

    @property
    def score_kind(self) -> str:
        """What tables call the scores: "calibrated" if those of all entity types are."""
        known = {kind for network in self.networks for kind in network.settings.calibration}
        return CALIBRATED if known >= set(self.labels) else SCORE_KIND

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
        """
        return next(self.tag_many([text]))

    def tag_many(self, texts: Iterable[str]) -> Iterator[list[Entity]]:
        """The entities of each text, in the order given, in constant memory.

        Raises:
            UserError: one text instead of several, a table, or an item that is not a string.
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
                pieces, breaks = [t.pieces[key] for t in chunk], [t.breaks for t in chunk]
                spans = network.entities(pieces, breaks=breaks, joined=[t.joined for t in chunk])
                for text, here, entities in zip(chunk, spans, found, strict=True):
                    entities += self._kept(text, here)
            yield from self._linked(list(map(self._finished, chunk, found)))

    def _finished(self, read: _ReadText, entities: list[Entity]) -> list[Entity]:
        """The entities with a sufficient score in order, with their assertions."""
        entities.sort(key=lambda e: (e.start, e.end, e.label))
        asserted = assert_spans(read.text, [(e.start, e.end, e.label) for e in entities])
        return [
            replace(e, assertion=a)
            for e, a in zip(entities, asserted, strict=True)
            if e.score >= self.min_score
        ]

    def _linked(self, texts: list[list[Entity]]) -> list[list[Entity]]:
        """The entities of each text with their ids."""
        if self.linker is None:
            return texts
        links = iter(self.linker.link([e.text for entities in texts for e in entities]))
        pairs = ([(e, next(links)) for e in entities] for entities in texts)
        return [
            [replace(e, id=k.id, name=k.name, link_score=k.score) if k else e for e, k in own]
            for own in pairs
        ]

    def _read(self, text: object, number: int) -> _ReadText:
        if not isinstance(text, str):
            msg = f"text number {number} is {type(text).__name__}, not a string"
            raise UserError(msg)
        words = marks.split_words(text)
        strings = [text[start:end] for start, end in words.tolist()]
        spaced = [start > 0 and text[start - 1].isspace() for start in words[:, 0].tolist()]
        pieces = {key: r.read(strings, spaced=spaced) for key, r in self._readers.items()}
        breaks = marks.starts_after_breaks(text, words)
        shorthand = marks.starts_of_shorthand(text, words)
        joined = marks.words_of_numbers(text, words)
        return _ReadText(text, words, breaks, shorthand, joined, pieces)

    def _kept(
        self, read: _ReadText, spans: Iterable[tuple[int, int, str, float]]
    ) -> Iterator[Entity]:
        """The entities that have a letter, without shorthand that they continue into."""
        for first, last, kind, score in spans:
            inside = read.shorthand[(read.shorthand > first) & (read.shorthand < last)]
            stop = min([last, *inside.tolist()])
            start, end = int(read.words[first, 0]), int(read.words[stop - 1, 1])
            text = read.text[start:end]
            if any(map(str.isalpha, text)):
                yield Entity(start, end, text, kind, score)

    def tag_frame(
        self, frame: pd.DataFrame, *, text: str | None = None, keep: Sequence[str] = ()
    ) -> pd.DataFrame:
        """The entities of a table with a column `text`, one row for each entity.

        Args:
            frame: texts, and ids (`id`, `*_id` and common names), which are repeated.
            text: name of the text column, if it is not recognised.
            keep: other columns to repeat.

        Returns:
            Ids, `row` (the text's position in the table, from 0), `start, end, text, label, score,
            score_kind, assertion, status, reason`; with a dictionary also `entity_id, entity_name,
            link_score`. A text without entities has one row with empty fields; its
            status is "empty" if there is no text, and "error" if it cannot be read.
        """
        from biomed.ner.task import TagTask
        from domainbert.scoring import score_frame

        named = {"text": text} if text else None
        return score_frame(TagTask(self), frame, named=named, keep=keep)

    def show(self, text: str) -> TaggedView:
        """The text with its entities highlighted, for a notebook or a terminal."""
        return TaggedView(text, tuple(self.tag(text)), self.labels)
