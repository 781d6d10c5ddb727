"""Documents -> training examples: pairs of segments, or segments, as long as asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from domainbert.pretraining.corpus import CorpusError
from domainbert.pretraining.shards import TOKENS, Shards, ShardWriter, token_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

    from domainbert.pretraining.settings import ExampleSettings
    from domainbert.pretraining.tokens import Documents

# A run without a sentence's end is parted in its middle if it is longer than this share.
LONG = 0.5
PAIR_TOKENS, SINGLE_TOKENS = 3, 2  # [CLS] and one or two [SEP]
NO_PAIR = -1


@dataclass(frozen=True, eq=False)
class Example:
    """One training example before it is masked.

    Attributes:
        tokens: ids with special tokens, shape (tokens,).
        second: where the second segment starts; the number of tokens where there is none.
        label: 0 if the second segment follows the first, 1 if it is from another document,
            `NO_PAIR` where there is none.
        first_document: number of the first segment's document on its side of the corpus.
        second_document: the same of the second's; the first's where there is none.
    """

    tokens: np.ndarray = field(repr=False)
    second: int
    label: int
    first_document: int
    second_document: int


class ExampleMaker:
    """Cuts documents into examples.

    Each document is read from its first token to its last. A pair's first segment ends where a
    sentence does; its second is what follows, or starts with a sentence of another document, and
    reading then goes on after the first. So no token is lost, and each is once in a first segment
    or in one that follows (Devlin et al. cut what is too long instead, and lose it). The last
    sentence of a document alone can only be followed by another document's: so many of the other
    pairs are true that half of all are.

    Args:
        documents: of one side; two at least where there are pairs.
        length: tokens of an example at most.
        settings: whether there are pairs, and how many examples are short.
        tokenizer: for [CLS] and [SEP].
        seed: decides the cuts and the pairs.
        copies: how often the documents are read.

    Raises:
        CorpusError: pairs of one document.
    """

    def __init__(
        self,
        documents: Documents,
        *,
        length: int,
        settings: ExampleSettings,
        tokenizer: PreTrainedTokenizerBase,
        seed: int,
        copies: int = 1,
    ) -> None:
        if settings.pairs and len(documents) < 2:
            msg = f"pairs need two documents on each side of the corpus, got {len(documents)}"
            raise CorpusError(msg)
        self._documents, self._settings = documents, settings
        self._room = length - (PAIR_TOKENS if settings.pairs else SINGLE_TOKENS)
        self._cls, self._sep = [tokenizer.cls_token_id], [tokenizer.sep_token_id]
        self._seed, self._length, self._copies = seed, length, copies

    def __iter__(self) -> Iterator[Example]:
        """The examples of all copies."""
        for copy in range(self._copies):
            self._generator = np.random.default_rng((self._seed, self._length, copy))
            self._owed = 0
            for document in range(len(self._documents)):
                yield from self._of(document)

    def _of(self, document: int) -> Iterator[Example]:
        tokens, ends = self._documents.tokens(document), self._documents.ends(document)
        start = 0
        while start < len(tokens):
            stop = min(start + self._target(), len(tokens))
            if not self._settings.pairs:
                yield self._example(document, tokens[start:stop])
                start = stop
                continue
            middle = self._middle(ends, start, stop)
            forced = middle == stop
            if self._is_random(forced=forced):
                room = self._room if forced else stop - start
                other, follows = self._elsewhere(document, room - (middle - start))
                yield self._example(document, tokens[start:middle], follows, other=other)
                start = middle
            else:
                yield self._example(document, tokens[start:middle], tokens[middle:stop])
                start = stop

    def _target(self) -> int:
        if self._generator.random() >= self._settings.short:
            return self._room
        return int(self._generator.integers(2, self._room + 1))

    def _middle(self, ends: np.ndarray, start: int, stop: int) -> int:
        """Where the first segment ends; `stop` where a short run has one sentence alone."""
        first, last = np.searchsorted(ends, (start + 1, stop))
        if first < last:
            return int(ends[self._generator.integers(first, last)])
        return (start + stop) // 2 if stop - start > LONG * self._room else stop

    def _is_random(self, *, forced: bool) -> bool:
        random = bool(self._generator.random() < 0.5)
        if forced:
            self._owed += not random
            return True
        if random and self._owed:
            self._owed -= 1
            return False
        return random

    def _elsewhere(self, document: int, room: int) -> tuple[int, np.ndarray]:
        """Another document, and tokens from the start of one of its sentences."""
        other = int(self._generator.integers(len(self._documents) - 1))
        other += other >= document
        ends = self._documents.ends(other)
        sentence = int(self._generator.integers(len(ends)))
        start = int(ends[sentence - 1]) if sentence else 0
        return other, self._documents.tokens(other)[start : start + room]

    def _example(
        self,
        document: int,
        first: np.ndarray,
        second: np.ndarray | None = None,
        *,
        other: int | None = None,
    ) -> Example:
        parts: list[Any] = [self._cls, first, self._sep]
        length = len(first) + SINGLE_TOKENS
        if second is not None:
            parts += [second, self._sep]
        return Example(
            tokens=np.concatenate(parts).astype(np.int64),
            second=length,
            label=NO_PAIR if second is None else int(other is not None),
            first_document=document,
            second_document=document if other is None else other,
        )


class Examples:
    """Examples that were written; a map from number to example.

    Args:
        folder: with the shards.
        side: their name.
    """

    def __init__(self, folder: Path, *, side: str) -> None:
        self._shards = Shards(folder, name=side)
        columns = ("second", "label", "first_document", "second_document")
        self._columns = [self._shards.column(name) for name in columns]

    def __len__(self) -> int:
        """Examples."""
        return len(self._shards)

    def __getitem__(self, number: int) -> Example:
        """One example."""
        tokens = self._shards.items(number, TOKENS).astype(np.int64)
        return Example(tokens, *(int(column[number]) for column in self._columns))

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each, shape (examples,)."""
        return self._shards.lengths(TOKENS)

    @property
    def labels(self) -> np.ndarray:
        """The label of each, shape (examples,)."""
        return self._columns[1]


def write_examples(maker: Iterable[Example], folder: Path, *, side: str, vocabulary: int) -> None:
    """Write examples into shards."""
    numbers = dict.fromkeys(("second", "first_document", "second_document"), pa.int32())
    columns = {TOKENS: pa.list_(token_type(vocabulary)), "label": pa.int8(), **numbers}
    with ShardWriter(folder, name=side, columns=columns) as writer:
        for example in maker:
            writer.append(**vars(example))
