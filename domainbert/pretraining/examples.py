"""Training examples: documents cut into segments or pairs of them, masked and batched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from domainbert.inference import chunked, pad
from domainbert.pretraining.corpus import CorpusError
from domainbert.pretraining.tokens import CONTINUES, TOKENS, TokenFile, token_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

    from domainbert.pretraining.settings import ExampleSettings
    from domainbert.pretraining.tokens import Documents

# A longer run without the end of a sentence is split in its middle (share of the room there is).
LONG = 0.5
PAIR_TOKENS, SINGLE_TOKENS = 3, 2  # [CLS] and one or two [SEP]
NO_PAIR = -1
IGNORED = -100  # label of a token that is not predicted
# Of the tokens to predict (Devlin et al., arXiv 1810.04805): this share is replaced by [MASK],
# this share by a random piece, and the others stay.
AS_MASK, AS_RANDOM = 0.8, 0.1
# Tokens of examples that are written together.
TOGETHER = 4_000_000


@dataclass(frozen=True, eq=False)
class Example:
    """One training example before masking.

    Attributes:
        tokens: ids with special tokens, shape (tokens,).
        second: where the second segment starts, or the number of tokens.
        label: 0 if the second segment follows, 1 if it is of another document, or `NO_PAIR`.
    """

    tokens: np.ndarray = field(repr=False)
    second: int
    label: int


class ExampleMaker:
    """Cuts documents into examples of at most `length` tokens, so that no token is lost.

    The first segment of a pair ends at the end of a sentence. The second is the text that follows,
    or text of another document from the start of a sentence; reading then continues after the
    first segment, where Devlin et al. truncate. The last sentence of a document can only be
    followed by another document; other pairs make up for it, so that half of all pairs are true.

    Raises:
        CorpusError: pairs of a single document.
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
                yield self._example(tokens[start:stop])
                start = stop
                continue
            middle = self._middle(ends, start, stop)
            forced = middle == stop
            if self._is_random(forced=forced):
                room = self._room if forced else stop - start
                other = self._elsewhere(document, room - (middle - start))
                yield self._example(tokens[start:middle], other, label=1)
                start = middle
            else:
                yield self._example(tokens[start:middle], tokens[middle:stop], label=0)
                start = stop

    def _target(self) -> int:
        if self._generator.random() >= self._settings.short:
            return self._room
        return int(self._generator.integers(2, self._room + 1))

    def _middle(self, ends: np.ndarray, start: int, stop: int) -> int:
        """Where the first segment ends; `stop` if a short run is a single sentence."""
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

    def _elsewhere(self, document: int, room: int) -> np.ndarray:
        """Tokens from the start of a sentence of another document."""
        other = int(self._generator.integers(len(self._documents) - 1))
        other += other >= document
        ends = self._documents.ends(other)
        sentence = int(self._generator.integers(len(ends)))
        start = int(ends[sentence - 1]) if sentence else 0
        return self._documents.tokens(other)[start : start + room]

    def _example(
        self, first: np.ndarray, second: np.ndarray | None = None, *, label: int = NO_PAIR
    ) -> Example:
        parts: list[Any] = [self._cls, first, self._sep]
        if second is not None:
            parts += [second, self._sep]
        tokens = np.concatenate(parts).astype(np.int64)
        return Example(tokens, second=len(first) + SINGLE_TOKENS, label=label)


class Examples(TokenFile):
    """The examples in a folder, by number; their `lengths` in tokens have shape (examples,)."""

    def __init__(self, folder: Path, *, side: str) -> None:
        super().__init__(folder, side=side)
        self._seconds, self._labels = (self._table[n].to_numpy() for n in ("second", "label"))
        self.lengths = pc.list_value_length(self._table[TOKENS]).to_numpy()

    def __getitem__(self, number: int) -> Example:
        """One example."""
        tokens = self.items(number, TOKENS).astype(np.int64)
        return Example(tokens, int(self._seconds[number]), int(self._labels[number]))

    def counts(self) -> dict[str, int]:
        """How many examples, tokens, pairs and true pairs there are."""
        return {
            "examples": len(self),
            "tokens": int(self.lengths.sum()),
            "pairs": int((self._labels != NO_PAIR).sum()),
            "true pairs": int((self._labels == 0).sum()),
        }


def write_examples(maker: Iterable[Example], folder: Path, *, side: str, vocabulary: int) -> None:
    """Write the examples of one side, to be read by `Examples`."""
    tokens = token_list(vocabulary)
    schema = pa.schema({TOKENS: tokens, "second": pa.int32(), "label": pa.int8()})
    with pa.ipc.new_file(str(folder / f"{side}.arrow"), schema) as file:
        for examples in chunked(maker, size=lambda made: len(made.tokens), limit=TOGETHER):
            rows = [vars(example) for example in examples]
            file.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema))


class Masker:
    """Hides tokens for the model to predict, and makes batches.

    Every token that is not special is hidden with the same chance (`masked`), independently; with
    `whole_words`, every word, and all its pieces together.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, *, masked: float = 0.15, whole_words: bool = False
    ) -> None:
        pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        self._special = np.zeros(len(pieces), dtype=bool)
        self._special[tokenizer.all_special_ids] = True
        self._continues = np.array([piece.startswith(CONTINUES) for piece in pieces])
        unused = np.array([piece.startswith("[unused") for piece in pieces])
        self._ordinary = np.flatnonzero(~(self._special | unused))
        self._mask, self._pad = tokenizer.mask_token_id, tokenizer.pad_token_id
        self._masked, self._whole_words = masked, whole_words

    def hide(
        self, ids: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """The input and the labels (`IGNORED` where nothing is hidden), shape (rows, tokens)."""
        chance = generator.random(ids.shape)
        if self._whole_words:
            chance = np.take_along_axis(chance, self._word_starts(ids), axis=1)
        hidden = (chance < self._masked) & ~self._special[ids]
        behind = generator.random(ids.shape)
        random = generator.choice(self._ordinary, size=ids.shape)
        shown = np.where(hidden & (behind < AS_MASK), self._mask, ids)
        is_random = hidden & (behind >= AS_MASK) & (behind < AS_MASK + AS_RANDOM)
        return np.where(is_random, random, shown), np.where(hidden, ids, IGNORED)

    def _word_starts(self, ids: np.ndarray) -> np.ndarray:
        """The position where the word of each token starts, shape (rows, tokens)."""
        continues = self._continues[ids]
        # A segment may start inside a word that was cut.
        continues[:, 1:] &= ~self._special[ids[:, :-1]]
        continues[:, 0] = False
        places = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        return np.maximum.accumulate(np.where(continues, 0, places), axis=1)

    def batch(
        self, examples: Sequence[Example], generator: np.random.Generator
    ) -> dict[str, torch.Tensor]:
        """A batch for `PretrainingNetwork`."""
        ids, mask = pad([example.tokens for example in examples], pad_token_id=self._pad)
        shown, labels = self.hide(ids.numpy(), generator)
        seconds = torch.tensor([example.second for example in examples])
        batch = {
            "input_ids": torch.from_numpy(shown),
            "labels": torch.from_numpy(labels),
            "token_type_ids": (torch.arange(ids.shape[1]) >= seconds[:, None]).long(),
        }
        if mask is not None:
            batch["attention_mask"] = mask
            batch["token_type_ids"] *= mask
        if examples[0].label != NO_PAIR:
            batch["next_sentence_label"] = torch.tensor([example.label for example in examples])
        return batch
