"""train(): one or several stages of objective and settings -> a finished model."""

from __future__ import annotations

import logging
import platform
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from domainbert import __version__
from domainbert.errors import UserError
from domainbert.lora import add_lora, set_adapter
from domainbert.training.checkpoints import resume_point
from domainbert.training.trainer import (
    ObjectiveTrainer,
    best_scores,
    steps_per_epoch,
    training_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from domainbert.model import Model
    from domainbert.training.objective import Objective
    from domainbert.training.settings import TrainingSettings

AnyModel = TypeVar("AnyModel", bound="Model")
log = logging.getLogger(__name__)


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
        start: values of adapters and head, by the names of `domainbert.lora.adapter_tensors`; by
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
    with ExitStack() as stack:
        root = Path(checkpoints or stack.enter_context(tempfile.TemporaryDirectory()))
        for number, stage in enumerate(stages, start=1):
            folder = root / f"stage-{number}" if len(stages) > 1 else root
            network, best = _run(network, stage, model, encoder, folder, resume=resume)
    trained = model.finished(network, encoder=encoder, lora=first.lora)
    settings = [stage.settings.model_dump() for stage in stages]
    facts = [stage.objective.facts() for stage in stages]
    trained.manifest = {
        "training": settings if len(stages) > 1 else settings[0],
        "facts": facts if len(stages) > 1 else facts[0],
        "versions": versions(),
        "validation": best,
    }
    return trained


def _run(
    network: Any, stage: Stage, model: Model, encoder: str | Path, folder: Path, *, resume: bool
) -> tuple[Any, dict[str, float]]:
    objective, settings = stage.objective, stage.settings
    if not len(objective.batches()):
        msg = "there is nothing to train on: the training side has no examples"
        raise UserError(msg)
    facts = {**model.facts(encoder), "training": settings.model_dump(), **objective.facts()}
    with resume_point(folder, facts, resume=resume) as checkpoint:
        steps = steps_per_epoch(objective.batches())
        log.info("training %s: %d steps per epoch", folder.name, steps)
        metric = objective.metric
        trainer = ObjectiveTrainer(
            network,
            objective,
            arguments=training_arguments(settings, folder=folder, steps=steps, metric=metric),
            patience=settings.patience,
            attention=settings.attention,
        )
        trainer.train(resume_from_checkpoint=checkpoint)
    return trainer.trained(), best_scores(trainer.state, metric)


def versions() -> dict[str, str]:
    """The versions of Python and the libraries that decide a result."""
    packages = {package: version(package) for package in ("torch", "transformers", "peft")}
    return {"python": platform.python_version(), "domainbert": __version__, **packages}
