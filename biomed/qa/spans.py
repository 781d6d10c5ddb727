"""A question and its documents as windows of tokens, and the best spans of their logits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from domainbert.errors import UserError
from domainbert.files import whole_text
from domainbert.text.sentences import sentence_spans
from domainbert.text.windows import checked_text, own_tokenizer, plan_windows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_UNITS = (
    r"(?:years?|months?|weeks?|days?|hours?|minutes?|min|fold|percent|mg|ml|kg|g)\b"
)
_PART = (
    r"(?:\d++(?:[.,·]\d++|:\d\d)*(?!(?:st|nd|rd|th)\b)|\b(?:zero|none|one|two|three|four|five|six|seven|"
    r"eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|(?:twen|thir|for|fif|"
    r"six|seven|eigh|nine)ty|hundreds?|thousands?|millions?|billions?|dozens?|half|halves|quarter|"
    r"once|twice)\b)"
)
# "twenty-five", "5 to 14 days" and "1.5 million" have one; "COVID-19" and "2nd" have none.
_NUMBER = re.compile(
    rf"(?<!\w)(?<![^\W\d_][-‐‑–.]){_PART}(?:%?(?:\s?[-–]\s?|\s(?:to|or)\s|\s(?=[htmbd])){_PART})*+"
    rf"(?![-‐‑](?!{_UNITS})[^\W\d_])",
    re.IGNORECASE,
)
_COMMA = re.compile(r",\s")
_ASKS_NUMBER = re.compile(
    r"\bhow\s+(?:many|much|old|long)\b"
    r"|\b(?:what|which)\s+(?:(?:is|was|are|were)\s+(?:the|his|her|their)\s+)?(?:\w+\s+)?"
    r"(?:doses?|dosages?|percent|percentages?|proportion|fraction|number|age)\b",
    re.IGNORECASE,
)
NUMBER_MARGIN, NUMBER_LONGEST = 4.0, 16
"""A question for a number prefers an answer of at most so many tokens with exactly one number that
scores at most this much less, and accepts one that is at most this much below the threshold."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """A text and its tokens, without special tokens: ids, shape (tokens,), and edges.

    `offsets` are the first character and one past the last of each token, shape (tokens, 2);
    `begins` and `ends` say whether a word begins or ends with the token, `worded` whether it has a
    letter or a digit, shape (tokens,), bool. `numbers`, int: 1 where a number begins, plus 1 where
    one ends, and 3 at a comma between words; so tokens that add up to 2 have exactly one number.
    `places` are the sentences of the text as (start, end), shape (sentences, 2), and `sentences`
    the number of each token's, shape (tokens,).
    """

    text: str = field(repr=False)
    ids: np.ndarray = field(repr=False)
    offsets: np.ndarray = field(repr=False)
    begins: np.ndarray = field(repr=False)
    ends: np.ndarray = field(repr=False)
    worded: np.ndarray = field(repr=False)
    numbers: np.ndarray = field(repr=False)
    sentences: np.ndarray = field(repr=False)
    places: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def covering(self, start: int, end: int) -> tuple[int, int] | None:
        """First and last token that touch characters `start` to `end`; None if none does."""
        first = int(np.searchsorted(self.offsets[:, 1], start, side="right"))
        last = int(np.searchsorted(self.offsets[:, 0], end, side="left")) - 1
        return (first, last) if first <= last else None


@dataclass(frozen=True, eq=False)
class Pair:
    """A tokenised question and the passages (documents) to search.

    `asks_number`: the answer should hold a number, as in "how many" and "what dose".
    """

    question: Pieces = field(repr=False)
    passages: tuple[Pieces, ...] = field(repr=False)
    asks_number: bool


@dataclass(frozen=True, eq=False)
class Window:
    """Token ids and segments (0 question, 1 context) of a window, shape (tokens,), int64.

    `tokens` is its range of the tokens of passage number `passage`.
    """

    ids: np.ndarray = field(repr=False)
    segments: np.ndarray = field(repr=False)
    passage: int
    tokens: tuple[int, int]


class PairReader:
    """Turns questions and contexts into windows `[CLS] question [SEP] part of the context [SEP]`.

    `[SEP]` and similar strings in a text are read as text, not as special tokens. Threads may
    share a reader. `window` and `overlap` are those of `QuestionSettings`.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, *, window: int, overlap: int
    ) -> None:
        self._tokenizer = own_tokenizer(tokenizer)
        self.window, self.overlap = window, overlap
        # So that windows still advance over the context.
        self._special = max(3, tokenizer.num_special_tokens_to_add(pair=True))
        self.longest_question = window - self._special - overlap - max(1, overlap // 4)
        self._cls, self._sep = tokenizer.cls_token_id, tokenizer.sep_token_id

    def pair(self, question: object, context: object) -> Pair:
        """Check and tokenise a question and its context, a text or a list of texts.

        Raises:
            UserError: not a text, an empty text, or a question too long for the window.
        """
        is_many = isinstance(context, list | tuple)
        documents: Sequence[object] = context if is_many else [context]  # type: ignore[assignment]
        if not documents:
            raise UserError("the context has no document")
        asked = self._checked(question, "the question")
        if len(asked) > self.longest_question:
            raise UserError(
                f"the question has {len(asked)} tokens; with windows of {self.window} at most "
                f"{self.longest_question} are possible; move the rest of it to the context"
            )
        passages = tuple(
            self._checked(document, "the context" + f", document {number}" * is_many)
            for number, document in enumerate(documents)
        )
        return Pair(asked, passages, asks_number(asked.text))

    def _checked(self, text: object, what: str) -> Pieces:
        pieces = self.read(checked_text(text, what))
        if not len(pieces):
            raise UserError(f"{what} has no character that the tokenizer reads")
        return pieces

    def read(self, text: str) -> Pieces:
        """The tokens of a text."""
        encoded = self._tokenizer.encode(whole_text(text), add_special_tokens=False)
        words = np.array(encoded.word_ids, dtype=np.int64)
        changes = words[1:] != words[:-1]
        edge = np.ones(min(1, len(words)), dtype=bool)
        offsets = np.array(encoded.offsets, dtype=np.int64).reshape(-1, 2)
        places = np.array(sentence_spans(text), dtype=np.int64).reshape(-1, 2)
        return Pieces(
            text=text,
            ids=np.array(encoded.ids, dtype=np.int64),
            offsets=offsets,
            begins=np.concatenate((edge, changes)),
            ends=np.concatenate((changes, edge)),
            worded=np.array(
                [any(map(str.isalnum, text[a:b])) for a, b in encoded.offsets], bool
            ),
            numbers=_numbered(text, offsets),
            sentences=np.searchsorted(places[1:, 0], offsets[:, 1], side="left"),
            places=places,
        )

    def capacity(self, question: Pieces) -> int:
        """Tokens of the context that fit in a window with the question."""
        return self.window - self._special - len(question)

    def size(self, pair: Pair) -> int:
        """Maximum tokens of a pair's windows together."""
        return self.window * sum(
            len(self._ranges(pair.question, text)) for text in pair.passages
        )

    def windows(self, pair: Pair) -> list[Window]:
        """The overlapping windows over all passages of a pair."""
        return [
            self.window_of(pair.question, passage, cut, number)
            for number, passage in enumerate(pair.passages)
            for cut in self._ranges(pair.question, passage)
        ]

    def _ranges(self, question: Pieces, context: Pieces) -> list[tuple[int, int]]:
        return plan_windows(
            len(context), capacity=self.capacity(question), overlap=self.overlap
        )

    def window_of(
        self,
        question: Pieces,
        context: Pieces,
        tokens: tuple[int, int],
        passage: int = 0,
    ) -> Window:
        """The window with the question and a range of the context's tokens."""
        # RoBERTa has two separators between question and context.
        between = [self._sep] * (self._special - 2)
        head = np.concatenate(([self._cls], question.ids, between))
        ids = np.concatenate((head, context.ids[slice(*tokens)], [self._sep]))
        segments = np.where(np.arange(len(ids)) < len(head), 0, 1)
        return Window(ids, segments, passage, tokens)


def asks_number(question: str) -> bool:
    """Whether the answer should hold a number: how many, how old, what dose."""
    return bool(_ASKS_NUMBER.search(question))


def _numbered(text: str, offsets: np.ndarray) -> np.ndarray:
    ends = [
        at
        for match in _NUMBER.finditer(text)
        for at in (match.start(), match.end() - 1)
    ]
    places = np.sort(ends + 3 * [match.start() for match in _COMMA.finditer(text)])
    return np.searchsorted(places, offsets[:, 1]) - np.searchsorted(
        places, offsets[:, 0]
    )


@dataclass(frozen=True)
class Candidate:
    """Tokens `first` to `last` of one passage.

    The score is start plus end logit minus those of [CLS], in the window where this is largest.
    Candidates are ranked by score plus `bonus`.
    """

    passage: int
    first: int
    last: int
    score: float
    bonus: float = 0.0


def window_spans(
    pair: Pair, window: Window, logits: np.ndarray, *, longest: int, top_k: int
) -> Iterator[Candidate]:
    """The best candidates of a window, from its start and end logits, shape (tokens, 2).

    An answer has at most `longest` tokens and a letter or a digit. A question for a number also
    has candidates with exactly one number.
    """
    pieces, tokens = pair.passages[window.passage], slice(*window.tokens)
    wanted = [(pieces.worded, (1.0, np.inf), longest, 0.0)]
    if pair.asks_number:
        wanted.append(
            (pieces.numbers, (2.0, 2.0), min(NUMBER_LONGEST, longest), NUMBER_MARGIN)
        )
    start, end = logits[-1 - len(pieces.ids[tokens]) : -1].T
    for weights, limits, most, bonus in wanted:
        for first, last, score in best_spans(
            np.where(pieces.begins[tokens], start, -np.inf),
            np.where(pieces.ends[tokens], end, -np.inf),
            weights=weights[tokens],
            sentences=pieces.sentences[tokens],
            limits=limits,
            longest=most,
            top_k=top_k,
        ):
            place = window.passage, tokens.start + first, tokens.start + last
            yield Candidate(*place, score - float(logits[0].sum()), bonus)


def best_spans(
    start: np.ndarray,
    end: np.ndarray,
    *,
    weights: np.ndarray,
    sentences: np.ndarray,
    limits: tuple[float, float],
    longest: int,
    top_k: int,
) -> list[tuple[int, int, float]]:
    """The spans in one window with the largest sum of start and end logit.

    All arrays have shape (tokens,): start and end logits of the context, -inf where no word begins
    or ends; weights (0 or more), whose sum over a span must lie within `limits`; and the numbers
    of the tokens' sentences, in order. A span has at most `longest` tokens. Each is the best of
    those that do not overlap a better one. One that runs over the end of its sentence keeps its
    score, and ends with the best end in the sentence.

    Returns:
        First token, last token (inclusive) and score of each span, best first.
    """
    longest = min(longest, len(start))

    def spans(values: np.ndarray, fill: float) -> np.ndarray:
        """Row i, column j: the value of token i + j, where the span of tokens i to i + j ends."""
        return sliding_window_view(
            np.append(values, np.full(longest - 1, fill)), longest
        )

    scores = start[:, None] + spans(end, -np.inf)
    sums = np.cumsum(weights)
    inside = spans(sums, np.inf) - (sums - weights)[:, None]
    scores[(inside < limits[0]) | (inside > limits[1])] = -np.inf
    across = spans(sentences, -1) != sentences[:, None]
    found: list[tuple[int, int, float]] = []
    for _ in range(top_k):
        whole = np.where(across, -np.inf, scores)
        reached = np.where(np.isfinite(whole.max(axis=1)), scores.max(axis=1), -np.inf)
        first = int(reached.argmax())
        if not np.isfinite(reached[first]):
            break
        last = first + int(whole[first].argmax())
        found.append((first, last, float(reached[first])))
        scores[first : last + 1] = -np.inf
        for row in range(max(0, first - longest + 1), first):
            scores[row, first - row :] = -np.inf
    return found


def best_candidates(candidates: Iterable[Candidate], *, top_k: int) -> list[Candidate]:
    """The best candidates of all windows, best first, none overlapping a better one.

    A span found in several windows occurs once, with its best score; of equal ones the first in
    the text wins.
    """
    order = sorted(
        candidates, key=lambda c: (-(c.score + c.bonus), c.passage, c.first, c.last)
    )
    kept: list[Candidate] = []
    for candidate in order:
        if len(kept) == top_k:
            break
        here = (other for other in kept if other.passage == candidate.passage)
        if all(
            other.last < candidate.first or candidate.last < other.first
            for other in here
        ):
            kept.append(candidate)
    return kept
