"""Tokenisation of words, windows over their pieces, and the window that each word is read from."""

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

_HALF_PAIR = re.compile("[\ud800-\udfff]")  # lone surrogates, which tokenizers refuse
_REMEMBERED = 200_000  # words in the cache: the vocabulary of a large corpus, some 50 MB


@dataclass(frozen=True, eq=False)
class Pieces:
    """The word pieces of consecutive words.

    Attributes:
        ids: token ids of all words, without special tokens, shape (pieces,), int64.
        first: index in `ids` of each word's first piece, shape (words,), int64.
        is_read: whether the word has any piece (tokenizers drop control characters), shape
            (words,), bool.
    """

    ids: np.ndarray = field(repr=False)
    first: np.ndarray = field(repr=False)
    is_read: np.ndarray = field(repr=False)


class WordReader:
    """Tokenises words, each distinct word once. Safe to use from several threads.

    Each word is tokenised on its own: no piece spans two words, and `[SEP]` in a text is text.

    Args:
        tokenizer: a fast tokenizer without truncation, see `domainbert.encoders.load_tokenizer`.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        # Otherwise the first call changes it, which fails while another thread tokenises.
        tokenizer.backend_tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self._known: dict[str, tuple[int, ...]] = {}
        self.cls, self.sep = tokenizer.cls_token_id, tokenizer.sep_token_id

    def read(self, words: Sequence[str]) -> Pieces:
        """Tokenise words, in order."""
        known = self._learned(words)
        pieces = [known[word] for word in words]
        lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
        ids = np.fromiter(chain.from_iterable(pieces), dtype=np.int64, count=int(lengths.sum()))
        return Pieces(ids, np.cumsum(lengths) - lengths, lengths > 0)

    def _learned(self, words: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """A cache that has all these words. A cache only grows; a full one is replaced."""
        known = self._known
        new = [word for word in dict.fromkeys(words) if word not in known]
        if not new:
            return known
        if len(known) > _REMEMBERED:
            known = {word: known[word] for word in words if word in known}
        encoded = self._tokenizer(
            [_HALF_PAIR.sub("\ufffd", word) for word in new],
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            split_special_tokens=True,
            truncation=False,
            verbose=False,
        )
        known.update(zip(new, map(tuple, encoded["input_ids"]), strict=True))
        self._known = known
        return known

    def window(self, ids: np.ndarray) -> np.ndarray:
        """Pieces between [CLS] and [SEP], shape (pieces + 2,)."""
        return np.concatenate(([self.cls], ids, [self.sep]))


def cut(pieces: int, *, window: int, overlap: int) -> list[tuple[int, int]]:
    """Plan windows over a number of pieces.

    Args:
        pieces: their number.
        window: maximum tokens of a window, special tokens included.
        overlap: tokens shared by consecutive windows.

    Returns:
        First piece, and one past the last, of each window.
    """
    return plan_windows(pieces, capacity=window - SPECIAL_TOKENS, overlap=overlap)


def best_window(first: np.ndarray, ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """The window in which each word has the most context.

    Context is the number of pieces on the shorter side of the word. The beginning and the end of
    the text count as unlimited context.

    Args:
        first: index of each word's first piece, shape (words,).
        ranges: windows that together cover all pieces, in order.

    Returns:
        Window number of each word, shape (words,), int64; the first of equally good windows.
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
