"""How to train: the settings that every task shares."""

from __future__ import annotations

from typing import Literal

from domainbert.encoders.lora import LoRA
from domainbert.settings import Count, Positive, Seed, Settings, Share


class TrainingSettings(Settings):
    """How to train; the `[training]` table of a recipe.

    Attributes:
        epochs: passes over the training data.
        learning_rate: peak, after the warm-up; decays linearly to zero.
        batch_size: examples in a step at most.
        batch_tokens: tokens in a step at most, padding counted (one example always fits).
        max_windows: windows of one stay in a step at most; a longer stay gives a fresh random
            choice each time, which bounds memory. Scoring reads all windows.
        evaluations: evaluations on the validation side per epoch.
        patience: evaluations without a better score before training stops.
        warmup: share of the steps during which the learning rate rises.
        weight_decay: of AdamW.
        dropout: of hidden states. Attention has no dropout in training, because that would switch
            off the fused attention kernels for no measurable gain.
        rank: of the LoRA adapters.
        full: train all weights instead of adapters.
        attention: implementation while training. On a CPU the backward pass of "sdpa" is slow:
            "eager" trains a quarter faster on windows of up to 256 tokens, for memory that grows
            with the square of the window.
        seed: of the head, the order and dropout.
    """

    epochs: Positive = 3.0
    learning_rate: Positive = 5e-4
    batch_size: Count = 16
    batch_tokens: Count = 4096
    max_windows: Count = 24
    evaluations: Count = 2
    patience: Count = 3
    warmup: Share = 0.06
    weight_decay: Share = 0.01
    dropout: Share = 0.1
    rank: Count = 16
    full: bool = False
    attention: Literal["sdpa", "eager"] = "sdpa"
    seed: Seed = 0

    @property
    def lora(self) -> LoRA | None:
        """The adapters to train; None where all weights train."""
        return None if self.full else LoRA(rank=self.rank, alpha=2 * self.rank)
