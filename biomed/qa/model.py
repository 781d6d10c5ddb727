"""QuestionAnswerer, the model that users hold: exact answers from text of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from biomed.ner.entities import Entity, TaggedView
from biomed.qa.spans import (
    Candidate,
    PairTokenizer,
    QuestionPair,
    QuestionWindow,
    best_candidates,
    window_spans,
)
from domainbert.errors import UserError
from domainbert.models.model import Model, WindowSettings
from domainbert.settings import Count, Settings
from domainbert.statistics.calibration import platt
from domainbert.streams import chunked, read_ahead
from domainbert.text.windows import check_overlap

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NO_ANSWER = "No answer was found."


@dataclass(frozen=True)
class Answer:
    """An answer with `context[start:end] == text`; without an answer, `text` is empty.

    Attributes:
        text: the answer, exactly as in the context.
        start, end: its first character and one past its last; 0 without an answer.
        score: start plus end logit minus those of [CLS] ("no answer") in the same window. It is
            not a probability, but comparable across documents. Without an answer it is the score
            of the best rejected candidate, -inf without a candidate, and NaN if the network's
            output is NaN.
        document: number of the document with the answer, from 0.
        probability: calibrated probability that this answer is right, or without an answer that
            the best rejected candidate is; None for a model without calibration.
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

    def _repr_html_(self) -> str:
        """A small table, for a notebook; like `repr`, without the sentence."""
        import pandas as pd

        return pd.Series(vars(self)).drop("sentence").to_frame("").to_html()

    @property
    def is_found(self) -> bool:
        """Whether there is an answer."""
        return self.end > self.start


class QuestionSettings(WindowSettings):
    """Settings of a question-answering model.

    Attributes:
        window: maximum tokens, with question and special tokens; None: the encoder's limit.
        overlap: tokens of the context that consecutive windows share; None: a quarter of the
            window. An answer of up to this length is never split by all windows.
        max_answer: maximum tokens of an answer, at most the overlap; None: the overlap.
        threshold: an answer's score must be above it.
        calibration: slope and intercept of the probability of an answer, from its score.
    """

    window: int | None = None
    overlap: int | None = None
    max_answer: int | None = None
    threshold: float = 0.0
    calibration: Annotated[tuple[float, float] | None, Field(strict=False)] = (
        None
    )


class AskSettings(Settings):
    """How to answer a question: the options of `answer`, `answer_many` and `AskTask`.

    Attributes:
        top_k: maximum number of answers; they do not overlap.
        threshold: an answer's score must be above it; None: the model's own; -inf: always answer.
    """

    top_k: Count = 1
    threshold: Annotated[float | None, Field(allow_inf_nan=True)] = None


class QuestionAnswerer(Model[QuestionSettings]):
    """Finds the answer to a question in one or several documents of any length.

    Each document is read with the question in overlapping windows. The best run of whole words
    over all windows is the answer if its score is above the threshold. An answer ends with its
    sentence and has a letter or a digit; for "how many", "how old", "what dose" and the like, see
    `biomed.qa.spans.NUMBER_MARGIN`. Any Hugging Face checkpoint for question answering works whose
    encoder family has a fast tokenizer. For tables, `score_frame` has the task "answers"; see
    `biomed.qa.task.AskTask`.

    Args:
        network, tokenizer: Hugging Face's question-answering network and its fast tokenizer.
        settings: windows, longest answer, threshold.
        **options: `device` and `batch_tokens` of `domainbert.models.model.Model`.
    """

    package = "biomed"
    task = "qa"
    default = "qa"
    head = "span"
    labels = ("answer start", "answer end")
    train_command = "biomed qa train QUESTIONS --encoder {encoder} --out MODEL"
    trainer = "biomed.qa.training:fit"
    tasks: ClassVar = {"answers": "biomed.qa.task:AskTask"}
    settings_class = QuestionSettings

    def prepare(self) -> None:
        """Add the tokenizer of pairs; the overlap and the longest answer must fit the window."""
        window = self.window_tokens()
        overlap = self.settings.overlap
        if overlap is None:
            overlap = window // 4
        # The other half of the window is for the question.
        check_overlap(overlap, capacity=window // 2)
        self.pair_tokenizer = PairTokenizer(
            self._tokenizer, window=window, overlap=overlap
        )
        self.max_answer = self.settings.max_answer or overlap
        if not 1 <= self.max_answer <= overlap:
            raise UserError(
                f"max_answer must be between 1 and the overlap of {overlap} tokens, so that every "
                f"answer is whole in some window; got {self.max_answer}"
            )

    @classmethod
    def network_class(cls) -> type[PreTrainedModel]:
        """Any encoder for question answering."""
        from transformers import AutoModelForQuestionAnswering

        return AutoModelForQuestionAnswering

    @property
    def reads_segments(self) -> bool:
        """Whether the encoder tells question and context apart by segments, as BERT does."""
        return getattr(self._network.config, "type_vocab_size", 0) > 1

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
        pairs: Iterable[tuple[str, str | Sequence[str]] | QuestionPair],
        **options: Any,
    ) -> Iterator[list[Answer]]:
        """Stream the answers to many (question, context) pairs, in their order.

        Windows of several pairs share batches. Arguments and errors are those of `answer`; an
        error names the pair's number (from 0). A pair may also be the checked result of
        `pair_tokenizer.pair`.
        """
        ask = AskSettings(**options)
        checked = (
            self._read(pair, number) for number, pair in enumerate(pairs)
        )
        chunks = chunked(
            checked,
            size=self.pair_tokenizer.size,
            limit=self.runner.buffer_tokens,
        )
        for chunk in read_ahead(chunks):
            windows = [self.pair_tokenizer.windows(pair) for pair in chunk]
            logits = iter(self._logits(list(chain.from_iterable(windows))))
            for pair, pair_windows in zip(chunk, windows, strict=True):
                pair_logits = list(islice(logits, len(pair_windows)))
                yield self._best(pair, pair_windows, pair_logits, ask)

    def show(self, question: str, context: str, **options: Any) -> TaggedView:
        """The answers marked in their sentences, for a notebook or `print`; see `answer`."""
        return answer_view(self.answer(question, context, **options))

    def _logits(
        self,
        windows: list[QuestionWindow],
    ) -> Iterator[np.ndarray]:
        """Start and end logits of each window, shape (tokens, 2)."""
        import torch

        segments = None
        if self.reads_segments:
            segments = [window.segments for window in windows]
        outputs = self.runner.run(
            [window.ids for window in windows],
            token_types=segments,
            read=lambda out, _: torch.stack(
                (out.start_logits, out.end_logits), dim=-1
            ),
        )
        for window, logits in zip(windows, outputs, strict=True):
            yield logits[: len(window.ids)]

    def _read(self, pair: object, number: int) -> QuestionPair:
        """The pair, tokenized; an error names its number."""
        if isinstance(pair, QuestionPair):
            return pair
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            type_name = type(pair).__name__
            raise UserError(
                f"pair {number}: expected (question, context), got {type_name}"
            )
        try:
            return self.pair_tokenizer.pair(*pair)
        except UserError as error:
            message = f"pair {number}: {error}"
        # Raised outside of the handler: a cause's traceback would hold the text.
        raise UserError(message)

    def _best(
        self,
        pair: QuestionPair,
        windows: list[QuestionWindow],
        logits: list[np.ndarray],
        ask: AskSettings,
    ) -> list[Answer]:
        """The best answers of a pair, from the logits of its windows."""
        if not all(
            np.isfinite(window_logits).all() for window_logits in logits
        ):
            return [Answer("", 0, 0, float("nan"))]
        threshold = ask.threshold
        if threshold is None:
            threshold = self.settings.threshold
        spans: list[Candidate] = []
        for window, window_logits in zip(windows, logits, strict=True):
            spans += window_spans(
                pair,
                window,
                window_logits,
                longest=self.max_answer,
                top_k=ask.top_k,
            )
        accepted = [span for span in spans if span.total > threshold]
        best = best_candidates(accepted, top_k=ask.top_k)
        if not best:
            score = max((span.score for span in spans), default=float("-inf"))
            return [Answer("", 0, 0, score, probability=self._right(score))]
        return [
            _answer(pair, span, probability=self._right(span.score))
            for span in best
        ]

    def _right(self, score: float) -> float | None:
        """How likely a candidate with a score is right; None without calibration."""
        if not self.settings.calibration:
            return None
        return float(platt(score, *self.settings.calibration))


def answer_view(answers: Iterable[Answer]) -> TaggedView:
    """Each answer highlighted in its sentence."""
    text = ""
    spans = []
    for answer in answers:
        if not answer.is_found:
            continue
        if text:
            text += "\n\n"
        start = len(text) + answer.start - answer.sentence_start
        end = start + len(answer.text)
        spans.append(Entity(start, end, answer.text, "answer", answer.score))
        text += answer.sentence
    return TaggedView(text or NO_ANSWER, tuple(spans), ("answer",))


def _answer(
    pair: QuestionPair,
    candidate: Candidate,
    *,
    probability: float | None,
) -> Answer:
    """A candidate as an answer, with the sentence that it is in."""
    document = pair.documents[candidate.document]
    start = int(document.offsets[candidate.first, 0])
    end = int(document.offsets[candidate.last, 1])
    text = document.text[start:end]
    # Some tokenizers count the space before a word as part of its token.
    start += len(text) - len(text.lstrip())
    text = text.strip()
    sentence = document.sentence_ids[candidate.first]
    sentence_start, sentence_end = document.sentence_spans[sentence].tolist()
    return Answer(
        text=text,
        start=start,
        end=start + len(text),
        score=candidate.score,
        document=candidate.document,
        probability=probability,
        sentence=document.text[sentence_start:sentence_end],
        sentence_start=sentence_start,
        sentence_end=sentence_end,
    )
