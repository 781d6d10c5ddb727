"""One network: a question and its passages -> the best spans of each passage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from biomed.folder import BiomedFolder
from biomed.qa.reading import Pair, PairReader, first_token
from biomed.qa.spans import best_spans
from domainbert.errors import UserError
from domainbert.windows import plan_windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TASK = "qa"
LABELS = ("answer start", "answer end")
TRAIN_COMMAND = "biomed qa train QUESTIONS --encoder {encoder} --out MODEL"


@dataclass(frozen=True)
class QuestionSettings:
    """What a question-answering model does around its network.

    Attributes:
        window: tokens of a window at most, question and special tokens counted; None is the
            encoder's limit.
        overlap: tokens of the context that consecutive windows share; None is a quarter of the
            window. An answer no longer than it stands whole in some window.
        max_answer: tokens of an answer at most; None is the overlap, which is the most.
        threshold: an answer's score must be above it, else there is none; see `Answer`. None is 0,
            and in training the one that tells best whether an article has the answer.
    """

    window: int | None = None
    overlap: int | None = None
    max_answer: int | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class Candidate:
    """A span of one passage.

    Attributes:
        passage: its number among the question's passages.
        first: its first token, counted along the passage.
        last: its last token.
        score: start plus end logit minus those of [CLS], in the window where this is largest.
        window: the tokens of the passage in that window: first, and one past the last.
    """

    passage: int
    first: int
    last: int
    score: float
    window: tuple[int, int]

    def overlaps(self, other: Candidate) -> bool:
        """Whether they share a token."""
        apart = self.last < other.first or other.last < self.first
        return self.passage == other.passage and not apart


class SpanReader(BiomedFolder):
    """A network that gives each token a logit to be the start, and one to be the end, of an answer.

    Args:
        network: Hugging Face's question answerer.
        tokenizer: its fast tokenizer.
        settings: windows, longest answer, threshold.
        device: where to run; by default CUDA where there is one, else the CPU.
        batch_tokens: tokens of one batch, padding counted; by default by device.

    Raises:
        ValueError: windows that the encoder cannot read, or answers longer than the overlap.
    """

    task, labels, train_command = TASK, LABELS, TRAIN_COMMAND
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
        self.reader = PairReader(tokenizer, window=window, overlap=overlap)
        plan_windows(0, capacity=window // 2, overlap=overlap)  # raises what it has to say
        self.max_answer = self.settings.max_answer or overlap
        if not 1 <= self.max_answer <= overlap:
            msg = (
                f"max_answer must be between 1 and the overlap of {overlap} tokens, so that every "
                f"answer stands whole in some window; got {self.max_answer}"
            )
            raise UserError(msg)
        self.threshold = self.settings.threshold or 0.0

    def __repr__(self) -> str:
        """Name the parts."""
        return f"SpanReader(window={self.reader.window}, max_answer={self.max_answer})"

    @classmethod
    def network_class(cls) -> Any:
        """BERT for question answering."""
        from transformers import BertForQuestionAnswering

        return BertForQuestionAnswering

    def set_threshold(self, threshold: float) -> None:
        """Make another threshold the model's own, also where it is saved."""
        self.settings = replace(self.settings, threshold=threshold)
        self.threshold = threshold

    def candidates(
        self, pairs: Sequence[Pair], *, top_k: int = 1, network: PreTrainedModel | None = None
    ) -> list[list[Candidate]]:
        """The best spans for each pair, over all its passages, all windows pooled together.

        Args:
            pairs: of one chunk; their windows' logits are held together.
            top_k: spans wanted of each pair.
            network: use this one instead of the model's own (one in training, say).

        Returns:
            For each pair at most `top_k` spans, best first, none overlapping another.
        """
        runner = self.runner if network is None else self.runner.with_model(network)
        places = [
            (pair, number, cut)
            for pair in pairs
            for number, passage in enumerate(pair.passages)
            for cut in self.reader.ranges(pair.question, passage)
        ]
        windows = [
            self.reader.window_of(pair.question, pair.passages[number].ids[slice(*cut)])
            for pair, number, cut in places
        ]
        rows = runner.run(
            [ids for ids, _ in windows],
            token_types=[segments for _, segments in windows],
            read=_both_logits,
        )
        found: dict[int, list[Candidate]] = {id(pair): [] for pair in pairs}
        for (pair, number, cut), row in zip(places, rows, strict=True):
            spans = self._spans(pair, number, cut, row, top_k=top_k)
            found[id(pair)] += spans
        return [_best(found[id(pair)], top_k=top_k) for pair in pairs]

    def _spans(
        self, pair: Pair, number: int, cut: tuple[int, int], row: np.ndarray, *, top_k: int
    ) -> list[Candidate]:
        """The best spans of one window; `row` has its logits, shape (tokens of the batch, 2)."""
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
            Candidate(number, cut[0] + s.first, cut[0] + s.last, s.score - null, cut) for s in spans
        ]


def _both_logits(output: Any, _: torch.Tensor | None) -> torch.Tensor:
    import torch

    return torch.stack((output.start_logits, output.end_logits), dim=-1)


def _best(candidates: Iterable[Candidate], *, top_k: int) -> list[Candidate]:
    """The best over all windows, none overlapping a better one; of equals the first in the text.

    So what several windows found is there once, with its best score.
    """
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (-c.score, c.passage, c.first, c.last)):
        if len(kept) == top_k:
            break
        if not any(candidate.overlaps(other) for other in kept):
            kept.append(candidate)
    return kept
