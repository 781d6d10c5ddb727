"""YesNoAnswerer: a question and its context -> yes, no or maybe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.folder import BiomedFolder
from biomed.qa.decisions import LABELS
from biomed.qa.reading import PairReader
from domainbert.inference import chunked, read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TASK = "yesno"
TRAIN_COMMAND = "biomed qa yesno train QUESTIONS --encoder {encoder} --out MODEL"


@dataclass(frozen=True)
class YesNoSettings:
    """What a yes/no model does around its network.

    Attributes:
        window: tokens of a window at most, question and special tokens counted; None is the
            encoder's limit.
        overlap: tokens of the context that consecutive windows share.
    """

    window: int | None = None
    overlap: int = 0


@dataclass(frozen=True)
class Decision:
    """How a question is decided: the likeliest label, and the probability of each."""

    label: str
    probabilities: dict[str, float]


class YesNoAnswerer(BiomedFolder):
    """Decides a question by its context, with a network that reads both together.

    A context too long for one window is read in several; their logits are averaged.

    Args:
        network: Hugging Face's sequence classifier, its outputs in the order of `LABELS`.
        tokenizer: its fast tokenizer.
        settings: windows.
        device: where to run; by default CUDA where there is one, else the CPU.
        batch_tokens: tokens of one batch, padding counted; by default by device.

    Raises:
        ValueError: windows that the encoder cannot read.
    """

    task, labels, train_command = TASK, LABELS, TRAIN_COMMAND
    settings_class = YesNoSettings

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        settings: YesNoSettings | None = None,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        super().__init__(
            network, tokenizer, settings=settings, device=device, batch_tokens=batch_tokens
        )
        self.reader = PairReader(
            tokenizer, window=self.window_tokens(), overlap=self.settings.overlap
        )

    def __repr__(self) -> str:
        """Name the parts."""
        return f"YesNoAnswerer({', '.join(LABELS)}, window={self.reader.window})"

    @classmethod
    def network_class(cls) -> Any:
        """BERT with a classification head on CLS."""
        from domainbert.classifier import CLSClassifier

        return CLSClassifier

    def decide(self, question: str, context: str) -> Decision:
        """Yes, no or maybe.

        Raises:
            ValueError: an empty question or context, or a question too long for the window.
        """
        return next(self.decide_many([(question, context)]))

    def decide_many(
        self, pairs: Iterable[tuple[str, str]], *, network: PreTrainedModel | None = None
    ) -> Iterator[Decision]:
        """The decisions on many questions, in the order given, as they finish.

        Args:
            pairs: question and context.
            network: use this one instead of the model's own (one in training, say).

        Raises:
            ValueError: as in `decide`; the message has the pair's number.
        """
        runner = self.runner if network is None else self.runner.with_model(network)
        read = (self.windows(*pair, number=number) for number, pair in enumerate(pairs))
        chunks = chunked(
            read,
            size=lambda windows: sum(len(ids) for ids, _ in windows),
            limit=runner.buffer_tokens,
        )
        for chunk in read_ahead(chunks):
            rows = runner.run(
                [ids for windows in chunk for ids, _ in windows],
                token_types=[segments for windows in chunk for _, segments in windows],
                read=lambda output, _: output.logits,
            )
            counts = np.array([len(windows) for windows in chunk])
            sums = np.add.reduceat(np.stack(rows), np.cumsum(counts) - counts)
            yield from map(_decision, sums / counts[:, None])

    def windows(
        self, question: str, context: str, *, number: int = 0
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Token ids and segments of each window of a pair; see `PairReader.window_of`."""
        pair = self.reader.pair(question, context, number=number)
        return [
            self.reader.window_of(pair.question, passage.ids[slice(*cut)])
            for passage in pair.passages
            for cut in self.reader.ranges(pair.question, passage)
        ]


def _decision(logits: np.ndarray) -> Decision:
    """From the mean logits, shape (labels,)."""
    shares = np.exp(logits - logits.max())
    probabilities = dict(zip(LABELS, (shares / shares.sum()).tolist(), strict=True))
    return Decision(LABELS[int(logits.argmax())], probabilities)
