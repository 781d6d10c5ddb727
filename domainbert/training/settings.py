"""The training settings that all tasks share."""

from pathlib import Path
from typing import Annotated, Literal, TypedDict

from pydantic import AfterValidator

from domainbert.settings import Count, Positive, Seed, Settings, Share


def _whole_as_int(number: float) -> float:
    """A whole number as manifests have it: 2, not 2.0."""
    if number.is_integer():
        return int(number)
    return number


_PerEpoch = Annotated[Positive, AfterValidator(_whole_as_int)]


class Schedule(Settings):
    """How weights change over a run, whatever it trains on.

    Attributes:
        learning_rate: peak, after the warm-up; decays linearly to zero.
        evaluations: evaluations on the validation side per epoch, each with a checkpoint; 0.5 is
            one in two epochs. The last step is evaluated in any case.
        warmup: share of the steps during which the learning rate rises.
        weight_decay: the weight decay of AdamW.
        dropout: the dropout of hidden states. Attention has no dropout in training, because that
            would switch off the fused attention kernels for no measurable gain.
        attention: implementation while training. On a CPU the backward pass of "sdpa" is slow:
            "eager" trains a quarter faster on windows of up to 256 tokens, for memory that grows
            with the square of the window.
        precision: of matrix products; weights and optimizer are in float32 in any case. "auto" is
            bfloat16 on GPUs and processors with instructions for it, and float32 on others.
        seed: seed of everything random: new heads, the order, masks and dropout.
    """

    learning_rate: Positive = 5e-4
    evaluations: _PerEpoch = 2
    warmup: Share = 0.06
    weight_decay: Share = 0.01
    dropout: Share = 0.1
    attention: Literal["sdpa", "eager"] = "sdpa"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    seed: Seed = 0


class TrainingSettings(Schedule):
    """How to train; the `[training]` table of a recipe.

    Attributes:
        epochs: passes over the training data.
        batch_size: maximum examples in a step.
        batch_tokens: maximum tokens in a step, padding included; one example always fits.
        max_windows: maximum windows of one stay in a step; a longer stay gives a new random choice
            each time, which bounds memory. Scoring reads all windows.
        patience: evaluations without a better metric before training stops.
        rank: the rank of the LoRA adapters.
        full: train all weights instead of adapters.
    """

    epochs: Positive = 3.0
    batch_size: Count = 16
    batch_tokens: Count = 4096
    max_windows: Count = 24
    patience: Count = 3
    rank: Count = 16
    full: bool = False


class Resuming(TypedDict, total=False):
    """Where a training keeps its checkpoints, and whether it resumes from them; see `train`."""

    checkpoints: str | Path | None
    resume: bool
