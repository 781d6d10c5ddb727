"""Training one phase: the objective, its scores on held-out documents, and its speed."""

from __future__ import annotations

import math
import time
from functools import cache
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from domainbert.inference import plan_batches
from domainbert.pretraining.examples import IGNORED
from domainbert.training.objective import LengthBatches, Objective
from domainbert.training.processes import process_count
from domainbert.training.settings import TrainingSettings
from domainbert.training.trainer import training_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from transformers import TrainingArguments

    from domainbert.pretraining.examples import Examples, Masker
    from domainbert.pretraining.model import PretrainingNetwork
    from domainbert.pretraining.settings import Phase, TrainingPlan

# Of an evaluation batch, on every device: what is masked is drawn batch by batch.
EVALUATION_TOKENS = 4096


class MaskedWords(Objective):
    """Masked words, and next sentences if the examples are pairs.

    The masks are drawn anew in every epoch, from the seed, the epoch and the batch (Liu et al.,
    arXiv 1907.11692). So one set of examples serves all epochs, and a resumed run draws the same
    masks as an uninterrupted one.

    Attributes:
        tokens: read so far, padding not counted.
        scoring_seconds: spent on evaluations.
    """

    metric = "mlm_accuracy"

    def __init__(
        self,
        examples: Examples,
        *,
        held_out: HeldOut,
        phase: Phase,
        plan: TrainingPlan,
        masker: Masker,
    ) -> None:
        self._examples, self._held_out, self._masker = examples, held_out, masker
        self._phase, self._plan = phase, plan
        self.tokens, self.scoring_seconds = 0, 0.0

    def batches(self) -> _WholeSteps:
        """Batches of example numbers; an epoch is a whole number of steps."""
        processes = process_count()
        passes, tokens = plan_passes(self._phase, self._plan, processes=processes)
        lengths = self._examples.lengths
        batches = LengthBatches(
            np.stack([np.ones(len(lengths), dtype=np.int64), lengths], axis=1),
            batch_size=len(lengths),
            batch_tokens=tokens,
            seed=self._plan.seed,
        )
        return _WholeSteps(batches, multiple_of=processes * passes)

    def collate(self, batch: Sequence[int], *, epoch: int) -> dict[str, torch.Tensor]:
        """A masked batch."""
        examples = [self._examples[number] for number in batch]
        self.tokens += sum(len(example.tokens) for example in examples)
        generator = np.random.default_rng((self._plan.seed, epoch, batch[0]))
        return self._masker.batch(examples, generator)

    def loss(self, network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Cross-entropy of the masked tokens plus that of the pairs."""
        return network(**batch).loss

    def score(self, network: PretrainingNetwork) -> dict[str, float]:
        """Scores on held-out documents."""
        start = time.perf_counter()
        scores = self._held_out.scores(network)
        self.scoring_seconds += time.perf_counter() - start
        return scores

    def speed(
        self,
        config: Any,
        *,
        seconds: float,
        masked: float,
        device: torch.device,
        dtype: torch.dtype,
    ) -> dict[str, Any]:
        """Tokens per second of one process, and the share of its device's matrix rate."""
        lengths = self._examples.lengths
        # The length of the sequence that a token is in, on average.
        length = float((lengths**2).sum() / lengths.sum())
        lora = bool(self._plan.lora_rank)
        flops = training_flops(config, length=length, masked=masked, lora=lora)
        rate = matrix_rate(device, dtype=dtype)
        per_second = self.tokens / seconds if seconds > 0 else 0.0
        return {
            "tokens": self.tokens,
            "seconds": round(seconds, 1),
            "tokens_per_second": round(per_second, 1),
            "gflops": round(per_second * flops / 1e9, 1),
            "matrix_gflops": round(rate / 1e9, 1),
            "share_of_matrix_rate": float(f"{per_second * flops / rate:.3g}"),
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "dtype": str(dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
        }

    def facts(self) -> dict[str, Any]:
        """The settings; `pretrain` names the folder of a run by these and its data."""
        return {"phase": self._phase.model_dump(), "plan": self._plan.model_dump()}

    def arguments(self, folder: Path) -> TrainingArguments:
        """The arguments of Hugging Face's Trainer; checkpoints go to the folder."""
        phase, plan = self._phase, self._plan
        settings = TrainingSettings(
            epochs=1.0,
            learning_rate=phase.learning_rate,
            evaluations=plan.evaluations,
            warmup=phase.warmup,
            weight_decay=plan.weight_decay,
            seed=plan.seed,
        )
        arguments = training_arguments(
            settings, folder=folder, steps=phase.steps, metric=self.metric
        )
        arguments.max_steps = phase.steps
        arguments.gradient_accumulation_steps, _ = plan_passes(
            phase, plan, processes=process_count()
        )
        # The choice of trained weights is fixed, so no process has to search for unused ones.
        arguments.ddp_find_unused_parameters = False
        # The last weights are kept: held-out loss falls until the end, and its minimum is noise.
        arguments.load_best_model_at_end, arguments.metric_for_best_model = False, None
        return arguments


class _WholeSteps:
    """A plan whose epochs are filled up, from their own start, to a multiple of batches."""

    def __init__(self, plan: LengthBatches, *, multiple_of: int) -> None:
        self._plan, self._length = plan, len(plan) + -len(plan) % multiple_of

    def __len__(self) -> int:
        return self._length

    def epoch(self, number: int) -> list[list[int]]:
        return list(islice(cycle(self._plan.epoch(number)), self._length))


def plan_passes(phase: Phase, plan: TrainingPlan, *, processes: int) -> tuple[int, int]:
    """The passes that each process makes per step, and the tokens of one pass at most."""
    share = max(1, phase.batch_tokens // processes)
    passes = math.ceil(share / plan.device_tokens)
    return passes, share // passes


class HeldOut:
    """Held-out examples of at most so many tokens, drawn and masked once for all evaluations."""

    def __init__(self, examples: Examples, *, masker: Masker, tokens: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(examples))
        count = int(np.searchsorted(np.cumsum(examples.lengths[order]), tokens)) or 1
        chosen = [examples[int(number)] for number in order[:count]]
        lengths = [len(example.tokens) for example in chosen]
        self._batches = [
            masker.batch([chosen[i] for i in batch], generator)
            for batch in plan_batches(lengths, batch_tokens=EVALUATION_TOKENS)
        ]

    def scores(self, network: PretrainingNetwork) -> dict[str, float]:
        """Score a network on its own device; its training mode is left as it was.

        Returns:
            `mlm_loss` (mean cross-entropy of the masked tokens, in nats), `perplexity` (its
            exponential), `mlm_accuracy`, `tokens` (masked ones); with pairs `nsp_accuracy` and
            `pairs` too.
        """
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
        loss, right, tokens, told, pairs = totals.tolist()
        loss /= max(tokens, 1)
        scores = {
            "mlm_loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "mlm_accuracy": right / max(tokens, 1),
            "tokens": int(tokens),
        }
        return {**scores, "nsp_accuracy": told / pairs, "pairs": int(pairs)} if pairs else scores


def _counts(network: PretrainingNetwork, batch: dict[str, torch.Tensor]) -> np.ndarray:
    """Summed loss, correct and all masked tokens, correct and all pairs."""
    output = network(**batch)
    masked = batch["labels"][batch["labels"] != IGNORED]
    words = output.prediction_logits.float()
    loss = cross_entropy(words, masked, reduction="sum")
    right = (words.argmax(dim=-1) == masked).sum()
    told = pairs = 0
    if (wanted := batch.get("next_sentence_label")) is not None:
        told = int((output.seq_relationship_logits.argmax(dim=-1) == wanted).sum())
        pairs = len(wanted)
    return np.array([float(loss), int(right), len(masked), told, pairs])


# --- speed

# Sides of the square matrices: large enough for the full rate, small enough to take no time.
SIDE = {"cpu": 1024, "cuda": 8192}
ROUNDS = 4


@cache
def matrix_rate(device: torch.device, *, dtype: torch.dtype) -> float:
    """Floating-point operations per second in a large matrix product; the best of a few."""
    side = SIDE.get(device.type, SIDE["cpu"])
    square = torch.randn(side, side, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(ROUNDS):  # the first one warms up
        _wait(device)
        start = time.perf_counter()
        torch.mm(square, square)
        _wait(device)
        best = min(best, time.perf_counter() - start)
    return 2 * side**3 / best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def training_flops(config: Any, *, length: float, masked: float, lora: bool) -> float:
    """Floating-point operations of training per token, forward and backward.

    Matrix products only: 2 per weight of the encoder, 4 x width x length in the attention of each
    layer, and the output layer for the masked share of the tokens. The backward pass costs twice
    that, or once if the weights below the adapters need no gradient.
    """
    hidden, layers = config.hidden_size, config.num_hidden_layers
    weights = layers * (4 * hidden**2 + 2 * hidden * config.intermediate_size)
    attention = 4 * hidden * length * layers
    head = 2 * masked * (hidden**2 + hidden * config.vocab_size)
    return (2 * weights + attention + head) * (2 if lora else 3)
