"""train(): one or several stages of objective and settings -> a finished model."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch

from domainbert import __version__
from domainbert.encoders.lora import add_lora, set_adapter
from domainbert.errors import UserError
from domainbert.training.trainer import fit

if TYPE_CHECKING:
    from domainbert.models.model import Model
    from domainbert.training.objective import Objective
    from domainbert.training.settings import TrainingSettings

AnyModel = TypeVar("AnyModel", bound="Model")


def train(
    model: AnyModel,
    *stages: tuple[Objective, TrainingSettings],
    encoder: str | Path,
    start: Mapping[str, torch.Tensor] | None = None,
    share: float = 1.0,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> AnyModel:
    """Train a model through its stages and keep, of each, the weights with the best score.

    The first stage decides on adapters or full weights. The manifest of the result holds the
    settings and facts of each stage and the best validation scores.

    Args:
        model: from `Model.untrained`.
        stages: what to train on and how, in order.
        encoder: what `Model.untrained` was given.
        start: the tensors of an `Adapter`; by default new ones and the head of `model`.
        share: of the adapters' change that is kept, in (0, 1]; 0.5 is the average of the trained
            and the plain encoder's weights.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there; a finished stage is not run again.

    Raises:
        UserError: `resume` with other data, another split, encoder, objective or setting;
            checkpoints in the folder and no `resume`; or a share without adapters.
    """
    first = stages[0][1]
    if share != 1 and first.full:
        raise UserError("share needs adapters; train without full = true")
    network = model.network if first.full else add_lora(model.network, first.rank)
    if start is not None:
        set_adapter(network, start)
    best: dict[str, float] = {}
    for number, (objective, settings) in enumerate(stages, start=1):
        if not len(objective.batches):
            raise UserError("there is nothing to train on: the training side has no examples")
        folder = checkpoints
        if checkpoints and len(stages) > 1:
            folder = Path(checkpoints) / f"stage-{number}"
        network, best = fit(
            network,
            objective,
            settings=settings,
            facts={**model.facts(encoder), **objective.facts()},
            folder=folder,
            resume=resume,
        )
    if share != 1:
        with torch.no_grad():
            for name, weights in network.named_parameters():
                if "lora_B" in name:
                    weights.mul_(share)
        best = stages[-1][0].score(network.eval())
    trained = model.finished(network, encoder=encoder, full=first.full)
    training = [settings.model_dump() for _, settings in stages]
    facts = [objective.facts() for objective, _ in stages]
    is_one = len(stages) == 1
    trained.manifest = {
        "training": training[0] if is_one else training,
        "facts": facts[0] if is_one else facts,
        "versions": versions(),
        "validation": best,
    }
    return trained


def versions() -> dict[str, str]:
    """The versions of Python and the libraries that decide a result."""
    packages = {package: version(package) for package in ("torch", "transformers", "peft")}
    return {"python": platform.python_version(), "domainbert": __version__, **packages}
