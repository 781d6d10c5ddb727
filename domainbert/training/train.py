"""train(): one or several stages of objective and settings -> a finished model."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from torch.utils.data import DataLoader, Dataset
from transformers import Trainer

from domainbert import __version__
from domainbert.encoders.lora import add_lora, set_adapter
from domainbert.errors import UserError
from domainbert.training.trainer import TaskTrainer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch

    from domainbert.models.model import Model
    from domainbert.training.objective import BatchPlan, Objective
    from domainbert.training.settings import TrainingSettings

AnyModel = TypeVar("AnyModel", bound="Model")


@dataclass(frozen=True)
class Stage:
    """One part of a training run: what to train on, and how."""

    objective: Objective
    settings: TrainingSettings


def train(
    model: AnyModel,
    *stages: Stage,
    encoder: str | Path,
    start: Mapping[str, Any] | None = None,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> AnyModel:
    """Train a model through its stages and keep, of each, the weights with the best score.

    The first stage decides on adapters or full weights. The manifest of the result holds the
    settings and facts of each stage and the best validation scores.

    Args:
        model: from `Model.untrained`.
        stages: in order.
        encoder: what `Model.untrained` was given.
        start: values of adapters and head, by the names of `lora.adapter_tensors`; by
            default new adapters and the head of `model`.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there; a finished stage is not run again.

    Raises:
        UserError: `resume` with other data, another split, encoder, objective or setting; or
            checkpoints in the folder and no `resume`.
    """
    first = stages[0].settings
    network = add_lora(model.network, first.lora)
    if start is not None:
        set_adapter(network, start)
    best: dict[str, float] = {}
    for number, stage in enumerate(stages, start=1):
        objective = stage.objective
        if not len(objective.batches()):
            msg = "there is nothing to train on: the training side has no examples"
            raise UserError(msg)
        folder = checkpoints
        if checkpoints and len(stages) > 1:
            folder = Path(checkpoints) / f"stage-{number}"
        trainer, best = ObjectiveTrainer.run(
            stage.settings,
            metric=objective.metric,
            steps=len(objective.batches()),
            facts={**model.facts(encoder), **objective.facts()},
            folder=folder,
            resume=resume,
            network=network,
            objective=objective,
        )
        network = trainer.trained()
    trained = model.finished(network, encoder=encoder, lora=first.lora)
    settings = [stage.settings.model_dump() for stage in stages]
    facts = [stage.objective.facts() for stage in stages]
    one = len(stages) == 1
    trained.manifest = new_manifest(
        settings[0] if one else settings, best, facts=facts[0] if one else facts
    )
    return trained


def new_manifest(
    training: dict[str, Any] | list[dict[str, Any]], best: Mapping[str, float], **facts: Any
) -> dict[str, Any]:
    """How a model was trained: settings, facts, versions of libraries, best validation scores."""
    return {"training": training, **facts, "versions": versions(), "validation": dict(best)}


def versions() -> dict[str, str]:
    """The versions of Python and the libraries that decide a result."""
    packages = {package: version(package) for package in ("torch", "transformers", "peft")}
    return {"python": platform.python_version(), "domainbert": __version__, **packages}


class ObjectiveTrainer(TaskTrainer, Trainer):
    """Hugging Face's Trainer over the batches, the loss and the score of an objective.

    Args:
        network: plain or wrapped by peft.
        objective: see `Objective`.
        args: from `training_arguments`.
        options: see `TaskTrainer`.
    """

    def __init__(self, *, network: Any, objective: Objective, args: Any, **options: Any) -> None:
        self.objective = objective
        self._data = _EpochData(objective.batches(), passes=args.gradient_accumulation_steps)
        super().__init__(
            model=network,
            network=network,
            module=network,
            score=objective.score,
            args=args,
            train_dataset=self._data,
            data_collator=self._collate,
            **options,
        )

    def get_train_dataloader(self) -> DataLoader:
        """The planned batches, in order."""
        loader: DataLoader[Any] = DataLoader(
            self._data, batch_sampler=_InOrder(self._data, self), collate_fn=self.data_collator
        )
        return self.accelerator.prepare(loader)

    def _collate(self, batches: list[tuple[int, Sequence[Any]]]) -> dict[str, torch.Tensor]:
        ((epoch, batch),) = batches
        return self.objective.collate(batch, epoch=epoch)

    def compute_loss(
        self,
        model: Any,
        inputs: Any,
        return_outputs: bool = False,  # noqa: FBT001, FBT002  (Trainer's own signature)
        **_: Any,
    ) -> Any:
        """The objective's loss."""
        loss = self.objective.loss(model, inputs)
        return (loss, None) if return_outputs else loss

    def trained(self) -> Any:
        """The network after training, without the wrappers of mixed precision."""
        network = self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
        # Otherwise the trainer of a next stage takes it for prepared and uses full precision.
        network._is_accelerate_prepared = False
        return network


class _EpochData(Dataset):
    """The batches of the current epoch, filled up from its start to whole steps."""

    def __init__(self, plan: BatchPlan, *, passes: int = 1) -> None:
        self._plan, self._epoch = plan, -1
        self._length = len(plan) + -len(plan) % passes
        self._batches: list[Sequence[Any]] = []

    def begin(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._epoch = epoch
            self._batches = list(islice(cycle(self._plan.epoch(epoch)), self._length))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int) -> tuple[int, Sequence[Any]]:
        return self._epoch, self._batches[number]


class _InOrder:
    """Batch sampler: the batches in order, those of each epoch planned at its start."""

    def __init__(self, data: _EpochData, trainer: Trainer) -> None:
        self._data, self._trainer = data, trainer
        self.batch_size, self.drop_last = 1, False  # what accelerate asks of a batch sampler

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[list[int]]:
        # The trainer's own count, which is right after a resume too.
        self._data.begin(int(self._trainer.state.epoch or 0))
        return ([number] for number in range(len(self._data)))
