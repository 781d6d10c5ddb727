"""train(): one or several stages of objective and settings -> a finished model."""

from __future__ import annotations

import platform
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
    start: str | None = None,
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
        start: a model of the same class (shipped name or folder), whose adapters and rows of the
            head are those that training starts from; labels that it lacks keep the head of `model`.
        share: of the adapters' change that is kept, in (0, 1]; 0.5 is the average of the trained
            and the plain encoder's weights.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there; a finished stage is not run again.

    Raises:
        UserError: `resume` with other data, another split, encoder, start, objective or setting;
            checkpoints in the folder and no `resume`; a share without adapters; or a `start` with
            full weights, of another rank, or on another encoder.
    """
    first = stages[0][1]
    if first.full and (share != 1 or start):
        raise UserError("share and start need adapters; train without full = true")
    network = model.network if first.full else add_lora(model.network, first.rank)
    facts = model.facts(encoder)
    if start is not None:
        other = type(model).from_pretrained(start, device="cpu")
        set_adapter(
            network, _started(model, other, rank=first.rank, encoder=facts["encoder"])
        )
        facts["start"] = other.fingerprint()
    best: dict[str, float] = {}
    for number, (objective, settings) in enumerate(stages, start=1):
        if not len(objective.batches):
            raise UserError(
                "there is nothing to train on: the training side has no examples"
            )
        folder = checkpoints
        if checkpoints and len(stages) > 1:
            folder = Path(checkpoints) / f"stage-{number}"
        network, best = fit(
            network,
            objective,
            settings=settings,
            facts={**facts, **objective.facts()},
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
    facts_of = [objective.facts() for objective, _ in stages]
    is_one = len(stages) == 1
    trained.manifest = {
        "training": training[0] if is_one else training,
        "facts": facts_of[0] if is_one else facts_of,
        "versions": versions(),
        "validation": best,
    }
    if start:
        trained.manifest["start"] = Path(start).name
    return trained


def _started(
    model: Model, other: Model, *, rank: int, encoder: str
) -> dict[str, torch.Tensor]:
    """The adapters of another model, and its head's rows for the labels of `model`."""
    same = other.config is not None and other.config.encoder_sha256 == encoder
    found = other.adapter.rank if other.adapter else 0
    if other.adapter is None or found != rank or not same:
        raise UserError(
            f"start: expected a model with an adapter of rank {rank} on this encoder, got rank "
            f"{found}{'' if same else ' on another encoder'}"
        )
    tensors = dict(other.adapter.tensors)
    for key in (key for key in tensors if ".classifier." in key):
        rows = (
            model.network.get_parameter(f"classifier.{key.rpartition('.')[2]}")
            .detach()
            .clone()
        )
        for place, label in enumerate(model.labels):
            if label in other.labels:
                rows[place] = tensors[key][other.labels.index(label)].float()
        tensors[key] = rows
    return tensors


def versions() -> dict[str, str]:
    """The versions of Python and the libraries that decide a result."""
    packages = {
        package: version(package) for package in ("torch", "transformers", "peft")
    }
    return {"python": platform.python_version(), "domainbert": __version__, **packages}
