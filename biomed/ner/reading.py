"""Words to word pieces, windows over the pieces, and the window that each word is read from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.windows import SPECIAL_TOKENS, own_tokenizer, plan_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerBase

_HALF_PAIR = re.compile("[\ud800-\udfff]")  # lone surrogates, which tokenizers refuse
_REMEMBERED = 200_000  # words in the cache: the vocabulary of a large corpus, some 50 MB


@dataclass(frozen=True, eq=False, repr=False)
class Pieces:
    """The word pieces of consecutive words.

    Attributes:
        ids: token ids of all words, without special tokens, shape (pieces,).
        first: index in `ids` of each word's first piece, shape (words,).
        is_read: whether a word has any piece; tokenizers drop control characters. Shape (words,).
    """

    ids: np.ndarray
    first: np.ndarray
    is_read: np.ndarray


class WordReader:
    """Tokenises words, each on its own: no piece spans two words, and `[SEP]` in a text is text.

    A tokenizer of bytes (RoBERTa, ModernBERT) reads a word with the space before it, if there is
    one, as it reads a whole text. Remembers the pieces of recent words. Safe to use from several
    threads.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._given, self._tokenizer = tokenizer, own_tokenizer(tokenizer)
        self.cls, self.sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        before = self._tokenizer.pre_tokenizer
        self._reads_spaces = before is not None and "ByteLevel" in repr(before)
        self._pieces = lru_cache(_REMEMBERED)(self._tokenised)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the remembered words."""
        return type(self), (self._given,)

    def read(self, words: Sequence[str], *, spaced: Sequence[bool] | None = None) -> Pieces:
        """Tokenise words; `spaced`: which follow a space, by default all but the first."""
        if self._reads_spaces:
            flags = (number > 0 for number in range(len(words))) if spaced is None else spaced
            words = [f" {w}" if flag else w for w, flag in zip(words, flags, strict=True)]
        pieces = [self._pieces(word) for word in words]
        lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
        ids = np.fromiter(chain.from_iterable(pieces), dtype=np.int64, count=int(lengths.sum()))
        return Pieces(ids, np.cumsum(lengths) - lengths, lengths > 0)

    def _tokenised(self, word: str) -> tuple[int, ...]:
        text = _HALF_PAIR.sub("\ufffd", word)
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def window(self, ids: np.ndarray) -> np.ndarray:
        """Pieces between [CLS] and [SEP], shape (pieces + 2,)."""
        return np.concatenate(([self.cls], ids, [self.sep]))


def cut(pieces: int, *, window: int, overlap: int) -> list[tuple[int, int]]:
    """First piece, and one past the last, of each window; `window` includes special tokens."""
    return plan_windows(pieces, capacity=window - SPECIAL_TOKENS, overlap=overlap)


def best_window(first: np.ndarray, ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """The window in which each word has the most context on its shorter side; the first if equal.

    The beginning and the end of the text count as unlimited context, so consecutive windows meet
    in the middle of their overlap.

    Args:
        first: index of each word's first piece, shape (words,).
        ranges: windows that together cover all pieces, in order.

    Returns:
        Window number of each word, shape (words,).
    """
    starts, stops = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    return np.searchsorted((starts[1:] + stops[:-1] - 1) / 2, first)
