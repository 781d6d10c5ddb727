"""How to train: one table of settings for every task, and the check of what people type."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.lora import LoRA

if TYPE_CHECKING:
    from collections.abc import Mapping

# What a setting must be: in words, its type, and its least and largest value.
Legal = tuple[str, Any, float, float]
COUNT: Legal = ("a whole number above 0", Integral, 1, math.inf)
POSITIVE: Legal = ("a number above 0", Real, sys.float_info.min, sys.float_info.max)
ATTENTION = ("sdpa", "eager")
SHARE: Legal = ("a share in [0, 1)", Real, 0, math.nextafter(1, 0))
YES_NO: Legal = ("true or false", bool, 0, 1)
TEXT: Legal = ("text", str, 0, 0)
SEED: Legal = ("a whole number from 0 to 2^32 - 1", Integral, 0, 2**32 - 1)
LEGAL: dict[str, Legal] = {
    "epochs": POSITIVE,
    "learning_rate": POSITIVE,
    "warmup": SHARE,
    "weight_decay": SHARE,
    "dropout": SHARE,
    "full": YES_NO,
    "attention": TEXT,
    "seed": SEED,
}


def check_settings(settings: Any, legal: Mapping[str, Legal]) -> None:
    """Check each field of a settings table: a recipe is typed by hand.

    Args:
        settings: a dataclass.
        legal: what a field must be; one that is not there is a `COUNT`. "attention" is one of
            `ATTENTION` wherever it stands.

    Raises:
        ValueError: the first that is not, with what is legal.
    """
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if setting.name == "attention" and value not in ATTENTION:
            msg = f"attention must be one of {', '.join(ATTENTION)}, got {value!r}"
            raise UserError(msg)
        words, kind, least, largest = legal.get(setting.name, COUNT)
        # Python takes True for 1; who types it means no number.
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not fits or (kind is not str and not least <= float(value) <= largest):
            msg = f"{setting.name} must be {words}, got {value!r}"
            raise UserError(msg)


@dataclass(frozen=True)
class TrainingSettings:
    """How to train; a recipe's `[training]` table has these names.

    Attributes:
        epochs: passes over the training groups.
        learning_rate: peak, after the warm-up; falls to zero in a line.
        batch_size: groups of one step at most.
        batch_tokens: tokens of one step at most, padding counted (one group always fits).
        max_windows: windows of one group that a step reads at most; of a longer group a fresh
            random choice each time, so that memory has a bound. Scoring reads all.
        evaluations: evaluations on validation in each epoch.
        patience: evaluations without a better score before training stops.
        warmup: share of the steps with a rising learning rate.
        weight_decay: AdamW's.
        dropout: of hidden states. Attention has none in training: it would switch off the fused
            attention kernels, for nothing that could be measured here.
        rank: of the LoRA adapters.
        full: train all weights instead.
        attention: while training, "sdpa" or "eager". On a CPU the fused kernel's way back is slow:
            plain attention trains a quarter faster on windows of up to 256 tokens, for memory
            that grows with the square of a window.
        seed: of the head, the order and dropout.
    """

    epochs: float = 3.0
    learning_rate: float = 5e-4
    batch_size: int = 16
    batch_tokens: int = 4096
    max_windows: int = 24
    evaluations: int = 2
    patience: int = 3
    warmup: float = 0.06
    weight_decay: float = 0.01
    dropout: float = 0.1
    rank: int = 16
    full: bool = False
    attention: str = "sdpa"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check kinds and ranges."""
        check_settings(self, LEGAL)

    @property
    def lora(self) -> LoRA | None:
        """The adapters to train; None where all weights train."""
        return None if self.full else LoRA(rank=self.rank, alpha=2 * self.rank)
