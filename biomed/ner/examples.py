"""Training windows, packed from tagged texts anew in every epoch."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from biomed.corpora.documents import OUTSIDE, CorpusError, TaggedText
from biomed.ner.decoding import tags_for
from biomed.ner.evaluation import check_types
from domainbert.text.windows import SPECIAL_TOKENS, plan_windows

if TYPE_CHECKING:
    from biomed.corpora.corpus import Corpus, Gold
    from biomed.ner.pieces import WordTokenizer

# The share of texts that are read on their own, as corpora are scored; the others are joined with
# those that follow them in the file, up to a random length, as in abstracts and notes.
ALONE = 0.3
IGNORED = -100  # the code of continuation pieces, special tokens and padding
log = logging.getLogger(__name__)


class Source(NamedTuple):
    """The training texts of one corpus, in file order.

    `codes` has the code of each tag: an output of the network, or a larger number for an `O` that
    allows types which this corpus does not annotate.
    """

    texts: tuple[TaggedText, ...]
    codes: dict[str, int]


def entity_types(corpora: Sequence[Corpus]) -> list[str]:
    """The entity types of all training sides.

    Raises:
        UserError: no train or devel side, one without entities, or a devel side with other types.
    """
    train = [corpus.train for corpus in corpora if corpus.train]
    devel = [corpus.devel for corpus in corpora if corpus.devel]
    for gold in train + devel:
        if not gold.types:
            raise CorpusError(
                f"corpus {gold.name} needs entities in train and in devel"
            )
    if not train:
        raise CorpusError("no corpus has a train side, to learn from")
    if not devel:
        raise CorpusError(
            "no corpus has a devel side, which chooses the weights"
        )
    types = sorted(set().union(*(gold.types for gold in train)))
    for gold in devel:
        check_types(types, gold)
    return types


def make_sources(
    corpora: Sequence[Corpus],
    types: Sequence[str],
) -> tuple[dict[str, Source], np.ndarray]:
    """The training texts of corpora that may annotate different types.

    A text that is also in a devel or test side is left out. So is a text of a corpus without a
    devel side that is also in the train side of a corpus with one.

    Returns:
        The source of each corpus with a train side, by name; and the tags of `tags_for(types)` that
        each code allows, shape (codes, tags).
    """
    tags = tags_for(types)
    sources = {}
    allowed = list(np.eye(len(tags), dtype=bool))
    for corpus in corpora:
        if corpus.train is None:
            continue
        codes = {tag: number for number, tag in enumerate(tags)}
        missing_types = sorted(set(types).difference(corpus.train.types))
        if missing_types:
            codes[OUTSIDE] = len(allowed)
            allowed.append(np.isin(tags, tags_for(missing_types)))
        sources[corpus.name] = Source(
            _kept(corpus, corpus.train, corpora), codes
        )
    return sources, np.stack(allowed)


def _kept(
    corpus: Corpus,
    train: Gold,
    corpora: Sequence[Corpus],
) -> tuple[TaggedText, ...]:
    """The training texts that are in no devel or test side, nor in a corpus with a devel side."""
    excluded = []
    for other in corpora:
        excluded += [other.devel, other.test]
        if other.devel and not corpus.devel:
            excluded.append(other.train)
    excluded_texts = {
        text.folded for gold in filter(None, excluded) for text in gold.texts
    }
    texts = tuple(
        text for text in train.texts if text.folded not in excluded_texts
    )
    if not texts:
        raise CorpusError(
            f"{corpus.name}: every training text is also in a devel or test side, or in another "
            "corpus"
        )
    dropped_count = len(train.texts) - len(texts)
    if dropped_count:
        log.warning(
            "%s: %d training texts are also in another side or corpus and are left out",
            corpus.name,
            dropped_count,
        )
    return texts


@dataclass(frozen=True, eq=False)
class Example:
    """A training window: token ids and the code of each token, both of shape (tokens,)."""

    ids: np.ndarray = field(repr=False)
    codes: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False)
class ExampleMaker:
    """Makes the windows of an epoch; random choices depend on the seed and the epoch only."""

    sources: Sequence[Source]
    word_tokenizer: WordTokenizer
    window: int
    seed: int
    alone: float = ALONE

    def make(self, epoch: int) -> list[Example]:
        """The windows of an epoch; a text that is longer than a window is split."""
        generator = np.random.default_rng((self.seed, epoch))
        capacity = self.window - SPECIAL_TOKENS
        windows = []
        for source in self.sources:
            for run in self._packed(source, generator, capacity):
                for start, end in plan_windows(
                    len(run.ids), capacity=capacity
                ):
                    ids = self.word_tokenizer.window(run.ids[start:end])
                    codes = np.pad(
                        run.codes[start:end], 1, constant_values=IGNORED
                    )
                    windows.append(Example(ids, codes))
        return windows

    def _packed(
        self,
        source: Source,
        generator: np.random.Generator,
        capacity: int,
    ) -> Iterator[Example]:
        """Texts alone or joined with those that follow, without special tokens."""
        run: list[Example] = []
        size = 0
        target = self._target_length(generator, capacity)
        for text in source.texts:
            example = self._encoded(text, source.codes)
            length = len(example.ids)
            if run and (size >= target or size + length > capacity):
                yield _joined(run)
                run = []
                size = 0
                target = self._target_length(generator, capacity)
            run.append(example)
            size += length
        if run:
            yield _joined(run)

    def _target_length(
        self, generator: np.random.Generator, capacity: int
    ) -> int:
        """The length from which a run is not joined with the next text."""
        if generator.random() < self.alone:
            return 0
        return int(generator.integers(capacity + 1))

    def _encoded(self, text: TaggedText, codes: dict[str, int]) -> Example:
        pieces = self.word_tokenizer.tokenize(text.words)
        piece_codes = np.full(len(pieces.ids), IGNORED, dtype=np.int64)
        word_codes = self.word_codes(text, codes)
        piece_codes[pieces.first[pieces.is_read]] = word_codes[pieces.is_read]
        return Example(pieces.ids, piece_codes)

    def word_codes(
        self, text: TaggedText, codes: dict[str, int]
    ) -> np.ndarray:
        """The code of each word of a text, shape (words,)."""
        return np.array([codes[tag] for tag in text.tags], dtype=np.int64)


def _joined(run: Sequence[Example]) -> Example:
    return Example(
        np.concatenate([part.ids for part in run]),
        np.concatenate([part.codes for part in run]),
    )
