"""How well a network predicts hidden words and next sentences of held-out documents."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from domainbert.inference import plan_batches
from domainbert.pretraining.masking import IGNORED
from domainbert.pretraining.trainer import collate

if TYPE_CHECKING:
    from domainbert.pretraining.examples import Examples
    from domainbert.pretraining.masking import Masker
    from domainbert.pretraining.model import PretrainingNetwork

# Fixed, whatever the device: what is hidden is drawn batch by batch.
BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Scores:
    """Scores on held-out examples.

    Attributes:
        mlm_loss: mean cross-entropy of the hidden tokens, in nats.
        mlm_accuracy: share of them that is predicted.
        nsp_accuracy: share of the pairs that are told; None where there are none.
        tokens: hidden tokens.
        pairs: pairs of segments.
    """

    mlm_loss: float
    mlm_accuracy: float
    nsp_accuracy: float | None
    tokens: int
    pairs: int

    @property
    def perplexity(self) -> float:
        """Among how many equally likely tokens the choice is, on average."""
        return math.exp(min(self.mlm_loss, 700.0))

    def to_dict(self) -> dict[str, float]:
        """All numbers there are, for JSON and logs."""
        numbers = {**asdict(self), "perplexity": self.perplexity}
        return {name: value for name, value in numbers.items() if value is not None}


class HeldOut:
    """Held-out examples with tokens hidden once and for all.

    Args:
        examples: of the held-out side.
        masker: what hides tokens.
        tokens: to read at most, drawn from all the examples.
        pad_token_id: of the tokenizer.
        seed: of the choice and of what is hidden.
    """

    def __init__(
        self, examples: Examples, *, masker: Masker, tokens: int, pad_token_id: int, seed: int
    ) -> None:
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(examples))
        count = int(np.searchsorted(np.cumsum(examples.lengths[order]), tokens)) or 1
        chosen = [examples[int(number)] for number in order[:count]]
        lengths = [len(example.tokens) for example in chosen]
        self._batches = [
            collate(
                [chosen[i] for i in batch],
                masker=masker,
                generator=generator,
                pad_token_id=pad_token_id,
            )
            for batch in plan_batches(lengths, batch_tokens=BATCH_TOKENS)
        ]

    def scores(self, network: PretrainingNetwork) -> Scores:
        """Score a network where it is, leaving its mode as it was."""
        device, training = network.device, network.training
        totals = np.zeros(5)
        network.eval()
        try:
            with (
                torch.inference_mode(),
                torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"),
            ):
                for batch in self._batches:
                    totals += _counts(network, {k: v.to(device) for k, v in batch.items()})
        finally:
            network.train(training)
        loss, right, tokens, told, pairs = totals
        return Scores(
            mlm_loss=float(loss / max(tokens, 1)),
            mlm_accuracy=float(right / max(tokens, 1)),
            nsp_accuracy=float(told / pairs) if pairs else None,
            tokens=int(tokens),
            pairs=int(pairs),
        )


def _counts(network: PretrainingNetwork, batch: dict[str, torch.Tensor]) -> np.ndarray:
    """Summed loss, right and all hidden tokens, right and all pairs."""
    output = network(**batch)
    hidden = batch["labels"][batch["labels"] != IGNORED]
    words = output.prediction_logits.float()
    loss = cross_entropy(words, hidden, reduction="sum")
    right = (words.argmax(dim=-1) == hidden).sum()
    told = pairs = 0
    if (wanted := batch.get("next_sentence_label")) is not None:
        told = int((output.seq_relationship_logits.argmax(dim=-1) == wanted).sum())
        pairs = len(wanted)
    return np.array([float(loss), int(right), len(hidden), told, pairs])
