"""Training windows, packed from tagged texts anew in every epoch."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from biomed.corpora.corpus import without
from biomed.corpora.documents import CorpusError, TaggedText, spans_of, tags_of
from biomed.ner.decoding import tags_for
from biomed.ner.evaluation import check_types
from biomed.ner.reading import cut
from domainbert.errors import UserError
from domainbert.settings import Count, Settings
from domainbert.windows import SPECIAL_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from biomed.corpora.corpus import Corpus
    from biomed.ner.decoding import TagScheme
    from biomed.ner.reading import WordReader

RUN = 20  # consecutive texts that stay together if an epoch reads a part of a corpus
IGNORED = -100  # the code of continuation pieces, special tokens and padding
Part = Annotated[float, Field(ge=0, le=1)]
log = logging.getLogger(__name__)


class Augmentation(Settings):
    """How training texts vary between epochs: the `[augmentation]` table of a recipe.

    Attributes:
        alone: share of texts that are read on their own; the others are joined with the texts
            that follow them in the file, up to a random length.
        longest: maximum tokens of a window, special tokens included; None is the model's window.
        swapped: share of mentions that are replaced by another mention of their type.
        masked: share of words that are replaced by [MASK].
    """

    alone: Part = 0.3
    longest: Count | None = None
    swapped: Part = 0.0
    masked: Part = 0.0


@dataclass(frozen=True)
class Source:
    """The training texts of one corpus, in file order.

    Attributes:
        codes: the code of each tag: an output of the network, or a larger number for an `O` that
            allows types which this corpus does not annotate.
        repeat: how often an epoch reads the corpus. A fraction is a different part in every epoch:
            runs of `RUN` neighbours from the whole file, so that epochs are alike.
    """

    texts: tuple[TaggedText, ...] = field(repr=False)
    codes: dict[str, int]
    repeat: float = 1

    def of_epoch(self, epoch: int) -> Iterator[TaggedText]:
        """The texts of an epoch, which starts where the one before ended."""
        number = len(self.texts)
        places = np.arange(number)
        if self.repeat % 1:
            runs = np.random.default_rng(0).permutation(-(-number // RUN))
            places = places[np.argsort(np.argsort(runs)[places // RUN], kind="stable")]
        start, end = (math.ceil(number * self.repeat * e) for e in (epoch, epoch + 1))
        return (self.texts[places[place % number]] for place in range(start, end))


def entity_types(corpora: Sequence[Corpus], repeat: Mapping[str, float]) -> list[str]:
    """The entity types of all corpora; a `UserError` if these cannot be trained on."""
    for corpus in corpora:
        if not corpus.to_train.types or (corpus.devel and not corpus.devel.types):
            msg = f"corpus {corpus.name} needs entities in train and in devel"
            raise CorpusError(msg)
    if not any(corpus.devel for corpus in corpora):
        msg = "no corpus has a devel side, which chooses the weights"
        raise CorpusError(msg)
    names = [corpus.name for corpus in corpora]
    if strange := [name for name in repeat if name not in names]:
        msg = f"repeat: no corpus is called {strange[0]!r}; there are {', '.join(names)}"
        raise UserError(msg)
    types = sorted({kind for corpus in corpora for kind in corpus.to_train.types})
    for corpus in corpora:
        if corpus.devel:
            check_types(types, corpus.devel)
    return types


def make_sources(
    corpora: Sequence[Corpus], scheme: TagScheme, repeat: Mapping[str, float]
) -> tuple[list[Source], np.ndarray]:
    """The training texts of corpora that may annotate different types.

    A text that is also in a devel or test side is left out. So is a text of a corpus without a
    devel side that is also in the train side of a corpus with one.

    Returns:
        A source for each corpus, and the outputs that each code allows, shape (codes, labels).
    """
    sources, allowed = [], list(np.eye(len(scheme.labels), dtype=bool))
    for corpus in corpora:
        codes = {label: number for number, label in enumerate(scheme.labels)}
        known = corpus.to_train.types
        if others := [kind for kind in scheme.types if kind not in known]:
            codes["O"] = len(allowed)
            allowed.append(np.isin(scheme.labels, tags_for(others)))
        sources.append(Source(_kept(corpus, corpora), codes, repeat.get(corpus.name, 1)))
    return sources, np.stack(allowed)


def _kept(corpus: Corpus, corpora: Sequence[Corpus]) -> tuple[TaggedText, ...]:
    taken = [gold for other in corpora for gold in (other.devel, other.test) if gold]
    if not corpus.devel:
        taken += [other.to_train for other in corpora if other.devel]
    texts = tuple(without(corpus.to_train.texts, [text for gold in taken for text in gold.texts]))
    if not texts:
        msg = f"{corpus.name}: every training text is also in a devel or test side, or elsewhere"
        raise CorpusError(msg)
    if dropped := len(corpus.to_train.texts) - len(texts):
        what = "training texts are also in another side or corpus and are left out"
        log.warning("%s: %d %s", corpus.name, dropped, what)
    return texts


@dataclass(frozen=True, eq=False)
class Example:
    """A training window: token ids and the code of each token, both of shape (tokens,)."""

    ids: np.ndarray = field(repr=False)
    codes: np.ndarray = field(repr=False)


@dataclass(eq=False)
class ExampleMaker:
    """Makes the windows of an epoch; all random choices depend on the seed and the epoch."""

    sources: Sequence[Source]
    reader: WordReader
    window: int
    augmentation: Augmentation
    mask_id: int
    seed: int

    def __post_init__(self) -> None:
        """Collect the mentions of the sources."""
        self.window = min(self.window, self.augmentation.longest or self.window)
        # The distinct mentions of each type, in order.
        found: dict[str, dict[tuple[str, ...], None]] = defaultdict(dict)
        for text in (text for source in self.sources for text in source.texts):
            for start, end, kind in spans_of(text.tags):
                found[kind][text.words[start:end]] = None
        self._mentions = {kind: list(mentions) for kind, mentions in found.items()}

    def make(self, epoch: int) -> list[Example]:
        """The windows of an epoch; a text that is longer than a window is split."""
        generator = np.random.default_rng((self.seed, epoch))
        windows = []
        for source in self.sources:
            for text in self._packed(source, epoch, generator):
                for start, end in cut(len(text.ids), window=self.window, overlap=0):
                    codes = np.concatenate(([IGNORED], text.codes[start:end], [IGNORED]))
                    windows.append(Example(self.reader.window(text.ids[start:end]), codes))
        return windows

    def _packed(
        self, source: Source, epoch: int, generator: np.random.Generator
    ) -> Iterator[Example]:
        """Texts alone or joined with those that follow; no special tokens yet."""
        room = self.window - SPECIAL_TOKENS
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
        if generator.random() < self.augmentation.alone:
            return 0
        return int(generator.integers(room + 1))

    def _varied(self, text: TaggedText, generator: np.random.Generator) -> TaggedText:
        """The text with some mentions replaced."""
        if not self.augmentation.swapped:
            return text
        words, tags = list(text.words), list(text.tags)
        for start, end, kind in reversed(spans_of(text.tags)):
            if generator.random() < self.augmentation.swapped:
                pool = self._mentions[kind]
                other = pool[generator.integers(len(pool))]
                words[start:end] = other
                tags[start:end] = tags_of([(0, len(other), kind)], words=len(other))
        return TaggedText(tuple(words), tuple(tags))

    def _encoded(
        self, text: TaggedText, codes: dict[str, int], generator: np.random.Generator
    ) -> Example:
        pieces = self.reader.read(text.words)
        labels = np.full(len(pieces.ids), IGNORED, dtype=np.int64)
        of_words = np.array([codes[tag] for tag in text.tags], dtype=np.int64)
        labels[pieces.first[pieces.is_read]] = of_words[pieces.is_read]
        ids = pieces.ids
        if self.augmentation.masked:
            hidden = generator.random(len(text.words)) < self.augmentation.masked
            counts = np.diff(np.append(pieces.first, len(ids)))
            ids = np.where(np.repeat(hidden, counts), self.mask_id, ids)
        return Example(ids, labels)


def _joined(run: Sequence[Example]) -> Example:
    return Example(
        np.concatenate([part.ids for part in run]), np.concatenate([part.codes for part in run])
    )
