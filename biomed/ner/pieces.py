"""Words as word pieces: how they are tokenised, and in which window each word is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from domainbert.files import whole_text
from domainbert.text.windows import own_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase


LISTED = 4.0  # log-odds, chosen on dev sides
FRAMED = 12.0  # log-odds of shorthand that its context decides


@dataclass(frozen=True, eq=False, repr=False)
class Pieces:
    """The word pieces of consecutive words.

    Attributes:
        ids: token ids of all words, without special tokens, shape (pieces,).
        first: index in `ids` of each word's first piece, shape (words,).
        is_read: whether a word has any piece; tokenizers drop control characters. Shape (words,).
        starts: the words into which no entity continues, in order; the first word is one.
        listed: for each word, the B tag of the type that lists it as an abbreviation, or 0.
        log_odds: what is added for that type, shape (words,).
    """

    ids: np.ndarray
    first: np.ndarray
    is_read: np.ndarray
    starts: np.ndarray
    listed: np.ndarray
    log_odds: np.ndarray

    def __len__(self) -> int:
        """Tokens, for the size of a chunk."""
        return 1 + len(self.ids)

    def raise_listed(self, scores: np.ndarray) -> None:
        """Raise the log-odds of the types that list a word; the rows stay log-probabilities.

        `scores` has the log-probability of each tag for each word, shape (words, tags).
        """
        listed = np.flatnonzero(self.is_read & (self.listed > 0))
        begins = self.listed[listed]
        log_odds = self.log_odds[listed]
        scores[listed, begins] += log_odds
        scores[listed, begins + 1] += log_odds
        scores[listed] -= np.logaddexp.reduce(
            scores[listed], axis=1, keepdims=True
        )


class WordTokenizer:
    """Tokenises words, each on its own: no piece spans two words, and `[SEP]` in a text is text.

    A tokenizer of bytes (RoBERTa, ModernBERT) reads a word with the space before it, if there is
    one, as it reads a whole text. Threads may share it; the pieces of recent words are remembered.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        listed: Mapping[str, int] | None = None,
        *,
        framed_tag: int = 0,
    ) -> None:
        self._listed = listed or {}
        self._framed_tag = framed_tag
        self._tokenizer = own_tokenizer(tokenizer)
        self.cls = tokenizer.cls_token_id
        self.sep = tokenizer.sep_token_id
        self._reads_spaces = "ByteLevel" in repr(self._tokenizer.pre_tokenizer)

    def tokenize(
        self,
        words: Sequence[str],
        *,
        spaced: Sequence[bool] | None = None,
        breaks: Sequence[int] | np.ndarray = (),
        framed: Sequence[int] | np.ndarray = (),
    ) -> Pieces:
        """Tokenise words.

        Args:
            words: the words of one text, in order.
            spaced: whether each follows a space; by default all but the first do.
            breaks: numbers of the words into which no entity continues, in order.
            framed: numbers of the words that are diseases by their context.
        """
        tags = [self._listed.get(word, 0) for word in words]
        listed = np.array(tags, dtype=np.int64)
        log_odds = np.where(listed > 0, LISTED, 0.0)
        if len(framed) and self._framed_tag:
            listed[framed] = self._framed_tag
            log_odds[framed] = FRAMED
        if self._reads_spaces:
            if spaced is None:
                spaced = [number > 0 for number in range(len(words))]
            words = [
                " " * has_space + word
                for has_space, word in zip(spaced, words, strict=True)
            ]
        pieces = [_pieces(self._tokenizer, word) for word in words]
        lengths = np.array(list(map(len, pieces)), dtype=np.int64)
        ids = list(chain.from_iterable(pieces))
        starts = np.append(np.zeros(min(len(words), 1)), breaks).astype(
            np.int64
        )
        return Pieces(
            ids=np.array(ids, dtype=np.int64),
            first=np.cumsum(lengths) - lengths,
            is_read=lengths > 0,
            starts=starts,
            listed=listed,
            log_odds=log_odds,
        )

    def pieces_saved(self, left: str, right: str) -> int:
        """How many pieces fewer two parts of a word have together than each alone."""
        pieces = partial(_pieces, self._tokenizer)
        return len(pieces(left) + pieces(right)) - len(pieces(left + right))

    def window(self, ids: np.ndarray) -> np.ndarray:
        """Pieces between [CLS] and [SEP], shape (pieces + 2,)."""
        return np.concatenate(([self.cls], ids, [self.sep]))


@lru_cache(200_000)  # the vocabulary of a large corpus, some 50 MB
def _pieces(tokenizer: Tokenizer, word: str) -> tuple[int, ...]:
    return tuple(
        tokenizer.encode(whole_text(word), add_special_tokens=False).ids
    )


def best_window(
    first: np.ndarray, ranges: Sequence[tuple[int, int]]
) -> np.ndarray:
    """The window in which each word has the most context on its shorter side; the first if equal.

    The beginning and the end of the text count as unlimited context, so consecutive windows meet
    in the middle of their overlap. `first` is the index of each word's first piece, shape (words,),
    and `ranges` are the windows in order; the result has the number of each word's window.
    """
    starts, stops = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    return np.searchsorted((starts[1:] + stops[:-1] - 1) / 2, first)
