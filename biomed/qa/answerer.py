"""QuestionAnswerer: a question and text of any length -> its answers, with exact positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from biomed.qa.answers import SCORE_KIND, Answer
from domainbert.errors import UserError
from domainbert.inference import chunked, read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import torch
    from transformers import PreTrainedModel

    from biomed.qa.display import AnswerView
    from biomed.qa.network import Candidate, SpanReader
    from biomed.qa.reading import Pair


class QuestionAnswerer:
    """Finds the answer to a question in one or several documents of any length.

    Each document is read in overlapping windows beside the question; every run of words in any of
    them is a candidate, and the best over all windows is the answer, unless it does not beat "no
    answer here" by the threshold. An answer is whole words of the document, never of the question.

    Make one with `from_pretrained`.

    Args:
        reader: the network.
    """

    score_kind = SCORE_KIND

    def __init__(self, reader: SpanReader) -> None:
        self.reader = reader

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path = "qa",
        *,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> Self:
        """Load the shipped model, a model folder, or a Hub id.

        Any Hugging Face checkpoint for BERT question answering loads.

        Raises:
            EncoderError: a name that is nothing, or an encoder without a trained head.
        """
        from biomed.qa.network import SpanReader

        return cls(SpanReader.from_pretrained(name, device=device, batch_tokens=batch_tokens))

    @classmethod
    def fit(cls, stages: Sequence[Any], **options: Any) -> QuestionAnswerer:
        """Train on questions, stage after stage; see `biomed.qa.fitting.fit` for the options."""
        from biomed.qa.fitting import fit

        return cls(fit(stages, **options))

    def save_pretrained(self, folder: str | Path, *, merged: bool = False) -> None:
        """Write the model folder; see `SpanReader.save_pretrained`."""
        self.reader.save_pretrained(folder, merged=merged)

    def __repr__(self) -> str:
        """Name the window."""
        return f"QuestionAnswerer(window={self.reader.reader.window})"

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
            question: any question.
            context: a document, or several: `Answer.document` says in which one an answer is.
            top_k: how many at most; no two overlap.
            threshold: an answer's score must be above it; None is the model's own, and -inf takes
                the best in any case.

        Returns:
            At least one: where no candidate passes, the one that says so (`text == ""`).

        Raises:
            ValueError: an empty question or context, a question too long for the window, or
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
        """The answers to many questions, in the order given, as they finish.

        Windows of several pairs share batches. A document that several questions ask is tokenised
        once while it is remembered.

        Args:
            pairs: question and context, as in `answer`.
            top_k: as in `answer`.
            threshold: as in `answer`.
            network: use this one instead of the model's own (one in training, say).

        Raises:
            ValueError: as in `answer`; the message has the pair's number.
        """
        if top_k < 1:
            msg = f"top_k must be at least 1, got {top_k}"
            raise UserError(msg)
        limit = self.reader.threshold if threshold is None else threshold
        read = self.reader.reader
        asked = (read.pair(*pair, number=number) for number, pair in enumerate(pairs))
        chunks = chunked(asked, size=read.size, limit=self.reader.runner.buffer_tokens)
        for chunk in read_ahead(chunks):
            found = self.reader.candidates(chunk, top_k=top_k, network=network)
            for pair, candidates in zip(chunk, found, strict=True):
                yield _answers(pair, candidates, threshold=limit)

    def fault(self, question: object, context: object) -> str:
        """What keeps a pair from being answered, in words; "" where nothing does."""
        try:
            self.reader.reader.pair(question, context)
        except ValueError as error:
            return str(error).replace(" of pair number 0", "")
        return ""

    def show(
        self, question: str, context: str, *, top_k: int = 1, threshold: float | None = None
    ) -> AnswerView:
        """The context with its answers marked, for a notebook or a terminal; see `answer`."""
        from biomed.qa.display import AnswerView

        answers = self.answer(question, context, top_k=top_k, threshold=threshold)
        return AnswerView(context, tuple(answers))


def _answers(pair: Pair, candidates: Sequence[Candidate], *, threshold: float) -> list[Answer]:
    passing = [c for c in candidates if c.score > threshold]
    if not passing:
        best = candidates[0].score if candidates else float("-inf")
        return [Answer("", 0, 0, best)]
    return [_answer(pair, candidate) for candidate in passing]


def _answer(pair: Pair, candidate: Candidate) -> Answer:
    document = pair.documents[candidate.passage]
    offsets = pair.passages[candidate.passage].offsets
    start, end = int(offsets[candidate.first, 0]), int(offsets[candidate.last, 1])
    return Answer(
        text=document[start:end],
        start=start,
        end=end,
        score=candidate.score,
        document=candidate.passage,
        passage_start=int(offsets[candidate.window[0], 0]),
        passage_end=int(offsets[candidate.window[1] - 1, 1]),
    )
