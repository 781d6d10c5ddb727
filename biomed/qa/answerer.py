"""QuestionAnswerer: a question and text of any length -> answers with exact positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.folder import BiomedFolder
from biomed.qa.reading import Pair, PairReader, first_token
from biomed.qa.spans import Candidate, best_candidates, best_spans
from domainbert.errors import UserError
from domainbert.inference import chunked, read_ahead
from domainbert.settings import Settings
from domainbert.windows import plan_windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from biomed.qa.display import AnswerView

SCORE_KIND = "logit_margin"


@dataclass(frozen=True)
class Answer:
    """An answer: `context[start:end] == text`, or the finding that there is none (`text == ""`).

    Attributes:
        text: the answer, exactly as in the context.
        start: its first character; 0 without an answer.
        end: one past its last character; 0 without an answer.
        score: by how much it beats "no answer here" (see `score_kind`); not a probability. Without
            an answer: the score of the best rejected candidate, -inf if there is no candidate, NaN
            if the network's output is not a number.
        score_kind: "logit_margin": start logit plus end logit, minus the same sum for [CLS], which
            stands for "no answer", in the same window. The logits of a window are defined up to a
            constant; the difference is free of it, so windows and documents can be compared.
        document: number of the document that holds it, from 0.
        passage_start: first character of the window in which it was found.
        passage_end: one past the window's last character.
    """

    text: str
    start: int
    end: int
    score: float
    score_kind: str = SCORE_KIND
    document: int = 0
    passage_start: int = 0
    passage_end: int = 0

    @property
    def is_found(self) -> bool:
        """Whether there is an answer."""
        return self.end > self.start


class QuestionSettings(Settings):
    """Settings of a question-answering model.

    Attributes:
        window: maximum tokens of a window, including question and special tokens; None: the
            encoder's limit.
        overlap: tokens of the context that consecutive windows share; None: a quarter of the
            window. Every answer up to this length is whole in some window.
        max_answer: maximum tokens of an answer, at most the overlap; None: the overlap.
        threshold: an answer's score must be above it; None: 0, and in training the threshold that
            best separates articles with the answer from others.
    """

    window: int | None = None
    overlap: int | None = None
    max_answer: int | None = None
    threshold: float | None = None


class QuestionAnswerer(BiomedFolder):
    """Finds the answer to a question in one or several documents of any length.

    Each document is read with the question in overlapping windows. The best run of whole words
    over all windows is the answer if its score is above the threshold.

    Load one with `from_pretrained`; any Hugging Face checkpoint for BERT question answering works.

    Args:
        network: Hugging Face's question-answering network.
        tokenizer: its fast tokenizer.
        settings: windows, longest answer, threshold.
        device: by default CUDA if available, otherwise the CPU.
        batch_tokens: tokens of one batch, including padding; by default depends on the device.

    Raises:
        UserError: windows longer than the encoder's, or answers longer than the overlap.
    """

    task, labels = "qa", ("answer start", "answer end")
    train_command = "biomed qa train QUESTIONS --encoder {encoder} --out MODEL"
    settings_class = QuestionSettings

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        settings: QuestionSettings | None = None,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        super().__init__(
            network, tokenizer, settings=settings, device=device, batch_tokens=batch_tokens
        )
        window = self.window_tokens()
        overlap = window // 4 if self.settings.overlap is None else self.settings.overlap
        plan_windows(0, capacity=window // 2, overlap=overlap)  # checks the overlap
        self.reader = PairReader(tokenizer, window=window, overlap=overlap)
        self.max_answer = self.settings.max_answer or overlap
        if not 1 <= self.max_answer <= overlap:
            msg = (
                f"max_answer must be between 1 and the overlap of {overlap} tokens, so that every "
                f"answer is whole in some window; got {self.max_answer}"
            )
            raise UserError(msg)

    @classmethod
    def from_pretrained(cls, name: str | Path = "qa", **options: Any) -> QuestionAnswerer:
        """Load the shipped model, a model folder or `hub:owner/name`; see `Model`."""
        return super().from_pretrained(name, **options)

    def __repr__(self) -> str:
        """Name the window and the longest answer."""
        return f"QuestionAnswerer(window={self.reader.window}, max_answer={self.max_answer})"

    @classmethod
    def network_class(cls) -> Any:
        """BERT for question answering."""
        from transformers import BertForQuestionAnswering

        return BertForQuestionAnswering

    @property
    def threshold(self) -> float:
        """The model's own threshold; see `QuestionSettings`."""
        return self.settings.threshold or 0.0

    def set_threshold(self, threshold: float) -> None:
        """Change the model's own threshold, which is saved with it."""
        self.settings = self.settings.replaced(threshold=threshold)

    def answer(
        self,
        question: str,
        context: str | Sequence[str],
        *,
        top_k: int = 1,
        threshold: float | None = None,
    ) -> list[Answer]:
        """The best answers to a question, best first.

        Args:
            question: a question.
            context: a document, or several; `Answer.document` says which one holds the answer.
            top_k: maximum number of answers; they do not overlap.
            threshold: an answer's score must be above it; None: the model's own; -inf: always
                answer.

        Returns:
            At least one answer; if none passes the threshold, one with an empty text.

        Raises:
            UserError: an empty question or context, a question too long for the window, or
                top_k < 1.
        """
        return next(self.answer_many([(question, context)], top_k=top_k, threshold=threshold))

    def answer_many(
        self,
        pairs: Iterable[tuple[str, str | Sequence[str]]],
        *,
        top_k: int = 1,
        threshold: float | None = None,
        network: PreTrainedModel | None = None,
    ) -> Iterator[list[Answer]]:
        """The answers to many (question, context) pairs, as a stream in the order given.

        Windows of several pairs share batches. Arguments and errors are those of `answer`; an
        error names the pair's number (from 0). `network` replaces the model's own in training.
        """
        if top_k < 1:
            msg = f"top_k must be at least 1, got {top_k}"
            raise UserError(msg)
        read = (self._read(pair, number) for number, pair in enumerate(pairs))
        return self.answer_read(read, top_k=top_k, threshold=threshold, network=network)

    def answer_read(
        self,
        pairs: Iterable[Pair],
        *,
        top_k: int = 1,
        threshold: float | None = None,
        network: PreTrainedModel | None = None,
    ) -> Iterator[list[Answer]]:
        """As `answer_many`, for pairs from `reader.pair`, which the caller has checked."""
        limit = self.threshold if threshold is None else threshold
        chunks = chunked(pairs, size=self.reader.size, limit=self.runner.buffer_tokens)
        for chunk in read_ahead(chunks):
            found = self.candidates(chunk, top_k=top_k, network=network)
            for pair, candidates in zip(chunk, found, strict=True):
                yield _answers(pair, candidates, threshold=limit)

    def _read(self, pair: object, number: int) -> Pair:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            msg = f"pair {number}: expected (question, context), got {type(pair).__name__}"
            raise UserError(msg)
        try:
            return self.reader.pair(*pair)
        except UserError as error:
            msg = f"pair {number}: {error}"
        raise UserError(msg)

    def candidates(
        self, pairs: Sequence[Pair], *, top_k: int = 1, network: PreTrainedModel | None = None
    ) -> list[list[Candidate] | None]:
        """The best spans of each pair over all windows of its passages, best first.

        The logits of all windows are in memory together. None instead of a pair's spans: one of
        its logits is not finite.
        """
        runner = self.runner if network is None else self.runner.with_model(network)
        places = [
            (index, number, cut)
            for index, pair in enumerate(pairs)
            for number, passage in enumerate(pair.passages)
            for cut in self.reader.ranges(pair.question, passage)
        ]
        windows = [
            self.reader.window_of(
                pairs[index].question, pairs[index].passages[number].ids[slice(*cut)]
            )
            for index, number, cut in places
        ]
        rows = runner.run(
            [ids for ids, _ in windows],
            token_types=[segments for _, segments in windows],
            read=_both_logits,
        )
        found: list[list[Candidate]] = [[] for _ in pairs]
        broken = set()
        for (index, number, cut), row, (ids, _) in zip(places, rows, windows, strict=True):
            found[index] += self._spans(pairs[index], number, cut, row, top_k=top_k)
            if not np.isfinite(row[: len(ids)]).all():
                broken.add(index)
        return [
            None if index in broken else best_candidates(spans, top_k=top_k)
            for index, spans in enumerate(found)
        ]

    def _spans(
        self, pair: Pair, number: int, cut: tuple[int, int], row: np.ndarray, *, top_k: int
    ) -> list[Candidate]:
        """The best spans of one window from its logits, shape (tokens of the batch, 2)."""
        passage, here = pair.passages[number], slice(*cut)
        first = first_token(pair.question)
        of_context = row[first : first + cut[1] - cut[0]]
        null = float(row[0].sum())
        spans = best_spans(
            of_context[:, 0],
            of_context[:, 1],
            begins=passage.begins[here],
            ends=passage.ends[here],
            longest=self.max_answer,
            top_k=top_k,
        )
        return [
            Candidate(number, cut[0] + begin, cut[0] + end, score - null, cut)
            for begin, end, score in spans
        ]

    def show(
        self, question: str, context: str, *, top_k: int = 1, threshold: float | None = None
    ) -> AnswerView:
        """The context with its answers marked, for a notebook or a terminal; see `answer`."""
        from biomed.qa.display import AnswerView

        answers = self.answer(question, context, top_k=top_k, threshold=threshold)
        return AnswerView(context, tuple(answers))


def _both_logits(output: Any, _: torch.Tensor | None) -> torch.Tensor:
    import torch

    return torch.stack((output.start_logits, output.end_logits), dim=-1)


def _answers(
    pair: Pair, candidates: Sequence[Candidate] | None, *, threshold: float
) -> list[Answer]:
    if candidates is None:
        return [Answer("", 0, 0, float("nan"))]
    passing = [candidate for candidate in candidates if candidate.score > threshold]
    if not passing:
        best = candidates[0].score if candidates else float("-inf")
        return [Answer("", 0, 0, best)]
    return [_answer(pair, candidate) for candidate in passing]


def _answer(pair: Pair, candidate: Candidate) -> Answer:
    offsets = pair.passages[candidate.passage].offsets
    start, end = int(offsets[candidate.first, 0]), int(offsets[candidate.last, 1])
    return Answer(
        text=pair.documents[candidate.passage][start:end],
        start=start,
        end=end,
        score=candidate.score,
        document=candidate.passage,
        passage_start=int(offsets[candidate.window[0], 0]),
        passage_end=int(offsets[candidate.window[1] - 1, 1]),
    )
