"""Training windows with and without the answer, drawn anew for every epoch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from biomed.qa.questions import QuestionError

if TYPE_CHECKING:
    from biomed.qa.questions import Question, QuestionSet
    from biomed.qa.spans import PairReader, Pieces

TRIES = 8  # windows drawn before giving up on a negative


@dataclass(frozen=True, eq=False)
class Example:
    """A window's token ids and segments, shape (tokens,), and where the answer is.

    Without an answer `start` and `end`, its first and last token, are 0 ([CLS]).
    """

    ids: np.ndarray = field(repr=False)
    segments: np.ndarray = field(repr=False)
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class _Asked:
    """A question for training, its tokens, and the first and last token of its answer."""

    question: Question
    pieces: Pieces
    answer: tuple[int, int] | None
    capacity: int  # of a window with the question, in tokens of the context


class WindowMaker:
    """Draws the windows of an epoch: for each question one with the answer, and negatives.

    The window with the answer has a random position around it. Negatives are random windows of
    the question's own context and of others from the same article that contain neither the
    answer's position nor its text. A question without an answer gives a window of its context.

    Args:
        questions: from one file; those whose answer is not in their context are left out.
        reader: of the model.
        negatives: average number of negatives for each question with an answer, >= 0.
        longest: maximum tokens of an answer; longer ones are cut at the end.
        seed: of all random choices.
    """

    def __init__(
        self,
        questions: QuestionSet,
        *,
        reader: PairReader,
        negatives: float,
        longest: int,
        seed: int,
    ) -> None:
        self._reader, self._longest = reader, longest
        self._negatives, self._seed = negatives, seed
        self._read = {
            text: reader.read(text)
            for text in dict.fromkeys(q.context for q in questions)
        }
        self._texts: dict[str, dict[str, None]] = defaultdict(dict)  # of each article
        for question in questions:
            self._texts[question.article][question.context] = None
        self._asked = [
            asked for question in questions if (asked := self._prepared(question))
        ]
        if not any(asked.answer for asked in self._asked):
            count = f"{questions.name} has {len(questions)} questions, but none with an answer that"
            raise QuestionError(f"{count} occurs in its context; training needs them")

    def _prepared(self, question: Question) -> _Asked | None:
        """The question with its commonest answer; None if it cannot be trained on."""
        pieces, answer = self._reader.read(question.text), None
        if not 0 < len(pieces) <= self._reader.longest_question:
            return None
        if question.answers:
            places = Counter(question.places).most_common(1)
            tokens = (
                self._read[question.context].covering(*places[0][0]) if places else None
            )
            if not tokens:
                return None
            answer = tokens[0], min(tokens[1], tokens[0] + self._longest - 1)
        return _Asked(question, pieces, answer, self._reader.capacity(pieces))

    def __len__(self) -> int:
        return len(self._asked)

    def make(self, epoch: int) -> list[Example]:
        """The windows of an epoch; the same seed and epoch give the same windows."""
        generator = np.random.default_rng((self._seed, epoch))
        return [
            window
            for asked in self._asked
            for window in self._windows(asked, generator)
        ]

    def _windows(
        self, asked: _Asked, generator: np.random.Generator
    ) -> Iterator[Example]:
        text = asked.question.context
        if asked.answer is None:
            yield self._example(asked, text, self._random_start(asked, text, generator))
            return
        first, last = asked.answer
        earliest = max(0, last + 1 - asked.capacity)
        latest = min(first, max(0, len(self._read[text]) - asked.capacity))
        start = int(generator.integers(min(earliest, latest), latest + 1))
        yield self._example(asked, text, start, (first, last))
        wanted = int(self._negatives) + int(generator.random() < self._negatives % 1)
        for _ in range(wanted):
            if negative := self._negative(asked, generator):
                yield negative

    def _negative(
        self, asked: _Asked, generator: np.random.Generator
    ) -> Example | None:
        texts = list(self._texts[asked.question.article])
        # A long text has more windows than a short one.
        weights = np.array([len(self._read[text]) for text in texts], dtype=float)
        for _ in range(TRIES):
            text = texts[generator.choice(len(texts), p=weights / weights.sum())]
            start = self._random_start(asked, text, generator)
            if not self._has_answer(asked, text, start):
                return self._example(asked, text, start)
        return None

    def _has_answer(self, asked: _Asked, text: str, start: int) -> bool:
        """Whether a window touches an answer's position or contains an answer's text."""
        question, shown = (
            asked.question,
            self._read[text].offsets[start : start + asked.capacity],
        )
        begin, end = shown[0, 0], shown[-1, 1]
        touched = text == question.context and any(
            start < end and begin < stop for start, stop in question.places
        )
        window = text[begin:end].casefold()
        return touched or any(
            answer.casefold() in window for answer in question.answers
        )

    def _random_start(
        self, asked: _Asked, text: str, generator: np.random.Generator
    ) -> int:
        spare = len(self._read[text]) - asked.capacity
        return int(generator.integers(max(0, spare) + 1))

    def _example(
        self,
        asked: _Asked,
        text: str,
        start: int,
        answer: tuple[int, int] | None = None,
    ) -> Example:
        span = start, start + asked.capacity
        window = self._reader.window_of(asked.pieces, self._read[text], span)
        first = len(asked.pieces) + 2  # after [CLS], the question and [SEP]
        begin, end = (first + token - start for token in answer) if answer else (0, 0)
        return Example(window.ids, window.segments, begin, end)
