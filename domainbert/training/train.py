"""Training a model through one or several stages."""

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import torch

from domainbert import __version__
from domainbert.encoders.adapters import Adapter, add_lora, set_adapter
from domainbert.errors import UserError
from domainbert.models.manifest import Stage, Training
from domainbert.models.model import Model
from domainbert.training.objective import Objective
from domainbert.training.settings import TrainingSettings
from domainbert.training.trainer import fit

AnyModel = TypeVar("AnyModel", bound=Model[Any])


def train(
    model: AnyModel,
    *stages: tuple[Objective, TrainingSettings],
    start: str | None = None,
    share: float = 1.0,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> AnyModel:
    """Train a model through its stages; each keeps the weights with the best metric.

    The first stage decides between adapters and full weights. The manifest of the result has the
    settings and facts of each stage and the best measures on validation.

    Args:
        model: the model to train, from `Model.untrained`.
        stages: what to train on and how, in order.
        start: a model of the same class (shipped name or folder) whose adapters and head training
            starts from; labels that it lacks keep the head of `model`.
        share: share of the adapters' change that is kept, in (0, 1]; 0.5 is the average of the
            trained weights and the plain encoder's.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there; a finished stage is not run again.

    Raises:
        UserError: `resume` with other data, another split, encoder, start, objective or setting;
            checkpoints in the folder and no `resume`; a share without adapters; or a `start` with
            full weights, of another rank, or on another encoder.
    """
    first = stages[0][1]
    if first.full and (share != 1 or start):
        raise UserError(
            "share and start need adapters; train without full = true"
        )
    network = (
        model.network if first.full else add_lora(model.network, first.rank)
    )
    facts = model.facts()
    if start is not None:
        earlier = type(model).from_pretrained(start, device="cpu")
        adapter = _start_adapter(
            earlier,
            rank=first.rank,
            encoder=model.origin.sha256,
        )
        head_rows = _start_head(model, adapter, earlier.labels)
        set_adapter(network, adapter.tensors | head_rows)
        facts["start"] = earlier.fingerprint()
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
        # The change is a product, of which one factor is enough.
        with torch.no_grad():
            for name, weights in network.named_parameters():
                if "lora_B" in name:
                    weights.mul_(share)
        best = stages[-1][0].evaluate(network.eval())
    trained = model.finished(network, full=first.full)
    trained.manifest.training = Training(
        stages=[Stage(**settings.model_dump()) for _, settings in stages],
        facts=[objective.facts() for objective, _ in stages],
        start=Path(start or "").name,
        versions=versions(),
        validation=best,
    )
    return trained


def _start_adapter(
    earlier: AnyModel,
    *,
    rank: int,
    encoder: str,
) -> Adapter:
    """The adapter of an earlier model; `UserError` for another rank or encoder."""
    is_same = (
        earlier.config is not None and earlier.config.encoder_sha256 == encoder
    )
    received = 0
    if earlier.adapter:
        received = earlier.adapter.rank
        if received == rank and is_same:
            return earlier.adapter
    suffix = "" if is_same else " on another encoder"
    raise UserError(
        f"start: expected a model with an adapter of rank {rank} on this encoder, got rank "
        f"{received}{suffix}"
    )


def _start_head(
    model: AnyModel,
    adapter: Adapter,
    labels: tuple[str, ...],
) -> dict[str, torch.Tensor]:
    """The head of `model`, with the rows that an earlier adapter has for the same labels."""
    tensors = {}
    for key, earlier_rows in adapter.tensors.items():
        if ".classifier." not in key:
            continue
        name = f"classifier.{key.rpartition('.')[2]}"
        rows = model.network.get_parameter(name).detach().clone()
        for number, label in enumerate(model.labels):
            if label in labels:
                rows[number] = earlier_rows[labels.index(label)].float()
        tensors[key] = rows
    return tensors


def versions() -> dict[str, str]:
    """The versions of Python and the libraries that decide a result."""
    packages = {
        package: version(package)
        for package in ("torch", "transformers", "peft")
    }
    return {
        "python": platform.python_version(),
        "domainbert": __version__,
        **packages,
    }
