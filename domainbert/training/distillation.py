"""Train an Embedder to give texts the vectors of a teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses

from domainbert.embedding import Embedder
from domainbert.errors import UserError
from domainbert.pooling import unit
from domainbert.training.embedding import TextModule, _TextTrainer
from domainbert.training.library import run_trainer
from domainbert.training.train import versions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from domainbert.training.settings import TrainingSettings

AnyEmbedder = TypeVar("AnyEmbedder", bound=Embedder)
Side = tuple[list[str], np.ndarray]  # texts, and the vector that each should have


class VectorLoss(torch.nn.Module):
    """The squared distance to the teacher's vector, summed over dimensions, mean over texts.

    This is sentence-transformers' `MSELoss` times the dimension: the mean over dimensions of
    vectors of length 1 is too small for the optimiser's epsilon.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self._mean, self._dimension = losses.MSELoss(model), model.get_embedding_dimension()

    def forward(self, sentence_features: Any, labels: torch.Tensor) -> torch.Tensor:
        """The loss of a batch; labels have shape (texts, dimension)."""
        return self._mean(sentence_features, labels) * self._dimension


def fit_to_vectors(
    student: AnyEmbedder,
    train: Sequence[Side],
    *,
    validation: Mapping[str, Side],
    teacher: str | Path,
    training: TrainingSettings,
    first_row: int | None = None,
) -> AnyEmbedder:
    """Train a student; keep the weights nearest to the teacher on validation.

    Args:
        student: what to start from; its network is trained in place.
        train: sets of texts, and the vectors they should have, shape (texts, dimension).
        validation: other texts and vectors, by name; weights are chosen by the mean of the
            cosines with the teacher's vectors, which are reported by name.
        teacher: its name: an encoder, or a model of the student's task.
        training: see `TrainingSettings`; there are no adapters here.
        first_row: of the rows of the embedding table that alone are trained, up to the last; by
            default all weights are. Set the weight decay to 0 with it.

    Raises:
        UserError: no text, no such teacher, or vectors of another width than the student's.
    """
    texts = [text for own, _ in train for text in own]
    if not texts:
        raise UserError("no texts to train on")
    targets = np.concatenate([wanted for _, wanted in train])
    check_width(targets.shape[1], student)
    student.origin(teacher)  # a name that is unknown ends here, not after training
    student.network.requires_grad_()  # adapters, when they are merged, leave it frozen
    _set_dropout(student.network, training.dropout)
    if first_row is not None:
        _train_rows_only(student.network, first_row)

    def score(network: Any) -> dict[str, float]:
        found = {}
        for name, (own, wanted) in validation.items():
            vectors = unit(student.vectors_of(own, network=network))
            found[name] = float((vectors * unit(wanted)).sum(axis=1).mean())
        return {"cosine": float(np.mean(list(found.values()))), **found}

    model = SentenceTransformer(modules=[TextModule(student, student.network)])
    best = run_trainer(
        _TextTrainer,
        model,
        data=Dataset.from_dict({"text": texts, "label": targets}),
        loss=VectorLoss(model),
        network=student.network,
        score=score,
        metric="cosine",
        training=training,
    )
    trained = student.finished(student.network, encoder=teacher, lora=None)
    trained.name = str(teacher)
    trained.manifest = {
        "training": training.model_dump(),
        "objective": "the teacher's vectors",
        "counts": {"training texts": len(texts)},
        "versions": versions(),
        "validation": best,
    }
    return trained


def _set_dropout(network: torch.nn.Module, share: float) -> None:
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = share


def _train_rows_only(network: Any, first: int) -> None:
    """Leave everything as it is but the last rows of the embedding table."""
    for parameter in network.parameters():
        parameter.requires_grad_(requires_grad=False)
    weight = network.get_input_embeddings().weight.requires_grad_()

    def of_these_rows(gradient: torch.Tensor) -> torch.Tensor:
        gradient[:first] = 0
        return gradient

    weight.register_hook(of_these_rows)


def check_width(teacher: int, student: Embedder) -> None:
    """Refuse a student whose vectors cannot be compared with the teacher's.

    Raises:
        UserError: unequal widths.
    """
    if teacher != student.dimension:
        msg = (
            f"the teacher's vectors have {teacher} numbers, the student's {student.dimension}; "
            "choose a student of the same width"
        )
        raise UserError(msg)


def with_layers(student: AnyEmbedder, layers: int) -> None:
    """Keep some layers of a network, evenly spaced from the first to the last, in place.

    Raises:
        UserError: fewer than 1 or more than it has, or a network whose layers were not found.
    """
    network = student.network
    number = network.config.num_hidden_layers
    if not 1 <= layers <= number:
        msg = f"layers must be from 1 to {number} for this encoder, got {layers}"
        raise UserError(msg)
    stacks = [
        (parent, name)
        for parent in network.modules()
        for name, child in parent.named_children()
        if isinstance(child, torch.nn.ModuleList) and len(child) == number
    ]
    if len(stacks) != 1:
        msg = (
            f"cannot tell the layers of a {network.config.model_type} model; distil without layers"
        )
        raise UserError(msg)
    ((parent, name),) = stacks
    kept = np.linspace(0, number - 1, layers).round().astype(int) if layers > 1 else [number - 1]
    stack = getattr(parent, name)
    setattr(parent, name, torch.nn.ModuleList([stack[int(place)] for place in kept]))
    network.config.num_hidden_layers = layers
