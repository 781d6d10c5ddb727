"""The bridge to `transformers.Trainer`: one base for every task, and its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from domainbert.encoders import quiet
from domainbert.inference import pad
from domainbert.training.old.batches import EpochOrder, TokenBudgetBatches, WindowGroups
from domainbert.training.old.callbacks import Patience, StepBar
from domainbert.training.processes import process_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from transformers import PreTrainedModel

    from domainbert.training.old.batches import EpochBatches
    from domainbert.training.settings import TrainingSettings


class ScoredTrainer(Trainer):
    """Hugging Face's Trainer, scoring validation by the path that prediction takes.

    A bar on stderr counts the steps where stderr is a terminal; nothing is printed.

    Args:
        model: plain or wrapped by peft.
        arguments: from `training_arguments`.
        data: the training set.
        batches: the numbers of the examples of each batch; knows the epoch by `_epoch`.
        collate: its examples -> a batch.
        evaluate: model -> metrics, `arguments.metric_for_best_model` among them.
        patience: evaluations without a better score before training stops; None: it goes on.
        attention: see `TrainingSettings`.
    """

    control: Any  # of Trainer, which does not say so

    def __init__(
        self,
        model: Any,
        *,
        arguments: TrainingArguments,
        data: Any,
        batches: Any,
        collate: Callable[[Any], dict[str, Any]],
        evaluate: Callable[[Any], dict[str, float]],
        patience: int | None = None,
        attention: str = "sdpa",
    ) -> None:
        self._score, self._attention, self._bar = evaluate, attention, StepBar()
        self._sampler = batches
        stopping = [] if patience is None else [Patience(patience)]
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=data,
            eval_dataset=data,  # unused: see `evaluate`
            data_collator=collate,
            callbacks=stopping,
        )
        if self.is_world_process_zero():  # of several processes, one tells
            self.add_callback(self._bar)
        self.remove_callback(PrinterCallback)  # it prints to stdout, which belongs to results

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train; the bar goes away however that ends, for it hides the cursor."""
        plain = getattr(self.model, "get_base_model", lambda: self.model)()
        usual = plain.config._attn_implementation
        try:
            plain.set_attn_implementation(self._attention)
            with quiet():
                return super().train(*args, **kwargs)
        finally:
            plain.set_attn_implementation(usual)
            self._bar.close()

    def _epoch(self) -> int:
        # The trainer's own count: a resumed run has it, whatever stands around the sampler.
        return int(self.state.epoch or 0)

    def get_train_dataloader(self) -> DataLoader:
        """The batches as they were planned."""
        loader: DataLoader[Any] = DataLoader(
            self.train_dataset, batch_sampler=self._sampler, collate_fn=self.data_collator
        )
        return self.accelerator.prepare(loader)

    def batch_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        """The loss of one batch, and what the model gave."""
        raise NotImplementedError

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,  # noqa: FBT001, FBT002  (Trainer's own signature)
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """What the Trainer asks for: `batch_loss`."""
        del num_items_in_batch
        loss, outputs = self.batch_loss(model, inputs)
        return (loss, outputs) if return_outputs else loss

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Score the validation side as prediction would, and report it to the callbacks."""
        metrics = {f"eval_{k}": v for k, v in self._score(self.model).items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def trained(self) -> Any:
        """The model after training, free of what ran it in mixed precision."""
        model = self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
        # Else the trainer of a next stage takes it for prepared and runs it in full precision.
        model._is_accelerate_prepared = False
        return model


class GroupTrainer(ScoredTrainer):
    """Trains on groups of windows.

    Args:
        model: window ids -> one logit a window; plain or wrapped by peft.
        data: the training groups.
        settings: how to train.
        loss: (logits of all windows, group number of each window, targets) -> scalar loss.
        evaluate: model -> metrics, "auroc" among them; called on the validation side.
        pad_token_id: of the tokenizer.
        folder: for checkpoints.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        data: WindowGroups,
        settings: TrainingSettings,
        loss: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
        evaluate: Callable[[PreTrainedModel], dict[str, float]],
        pad_token_id: int,
        folder: Path,
    ) -> None:
        self._settings, self._loss, self._pad_id = settings, loss, pad_token_id
        limit = settings.max_windows
        sizes = np.array([(min(len(g), limit), max(map(len, g))) for g in data.groups])
        processes = process_count()
        batches = TokenBudgetBatches(
            sizes,
            batch_size=settings.batch_size,
            batch_tokens=settings.batch_tokens,
            seed=settings.seed,
            epoch=self._epoch,
            multiple_of=processes,
        )
        steps = len(batches) // processes
        super().__init__(
            model,
            arguments=training_arguments(settings, folder=folder, steps=steps),
            data=data,
            batches=batches,
            collate=self._collate,
            evaluate=evaluate,
            patience=settings.patience,
            attention=settings.attention,
        )

    def _collate(self, examples: list[tuple[int, Sequence[np.ndarray], float]]) -> dict[str, Any]:
        windows, group = [], []
        for number, (index, members, _) in enumerate(examples):
            chosen = self._at_most(members, index=index)
            windows += chosen
            group += [number] * len(chosen)
        ids, mask = pad(windows, pad_token_id=self._pad_id)
        batch = {
            "input_ids": ids,
            "group": torch.tensor(group),
            "targets": torch.tensor([target for _, _, target in examples]),
        }
        return batch if mask is None else {**batch, "attention_mask": mask}

    def _at_most(self, windows: Sequence[np.ndarray], *, index: int) -> list[np.ndarray]:
        limit = self._settings.max_windows
        if len(windows) <= limit:
            return list(windows)
        # By epoch and group, so that a resumed run draws what it would have drawn.
        seed = (self._settings.seed, self._epoch(), index)
        chosen = np.random.default_rng(seed).choice(len(windows), limit, replace=False)
        return [windows[i] for i in chosen]

    def batch_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        """The loss of one batch of groups."""
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs.get("attention_mask"))
        logits = outputs.logits.squeeze(-1).float()
        loss = self._loss(logits, inputs["group"], inputs["targets"])
        return loss, outputs


class EpochTrainer(ScoredTrainer):
    """Trains on windows that each epoch makes anew.

    Args:
        model: plain or wrapped by peft.
        batches: the training windows.
        collate: a list of one batch -> tensors.
        settings: how to train.
        evaluate: model -> metrics, "f1" among them.
        folder: for checkpoints.
    """

    def __init__(
        self,
        model: Any,
        *,
        batches: EpochBatches,
        collate: Callable[[Any], dict[str, Any]],
        settings: TrainingSettings,
        evaluate: Callable[[Any], dict[str, float]],
        folder: Path,
    ) -> None:
        super().__init__(
            model,
            arguments=training_arguments(settings, folder=folder, steps=len(batches), metric="f1"),
            data=batches,
            batches=EpochOrder(batches, epoch=self._epoch),
            collate=collate,
            evaluate=evaluate,
            patience=settings.patience,
            attention=settings.attention,
        )


def training_arguments(
    settings: TrainingSettings, *, folder: Path, steps: int, metric: str = "auroc"
) -> TrainingArguments:
    """What Hugging Face's Trainer is to do.

    Args:
        settings: of the run.
        folder: for checkpoints; the last two are kept.
        steps: of one epoch, in each process.
        metric: that chooses the weights to keep; larger is better.
    """
    every = max(1, steps // settings.evaluations)
    return TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        warmup_steps=int(settings.warmup * settings.epochs * steps),
        weight_decay=settings.weight_decay,
        max_grad_norm=1.0,
        seed=settings.seed,
        bf16=_multiplies_bf16(),
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model=metric,
        greater_is_better=True,
        logging_strategy="steps",
        logging_steps=max(1, every // 10),
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        accelerator_config={"even_batches": False},
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
    )


def _multiplies_bf16() -> bool:
    """Whether mixed precision pays: half again as fast on a CPU with these instructions."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported()
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
