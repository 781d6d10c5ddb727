"""Windows: texts cut into runs of tokens that fit an encoder, with character offsets."""

from __future__ import annotations

import copyreg
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from domainbert.errors import UserError
from domainbert.files import whole_text

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer
    from transformers import PreTrainedTokenizerBase

SPECIAL_TOKENS = 2  # [CLS] and [SEP]
LONGEST_TEXT = 5_000_000  # characters; each takes about 150 bytes of memory
_CHECKED = 1024  # texts that `without_tokens` splits at once
UNKNOWN = "not in the vocabulary"
NOT_TEXT = "control characters or undecodable bytes"
INVISIBLE = "invisible format characters"
# What a BERT tokenizer drops silently. Group 1: control characters, private use (the bullets of
# word processors), bytes that were not UTF-8 and halves of surrogate pairs. Then format
# characters (category Cf): soft hyphens, joiners, byte order marks.
_DROPPED = re.compile(
    "([\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\uf8ff\ufffd"
    "\U000f0000-\U000ffffd\U00100000-\U0010fffd]+)"
    "|[\xad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064"
    "\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]+"
)


def is_blank(text: object) -> bool:
    """Whether a cell or a document has no text."""
    return text is None or (isinstance(text, str) and not text.strip())


def too_long(text: str) -> str:
    """Why a text is too long to be read, and what to do; "" if it is not."""
    if len(text) <= LONGEST_TEXT:
        return ""
    return f"{len(text):,} characters, expected at most {LONGEST_TEXT:,}; split it"


_GIVES_UP = (
    "the tokenizer of this model gives up on a text: a pattern in its tokenizer.json needs too "
    "many steps; correct the pattern, or use another model"
)


def checked_text(text: object, name: str) -> str:
    """The text; a `UserError` that names it if it is not a string, empty or too long."""
    if not isinstance(text, str):
        raise UserError(f"{name} is {type(text).__name__}, expected a string")
    if not text.strip():
        raise UserError(f"{name} is empty")
    if reason := too_long(text):
        raise UserError(f"{name} has {reason}")
    return text


@dataclass(frozen=True)
class Window:
    """A run of tokens of one text, which covers its characters `start` to `end`.

    Attributes:
        input_ids: token ids, [CLS] first and [SEP] last, shape (tokens,), int64.
        offsets: the characters (start, end) in the text of each token between those two, shape
            (tokens - 2, 2).
    """

    input_ids: np.ndarray = field(repr=False)
    start: int
    end: int
    offsets: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        """The number of tokens, including special ones."""
        return len(self.input_ids)


class Unread(NamedTuple):
    """Characters `start` to `end` of a text that the encoder could not read, and the reason."""

    start: int
    end: int
    reason: str


@dataclass(frozen=True)
class WindowedText:
    """The windows of one text, and what could not be read."""

    windows: tuple[Window, ...]
    tokens: int  # without special ones, and without counting an overlap twice
    unread: tuple[Unread, ...]


def check_overlap(overlap: int, *, capacity: int) -> None:
    """Raise a `UserError` if windows of this capacity cannot share so many tokens."""
    if capacity < 1:
        raise UserError(
            f"a window must hold at least one token of text, got capacity {capacity}"
        )
    if not 0 <= overlap < capacity:
        raise UserError(
            f"overlap must be between 0 and {capacity - 1} (less than window - {SPECIAL_TOKENS} "
            f"tokens), got {overlap}"
        )


def plan_windows(
    tokens: int,
    *,
    capacity: int,
    overlap: int = 0,
    good_cuts: np.ndarray | None = None,
) -> list[tuple[int, int]]:
    """Cut a run of tokens into windows: ranges (first token, one past the last) in order.

    A window is filled, unless there is a good cut (the end of a sentence or a line) in its last
    eighth; then it ends at the last good cut. Every token is in a window, and without overlap in
    exactly one.

    Args:
        tokens: length of the run, >= 0; 0 gives no window.
        capacity: content tokens of a window, >= 1.
        overlap: tokens that consecutive windows share, 0 <= overlap < capacity.
        good_cuts: shape (tokens,), bool: whether the place after token i is a good cut.
    """
    check_overlap(overlap, capacity=capacity)
    ranges = []
    start = 0
    while tokens - start > capacity:
        end = start + capacity
        if good_cuts is not None:
            # A cut within the overlap would start the next window where this one starts.
            earliest = max(end - capacity // 8, start + overlap + 1)
            cuts = np.flatnonzero(good_cuts[earliest - 1 : end])
            if len(cuts):
                end = earliest + int(cuts[-1])
        ranges.append((start, end))
        start = end - overlap
    if tokens:
        ranges.append((start, tokens))
    return ranges


class Windower:
    """Split texts into windows with one tokenizer; safe to share between threads.

    Args:
        tokenizer: a fast tokenizer, from `encoders.load_tokenizer`; copied.
        window: largest number of tokens, including [CLS] and [SEP]; 3 <= window <= limit.
        overlap: tokens that consecutive windows share; 0 <= overlap < window - 2.
        limit: the encoder's own limit, from `encoders.configs.window_limit`.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        window: int = 512,
        overlap: int = 0,
        limit: int = 512,
    ) -> None:
        if not SPECIAL_TOKENS < window <= limit:
            shortest = SPECIAL_TOKENS + 1
            raise UserError(
                f"window must be between {shortest} and {limit}, got {window}"
            )
        self.window = window
        self.overlap = overlap
        self._capacity = window - SPECIAL_TOKENS
        check_overlap(overlap, capacity=self._capacity)
        self._tokenizer = own_tokenizer(tokenizer)
        # Byte-level tokenizers, such as ModernBERT's, read every character.
        self._drops = not self._tokenizer.encode(
            "\x01", add_special_tokens=False
        ).ids
        self._cls = tokenizer.cls_token_id
        self._sep = tokenizer.sep_token_id
        self._unknown = tokenizer.unk_token_id
        end_ids = tokenizer.convert_tokens_to_ids([".", "!", "?"])
        self._sentence_ends = np.setdiff1d(
            [token for token in end_ids if token is not None],
            [self._unknown],
        )

    def split(self, text: str) -> WindowedText:
        """The windows of one text; see `split_many`."""
        return self.split_many([text])[0]

    def split_many(self, texts: Sequence[str]) -> list[WindowedText]:
        """The windows of every text; a text without a token has none.

        No token is dropped, and `[SEP]` and the like are read as text. The time is linear.

        Raises:
            UserError: a text longer than `LONGEST_TEXT`, or a tokenizer whose pattern gives up.
        """
        for text in texts:
            if reason := too_long(text):
                raise UserError(f"a text has {reason}")
        readable = [whole_text(text) for text in texts]
        try:
            encodings = self._tokenizer.encode_batch(
                readable, add_special_tokens=False
            )
        except BaseException as error:
            # A panic of the library is no `Exception`, and would pass all handlers.
            if type(error).__name__ != "PanicException":
                raise
            raise UserError(_GIVES_UP) from None
        return list(map(self._windowed, texts, encodings))

    def without_tokens(self, texts: Sequence[str]) -> Iterator[int]:
        """The numbers of the texts that have no token, in flat memory."""
        for start in range(0, len(texts), _CHECKED):
            chunk = self.split_many(texts[start : start + _CHECKED])
            for number, text in enumerate(chunk, start):
                if not text.tokens:
                    yield number

    def _windowed(self, text: str, encoding: Encoding) -> WindowedText:
        """The windows of a tokenized text."""
        ids = np.array(encoding.ids, dtype=np.int64)
        offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        cuts = None
        # Most texts fit one window and need none.
        if len(ids) > self._capacity:
            cuts = self._good_cuts(text, ids, offsets)
        ranges = plan_windows(
            len(ids),
            capacity=self._capacity,
            overlap=self.overlap,
            good_cuts=cuts,
        )
        windows = tuple(
            Window(
                input_ids=np.concatenate(
                    ([self._cls], ids[first:last], [self._sep])
                ),
                start=int(offsets[first, 0]),
                end=int(offsets[last - 1, 1]),
                offsets=offsets[first:last],
            )
            for first, last in ranges
        )
        unknown = offsets[ids == self._unknown].tolist()
        unread = [Unread(start, end, UNKNOWN) for start, end in unknown]
        if self._drops:
            for match in _DROPPED.finditer(text):
                reason = NOT_TEXT if match[1] else INVISIBLE
                unread.append(Unread(*match.span(), reason))
        return WindowedText(
            windows,
            tokens=len(ids),
            unread=tuple(sorted(unread)),
        )

    def _good_cuts(
        self,
        text: str,
        ids: np.ndarray,
        offsets: np.ndarray,
    ) -> np.ndarray:
        """Whether a sentence or a line ends after each token, shape (tokens,), bool."""
        starts, ends = _without_spaces(text, offsets)
        next_start = np.append(starts[1:], len(text))
        positions = [match.start() for match in re.finditer("\n", text)]
        breaks = np.array(positions, dtype=np.int64)
        line_ends = np.searchsorted(breaks, next_start) > np.searchsorted(
            breaks, ends
        )
        # A full stop inside "3.5" is followed by no space.
        sentence_ends = np.isin(ids, self._sentence_ends) & (next_start > ends)
        return line_ends | sentence_ends


def _without_spaces(
    text: str, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where tokens start and end without the spaces that byte-level ones begin with."""
    codes = np.frombuffer(
        text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32
    )
    is_letter = (codes > ord(" ")) & (codes != ord("\xa0"))
    letters = np.append(np.flatnonzero(is_letter), len(text))
    starts = letters[np.searchsorted(letters, offsets[:, 0])]
    before = np.searchsorted(letters, offsets[:, 1])
    ends = np.where(before > 0, letters[before - 1] + 1, 0)
    return starts, ends


def own_tokenizer(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    """A copy that reads special tokens as text, which threads may share."""
    from tokenizers import Tokenizer

    copyreg.pickle(Tokenizer, _reduced)
    copied = _restored(tokenizer.backend_tokenizer.to_str(), True)  # noqa: FBT003
    copied.no_truncation()
    copied.no_padding()
    return copied


def _reduced(
    tokenizer: Tokenizer,
) -> tuple[Callable[..., Tokenizer], tuple[str, bool]]:
    """What a pickle holds: the library's own forgets whether special tokens are text."""
    return _restored, (tokenizer.to_str(), tokenizer.encode_special_tokens)


def _restored(written: str, encode_special_tokens: bool) -> Tokenizer:  # noqa: FBT001
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(written)
    tokenizer.encode_special_tokens = encode_special_tokens
    return tokenizer
