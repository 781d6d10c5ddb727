"""Training over windows with and without an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from domainbert.inference import pad
from domainbert.training.old.trainer import EpochTrainer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from transformers import PreTrainedModel

    from biomed.qa.examples import Example
    from domainbert.training.old.batches import EpochBatches
    from domainbert.training.settings import TrainingSettings


class SpanTrainer(EpochTrainer):
    """Trains start and end of the answer, [CLS] standing for "no answer".

    The loss of a window is the mean of the cross-entropies of start and end over [CLS] and the
    tokens of the context, which are what prediction chooses from.

    Args:
        model: window ids -> start and end logits; plain or wrapped by peft.
        batches: the training windows.
        settings: how to train.
        evaluate: model -> metrics, "f1" among them; called on the validation side.
        pad_token_id: of the tokenizer.
        folder: for checkpoints.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        batches: EpochBatches,
        settings: TrainingSettings,
        evaluate: Callable[[PreTrainedModel], dict[str, float]],
        pad_token_id: int,
        folder: Path,
    ) -> None:
        self._pad_id = pad_token_id
        super().__init__(
            model,
            batches=batches,
            collate=self._collate,
            settings=settings,
            evaluate=evaluate,
            folder=folder,
        )

    def _collate(self, batches: list[list[Example]]) -> dict[str, torch.Tensor]:
        (batch,) = batches
        ids, mask = pad([example.ids for example in batch], pad_token_id=self._pad_id)
        segments, _ = pad([example.segments for example in batch], pad_token_id=0)
        legal = np.zeros(ids.shape, dtype=bool)
        legal[:, 0] = True
        for row, example in enumerate(batch):
            legal[row, example.first : len(example.ids) - 1] = True
        inputs = {
            "input_ids": ids,
            "token_type_ids": segments,
            "legal": torch.from_numpy(legal),
            "start": torch.tensor([example.start for example in batch]),
            "end": torch.tensor([example.end for example in batch]),
        }
        return inputs if mask is None else {**inputs, "attention_mask": mask}

    def batch_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        """The loss of one batch."""
        outputs = model(
            input_ids=inputs["input_ids"],
            token_type_ids=inputs["token_type_ids"],
            attention_mask=inputs.get("attention_mask"),
        )
        illegal = ~inputs["legal"]
        losses = [
            cross_entropy(logits.float().masked_fill(illegal, float("-inf")), inputs[name])
            for name, logits in (("start", outputs.start_logits), ("end", outputs.end_logits))
        ]
        loss = torch.stack(losses).mean()
        return loss, outputs
