"""Training windows with and without the answer, drawn anew for every epoch."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from biomed.qa.questions import QuestionError
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from biomed.qa.questions import Question, QuestionSet
    from biomed.qa.reading import PairReader, Pieces

TRIES = 8  # windows drawn before giving up on a negative


@dataclass(frozen=True, eq=False)
class Example:
    """A window's token ids and segments, shape (tokens,), and where context and answer are.

    Without an answer `start` and `end`, its first and last token, are 0 ([CLS]).
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


class WindowMaker:
    """Draws the windows of an epoch: for each question one with the answer, and negatives.

    The window with the answer has a random position around it. Negatives are random windows of
    the question's own passages and of others from the same article that contain neither the
    answer's position nor its text. A question without an answer gives a window of its own passage.

    Args:
        questions: from one file; `left_out` counts those without a usable answer.
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
            raise UserError(f"negatives must be at least 0, got {negatives}")
        self._reader, self._negatives, self._seed = reader, negatives, seed
        self._read: dict[str, Pieces] = {}
        self._siblings: dict[str, dict[str, None]] = defaultdict(dict)  # texts of each article
        for question in questions.questions:
            for passage in question.passages:
                self._siblings[passage.article][passage.text] = None
                self._read[passage.text] = reader.read(passage.text)
        asked = [self._prepared(question, longest) for question in questions.questions]
        self._asked = [one for one in asked if one]
        self.left_out = len(asked) - len(self._asked)
        if not any(one.place for one in self._asked):
            raise QuestionError(
                f"{questions.name} has {len(questions)} questions, but none with an answer that "
                "occurs in its context; training needs them"
            )

    def _prepared(self, question: Question, longest: int) -> _Asked | None:
        pieces = self._reader.read(question.text)
        if not question.is_answered or not 0 < len(pieces) <= self._reader.longest_question:
            return None
        if question.is_impossible and question.passages:
            return _Asked(question, pieces, None, {})
        gold: dict[str, list[tuple[int, int]]] = defaultdict(list)
        tokens = {}
        for place in question.places:
            text = question.passages[place.passage].text
            if found := self._read[text].covering(place.start, place.end):
                tokens[place] = found
                gold[text].append(found)
        commonest = Counter(question.places).most_common(1)
        if not commonest or (chosen := commonest[0][0]) not in tokens:
            return None
        first, last = tokens[chosen]
        last = min(last, first + longest - 1)
        return _Asked(question, pieces, (chosen.passage, first, last), gold)

    def __len__(self) -> int:
        """Number of usable questions."""
        return len(self._asked)

    def make(self, epoch: int) -> list[Example]:
        """The windows of an epoch; the same seed and epoch give the same windows."""
        generator = np.random.default_rng((self._seed, epoch))
        return [window for asked in self._asked for window in self._windows(asked, generator)]

    def _windows(self, asked: _Asked, generator: np.random.Generator) -> Iterator[Example]:
        passages = asked.question.passages
        if asked.place is None:
            text = passages[generator.integers(len(passages))].text
            yield self._example(asked, text, self._random_start(asked, text, generator))
            return
        number, first, last = asked.place
        text = passages[number].text
        capacity = self._reader.capacity(asked.pieces)
        earliest = max(0, last + 1 - capacity)
        latest = min(first, max(0, len(self._read[text]) - capacity))
        start = int(generator.integers(min(earliest, latest), latest + 1))
        yield self._example(asked, text, start, (first, last))
        wanted = int(self._negatives) + int(generator.random() < self._negatives % 1)
        for _ in range(wanted):
            if negative := self._negative(asked, generator):
                yield negative

    def _negative(self, asked: _Asked, generator: np.random.Generator) -> Example | None:
        articles = sorted(asked.question.articles)
        texts = [text for article in articles for text in self._siblings[article]]
        answers = {answer.strip().casefold() for answer in asked.question.answers}
        # A long passage has more windows than a short one.
        weights = np.array([len(self._read[text]) for text in texts], dtype=float)
        for _ in range(TRIES):
            text = texts[generator.choice(len(texts), p=weights / weights.sum())]
            context = self._read[text]
            start = self._random_start(asked, text, generator)
            stop = min(len(context), start + self._reader.capacity(asked.pieces))
            shown = text[context.offsets[start, 0] : context.offsets[stop - 1, 1]].casefold()
            gold = asked.gold.get(text, ())
            touches = any(first < stop and start <= last for first, last in gold)
            if not touches and not any(answer in shown for answer in answers):
                return self._example(asked, text, start)
        return None

    def _random_start(self, asked: _Asked, text: str, generator: np.random.Generator) -> int:
        spare = len(self._read[text]) - self._reader.capacity(asked.pieces)
        return int(generator.integers(max(0, spare) + 1))

    def _example(
        self, asked: _Asked, text: str, start: int, answer: tuple[int, int] | None = None
    ) -> Example:
        stop = start + self._reader.capacity(asked.pieces)
        window = self._reader.window_of(asked.pieces, self._read[text], (start, stop))
        first = len(asked.pieces) + 2
        begin, end = (first + token - start for token in answer) if answer else (0, 0)
        return Example(window.ids, window.segments, first, begin, end)
