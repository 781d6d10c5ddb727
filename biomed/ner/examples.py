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
    from biomed.ner.network import WordReader

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
    """The entity types of all training sides; a `UserError` if the corpora cannot be trained on."""
    for corpus in corpora:
        if any(not gold.types for gold in (corpus.train, corpus.devel) if gold):
            raise CorpusError(
                f"corpus {corpus.name} needs entities in train and in devel"
            )
    for side, what in (
        ("train", "to learn from"),
        ("devel", "which chooses the weights"),
    ):
        if not any(side in corpus.sides for corpus in corpora):
            raise CorpusError(f"no corpus has a {side} side, {what}")
    types = sorted(
        {kind for corpus in corpora if corpus.train for kind in corpus.train.types}
    )
    for corpus in corpora:
        if corpus.devel:
            check_types(types, corpus.devel)
    return types


def make_sources(
    corpora: Sequence[Corpus], types: Sequence[str]
) -> tuple[dict[str, Source], np.ndarray]:
    """The training texts of corpora that may annotate different types.

    A text that is also in a devel or test side is left out. So is a text of a corpus without a
    devel side that is also in the train side of a corpus with one.

    Returns:
        The source of each corpus with a train side, by name; and the tags of `tags_for(types)` that
        each code allows, shape (codes, tags).
    """
    tags = tags_for(types)
    sources, allowed = {}, list(np.eye(len(tags), dtype=bool))
    for corpus in corpora:
        if corpus.train is None:
            continue
        codes = {tag: number for number, tag in enumerate(tags)}
        if others := [kind for kind in types if kind not in corpus.train.types]:
            codes[OUTSIDE] = len(allowed)
            allowed.append(np.isin(tags, tags_for(others)))
        texts = _kept(corpus, corpus.train, corpora)
        sources[corpus.name] = Source(texts, codes)
    return sources, np.stack(allowed)


def _kept(
    corpus: Corpus, train: Gold, corpora: Sequence[Corpus]
) -> tuple[TaggedText, ...]:
    taken = [gold for other in corpora for gold in (other.devel, other.test) if gold]
    if not corpus.devel:
        taken += [other.train for other in corpora if other.devel and other.train]
    known = {_folded(text) for gold in taken for text in gold.texts}
    texts = tuple(text for text in train.texts if _folded(text) not in known)
    if not texts:
        raise CorpusError(
            f"{corpus.name}: every training text is also in a devel or test side, or elsewhere"
        )
    if dropped := len(train.texts) - len(texts):
        what = "training texts are also in another side or corpus and are left out"
        log.warning("%s: %d %s", corpus.name, dropped, what)
    return texts


def _folded(text: TaggedText) -> tuple[str, ...]:
    return tuple(map(str.casefold, text.words))


@dataclass(frozen=True, eq=False)
class Example:
    """A training window: token ids and the code of each token, both of shape (tokens,)."""

    ids: np.ndarray = field(repr=False)
    codes: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False)
class ExampleMaker:
    """Makes the windows of an epoch; all random choices depend on the seed and the epoch."""

    sources: Sequence[Source]
    reader: WordReader
    window: int
    seed: int

    def make(self, epoch: int) -> list[Example]:
        """The windows of an epoch; a text that is longer than a window is split."""
        generator = np.random.default_rng((self.seed, epoch))
        windows, room = [], self.window - SPECIAL_TOKENS
        for source in self.sources:
            for text in self._packed(source, generator, room):
                for start, end in plan_windows(len(text.ids), capacity=room):
                    codes = np.concatenate(
                        ([IGNORED], text.codes[start:end], [IGNORED])
                    )
                    windows.append(
                        Example(self.reader.window(text.ids[start:end]), codes)
                    )
        return windows

    def _packed(
        self, source: Source, generator: np.random.Generator, room: int
    ) -> Iterator[Example]:
        """Texts alone or joined with those that follow; no special tokens yet."""
        run: list[Example] = []
        size, wanted = 0, _wanted(generator, room)
        for text in source.texts:
            example = self._encoded(text, source.codes)
            if run and (size >= wanted or size + len(example.ids) > room):
                yield _joined(run)
                run, size, wanted = [], 0, _wanted(generator, room)
            run.append(example)
            size += len(example.ids)
        if run:
            yield _joined(run)

    def _encoded(self, text: TaggedText, codes: dict[str, int]) -> Example:
        pieces = self.reader.read(text.words)
        labels = np.full(len(pieces.ids), IGNORED, dtype=np.int64)
        of_words = np.array([codes[tag] for tag in text.tags], dtype=np.int64)
        labels[pieces.first[pieces.is_read]] = of_words[pieces.is_read]
        return Example(pieces.ids, labels)


def _wanted(generator: np.random.Generator, room: int) -> int:
    """The length from which a run is not joined with the next text."""
    return 0 if generator.random() < ALONE else int(generator.integers(room + 1))


def _joined(run: Sequence[Example]) -> Example:
    return Example(
        np.concatenate([part.ids for part in run]),
        np.concatenate([part.codes for part in run]),
    )
