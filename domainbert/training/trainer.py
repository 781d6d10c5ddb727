"""The one bridge to Hugging Face's Trainer: batches, callbacks, arguments, checkpoints, resume."""

from __future__ import annotations

import logging
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from domainbert.encoders.loading import quiet
from domainbert.progress import progress
from domainbert.training.checkpoints import resume_point

if TYPE_CHECKING:
    from transformers import PreTrainedModel, TrainerControl, TrainerState

    from domainbert.training.objective import Objective
    from domainbert.training.settings import TrainingSettings

WEIGHTS = "model.safetensors"
HEAD = "objective_head"
FEW_STEPS = 500
SAVE_SECONDS, LOG_SECONDS = 300.0, 60.0
log = logging.getLogger(__name__)


def fit(
    network: PreTrainedModel,
    objective: Objective,
    *,
    settings: TrainingSettings,
    facts: Mapping[str, object],
    folder: str | Path | None = None,
    resume: bool = False,
    **arguments: Any,
) -> tuple[PreTrainedModel, dict[str, float]]:
    """Train a network, and put back its best weights.

    Args:
        network: plain or wrapped by peft.
        objective: see `Objective`.
        settings: see `TrainingSettings`.
        facts: what identifies the run beside the settings, as JSON; a run resumes only if all are
            the same.
        folder: keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.
        **arguments: of Hugging Face's trainer, in place of the usual ones.

    Returns:
        The network, and the best scores.

    Raises:
        UserError: `resume` with other facts; or checkpoints in the folder and no `resume`.
    """
    with ExitStack() as stack:
        place = Path(folder or stack.enter_context(tempfile.TemporaryDirectory()))
        facts = {**facts, "training": settings.model_dump()}
        checkpoint = stack.enter_context(resume_point(place, facts, resume=resume))
        steps = arguments.get("max_steps") or len(objective.batches)
        args = training_arguments(
            settings, folder=place, steps=steps, metric=objective.metric, **arguments
        )
        watch = _Watch(settings.patience)
        stack.enter_context(
            watch.bar
        )  # closed after an error too, because it hides the cursor
        trainer = ObjectiveTrainer(network, objective, args=args, watch=watch)
        total = int(max(args.max_steps, math.ceil(args.num_train_epochs * steps)))
        log.info("training %s: %d steps", place.name, total)
        if total < FEW_STEPS:
            log.warning(
                "%d steps are few, and the model may have learned little: with a small corpus "
                "raise the epochs or lower batch_size and batch_tokens, to reach %d or more",
                *(total, FEW_STEPS),
            )
        with training_attention(network, settings.attention), quiet():
            trainer.train(
                resume_from_checkpoint=str(checkpoint) if checkpoint else None
            )
        metric = f"eval_{objective.metric}"
        rows = [row for row in trainer.state.log_history if metric in row]
        best: Mapping[str, float] = max(rows, key=lambda row: row[metric], default={})
        scores = {
            k.removeprefix("eval_"): v for k, v in best.items() if k.startswith("eval_")
        }
        return trainer.trained(), scores


class ObjectiveTrainer(Trainer):
    """Hugging Face's Trainer over the batches, the loss and the score of an objective.

    A checkpoint is written at every evaluation and every five minutes; it holds the weights that
    train. The best weights are put back at the end.
    """

    def __init__(
        self,
        network: PreTrainedModel,
        objective: Objective,
        *,
        args: TrainingArguments,
        watch: _Watch,
    ) -> None:
        self.objective, self._network = objective, network
        if objective.head is not None:
            network.add_module(HEAD, objective.head)
        self._data = _EpochData(
            objective, self, passes=args.gradient_accumulation_steps
        )
        super().__init__(
            model=network,
            args=args,
            train_dataset=self._data,
            eval_dataset=self._data,  # unused: see `evaluate`
            callbacks=[watch],
        )
        self.remove_callback(
            PrinterCallback
        )  # it prints to stdout, which belongs to results

    def get_train_dataloader(self) -> DataLoader:
        """The planned batches, in order."""
        loader: DataLoader[object] = DataLoader(self._data, collate_fn=itemgetter(0))
        return self.accelerator.prepare(loader)

    def compute_loss(
        self, model: PreTrainedModel, inputs: dict[str, torch.Tensor], **_: object
    ) -> torch.Tensor:
        """The objective's loss."""
        return self.objective.loss(model, inputs)

    def trained(self) -> PreTrainedModel:
        """The network after training, without the objective's head and mixed precision."""
        network = self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
        # Otherwise the trainer of a next stage takes it for prepared and uses full precision.
        network._is_accelerate_prepared = False
        if self.objective.head is not None:
            delattr(network, HEAD)
        return network

    def evaluate(self, *_: object, **__: object) -> dict[str, float]:
        """The metrics on validation, each with the prefix "eval_", in full precision."""
        self.model.eval()  # every training step switches back
        mixed = vars(self._network).pop("forward", None)  # accelerate's mixed precision
        try:
            scores = self.objective.score(self._network)
        finally:
            if mixed:
                self._network.forward = mixed
        metrics = {f"eval_{name}": float(value) for name, value in scores.items()}
        self.log(metrics)
        self.control: TrainerControl = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def _save(self, output_dir: str | None = None, state_dict: object = None) -> None:
        del state_dict
        folder = Path(str(output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        weights = {
            n: value.detach().cpu().contiguous() for n, value in self._trainable()
        }
        save_file(weights, folder / WEIGHTS)

    def _load_from_checkpoint(self, checkpoint_path: str, model: object = None) -> None:
        del model
        stored = load_file(Path(checkpoint_path) / WEIGHTS)
        with torch.no_grad():
            for name, value in self._trainable():
                value.copy_(stored[name])

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(str(self.state.best_model_checkpoint))

    def _trainable(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        return (
            (n, value)
            for n, value in self._network.named_parameters()
            if value.requires_grad
        )


class _EpochData(Dataset):
    """The batches of the current epoch, filled up from its start to whole steps."""

    def __init__(self, objective: Objective, trainer: Trainer, *, passes: int) -> None:
        self._objective, self._plan = objective, objective.batches
        self._trainer, self._epoch = trainer, -1
        self._length = len(self._plan) + -len(self._plan) % passes
        self._batches: list[Sequence[Any]] = []

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        epoch = int(self._trainer.state.epoch or 0)  # which is right after a resume too
        if epoch != self._epoch:
            self._epoch = epoch
            self._batches = list(islice(cycle(self._plan.epoch(epoch)), self._length))
        return self._objective.collate(self._batches[number], epoch=epoch)


@contextmanager
def training_attention(network: PreTrainedModel, name: str) -> Iterator[None]:
    """Use an implementation of attention meanwhile, where the family has it."""
    plain = getattr(network, "get_base_model", lambda: network)()
    usual = plain.config._attn_implementation
    plain.set_attn_implementation(name if plain._supports_sdpa else usual)
    try:
        yield
    finally:
        plain.set_attn_implementation(usual)


def training_arguments(
    settings: TrainingSettings,
    *,
    folder: Path,
    steps: int,
    metric: str,
    **changes: object,
) -> TrainingArguments:
    """The arguments of a trainer; `changes` replace the usual ones.

    The best (by `metric`) and the last checkpoint are kept in `folder`; `steps` is per epoch.
    """
    every = max(1, int(steps * min(1.0, settings.epochs)) // settings.evaluations)
    usual = {
        "output_dir": str(folder),
        "num_train_epochs": settings.epochs,
        "learning_rate": settings.learning_rate,
        "warmup_steps": int(settings.warmup * settings.epochs * steps),
        "weight_decay": settings.weight_decay,
        "max_grad_norm": 1.0,
        "seed": settings.seed,
        "bf16": has_fast_bf16(),
        "eval_strategy": "steps",
        "eval_steps": every,
        "save_strategy": "steps",
        "save_steps": every,
        "save_total_limit": 2,
        "load_best_model_at_end": True,
        "metric_for_best_model": metric,
        "greater_is_better": True,
        "logging_strategy": "steps",
        "logging_steps": max(1, every // 10),
        "report_to": "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "accelerator_config": {"even_batches": False},
        "use_cpu": not torch.cuda.is_available(),
        "dataloader_pin_memory": torch.cuda.is_available(),
    }
    return TrainingArguments(**{**usual, **changes})


def has_fast_bf16() -> bool:
    """Whether mixed precision pays: 1.5 times as fast on a CPU with these instructions."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported()
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


class _Watch(TrainerCallback):
    """Progress, checkpoints at least every `SAVE_SECONDS`, and early stopping.

    Scores, and after the first step and every `LOG_SECONDS` the loss and the time left, go to the
    log; a terminal shows a bar. Early stopping counts evaluations without a better score in the
    run's saved history, so that a resumed run stops at the same step.
    """

    def __init__(self, patience: int) -> None:
        self._patience, self.bar = patience, ExitStack()

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **__: object,
    ) -> None:
        self._advance = self.bar.enter_context(
            progress("training", total=state.max_steps)
        )
        self._advance(state.global_step)
        self._begun = self._logged = self._saved = time.monotonic()
        self._first_step = state.global_step
        if state.best_global_step:  # its folder may have been moved
            best = Path(str(args.output_dir), f"checkpoint-{state.best_global_step}")
            state.best_model_checkpoint = str(best)
        self._stop_early(
            args, state, control
        )  # a run that had stopped does not continue

    def on_step_end(
        self, _: object, state: TrainerState, control: TrainerControl, **__: object
    ) -> None:
        self._advance(1)
        now, step = time.monotonic(), state.global_step
        done = step - self._first_step
        if done == 1 or now - self._logged >= LOG_SECONDS:
            self._logged = now
            left = (now - self._begun) / done * (state.max_steps - step) / 60
            losses = (row["loss"] for row in state.log_history[::-1] if "loss" in row)
            loss = next((f"loss {value:.3g}, " for value in losses), "")
            log.info(
                "step %d of %d: %sabout %.0f minutes left",
                step,
                state.max_steps,
                loss,
                left,
            )
        if now - self._saved >= SAVE_SECONDS:
            control.should_save = True
        if step >= state.max_steps:
            control.should_evaluate = control.should_save = True

    def on_save(self, *_: object, **__: object) -> None:
        self._saved = time.monotonic()

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **given: Any,
    ) -> None:
        metrics = given.get("metrics") or {}
        shown = ", ".join(
            f"{k.removeprefix('eval_')} {v:.4g}" for k, v in metrics.items()
        )
        log.info("step %d of %d: %s", state.global_step, state.max_steps, shown)
        self._stop_early(args, state, control)

    def _stop_early(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl
    ) -> None:
        name = f"eval_{args.metric_for_best_model}"
        scores = [entry[name] for entry in state.log_history if name in entry]
        if scores and len(scores) - 1 - int(np.argmax(scores)) >= self._patience:
            control.should_training_stop = True
