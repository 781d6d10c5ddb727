"""Training over tagged windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from biomed.ner.examples import IGNORED
from domainbert.inference import pad
from domainbert.training.old.trainer import EpochTrainer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import torch
    from transformers import PreTrainedModel

    from biomed.ner.examples import Example
    from domainbert.training.old.batches import EpochBatches
    from domainbert.training.settings import TrainingSettings


class TagTrainer(EpochTrainer):
    """Trains a token classifier on codes, each of which allows one or several tags.

    The loss of a word is −log of the probability that its allowed tags have together, which for
    one tag is cross-entropy; the mean is over the words of a batch.

    Args:
        model: window ids -> logits; plain or wrapped by peft.
        batches: the training windows.
        allowed: which outputs each code allows, shape (codes, labels), bool.
        settings: how to train.
        evaluate: model -> metrics, "f1" among them; called on the devel side.
        pad_token_id: of the tokenizer.
        folder: for checkpoints.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        batches: EpochBatches,
        allowed: torch.Tensor,
        settings: TrainingSettings,
        evaluate: Callable[[PreTrainedModel], dict[str, float]],
        pad_token_id: int,
        folder: Path,
    ) -> None:
        self._forbidden, self._pad_id = ~allowed, pad_token_id
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
        codes, _ = pad([example.codes for example in batch], pad_token_id=IGNORED)
        inputs = {"input_ids": ids, "codes": codes}
        return inputs if mask is None else {**inputs, "attention_mask": mask}

    def batch_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        """The loss of one batch."""
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs.get("attention_mask"))
        known = inputs["codes"] != IGNORED
        scores = outputs.logits[known].float().log_softmax(dim=-1)
        forbidden = self._forbidden.to(scores.device)[inputs["codes"][known]]
        loss = -scores.masked_fill(forbidden, float("-inf")).logsumexp(dim=-1).mean()
        return loss, outputs
