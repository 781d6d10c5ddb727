"""Hugging Face's Trainer over the examples of one phase."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset

from domainbert.inference import pad
from domainbert.pretraining.examples import NO_PAIR
from domainbert.training.old.batches import TokenBudgetBatches
from domainbert.training.old.trainer import ScoredTrainer, training_arguments
from domainbert.training.processes import process_count
from domainbert.training.settings import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from transformers import TrainingArguments

    from domainbert.pretraining.examples import Example, Examples
    from domainbert.pretraining.masking import Masker
    from domainbert.pretraining.model import PretrainingNetwork
    from domainbert.pretraining.settings import Phase, TrainingPlan


def collate(
    examples: Sequence[Example],
    *,
    masker: Masker,
    generator: np.random.Generator,
    pad_token_id: int,
) -> dict[str, torch.Tensor]:
    """A batch for `PretrainingNetwork`, its tokens hidden by the generator."""
    ids, mask = pad([example.tokens for example in examples], pad_token_id=pad_token_id)
    shown, labels = masker.hide(ids.numpy(), generator)
    seconds = torch.tensor([example.second for example in examples])
    batch = {
        "input_ids": torch.from_numpy(shown),
        "labels": torch.from_numpy(labels),
        "token_type_ids": (torch.arange(ids.shape[1]) >= seconds[:, None]).long(),
    }
    if mask is not None:
        batch["attention_mask"] = mask
        batch["token_type_ids"] *= mask
    if examples[0].label != NO_PAIR:
        batch["next_sentence_label"] = torch.tensor([example.label for example in examples])
    return batch


class _Numbered(Dataset):
    """Examples with their numbers, of which the masks of a batch are drawn."""

    def __init__(self, examples: Examples) -> None:
        self._examples = examples

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, number: int) -> tuple[int, Example]:
        return number, self._examples[number]


class PretrainingTrainer(ScoredTrainer):
    """Trains on the examples of a phase.

    What hides is drawn anew in every epoch, by the seed, the epoch and the batch: a text read
    again is another exercise (Liu et al., arXiv 1907.11692), the examples need not be written ten
    times with other masks, and a resumed run draws what it would have drawn.

    Args:
        network: to train.
        examples: of the training side.
        phase: see `Phase`.
        plan: see `TrainingPlan`.
        masker: what hides tokens.
        evaluate: network -> scores on the held-out side.
        pad_token_id: of the tokenizer.
        folder: for checkpoints.
    """

    def __init__(
        self,
        network: PretrainingNetwork,
        *,
        examples: Examples,
        phase: Phase,
        plan: TrainingPlan,
        masker: Masker,
        evaluate: Callable[[PretrainingNetwork], dict[str, float]],
        pad_token_id: int,
        folder: Path,
    ) -> None:
        self._masker, self._pad, self._seed = masker, pad_token_id, plan.seed
        processes = process_count()
        passes, tokens = plan_passes(phase, plan, processes=processes)
        batches = TokenBudgetBatches(
            np.stack([np.ones(len(examples), dtype=np.int64), examples.lengths], axis=1),
            batch_size=len(examples),
            batch_tokens=tokens,
            seed=plan.seed,
            epoch=self._epoch,
            multiple_of=processes * passes,
        )
        self.tokens, self.seconds = 0, 0.0
        super().__init__(
            network,
            arguments=phase_arguments(phase, plan, folder=folder, passes=passes),
            data=_Numbered(examples),
            batches=batches,
            collate=self._collate,
            evaluate=evaluate,
            attention=phase.attention,
        )

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train, and count the seconds."""
        start = time.perf_counter()
        result = super().train(*args, **kwargs)
        self.accelerator.wait_for_everyone()  # the last checkpoint is there for all
        self.seconds += time.perf_counter() - start
        return result

    def _collate(self, examples: list[tuple[int, Example]]) -> dict[str, torch.Tensor]:
        first = examples[0][0]
        generator = np.random.default_rng((self._seed, self._epoch(), first))
        batch = collate(
            [example for _, example in examples],
            masker=self._masker,
            generator=generator,
            pad_token_id=self._pad,
        )
        self.tokens += sum(len(example.tokens) for _, example in examples)
        return batch

    def batch_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        """The loss of one batch."""
        outputs = model(**inputs)
        return outputs.loss, outputs

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Score the held-out side; its time is not training's."""
        start = time.perf_counter()
        metrics = super().evaluate(*args, **kwargs)
        self.seconds -= time.perf_counter() - start
        return metrics


def plan_passes(phase: Phase, plan: TrainingPlan, *, processes: int) -> tuple[int, int]:
    """How many passes each process makes in a step, and the tokens of one at most."""
    share = max(1, phase.batch_tokens // processes)
    passes = math.ceil(share / plan.device_tokens)
    return passes, share // passes


def phase_arguments(
    phase: Phase, plan: TrainingPlan, *, folder: Path, passes: int
) -> TrainingArguments:
    """What Hugging Face's Trainer is to do in a phase."""
    settings = TrainingSettings(
        epochs=1.0,
        learning_rate=phase.learning_rate,
        evaluations=plan.evaluations,
        warmup=phase.warmup,
        weight_decay=plan.weight_decay,
        seed=plan.seed,
    )
    arguments = training_arguments(settings, folder=folder, steps=phase.steps, metric="loss")
    arguments.max_steps = phase.steps
    arguments.gradient_accumulation_steps = passes
    arguments.ddp_find_unused_parameters = False  # what has no part in the loss does not train
    # The last weights are kept: held-out loss falls to the end, and its least is mostly luck.
    arguments.load_best_model_at_end, arguments.metric_for_best_model = False, None
    return arguments
