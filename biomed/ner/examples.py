"""Training windows: tagged texts, packed anew in every epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from biomed.corpora.tags import TaggedText, spans_of
from biomed.ner.reading import cut
from domainbert.errors import UserError
from domainbert.windows import SPECIAL_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from biomed.ner.reading import WordReader

RUN = 20  # texts that stay together where an epoch reads a part of a corpus
IGNORED = -100  # what has no label: continuation pieces, special tokens, padding


@dataclass(frozen=True)
class Augmentation:
    """How training texts vary from epoch to epoch; a recipe's `[augmentation]` has these names.

    Attributes:
        alone: share of texts that are read by themselves; the others are joined with the texts
            that follow them in the file, up to a random length.
        longest: tokens of a window at most, [CLS] and [SEP] counted; None is the model's window.
        replaced: share of mentions that are replaced by another mention of their type.
        masked: share of words that are hidden behind [MASK].
    """

    alone: float = 0.3
    longest: int | None = None
    replaced: float = 0.0
    masked: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("alone", "replaced", "masked"):
            if not 0 <= getattr(self, name) <= 1:
                msg = f"{name} is a share between 0 and 1, got {getattr(self, name)}"
                raise UserError(msg)


@dataclass(frozen=True)
class Source:
    """The training side of one corpus.

    Attributes:
        texts: in file order, so that neighbours follow one another.
        codes: what each tag is called in training: an output of the network, or a number past
            the outputs for an `O` that leaves types open which this corpus does not annotate.
        repeat: how often an epoch reads it. Of a part, each epoch reads another: runs of `RUN`
            neighbours from all over the file, so that epochs are alike.
    """

    texts: tuple[TaggedText, ...] = field(repr=False)
    codes: dict[str, int]
    repeat: float = 1

    def of_epoch(self, epoch: int) -> Iterator[TaggedText]:
        """The texts that an epoch reads: it begins where the one before ended."""
        number = len(self.texts)
        places = np.arange(number)
        if self.repeat % 1:
            runs = np.random.default_rng(0).permutation(-(-number // RUN))
            places = places[np.argsort(np.argsort(runs)[places // RUN], kind="stable")]
        start, end = (math.ceil(number * self.repeat * e) for e in (epoch, epoch + 1))
        return (self.texts[places[place % number]] for place in range(start, end))


@dataclass(frozen=True, eq=False)
class Example:
    """A training window: token ids and the code of each token, both of shape (tokens,)."""

    ids: np.ndarray = field(repr=False)
    codes: np.ndarray = field(repr=False)


class ExampleMaker:
    """The windows of an epoch.

    Args:
        sources: the corpora.
        reader: of the model.
        window: tokens of a window at most.
        augmentation: see there.
        mask_id: of the [MASK] token.
        seed: of everything that is drawn.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        reader: WordReader,
        window: int,
        augmentation: Augmentation,
        mask_id: int,
        seed: int,
    ) -> None:
        self._sources, self._reader, self._mask = sources, reader, mask_id
        self._window = min(window, augmentation.longest or window)
        self._augmentation, self._seed = augmentation, seed
        self._mentions = _mentions(sources)

    def make(self, epoch: int) -> list[Example]:
        """The windows of one epoch; the same seed and epoch give the same windows."""
        generator = np.random.default_rng((self._seed, epoch))
        return [
            window
            for source in self._sources
            for text in self._packed(source, epoch, generator)
            for window in self._windows(text)
        ]

    def _packed(
        self, source: Source, epoch: int, generator: np.random.Generator
    ) -> Iterator[Example]:
        """Texts alone or joined with those that follow, without special tokens."""
        room = self._window - SPECIAL_TOKENS
        run: list[Example] = []
        size, wanted = 0, self._wanted(generator, room)
        for text in source.of_epoch(epoch):
            example = self._encoded(self._varied(text, generator), source.codes, generator)
            if run and (size >= wanted or size + len(example.ids) > room):
                yield _joined(run)
                run, size, wanted = [], 0, self._wanted(generator, room)
            run.append(example)
            size += len(example.ids)
        if run:
            yield _joined(run)

    def _wanted(self, generator: np.random.Generator, room: int) -> int:
        if generator.random() < self._augmentation.alone:
            return 0
        return int(generator.integers(room + 1))

    def _varied(self, text: TaggedText, generator: np.random.Generator) -> TaggedText:
        """The text with some mentions replaced."""
        if not self._augmentation.replaced:
            return text
        words, tags = list(text.words), list(text.tags)
        for start, end, kind in reversed(spans_of(text.tags)):
            if generator.random() < self._augmentation.replaced:
                pool = self._mentions[kind]
                other = pool[generator.integers(len(pool))]
                words[start:end] = other
                tags[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (len(other) - 1)
        return TaggedText(tuple(words), tuple(tags))

    def _encoded(
        self, text: TaggedText, codes: dict[str, int], generator: np.random.Generator
    ) -> Example:
        pieces = self._reader.read(text.words)
        labels = np.full(len(pieces.ids), IGNORED, dtype=np.int64)
        of_words = np.array([codes[tag] for tag in text.tags], dtype=np.int64)
        labels[pieces.first[pieces.is_read]] = of_words[pieces.is_read]
        ids = pieces.ids
        if self._augmentation.masked:
            hidden = generator.random(len(text.words)) < self._augmentation.masked
            counts = np.diff(np.append(pieces.first, len(ids)))
            ids = np.where(np.repeat(hidden, counts), self._mask, ids)
        return Example(ids, labels)

    def _windows(self, text: Example) -> Iterator[Example]:
        """The text between special tokens, cut where it is longer than a window."""
        for start, end in cut(len(text.ids), window=self._window, overlap=0):
            codes = np.concatenate(([IGNORED], text.codes[start:end], [IGNORED]))
            yield Example(self._reader.window(text.ids[start:end]), codes)


def _joined(run: Sequence[Example]) -> Example:
    return Example(
        np.concatenate([part.ids for part in run]), np.concatenate([part.codes for part in run])
    )


def _mentions(sources: Sequence[Source]) -> dict[str, list[tuple[str, ...]]]:
    """The distinct mentions of each type."""
    found: dict[str, dict[tuple[str, ...], None]] = {}
    for source in sources:
        for text in source.texts:
            for start, end, kind in spans_of(text.tags):
                found.setdefault(kind, {})[text.words[start:end]] = None
    return {kind: list(mentions) for kind, mentions in found.items()}
