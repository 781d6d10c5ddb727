"""AnswerModel: a question and text of any length -> answers with exact positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from biomed.qa.spans import Candidate, Pair, PairReader, best_candidates, window_spans
from domainbert.errors import UserError
from domainbert.models.model import Model
from domainbert.settings import Count, Settings
from domainbert.statistics.calibration import platt
from domainbert.streams import chunked, read_ahead
from domainbert.text.windows import plan_windows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from biomed.qa.spans import Window


@dataclass(frozen=True)
class Answer:
    """An answer: `context[start:end] == text`, or the finding that there is none (`text == ""`).

    Attributes:
        text: the answer, exactly as in the context.
        start, end: its first character and one past its last; 0 without an answer.
        score: start plus end logit, minus those of [CLS], "no answer", in the same window; not a
            probability, but comparable across documents. Without an answer, the score of the best
            rejected candidate: -inf without any, NaN where the network's output is NaN.
        document: number of the document that holds it, from 0.
        probability: how likely it is that the documents answer the question, from the score by
            the model's calibration; None if it has none.
        sentence: the sentence with the answer.
        sentence_start, sentence_end: its first character and one past its last.
    """

    text: str
    start: int
    end: int
    score: float
    document: int = 0
    probability: float | None = None
    sentence: str = field(default="", repr=False)
    sentence_start: int = 0
    sentence_end: int = 0

    @property
    def is_found(self) -> bool:
        """Whether there is an answer."""
        return self.end > self.start


class QuestionSettings(Settings):
    """Settings of a question-answering model.

    Attributes:
        window: maximum tokens, with question and special tokens; None: the encoder's limit.
        overlap: tokens of the context that consecutive windows share; None: a quarter of the
            window. Every answer up to this length is whole in some window.
        max_answer: maximum tokens of an answer, at most the overlap; None: the overlap.
        threshold: an answer's score must be above it.
        calibration: slope and intercept that make a score a probability that there is an answer.
    """

    window: int | None = None
    overlap: int | None = None
    max_answer: int | None = None
    threshold: float = 0.0
    calibration: Annotated[tuple[float, float] | None, Field(strict=False)] = None


class AskSettings(Settings):
    """How to answer a question: the options of `answer`, `answer_many` and `AskTask`.

    Attributes:
        top_k: maximum number of answers; they do not overlap.
        threshold: an answer's score must be above it; None: the model's own; -inf: always answer.
    """

    top_k: Count = 1
    threshold: Annotated[float | None, Field(allow_inf_nan=True)] = None


class AnswerModel(Model):
    """Finds the answer to a question in one or several documents of any length.

    Each document is read with the question in overlapping windows. The best run of whole words
    over all windows is the answer if its score is above the threshold. An answer ends with its
    sentence and has a letter or a digit; for "how many", "how old", "what dose" and the like, see
    `biomed.qa.spans.NUMBER_MARGIN`. Any Hugging Face checkpoint for question answering works whose
    encoder family has a fast tokenizer.

    Args:
        network, tokenizer: Hugging Face's question-answering network and its fast tokenizer.
        settings: windows, longest answer, threshold.
        **options: `device` and `batch_tokens` of `domainbert.models.model.Model`.
    """

    package, task, labels = "biomed", "qa", ("answer start", "answer end")
    train_command = "biomed qa train QUESTIONS --encoder {encoder} --out MODEL"
    settings_class = QuestionSettings

    def prepare(self) -> None:
        """The reader of questions with their documents."""
        window = self.window_tokens()
        overlap = (
            window // 4 if self.settings.overlap is None else self.settings.overlap
        )
        plan_windows(0, capacity=window // 2, overlap=overlap)  # checks the overlap
        self.reader = PairReader(self.tokenizer, window=window, overlap=overlap)
        self.max_answer = self.settings.max_answer or overlap
        if not 1 <= self.max_answer <= overlap:
            raise UserError(
                f"max_answer must be between 1 and the overlap of {overlap} tokens, so that every "
                f"answer is whole in some window; got {self.max_answer}"
            )

    @classmethod
    def network_class(cls) -> Any:
        """Any encoder for question answering."""
        from transformers import AutoModelForQuestionAnswering

        return AutoModelForQuestionAnswering

    @property
    def reads_segments(self) -> bool:
        """Whether the encoder tells question and context apart by segments, as BERT does."""
        import inspect

        takes = "token_type_ids" in inspect.signature(self.network.forward).parameters
        return takes and getattr(self.network.config, "type_vocab_size", 0) > 1

    def answer(
        self, question: str, context: str | Sequence[str], **options: Any
    ) -> list[Answer]:
        """The best answers to a question, best first.

        Args:
            question: a question.
            context: a document, or several; `Answer.document` says which one holds the answer.
            **options: `top_k` and `threshold`, see `AskSettings`.

        Returns:
            At least one answer; if none passes the threshold, one with an empty text.

        Raises:
            UserError: an empty question or context, a question too long for the window, or an
                unknown option.
        """
        return next(self.answer_many([(question, context)], **options))

    def answer_many(
        self,
        pairs: Iterable[tuple[str, str | Sequence[str]] | Pair],
        *,
        network: PreTrainedModel | None = None,
        **options: Any,
    ) -> Iterator[list[Answer]]:
        """The answers to many (question, context) pairs, as a stream in the order given.

        Windows of several pairs share batches. Arguments and errors are those of `answer`; an
        error names the pair's number (from 0). A pair may come from `reader.pair`, already
        checked. `network` replaces the model's own in training.
        """
        import torch

        asked = AskSettings(**options)
        runner = self.runner if network is None else self.runner.with_model(network)
        read = (self._read(pair, number) for number, pair in enumerate(pairs))
        for chunk in read_ahead(
            chunked(read, size=self.reader.size, limit=runner.buffer_tokens)
        ):
            windows = [self.reader.windows(pair) for pair in chunk]
            types = [window.segments for each in windows for window in each]
            rows = runner.run(
                [window.ids for each in windows for window in each],
                token_types=types if self.reads_segments else None,
                read=lambda out, _: torch.stack(
                    (out.start_logits, out.end_logits), dim=-1
                ),
            )
            waiting = iter(rows)
            for pair, each in zip(chunk, windows, strict=True):
                logits = [(window, next(waiting)[: len(window.ids)]) for window in each]
                yield self._best(pair, logits, asked)

    def _read(self, pair: object, number: int) -> Pair:
        if isinstance(pair, Pair):
            return pair
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            got = type(pair).__name__
            raise UserError(f"pair {number}: expected (question, context), got {got}")
        try:
            return self.reader.pair(*pair)
        except UserError as error:
            msg = f"pair {number}: {error}"
        raise UserError(msg)  # without the cause, whose traceback would hold the text

    def _best(
        self, pair: Pair, logits: list[tuple[Window, np.ndarray]], asked: AskSettings
    ) -> list[Answer]:
        """A pair's answers over its windows, each with logits of shape (tokens, 2)."""
        if not all(np.isfinite(row).all() for _, row in logits):
            return [Answer("", 0, 0, float("nan"))]
        top_k = asked.top_k
        limit = self.settings.threshold if asked.threshold is None else asked.threshold
        spans = [
            candidate
            for window, row in logits
            for candidate in window_spans(
                pair, window, row, longest=self.max_answer, top_k=top_k
            )
        ]
        best = best_candidates(
            (c for c in spans if c.score + c.bonus > limit), top_k=top_k
        )
        score = max((c.score for c in spans), default=float("-inf"))
        calibration = self.settings.calibration
        probability = float(platt(score, *calibration)) if calibration else None
        if not best:
            return [Answer("", 0, 0, score, probability=probability)]
        return [_answer(pair, candidate, probability=probability) for candidate in best]


def _answer(pair: Pair, candidate: Candidate, *, probability: float | None) -> Answer:
    passage = pair.passages[candidate.passage]
    start, end = (
        int(passage.offsets[candidate.first, 0]),
        int(passage.offsets[candidate.last, 1]),
    )
    text = passage.text[start:end]
    # Some tokenizers count the space before a word to its token.
    start, end = (
        start + len(text) - len(text.lstrip()),
        end - len(text) + len(text.rstrip()),
    )
    first, last = passage.places[passage.sentences[candidate.first]].tolist()
    return Answer(
        text=text.strip(),
        start=start,
        end=end,
        score=candidate.score,
        document=candidate.passage,
        probability=probability,
        sentence=passage.text[first:last],
        sentence_start=first,
        sentence_end=last,
    )
