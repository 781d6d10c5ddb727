"""Words -> word-pieces -> windows, and which window each word is read from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from domainbert.windows import SPECIAL_TOKENS, plan_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerBase

_HALF_PAIR = re.compile("[\ud800-\udfff]")  # no tokenizer takes a word with one
# Words whose pieces are remembered: what a large corpus has, in some tens of megabytes.
_REMEMBERED = 200_000


@dataclass(frozen=True, eq=False)
class Pieces:
    """The word-pieces of a run of words.

    Attributes:
        ids: of all words, without special tokens, shape (pieces,), int64.
        first: place in `ids` of each word's first piece, shape (words,), int64.
        is_read: whether the word has a piece; a tokenizer drops control characters, shape (words,).
    """

    ids: np.ndarray = field(repr=False)
    first: np.ndarray = field(repr=False)
    is_read: np.ndarray = field(repr=False)


class WordReader:
    """Words to pieces with one tokenizer, each distinct word tokenised once.

    Each word is tokenised by itself: a piece never spans two words, and `[SEP]` in a text is text.

    Args:
        tokenizer: a fast tokenizer, from `domainbert.encoders.load_tokenizer`.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, tuple[int, ...]] = {}
        self.cls, self.sep = tokenizer.cls_token_id, tokenizer.sep_token_id

    def read(self, words: Sequence[str]) -> Pieces:
        """The pieces of words in their order."""
        self._learn(words)
        pieces = [self._known[word] for word in words]
        lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
        ids = np.fromiter(chain.from_iterable(pieces), dtype=np.int64, count=int(lengths.sum()))
        return Pieces(ids, np.cumsum(lengths) - lengths, lengths > 0)

    def _learn(self, words: Sequence[str]) -> None:
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        if not new:
            return
        if len(self._known) > _REMEMBERED:
            self._known = {word: self._known[word] for word in words if word in self._known}
        encoded = self._tokenizer(
            [_HALF_PAIR.sub("\ufffd", word) for word in new],
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            split_special_tokens=True,
            truncation=False,
            verbose=False,
        )
        self._known.update(zip(new, map(tuple, encoded["input_ids"]), strict=True))

    def window(self, ids: np.ndarray) -> np.ndarray:
        """Pieces between the special tokens, shape (pieces + 2,)."""
        return np.concatenate(([self.cls], ids, [self.sep]))


def cut(pieces: int, *, window: int, overlap: int) -> list[tuple[int, int]]:
    """The windows of a run of pieces, as ranges of piece numbers.

    Args:
        pieces: length of the run.
        window: tokens of a window at most, special ones counted.
        overlap: tokens that consecutive windows share.
    """
    return plan_windows(pieces, capacity=window - SPECIAL_TOKENS, overlap=overlap)


def best_window(first: np.ndarray, ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """The window in which each word has most context.

    That is the largest number of pieces on the poorer side; the text's own beginning and end cut
    nothing off, so they count as context without end.

    Args:
        first: piece number of each word, shape (words,).
        ranges: windows that together cover all pieces, in order.

    Returns:
        Window number of each word, shape (words,), int64; of equals the first.
    """
    choice = np.zeros(len(first), dtype=np.int64)
    most = np.full(len(first), -1.0)
    end = ranges[-1][1] if ranges else 0
    for number, (start, stop) in enumerate(ranges):
        here = slice(*np.searchsorted(first, (start, stop)))
        left = first[here] - start if start else np.inf
        right = stop - 1 - first[here] if stop < end else np.inf
        context = np.minimum(left, right) * np.ones(len(first[here]))
        better = context > most[here]
        choice[here][better] = number
        most[here][better] = context[better]
    return choice
