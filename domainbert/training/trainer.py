"""Training an objective with Hugging Face's Trainer: batches, callbacks, checkpoints."""

import logging
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, Dataset
from transformers import (
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_callback import PrinterCallback

from domainbert.encoders.loading import quiet
from domainbert.files import disk_errors
from domainbert.progress import progress
from domainbert.training.checkpoints import resume_point
from domainbert.training.objective import Objective
from domainbert.training.settings import TrainingSettings

WEIGHTS = "model.safetensors"
HEAD = "objective_head"
PREFIX = "eval_"  # of metrics, for the Trainer
FEW_STEPS = 500
SAVE_SECONDS = 300.0
LOG_SECONDS = 60.0
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
    """Train a network and restore its best weights.

    Args:
        network: plain or wrapped by peft.
        objective: see `Objective`.
        settings: see `TrainingSettings`.
        facts: what identifies the run besides the settings, as JSON; a run resumes only if they
            are the same.
        folder: keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.
        **arguments: replace those of `training_arguments`.

    Returns:
        The network, and its best measures.

    Raises:
        UserError: `resume` with other facts; or checkpoints in the folder and no `resume`.
    """
    with ExitStack() as stack:
        run = Path(
            folder or stack.enter_context(tempfile.TemporaryDirectory())
        )
        run_facts = {**facts, "training": settings.model_dump()}
        checkpoint = stack.enter_context(
            resume_point(run, run_facts, resume=resume)
        )
        steps = arguments.get("max_steps") or len(objective.batches)
        args = training_arguments(
            settings,
            folder=run,
            steps=steps,
            metric=objective.metric,
            **arguments,
        )
        watch = _Watch(settings.patience)
        # Closed after an error too, because a bar hides the cursor.
        stack.enter_context(watch.bar)
        trainer = ObjectiveTrainer(
            network,
            objective,
            args=args,
            watch=watch,
        )
        total = max(args.max_steps, math.ceil(args.num_train_epochs * steps))
        log.info("training %s: %d steps", run.name, total)
        if total < FEW_STEPS:
            log.warning(
                "%d steps are few, so the model may have learned little: with a small corpus, "
                "raise the epochs or lower batch_size and batch_tokens, to reach %d or more",
                total,
                FEW_STEPS,
            )
        with (
            training_attention(network, settings.attention),
            quiet(),
            disk_errors(run),
        ):
            trainer.train(
                resume_from_checkpoint=checkpoint and str(checkpoint)
            )
        return trainer.trained(), trainer.best_measures()


class ObjectiveTrainer(Trainer):
    """Hugging Face's Trainer over the batches, the loss and the measures of an objective.

    A checkpoint is written at every evaluation and every five minutes; it has the weights that
    train. The best weights are restored at the end.
    """

    def __init__(
        self,
        network: PreTrainedModel,
        objective: Objective,
        *,
        args: TrainingArguments,
        watch: "_Watch",
    ) -> None:
        self.objective = objective
        self._network = network
        if objective.head is not None:
            network.add_module(HEAD, objective.head)
        self._data = _EpochData(
            objective,
            self,
            passes=args.gradient_accumulation_steps,
        )
        super().__init__(
            model=network,
            args=args,
            train_dataset=self._data,
            eval_dataset=self._data,  # unused: see `evaluate`
            callbacks=[watch],
        )
        # It prints to stdout, which is for results.
        self.remove_callback(PrinterCallback)

    def get_train_dataloader(self) -> DataLoader:
        """The planned batches, in order."""
        loader = DataLoader(self._data, collate_fn=itemgetter(0))
        return self.accelerator.prepare(loader)

    def compute_loss(
        self,
        model: PreTrainedModel,
        inputs: dict[str, torch.Tensor],
        **_: object,
    ) -> torch.Tensor:
        """The objective's loss."""
        return self.objective.loss(model, inputs)

    def trained(self) -> PreTrainedModel:
        """The network after training, without the objective's head and mixed precision."""
        network = self.accelerator.unwrap_model(
            self.model, keep_fp32_wrapper=False
        )
        # Otherwise the next stage's trainer would take it as prepared, without mixed precision.
        network._is_accelerate_prepared = False
        if self.objective.head is not None:
            delattr(network, HEAD)
        return network

    def best_measures(self) -> dict[str, float]:
        """The measures of the evaluation with the best metric."""
        metric = f"{PREFIX}{self.objective.metric}"
        rows = [row for row in self.state.log_history if metric in row]
        best: dict[str, float] = max(
            rows,
            key=itemgetter(metric),
            default={},
        )
        return {
            name.removeprefix(PREFIX): value
            for name, value in best.items()
            if name.startswith(PREFIX)
        }

    def evaluate(self, *_: object, **__: object) -> dict[str, float]:
        """The metrics on validation, each with the prefix "eval_", in full precision."""
        self.model.eval()  # every training step switches back
        # Accelerate replaces the method by one with mixed precision.
        mixed_forward = vars(self._network).pop("forward", None)
        try:
            measures = self.objective.evaluate(self._network)
        finally:
            if mixed_forward:
                self._network.forward = mixed_forward
        metrics = {
            f"{PREFIX}{name}": float(value) for name, value in measures.items()
        }
        self.log(metrics)
        self.control: TrainerControl = self.callback_handler.on_evaluate(
            self.args,
            self.state,
            self.control,
            metrics,
        )
        return metrics

    def _save(
        self, output_dir: str | None = None, state_dict: object = None
    ) -> None:
        """Save only the weights that are trained."""
        del state_dict
        folder = Path(str(output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        weights = {
            name: weight.detach().cpu().contiguous()
            for name, weight in self._trainable()
        }
        save_file(weights, folder / WEIGHTS)

    def _load_from_checkpoint(
        self, checkpoint_path: str, model: object = None
    ) -> None:
        del model
        stored = load_file(Path(checkpoint_path) / WEIGHTS)
        with torch.no_grad():
            for name, weight in self._trainable():
                weight.copy_(stored[name])

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(str(self.state.best_model_checkpoint))

    def _trainable(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        for name, weight in self._network.named_parameters():
            if weight.requires_grad:
                yield name, weight


class _EpochData(Dataset):
    """The batches of the current epoch, repeated from its start to fill the last step."""

    def __init__(
        self,
        objective: Objective,
        trainer: Trainer,
        *,
        passes: int,
    ) -> None:
        self._objective = objective
        self._plan = objective.batches
        self._trainer = trainer
        self._epoch = -1
        self._length = passes * math.ceil(len(self._plan) / passes)
        self._batches: list[Sequence[object]] = []

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        # The trainer's own count is right after a resume too.
        epoch = int(self._trainer.state.epoch or 0)
        if epoch != self._epoch:
            self._epoch = epoch
            self._batches = list(
                islice(cycle(self._plan.epoch(epoch)), self._length)
            )
        return self._objective.collate(self._batches[number], epoch=epoch)


@contextmanager
def training_attention(network: PreTrainedModel, name: str) -> Iterator[None]:
    """Use an implementation of attention during the block, if the family has several."""
    plain = getattr(network, "get_base_model", lambda: network)()
    if not plain._supports_sdpa:
        yield
        return
    before = plain.config._attn_implementation
    plain.set_attn_implementation(name)
    try:
        yield
    finally:
        plain.set_attn_implementation(before)


def training_arguments(
    settings: TrainingSettings,
    *,
    folder: Path,
    steps: int,
    metric: str,
    **changes: object,
) -> TrainingArguments:
    """The arguments of a trainer, of which `changes` replaces some.

    The best (by `metric`) and the last checkpoint are kept in `folder`; `steps` is per epoch.
    """
    first_epoch = int(steps * min(1.0, settings.epochs))
    interval = max(1, int(first_epoch / settings.evaluations))
    arguments = {
        "output_dir": str(folder),
        "num_train_epochs": settings.epochs,
        "learning_rate": settings.learning_rate,
        "warmup_steps": int(settings.warmup * settings.epochs * steps),
        "weight_decay": settings.weight_decay,
        "seed": settings.seed,
        "bf16": uses_bf16(settings.precision),
        "eval_strategy": "steps",
        "eval_steps": interval,
        "save_steps": interval,
        "save_total_limit": 2,
        "load_best_model_at_end": True,
        "metric_for_best_model": metric,
        "greater_is_better": True,
        "logging_steps": max(1, interval // 10),
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "accelerator_config": {"even_batches": False},
        "use_cpu": not torch.cuda.is_available(),
        "dataloader_pin_memory": torch.cuda.is_available(),
    }
    return TrainingArguments(**arguments | changes)


def uses_bf16(precision: str) -> bool:
    """Whether training with this setting multiplies in bfloat16."""
    if precision == "auto":
        return has_fast_bf16()
    return precision == "bfloat16"


def has_fast_bf16() -> bool:
    """Whether mixed precision is worthwhile: 1.5 times as fast on a CPU with these instructions."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported()
    capabilities = torch.cpu.get_capabilities()
    return bool(
        capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")
    )


class _Watch(TrainerCallback):
    """Shows progress, saves at least every `SAVE_SECONDS`, and stops early.

    Scores are logged, and so are the loss and the time left after the first step and every
    `LOG_SECONDS`; a terminal shows a bar. Early stopping counts evaluations without a better metric
    in the run's saved history, so that a resumed run stops at the same step.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self.bar = ExitStack()

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **__: object,
    ) -> None:
        """Start the bar and the clocks, and stop a resumed run that had ended."""
        bar = progress("training", total=state.max_steps)
        self._advance = self.bar.enter_context(bar)
        self._advance(state.global_step)
        self._started_at = self._logged_at = self._saved_at = time.monotonic()
        self._first_step = state.global_step
        if state.best_global_step:  # the folder may have been moved
            best = Path(
                str(args.output_dir), f"checkpoint-{state.best_global_step}"
            )
            state.best_model_checkpoint = str(best)
        # A resumed run that had already stopped does not continue.
        self._stop_early(args, state, control)

    def on_step_end(
        self,
        _: object,
        state: TrainerState,
        control: TrainerControl,
        **__: object,
    ) -> None:
        """Log the time left now and then, and request the checkpoints that are due."""
        step = state.global_step
        if step > state.max_steps:
            # A run that ended within an epoch makes one more step when it is resumed. Its weights
            # do not count: the best ones are restored.
            control.should_evaluate = control.should_save = False
            return
        self._advance(1)
        now = time.monotonic()
        steps_done = step - self._first_step
        if steps_done == 1 or now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            seconds_per_step = (now - self._started_at) / steps_done
            minutes_left = seconds_per_step * (state.max_steps - step) / 60
            losses = [
                row["loss"] for row in state.log_history if "loss" in row
            ]
            loss = ""
            if losses:
                loss = f"loss {losses[-1]:.3g}, "
            log.info(
                "step %d of %d: %sabout %.0f min left",
                step,
                state.max_steps,
                loss,
                minutes_left,
            )
        if now - self._saved_at >= SAVE_SECONDS:
            control.should_save = True
        # The last step may lie between two evaluations, and may have the best weights.
        if step == state.max_steps:
            control.should_evaluate = control.should_save = True

    def on_save(self, *_: object, **__: object) -> None:
        self._saved_at = time.monotonic()

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, float],
        **_: object,
    ) -> None:
        """Log the measures, and stop if they no longer improve."""
        measures = [
            f"{name.removeprefix(PREFIX)} {value:.4g}"
            for name, value in metrics.items()
        ]
        log.info(
            "step %d of %d: %s",
            state.global_step,
            state.max_steps,
            ", ".join(measures),
        )
        self._stop_early(args, state, control)

    def _stop_early(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
    ) -> None:
        """Stop once `patience` evaluations have passed since the best metric."""
        name = f"{PREFIX}{args.metric_for_best_model}"
        values = [entry[name] for entry in state.log_history if name in entry]
        if not values:
            return
        evaluations_since_best = len(values) - 1 - int(np.argmax(values))
        if evaluations_since_best >= self._patience:
            control.should_training_stop = True
