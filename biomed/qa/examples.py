"""Training windows with and without the answer, drawn anew for every epoch."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from biomed.qa.questions import QuestionError
from biomed.qa.reading import first_token
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from biomed.qa.questions import Passage, Place, Question, QuestionSet
    from biomed.qa.reading import PairReader, Pieces

TRIES = 8  # windows drawn before giving up on a negative


@dataclass(frozen=True, eq=False)
class Example:
    """A training window.

    Attributes:
        ids: token ids, shape (tokens,), int64.
        segments: 0 for question tokens, 1 for the context's, shape (tokens,), int64.
        first: position of the context's first token.
        start: position of the answer's first token; 0 ([CLS]) without an answer.
        end: position of its last token.
    """

    ids: np.ndarray = field(repr=False)
    segments: np.ndarray = field(repr=False)
    first: int
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class _Asked:
    """A question prepared for training."""

    question: Question = field(repr=False)
    pieces: Pieces = field(repr=False)
    place: tuple[int, int, int] | None  # passage, first and last token of the commonest answer
    gold: dict[str, list[tuple[int, int]]]  # first and last token of each answer, by passage text
    answers: tuple[str, ...] = field(repr=False)  # in lower case; not in a negative window


class WindowMaker:
    """Draws the windows of an epoch: for each question one with the answer, and negatives.

    The window with the answer has a random position around it. Negatives are random windows of
    the question's own passages and of others from the same article that contain neither the
    answer's position nor its text. A question without an answer gives a window of its own passage.

    Args:
        questions: from one file; those without a usable answer are skipped and counted.
        reader: of the model.
        negatives: average number of negatives for each question with an answer, >= 0.
        longest: maximum tokens of an answer; longer ones are cut at the end.
        seed: of all random choices.

    Raises:
        QuestionError: no question has an answer that occurs in its context.
        UserError: negatives < 0.
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
        if not negatives >= 0:
            msg = f"negatives must be at least 0, got {negatives}"
            raise UserError(msg)
        self._reader, self._negatives, self._seed = reader, negatives, seed
        self._siblings: dict[str, dict[str, Passage]] = defaultdict(dict)
        for question in questions.questions:
            for passage in question.passages:
                self._siblings[passage.article][passage.text] = passage
        self._read = {
            text: reader.read(text) for passages in self._siblings.values() for text in passages
        }
        asked = [self._prepared(question, longest) for question in questions.questions]
        self._asked = [one for one in asked if one]
        self.left_out = len(asked) - len(self._asked)
        if not any(one.place for one in self._asked):
            msg = (
                f"{questions.name} has {len(questions)} questions, but none with an answer that "
                "occurs in its context; training needs them"
            )
            raise QuestionError(msg)

    def _prepared(self, question: Question, longest: int) -> _Asked | None:
        pieces = self._reader.read(question.text)
        if not question.is_answered or not 0 < len(pieces) <= self._reader.longest_question:
            return None
        answers = tuple({a.strip().casefold() for a in question.answers})
        if question.is_impossible and question.passages:
            return _Asked(question, pieces, None, {}, answers)
        if not question.places:
            return None
        (chosen, _), *_ = Counter(question.places).most_common(1)
        if (tokens := self._tokens_of(question, chosen)) is None:
            return None
        place = (chosen.passage, tokens[0], min(tokens[1], tokens[0] + longest - 1))
        gold: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for each in question.places:
            if found := self._tokens_of(question, each):
                gold[question.passages[each.passage].text].append(found)
        return _Asked(question, pieces, place, gold, answers)

    def _tokens_of(self, question: Question, place: Place) -> tuple[int, int] | None:
        passage = self._read[question.passages[place.passage].text]
        return passage.covering(place.start, place.end)

    def __len__(self) -> int:
        """Number of usable questions."""
        return len(self._asked)

    def make(self, epoch: int) -> list[Example]:
        """The windows of an epoch; the same seed and epoch give the same windows."""
        generator = np.random.default_rng((self._seed, epoch))
        return [window for asked in self._asked for window in self._windows(asked, generator)]

    def _windows(self, asked: _Asked, generator: np.random.Generator) -> Iterator[Example]:
        if asked.place is None:
            number = int(generator.integers(len(asked.question.passages)))
            context = self._read[asked.question.passages[number].text]
            start = self._drawn_start(asked, context, generator)
            yield self._example(asked, context, start, None)
            return
        number, first, last = asked.place
        context = self._read[asked.question.passages[number].text]
        capacity = self._reader.capacity(asked.pieces)
        earliest = max(0, last + 1 - capacity)
        latest = min(first, max(0, len(context) - capacity))
        start = int(generator.integers(min(earliest, latest), latest + 1))
        yield self._example(asked, context, start, (first, last))
        wanted = int(self._negatives) + int(generator.random() < self._negatives % 1)
        for _ in range(wanted):
            if negative := self._negative(asked, generator):
                yield negative

    def _negative(self, asked: _Asked, generator: np.random.Generator) -> Example | None:
        passages = [
            passage
            for article in sorted(asked.question.articles)
            for passage in self._siblings[article].values()
        ]
        # A long passage has more windows than a short one.
        weights = np.array([len(self._read[passage.text]) for passage in passages], dtype=float)
        for _ in range(TRIES):
            passage = passages[generator.choice(len(passages), p=weights / weights.sum())]
            context = self._read[passage.text]
            start = self._drawn_start(asked, context, generator)
            stop = min(len(context), start + self._reader.capacity(asked.pieces))
            text = passage.text[context.offsets[start, 0] : context.offsets[stop - 1, 1]].casefold()
            gold = asked.gold.get(passage.text, ())
            touches = any(first < stop and start <= last for first, last in gold)
            if not touches and not any(answer in text for answer in asked.answers):
                return self._example(asked, context, start, None)
        return None

    def _drawn_start(self, asked: _Asked, context: Pieces, generator: np.random.Generator) -> int:
        return int(
            generator.integers(max(0, len(context) - self._reader.capacity(asked.pieces)) + 1)
        )

    def _example(
        self, asked: _Asked, context: Pieces, start: int, answer: tuple[int, int] | None
    ) -> Example:
        stop = start + self._reader.capacity(asked.pieces)
        ids, segments = self._reader.window_of(asked.pieces, context.ids[start:stop])
        first = first_token(asked.pieces)
        if answer is None:
            return Example(ids, segments, first, 0, 0)
        begin, end = (first + token - start for token in answer)
        return Example(ids, segments, first, begin, end)
