"""Hugging Face's Trainer over tagged windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader
from transformers import EarlyStoppingCallback, Trainer
from transformers.trainer_callback import PrinterCallback

from biomed.ner.examples import IGNORED, EpochOrder
from domainbert.encoders import quiet
from domainbert.inference import pad
from domainbert.training import StepBar, training_arguments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import torch
    from transformers import PreTrainedModel

    from biomed.ner.examples import EpochBatches, Example
    from domainbert.training import TrainingSettings


class TagTrainer(Trainer):
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

    control: Any  # of Trainer, which does not say so

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
        self._batches, self._score, self._pad = batches, evaluate, pad_token_id
        self._forbidden, self._bar = ~allowed, StepBar()
        super().__init__(
            model=model,
            args=training_arguments(settings, folder=folder, steps=len(batches), metric="f1"),
            train_dataset=batches,
            eval_dataset=batches,  # unused: `evaluate` scores devel as prediction would
            data_collator=self._collate,
            callbacks=[EarlyStoppingCallback(early_stopping_patience=settings.patience), self._bar],
        )
        self.remove_callback(PrinterCallback)  # it prints to stdout, which belongs to results

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train; the bar goes away however that ends, for it hides the cursor."""
        try:
            with quiet():
                return super().train(*args, **kwargs)
        finally:
            self._bar.close()

    def get_train_dataloader(self) -> DataLoader:
        """The batches as they were planned."""
        loader: DataLoader[Any] = DataLoader(
            self._batches,
            batch_sampler=EpochOrder(self._batches, epoch=lambda: int(self.state.epoch or 0)),
            collate_fn=self._collate,
        )
        return self.accelerator.prepare(loader)

    def _collate(self, batches: list[list[Example]]) -> dict[str, torch.Tensor]:
        (batch,) = batches
        ids, mask = pad([example.ids for example in batch], pad_token_id=self._pad)
        codes, _ = pad([example.codes for example in batch], pad_token_id=IGNORED)
        inputs = {"input_ids": ids, "codes": codes}
        return inputs if mask is None else {**inputs, "attention_mask": mask}

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,  # noqa: FBT001, FBT002  (Trainer's own signature)
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """The loss of one batch."""
        del num_items_in_batch
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs.get("attention_mask"))
        known = inputs["codes"] != IGNORED
        scores = outputs.logits[known].float().log_softmax(dim=-1)
        forbidden = self._forbidden.to(scores.device)[inputs["codes"][known]]
        loss = -scores.masked_fill(forbidden, float("-inf")).logsumexp(dim=-1).mean()
        return (loss, outputs) if return_outputs else loss

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Score the devel side as prediction would, and report it to the callbacks."""
        metrics = {f"eval_{k}": v for k, v in self._score(self.model).items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics
