"""Windows of a question and its documents, and the best answer spans of their logits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from domainbert.errors import UserError
from domainbert.files import whole_text
from domainbert.text.sentences import sentence_spans
from domainbert.text.windows import (
    checked_text,
    is_blank,
    own_tokenizer,
    plan_windows,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_UNITS = r"(?:years?|months?|weeks?|days?|hours?|minutes?|min|fold|percent|mg|ml|kg|g)\b"
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
NUMBER_MARGIN = 4.0
"""A question for a number prefers an answer with exactly one number if it scores at most this much
less, and accepts it if it is at most this much below the threshold."""
NUMBER_LONGEST = 16
"""Maximum tokens of such an answer."""


@dataclass(frozen=True, eq=False, repr=False)
class TokenizedText:
    """A text and its tokens, without special tokens.

    Attributes:
        text: the text.
        ids: token ids, shape (tokens,).
        offsets: first character of each token and one past its last, shape (tokens, 2).
        starts_word: whether a word starts with the token, bool, shape (tokens,).
        ends_word: whether a word ends with the token, bool, shape (tokens,).
        has_letter: whether the token has a letter or a digit, bool, shape (tokens,).
        number_weights: int, shape (tokens,): 1 where a number starts, plus 1 where one ends, and 3
            at a comma between words. So tokens with a sum of 2 hold exactly one number.
        sentence_ids: number of the token's sentence, shape (tokens,).
        sentence_spans: first character of each sentence and one past its last, shape
            (sentences, 2).
    """

    text: str
    ids: np.ndarray
    offsets: np.ndarray
    starts_word: np.ndarray
    ends_word: np.ndarray
    has_letter: np.ndarray
    number_weights: np.ndarray
    sentence_ids: np.ndarray
    sentence_spans: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def covering(self, start: int, end: int) -> tuple[int, int] | None:
        """First and last token that touch characters `start` to `end`; None if none does."""
        first = int(np.searchsorted(self.offsets[:, 1], start, side="right"))
        last = int(np.searchsorted(self.offsets[:, 0], end, side="left")) - 1
        if first > last:
            return None
        return first, last


@dataclass(frozen=True, eq=False, repr=False)
class QuestionPair:
    """A tokenized question and the documents to search.

    Attributes:
        question: the question.
        documents: at least one.
        asks_number: whether the answer should hold a number, as for "how many" and "what dose".
    """

    question: TokenizedText
    documents: tuple[TokenizedText, ...]
    asks_number: bool


@dataclass(frozen=True, eq=False, repr=False)
class QuestionWindow:
    """A window with the question and a part of a document.

    Attributes:
        ids: token ids, int64, shape (tokens,).
        segments: 0 for the question and 1 for the document, int64, shape (tokens,).
        document: number of the document.
        tokens: first token of the document in the window, and one past the last.
    """

    ids: np.ndarray
    segments: np.ndarray
    document: int
    tokens: tuple[int, int]


class PairTokenizer:
    """Turns questions and contexts into windows `[CLS] question [SEP] part of the context [SEP]`.

    `[SEP]` and similar strings in a text are read as text, not as special tokens. It may be
    shared by threads. For `window` and `overlap` see `QuestionSettings`.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        window: int,
        overlap: int,
    ) -> None:
        self._tokenizer = own_tokenizer(tokenizer)
        self.window = window
        self.overlap = overlap
        self._special = max(3, tokenizer.num_special_tokens_to_add(pair=True))
        # A longer question would leave no room for windows to advance over the context.
        self.longest_question = (
            window - self._special - overlap - max(1, overlap // 4)
        )
        self._cls = tokenizer.cls_token_id
        self._sep = tokenizer.sep_token_id

    def pair(self, question: object, context: object) -> QuestionPair:
        """Check and tokenize a question and its context, a text or a list of texts.

        Raises:
            UserError: not a text, an empty text, or a question too long for the window.
        """
        contexts: Sequence[object] = [context]
        names = ["the context"]
        if isinstance(context, list | tuple):
            contexts = context
            names = [f"the context, document {n}" for n in range(len(context))]
        if not contexts:
            raise UserError("the list of contexts is empty; expected a text")
        asked = self._checked(question, "the question")
        if len(asked) > self.longest_question:
            raise UserError(
                f"the question has {len(asked)} tokens; with windows of {self.window} at most "
                f"{self.longest_question} are possible; move the rest of it to the context"
            )
        # An empty section of an article is no fault, as long as another one has text.
        has_text = not all(map(is_blank, contexts))
        documents = []
        for text, name in zip(contexts, names, strict=True):
            if has_text and is_blank(text):
                documents.append(self.tokenize(""))
            else:
                documents.append(self._checked(text, name))
        return QuestionPair(asked, tuple(documents), asks_number(asked.text))

    def _checked(self, text: object, name: str) -> TokenizedText:
        tokenized = self.tokenize(checked_text(text, name))
        if not len(tokenized):
            raise UserError(
                f"{name} has no character that the tokenizer reads"
            )
        return tokenized

    def tokenize(self, text: str) -> TokenizedText:
        """The tokens of a text."""
        encoded = self._tokenizer.encode(
            whole_text(text), add_special_tokens=False
        )
        words = np.array(encoded.word_ids, dtype=np.int64)
        changes = words[1:] != words[:-1]
        edge = np.ones(min(1, len(words)), dtype=bool)
        offsets = np.array(encoded.offsets, dtype=np.int64).reshape(-1, 2)
        has_letter = [
            any(map(str.isalnum, text[i:j])) for i, j in encoded.offsets
        ]
        sentences = np.array(sentence_spans(text), dtype=np.int64).reshape(
            -1, 2
        )
        return TokenizedText(
            text=text,
            ids=np.array(encoded.ids, dtype=np.int64),
            offsets=offsets,
            starts_word=np.concatenate((edge, changes)),
            ends_word=np.concatenate((changes, edge)),
            has_letter=np.array(has_letter, dtype=bool),
            number_weights=_number_weights(text, offsets),
            sentence_ids=np.searchsorted(
                sentences[1:, 0], offsets[:, 1], side="left"
            ),
            sentence_spans=sentences,
        )

    def capacity(self, question: TokenizedText) -> int:
        """Tokens of the context that fit in a window with the question."""
        return self.window - self._special - len(question)

    def size(self, pair: QuestionPair) -> int:
        """Maximum tokens of a pair's windows together."""
        return self.window * sum(
            len(self._ranges(pair.question, text)) for text in pair.documents
        )

    def windows(self, pair: QuestionPair) -> list[QuestionWindow]:
        """The overlapping windows over all documents of a pair."""
        return [
            self.window_of(pair.question, document, tokens, number)
            for number, document in enumerate(pair.documents)
            for tokens in self._ranges(pair.question, document)
        ]

    def _ranges(
        self,
        question: TokenizedText,
        document: TokenizedText,
    ) -> list[tuple[int, int]]:
        capacity = self.capacity(question)
        return plan_windows(
            len(document), capacity=capacity, overlap=self.overlap
        )

    def window_of(
        self,
        question: TokenizedText,
        document: TokenizedText,
        tokens: tuple[int, int],
        number: int = 0,
    ) -> QuestionWindow:
        """The window with the question and a range of the tokens of a document."""
        # RoBERTa has two separators between question and context.
        separators = [self._sep] * (self._special - 2)
        head = np.concatenate(([self._cls], question.ids, separators))
        body = document.ids[slice(*tokens)]
        ids = np.concatenate((head, body, [self._sep]))
        segments = np.where(np.arange(len(ids)) < len(head), 0, 1)
        return QuestionWindow(ids, segments, number, tokens)


def asks_number(question: str) -> bool:
    """Whether the answer should hold a number: how many, how old, what dose."""
    return bool(_ASKS_NUMBER.search(question))


def _number_weights(text: str, offsets: np.ndarray) -> np.ndarray:
    """See `TokenizedText.number_weights`."""
    marks = []
    for match in _NUMBER.finditer(text):
        marks += [match.start(), match.end() - 1]
    for match in _COMMA.finditer(text):
        marks += [match.start()] * 3
    positions = np.sort(marks)
    first = np.searchsorted(positions, offsets[:, 0])
    end = np.searchsorted(positions, offsets[:, 1])
    return end - first


@dataclass(frozen=True)
class Candidate:
    """Tokens `first` to `last` (inclusive) of one document.

    The score is start plus end logit minus those of [CLS], in the window where this is largest.
    Candidates are ranked by their total: the score, or more for a number that is asked for.
    """

    document: int
    first: int
    last: int
    score: float
    total: float


def window_spans(
    pair: QuestionPair,
    window: QuestionWindow,
    logits: np.ndarray,
    *,
    longest: int,
    top_k: int,
) -> Iterator[Candidate]:
    """The best candidates of a window, from its start and end logits, shape (tokens, 2).

    An answer has at most `longest` tokens and a letter or a digit. A question for a number also
    has candidates with exactly one number.
    """
    document = pair.documents[window.document]
    tokens = slice(*window.tokens)
    n_tokens = len(document.ids[tokens])
    # The window ends with [SEP].
    start_logits, end_logits = logits[-1 - n_tokens : -1].T
    no_answer = float(logits[0].sum())  # of [CLS], start plus end
    # Of each kind of answer: the weights of the tokens, the limits of their sum in a span, the
    # maximum tokens of a span, and the bonus. An answer has a letter, that is a sum of at least 1.
    forms = [(document.has_letter, (1.0, np.inf), longest, 0.0)]
    if pair.asks_number:
        longest_number = min(NUMBER_LONGEST, longest)
        one_number = (2.0, 2.0)  # its start and its end
        forms.append(
            (
                document.number_weights,
                one_number,
                longest_number,
                NUMBER_MARGIN,
            )
        )
    for weights, limits, longest_span, bonus in forms:
        spans = best_spans(
            np.where(document.starts_word[tokens], start_logits, -np.inf),
            np.where(document.ends_word[tokens], end_logits, -np.inf),
            weights=weights[tokens],
            sentences=document.sentence_ids[tokens],
            limits=limits,
            longest=longest_span,
            top_k=top_k,
        )
        for first, last, score in spans:
            yield Candidate(
                window.document,
                tokens.start + first,
                tokens.start + last,
                score - no_answer,
                score - no_answer + bonus,
            )


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
    """The spans in one window with the largest sums of start and end logit.

    Spans are chosen from the best on, and none overlaps a better one. A span that would run over
    the end of its sentence keeps its sum, but ends at the best end within the sentence.

    Args:
        start: start logits of the document's tokens, -inf where no word starts, shape (tokens,).
        end: end logits, -inf where no word ends, shape (tokens,).
        weights: 0 or more, shape (tokens,).
        sentences: number of each token's sentence, in order, shape (tokens,).
        limits: smallest and largest sum of the weights of a span.
        longest: maximum tokens of a span.
        top_k: maximum number of spans.

    Returns:
        First token, last token (inclusive) and sum of logits of each span, best first.
    """
    longest = min(longest, len(start))

    def by_length(values: np.ndarray, fill: float) -> np.ndarray:
        """Row i, column j: the value of token i + j, the last one of a span of j + 1 tokens."""
        padded = np.append(values, np.full(longest - 1, fill))
        return sliding_window_view(padded, longest)

    span_logits = start[:, None] + by_length(end, -np.inf)
    sums = np.cumsum(weights)
    span_weights = by_length(sums, np.inf) - (sums - weights)[:, None]
    is_outside = (span_weights < limits[0]) | (span_weights > limits[1])
    span_logits[is_outside] = -np.inf
    crosses_sentence = by_length(sentences, -1) != sentences[:, None]
    starts = np.arange(len(start))[:, None]
    ends = starts + np.arange(longest)
    spans = []
    for _ in range(top_k):
        in_sentence = np.where(crosses_sentence, -np.inf, span_logits)
        has_end = np.isfinite(in_sentence.max(axis=1))
        best_logits = np.where(has_end, span_logits.max(axis=1), -np.inf)
        first = int(best_logits.argmax())
        if not np.isfinite(best_logits[first]):
            break
        last = first + int(in_sentence[first].argmax())
        spans.append((first, last, float(best_logits[first])))
        span_logits[(starts <= last) & (ends >= first)] = -np.inf
    return spans


def best_candidates(
    candidates: Iterable[Candidate], *, top_k: int
) -> list[Candidate]:
    """The best candidates of all windows, best first, of which no two overlap.

    A span that occurs in several windows is kept once, with its best score. Of candidates with
    equal scores, the first in the text wins.
    """

    def rank(candidate: Candidate) -> tuple[float, ...]:
        span = (candidate.first, candidate.last)
        return (-candidate.total, candidate.document, *span)

    best: list[Candidate] = []
    for candidate in sorted(candidates, key=rank):
        if len(best) == top_k:
            break
        if not any(_overlap(candidate, better) for better in best):
            best.append(candidate)
    return best


def _overlap(first: Candidate, second: Candidate) -> bool:
    is_apart = first.last < second.first or second.last < first.first
    return first.document == second.document and not is_apart
