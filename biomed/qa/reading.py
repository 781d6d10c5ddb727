"""Question and context -> windows `[CLS] question [SEP] piece of the context [SEP]`."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.windows import plan_windows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_HALF_PAIR = re.compile("[\ud800-\udfff]")  # no tokenizer takes a text with one
SPECIAL_TOKENS = 3  # [CLS] question [SEP] context [SEP]
_REMEMBERED = 2_000_000  # tokens of texts that stay tokenised: some 60 MB


@dataclass(frozen=True, eq=False)
class Pieces:
    """The tokens of one text, without special ones.

    Attributes:
        ids: shape (tokens,), int64.
        offsets: first character and one past the last of each, shape (tokens, 2), int64.
        begins: whether a word begins with the token, shape (tokens,), bool.
        ends: whether a word ends with it, shape (tokens,), bool.
    """

    ids: np.ndarray = field(repr=False)
    offsets: np.ndarray = field(repr=False)
    begins: np.ndarray = field(repr=False)
    ends: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Pair:
    """A question and the documents to look in, tokenised; `passages` are those of `documents`."""

    question: Pieces = field(repr=False)
    passages: tuple[Pieces, ...] = field(repr=False)
    documents: tuple[str, ...] = field(repr=False)


class PairReader:
    """Questions and contexts to windows, every text tokenised once.

    `[SEP]` and its like in a text are text, never the special tokens.

    Args:
        tokenizer: a fast tokenizer, from `domainbert.encoders.load_tokenizer`.
        window: tokens of a window at most, question and special tokens counted.
        overlap: tokens of the context that consecutive windows share.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, window: int, overlap: int) -> None:
        self._tokenizer, self.window, self.overlap = tokenizer, window, overlap
        self._cls, self._sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        self._known: OrderedDict[str, Pieces] = OrderedDict()
        self._tokens = 0

    @property
    def longest_question(self) -> int:
        """Tokens that a question may have, so that windows still move on over the context."""
        return self.window - SPECIAL_TOKENS - self.overlap - max(1, self.overlap // 4)

    def read(self, text: str) -> Pieces:
        """The tokens of a text; those read last are remembered."""
        pieces = self._known.pop(text, None)
        if pieces is None:
            pieces = self._tokenised(text)
            self._tokens += len(pieces)
        self._known[text] = pieces
        while self._tokens > _REMEMBERED and len(self._known) > 1:
            self._tokens -= len(self._known.popitem(last=False)[1])
        return pieces

    def forget(self) -> None:
        """Drop the remembered texts."""
        self._known.clear()
        self._tokens = 0

    def pair(self, question: object, context: object, *, number: int = 0) -> Pair:
        """A question and its context, checked and tokenised.

        Args:
            question: a text.
            context: a text, or a list of texts.
            number: of the pair, for messages.

        Raises:
            ValueError: not texts, an empty one, or a question too long for the window.
        """
        where = f"of pair number {number}"
        is_many = isinstance(context, list | tuple)
        documents: tuple[Any, ...] = tuple(context) if is_many else (context,)  # type: ignore[arg-type]
        if not documents:
            msg = f"the context {where} has no document"
            raise UserError(msg)
        asked = self._checked(question, f"the question {where}")
        if len(asked) > self.longest_question:
            msg = (
                f"the question {where} has {len(asked)} tokens; beside a window of {self.window} "
                f"it may have {self.longest_question} at most; put the rest of it into the context"
            )
            raise UserError(msg)
        passages = tuple(
            self._checked(document, f"the context {where}" + f", document {place}" * is_many)
            for place, document in enumerate(documents)
        )
        return Pair(asked, passages, documents)

    def _checked(self, text: object, what: str) -> Pieces:
        if not isinstance(text, str):
            msg = f"{what} is {type(text).__name__}, not a string"
            raise UserError(msg)
        if not text.strip():
            msg = f"{what} is empty"
            raise UserError(msg)
        pieces = self.read(text)
        if not len(pieces):
            msg = f"{what} has no character that the tokenizer reads"
            raise UserError(msg)
        return pieces

    def _tokenised(self, text: str) -> Pieces:
        encoded = self._tokenizer(
            [_HALF_PAIR.sub("\ufffd", text)],
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            return_token_type_ids=False,
            split_special_tokens=True,
            truncation=False,
            verbose=False,
        )
        words = np.array(encoded.word_ids(0), dtype=np.int64)
        changes = words[1:] != words[:-1]
        edge = np.ones(min(1, len(words)), dtype=bool)
        return Pieces(
            ids=np.array(encoded["input_ids"][0], dtype=np.int64),
            offsets=np.array(encoded["offset_mapping"][0], dtype=np.int64).reshape(-1, 2),
            begins=np.concatenate((edge, changes)),
            ends=np.concatenate((changes, edge)),
        )

    def capacity(self, question: Pieces) -> int:
        """Tokens of the context that fit in a window beside the question."""
        return self.window - SPECIAL_TOKENS - len(question)

    def ranges(self, question: Pieces, context: Pieces) -> list[tuple[int, int]]:
        """The windows over a context, as ranges of its tokens."""
        return plan_windows(len(context), capacity=self.capacity(question), overlap=self.overlap)

    def size(self, pair: Pair) -> int:
        """Tokens of a pair's windows, at most."""
        return self.window * sum(len(self.ranges(pair.question, text)) for text in pair.passages)

    def window_of(self, question: Pieces, piece: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A window's token ids and the segment of each token (0 question, 1 context).

        Args:
            question: the question.
            piece: ids of the run of the context, shape (tokens,).

        Returns:
            Both of shape (3 + question tokens + context tokens,), int64; the context's first token
            stands at 2 + question tokens.
        """
        ids = np.concatenate(([self._cls], question.ids, [self._sep], piece, [self._sep]))
        segments = np.ones(len(ids), dtype=np.int64)
        segments[: first_token(question)] = 0
        return ids, segments


def first_token(question: Pieces) -> int:
    """Where the context begins in a window."""
    return 2 + len(question)


def covering(pieces: Pieces, start: int, end: int) -> tuple[int, int] | None:
    """The tokens that a run of characters touches: first and last; None where it touches none."""
    first = int(np.searchsorted(pieces.offsets[:, 1], start, side="right"))
    last = int(np.searchsorted(pieces.offsets[:, 0], end, side="left")) - 1
    return (first, last) if first <= last else None
