"""Training windows with and without the answer, drawn again in every epoch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from biomed.qa.questions import Question, QuestionError, QuestionSet

if TYPE_CHECKING:
    from biomed.qa.spans import PairTokenizer, TokenizedText

MAX_TRIES = 8  # windows that are drawn to find one without the answer


@dataclass(frozen=True, eq=False, repr=False)
class AnswerExample:
    """A training window.

    Attributes:
        ids: token ids, shape (tokens,).
        segments: 0 for the question and 1 for the context, shape (tokens,).
        start: first token of the answer; 0, [CLS], without one.
        end: last token of the answer; 0 without one.
    """

    ids: np.ndarray
    segments: np.ndarray
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class _TrainingQuestion:
    """A question with its tokens.

    Attributes:
        answer: first and last token of the answer in the context; None without an answer.
        capacity: tokens of the context that fit in a window with the question.
    """

    question: Question
    tokenized: TokenizedText
    answer: tuple[int, int] | None
    capacity: int


class WindowMaker:
    """Draws the windows of an epoch: one with the answer for each question, and negatives.

    The window with the answer has a random position around it. Negatives are random windows of
    the question's own context and of others from the same article that contain neither the
    answer's position nor its text. For a question without an answer it is a window of its context.

    Args:
        questions: questions of one file; those whose answer is not in their context are left out.
        pair_tokenizer: the model's pair_tokenizer.
        negatives: mean number of negatives for each question with an answer, at least 0.
        longest: maximum tokens of an answer; a longer one is cut at its end.
        seed: seed of all random choices.
    """

    def __init__(
        self,
        questions: QuestionSet,
        *,
        pair_tokenizer: PairTokenizer,
        negatives: float,
        longest: int,
        seed: int,
    ) -> None:
        self._pair_tokenizer = pair_tokenizer
        self._longest = longest
        self._negatives = negatives
        self._seed = seed
        contexts = dict.fromkeys(question.context for question in questions)
        self._tokenized = {
            context: pair_tokenizer.tokenize(context) for context in contexts
        }
        # The contexts of each article, in the order of the file.
        self._contexts: dict[str, dict[str, None]] = defaultdict(dict)
        for question in questions:
            self._contexts[question.article][question.context] = None
        prepared = [self._prepared(question) for question in questions]
        self._questions = [question for question in prepared if question]
        if not any(question.answer for question in self._questions):
            raise QuestionError(
                f"{questions.name} has {len(questions)} questions, but none with an answer that "
                "occurs in its context; training needs them"
            )

    def _prepared(self, question: Question) -> _TrainingQuestion | None:
        """The question with its commonest answer; None if it cannot be trained on."""
        tokenized = self._pair_tokenizer.tokenize(question.text)
        if not 0 < len(tokenized) <= self._pair_tokenizer.longest_question:
            return None
        answer = None
        if question.answers:
            answer = self._answer_tokens(question)
            if answer is None:
                return None
        capacity = self._pair_tokenizer.capacity(tokenized)
        return _TrainingQuestion(question, tokenized, answer, capacity)

    def _answer_tokens(self, question: Question) -> tuple[int, int] | None:
        """First and last token of the commonest answer; None if it is not in the context."""
        if not question.answer_spans:
            return None
        ((span, _),) = Counter(question.answer_spans).most_common(1)
        tokens = self._tokenized[question.context].covering(*span)
        if tokens is None:
            return None
        first, last = tokens
        return first, min(last, first + self._longest - 1)

    def __len__(self) -> int:
        return len(self._questions)

    def make(self, epoch: int) -> list[AnswerExample]:
        """The windows of an epoch; the same seed and epoch give the same windows."""
        generator = np.random.default_rng((self._seed, epoch))
        return [
            window
            for question in self._questions
            for window in self._windows(question, generator)
        ]

    def _windows(
        self,
        asked: _TrainingQuestion,
        generator: np.random.Generator,
    ) -> Iterator[AnswerExample]:
        """The windows of one question in one epoch."""
        context = asked.question.context
        if asked.answer is None:
            start = self._random_start(asked, context, generator)
            yield self._example(asked, context, start)
            return
        first, last = asked.answer
        n_tokens = len(self._tokenized[context])
        earliest = max(0, last + 1 - asked.capacity)
        latest = min(first, max(0, n_tokens - asked.capacity))
        start = int(generator.integers(min(earliest, latest), latest + 1))
        yield self._example(asked, context, start, (first, last))
        # A mean of 1.5 negatives is one, and a second one for half of the questions.
        n_negatives = int(self._negatives + generator.random())
        for _ in range(n_negatives):
            negative = self._negative(asked, generator)
            if negative:
                yield negative

    def _negative(
        self,
        asked: _TrainingQuestion,
        generator: np.random.Generator,
    ) -> AnswerExample | None:
        """A random window of the article without the answer; None if none was drawn."""
        contexts = list(self._contexts[asked.question.article])
        # A long context has more windows than a short one.
        lengths = np.array(
            [len(self._tokenized[text]) for text in contexts], float
        )
        for _ in range(MAX_TRIES):
            number = generator.choice(len(contexts), p=lengths / lengths.sum())
            context = contexts[number]
            start = self._random_start(asked, context, generator)
            if not self._has_answer(asked, context, start):
                return self._example(asked, context, start)
        return None

    def _has_answer(
        self, asked: _TrainingQuestion, context: str, start: int
    ) -> bool:
        """Whether a window touches an answer's position or contains an answer's text.

        The text alone counts too, because such a window may answer the question as well.
        """
        question = asked.question
        offsets = self._tokenized[context].offsets[
            start : start + asked.capacity
        ]
        window_start = offsets[0, 0]
        window_end = offsets[-1, 1]
        if context == question.context:
            for answer_start, answer_end in question.answer_spans:
                if answer_start < window_end and window_start < answer_end:
                    return True
        window = context[window_start:window_end].casefold()
        return any(answer.casefold() in window for answer in question.answers)

    def _random_start(
        self,
        asked: _TrainingQuestion,
        context: str,
        generator: np.random.Generator,
    ) -> int:
        latest = max(0, len(self._tokenized[context]) - asked.capacity)
        return int(generator.integers(latest + 1))

    def _example(
        self,
        asked: _TrainingQuestion,
        context: str,
        start: int,
        answer: tuple[int, int] | None = None,
    ) -> AnswerExample:
        """The window that starts at a token of a context, with the answer if it has it."""
        tokens = (start, start + asked.capacity)
        window = self._pair_tokenizer.window_of(
            asked.tokenized,
            self._tokenized[context],
            tokens,
        )
        if answer is None:
            return AnswerExample(window.ids, window.segments, 0, 0)
        # The context follows [CLS], the question and [SEP].
        shift = len(asked.tokenized) + 2 - start
        first, last = answer
        return AnswerExample(
            window.ids, window.segments, first + shift, last + shift
        )
