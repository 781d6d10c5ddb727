"""Training one phase: the objective, its scores on held-out documents, and its speed."""

from __future__ import annotations

import math
import time
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.utils.benchmark import Timer

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
    arXiv 1907.11692). So one set of examples serves all epochs, and a resumed run draws the same.

    Attributes:
        tokens: read so far, without padding.
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
        self._passes = plan_passes(phase, plan, processes=process_count())
        self.tokens, self.scoring_seconds = 0, 0.0

    def batches(self) -> LengthBatches:
        """Batches of example numbers; several are one step."""
        lengths = self._examples.lengths
        return LengthBatches(
            np.stack([np.ones(len(lengths), dtype=np.int64), lengths], axis=1),
            batch_size=len(lengths),
            batch_tokens=self._passes[1],
            seed=self._plan.seed,
        )

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
        self, network: Any, *, seconds: float, masked: float, dtype: torch.dtype
    ) -> dict[str, Any]:
        """Tokens per second of one process, and the share of its device's matrix rate."""
        lengths, device = self._examples.lengths, network.device
        # The length of the sequence that a token is in, on average.
        length = float((lengths**2).sum() / lengths.sum())
        lora = bool(self._plan.lora_rank)
        flops = training_flops(network.config, length=length, masked=masked, lora=lora)
        rate = matrix_rate(device, dtype=dtype)
        per_second = self.tokens / seconds if seconds > 0 else 0.0
        return {
            "tokens": self.tokens,
            "seconds": round(seconds, 1),
            "tokens_per_second": round(per_second, 1),
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
        return training_arguments(
            settings,
            folder=folder,
            steps=phase.steps,
            metric=self.metric,
            max_steps=phase.steps,
            gradient_accumulation_steps=self._passes[0],
            # The choice of trained weights is fixed: no process has to look for unused ones.
            ddp_find_unused_parameters=False,
            # The last weights are kept: the minimum of the held-out loss is noise.
            load_best_model_at_end=False,
            metric_for_best_model=None,
        )


def plan_passes(phase: Phase, plan: TrainingPlan, *, processes: int) -> tuple[int, int]:
    """The passes that each process makes per step, and the tokens of one pass at most."""
    share = max(1, phase.batch_tokens // processes)
    passes = math.ceil(share / plan.device_tokens)
    return passes, share // passes


class HeldOut:
    """Held-out examples, drawn and masked once for all evaluations."""

    def __init__(self, examples: Examples, *, masker: Masker, plan: TrainingPlan) -> None:
        generator = np.random.default_rng(plan.seed)
        order = generator.permutation(len(examples))
        fits = np.cumsum(examples.lengths[order]) < plan.evaluation_tokens
        chosen = [examples[int(number)] for number in order[: int(fits.sum()) or 1]]
        lengths = [len(example.tokens) for example in chosen]
        self._batches = [
            masker.batch([chosen[i] for i in batch], generator)
            for batch in plan_batches(lengths, batch_tokens=EVALUATION_TOKENS)
        ]

    def scores(self, network: PretrainingNetwork) -> dict[str, float]:
        """Score a network on its own device, whose training mode is restored.

        Returns:
            `mlm_loss` (mean cross-entropy in nats), `perplexity`, `mlm_accuracy` and `tokens` of
            the masked tokens; with pairs also `nsp_accuracy` and `pairs`.
        """
        device, training = network.device, network.training
        totals = np.zeros(5)
        network.eval()
        autocast = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
        with torch.inference_mode(), autocast:
            for batch in self._batches:
                totals += _counts(network, {k: v.to(device) for k, v in batch.items()})
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

# Sides of the square matrices: large enough for the full rate, small enough to be quick.
SIDE = {"cpu": 1024, "cuda": 8192}
ROUNDS = 4


@cache
def matrix_rate(device: torch.device, *, dtype: torch.dtype) -> float:
    """Floating-point operations per second in a large matrix product."""
    side = SIDE.get(device.type, SIDE["cpu"])
    square = torch.randn(side, side, device=device, dtype=dtype)
    product = Timer(
        "torch.mm(square, square)",
        globals={"torch": torch, "square": square},
        num_threads=torch.get_num_threads(),
    )
    return 2 * side**3 / min(product.timeit(1).mean for _ in range(ROUNDS))


def training_flops(config: Any, *, length: float, masked: float, lora: bool) -> float:
    """Floating-point operations of training per token, matrix products only.

    2 per weight of the encoder, 4 x width x length in the attention of each layer, and the output
    layer for the masked share. The backward pass costs twice that, with adapters once.
    """
    hidden, layers = config.hidden_size, config.num_hidden_layers
    weights = layers * (4 * hidden**2 + 2 * hidden * config.intermediate_size)
    attention = 4 * hidden * length * layers
    head = 2 * masked * (hidden**2 + hidden * config.vocab_size)
    return (2 * weights + attention + head) * (2 if lora else 3)
