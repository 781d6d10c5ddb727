"""Run sentence-transformers' trainers: validation, checkpoints, and the best weights."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from datasets import Dataset, DatasetDict, disable_progress_bars
from safetensors.torch import load_file, save_file
from sentence_transformers.base.sampler import DefaultBatchSampler
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback

from domainbert.encoders import quiet
from domainbert.training.checkpoints import resume_point
from domainbert.training.trainer import (
    Scored,
    _EarlyStopping,
    _Progress,
    _SaveByTime,
    best_scores,
    training_arguments,
    training_attention,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from domainbert.training.settings import TrainingSettings

WEIGHTS = "model.safetensors"
POOL = 16  # batches
NEAR = 16  # characters; lengths that differ by less count as equal, so that batches stay mixed
log = logging.getLogger(__name__)


class Resumable(Scored):
    """Mixin of the library's trainers: a checkpoint holds what trains, and no card is written.

    Set `scores`, network -> metrics on validation, and `network`, before training.
    """

    loss: Any
    network: Any
    scores: Callable[[Any], dict[str, float]]

    def validate(self) -> dict[str, float]:
        """The metrics on validation."""
        return self.scores(self.network)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Write no card here: the library's would quote training texts."""

    def _trained(self) -> Iterator[tuple[str, torch.Tensor]]:
        """What trains: adapters or all weights, and the loss's own, such as a softmax layer."""
        return (pair for pair in self.loss.named_parameters() if pair[1].requires_grad)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        del state_dict
        tensors = {name: value.detach().cpu().contiguous() for name, value in self._trained()}
        folder = Path(str(output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, folder / WEIGHTS)

    def _load_from_checkpoint(self, checkpoint_path: str, model: Any = None) -> None:
        del model
        stored = load_file(Path(checkpoint_path) / WEIGHTS)
        with torch.no_grad():
            for name, value in self._trained():
                value.copy_(stored[name])

    def _load_best_model(self) -> None:
        if best := self.state.best_model_checkpoint:
            self._load_from_checkpoint(best)


class SimilarLengths(DefaultBatchSampler):
    """Batches of rows of similar length, which need little padding, in a new order every epoch.

    Rows are shuffled, sorted by length within pools of `POOL` batches, and cut into batches, which
    are shuffled. The order depends on the seed and the epoch alone.
    """

    def __init__(self, dataset: Dataset, **options: Any) -> None:
        super().__init__(dataset, **options)
        columns = [column for column in dataset.column_names if column != "label"]
        texts = zip(*(dataset[column] for column in columns), strict=True)
        self._lengths = np.array([sum(map(len, row)) // NEAR for row in texts])

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of an epoch."""
        generator = np.random.default_rng([self.seed, self.epoch])
        rows = generator.permutation(len(self._lengths))
        pool = POOL * self.batch_size
        pools = [rows[start : start + pool] for start in range(0, len(rows), pool)]
        # Every pool is cut into batches by itself, so that only the last batch may be short.
        batches = [
            part[start : start + self.batch_size]
            for part in (own[np.argsort(self._lengths[own], kind="stable")] for own in pools)
            for start in range(0, len(part), self.batch_size)
        ]
        return iter([batches[i].tolist() for i in generator.permutation(len(batches))])


class _Steps(TrainerCallback):
    """Tells the model the epoch, and evaluates after the last step too."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._module.epoch = int(state.epoch or 0)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step >= state.max_steps:
            control.should_evaluate = control.should_save = True


def run_trainer(
    trainer_class: Any,
    model: Any,
    *,
    data: Dataset | DatasetDict,
    loss: Any,
    network: Any,
    score: Callable[[Any], dict[str, float]],
    metric: str,
    training: TrainingSettings,
    facts: Mapping[str, Any] = MappingProxyType({}),
    checkpoints: str | Path | None = None,
    resume: bool = False,
    batch_sampler: Any = SimilarLengths,
) -> dict[str, float]:
    """Train a sentence-transformers model in place, and put back its best weights.

    Args:
        trainer_class: sentence-transformers' trainer, with `Resumable` before it.
        model: what it trains; its only module holds `network`.
        data: its training set or sets.
        loss: of the library.
        network: plain or wrapped by peft.
        score: network -> metrics on validation.
        metric: that chooses the weights; larger is better.
        training: how to train.
        facts: what identifies the run, as JSON; a run resumes only if it is the same.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.
        batch_sampler: of the library, or a function that makes one.

    Returns:
        The best validation scores.

    Raises:
        UserError: `resume` with other facts; or checkpoints in the folder and no `resume`.
    """
    parts = list(data.values()) if isinstance(data, DatasetDict) else [data]
    steps = sum(-(-len(part) // training.batch_size) for part in parts)
    bar = _Progress()
    disable_progress_bars()
    with ExitStack() as stack:
        folder = Path(checkpoints or stack.enter_context(tempfile.TemporaryDirectory()))
        facts = {**facts, "training": training.model_dump()}
        checkpoint = stack.enter_context(resume_point(folder, facts, resume=resume))
        trainer = trainer_class(
            model=model,
            args=training_arguments(
                training,
                folder=folder,
                steps=max(1, int(steps * min(1.0, training.epochs))),
                metric=metric,
                kind=trainer_class.training_args_class,
                warmup_steps=int(training.warmup * training.epochs * steps),
                per_device_train_batch_size=training.batch_size,
                batch_sampler=batch_sampler,
            ),
            train_dataset=data,
            eval_dataset=data,  # unused: see `Scored.evaluate`
            loss=loss,
            callbacks=[_SaveByTime(), _EarlyStopping(training.patience), _Steps(model[0]), bar],
        )
        trainer.network, trainer.scores = network, score
        trainer.remove_callback(PrinterCallback)  # it prints to stdout, which belongs to results
        stack.callback(bar.close)
        stack.enter_context(training_attention(network, training.attention))
        with quiet():
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        return best_scores(trainer.state, metric)


def fingerprint(data: Any) -> str:
    """SHA-256 of data that JSON can hold."""
    written = json.dumps(data, sort_keys=True, default=float)
    return hashlib.sha256(written.encode()).hexdigest()
