"""Distillation of sentence encoders: students for another language or with fewer layers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

import numpy as np
import torch
from torch.nn.functional import mse_loss, normalize
from transformers import PreTrainedModel

from biomed.sentences.data import check_texts
from biomed.sentences.encoder import SentenceEncoder
from biomed.sentences.objectives import vectors_of, windows_of
from biomed.sentences.training import validation_scores
from domainbert.errors import UserError
from domainbert.models.pooling import unit
from domainbert.settings import Count
from domainbert.training.objective import (
    Batch,
    LengthBatches,
    Objective,
    fingerprint,
)
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.settings import Resuming, TrainingSettings
from domainbert.training.train import train

HELD_OUT = 20  # one of this many texts is held out to choose the weights
MAX_HELD_OUT = 500


class StudentTable(ModelTable):
    """The `[model]` table; `encoder` is the teacher.

    Attributes:
        layers: number of layers that the student keeps, evenly spaced; None for all.
    """

    layers: Count | None = None


class DistillRecipe(Recipe):
    """A recipe of students."""

    model: StudentTable = StudentTable()


def distill(
    recipe: DistillRecipe,
    sentences: Sequence[str],
    *,
    translations: Sequence[str] | None = None,
    student: str | Path | None = None,
    **resuming: Unpack[Resuming],
) -> SentenceEncoder:
    """Train a student to give the teacher's vectors (Reimers and Gurevych, arXiv 2004.09813).

    With translations, the translation of a sentence has the sentence's vector as its target. All
    weights are trained. One of twenty sentences, at most 500, is held out to choose them.

    Args:
        recipe: the recipe.
        sentences: sentences in the teacher's language.
        translations: one per sentence, in a language that the student's vocabulary has.
        student: the model to start from; by default the teacher.
        **resuming: `checkpoints` and `resume`, see `domainbert.training.train.train`.

    Raises:
        UserError: fewer than two sentences, a different number of translations, an empty text,
            or a student with vectors of another length.
    """
    table = recipe.model
    training = recipe.training
    teacher = SentenceEncoder.from_pretrained(table.encoder)
    learner = _untrained(recipe, student or table.encoder)
    # The student's folder names its teacher, whatever it started from.
    learner.origin = SentenceEncoder.find_origin(table.encoder)
    if teacher.dimension != learner.dimension:
        raise UserError(
            f"the teacher's vectors have {teacher.dimension} numbers, the student's "
            f"{learner.dimension}; choose a student of the same width"
        )
    sides = {"sentences": sentences}
    if translations is not None:
        sides["translations"] = translations
    check_sides(learner, sides)
    objective = TeacherObjective(
        learner, sides, teacher.embed(sentences), training
    )
    trained = train(
        learner,
        (objective, training.replaced(full=True)),
        start=table.start,
        **resuming,
    )
    trained.name = str(table.encoder)
    manifest = trained.manifest
    manifest.card = recipe.card
    manifest.training.objective = "the teacher's vectors"
    manifest.data.counts = {"training texts": len(objective.texts)}
    manifest.scores = validation_scores(
        manifest,
        f"Cosines with the teacher's vectors, {len(objective.held_out)} held-out sentences.",
    )
    return trained


def _untrained(recipe: DistillRecipe, start: str | Path) -> SentenceEncoder:
    """The student before training, with the pooling of the model that it starts from."""
    settings = SentenceEncoder.from_pretrained(start).settings
    student = SentenceEncoder.untrained(
        start,
        training=recipe.training,
        settings=settings,
    )
    if recipe.model.layers:
        with_layers(student, recipe.model.layers)
    return student


def check_sides(
    student: SentenceEncoder, sides: Mapping[str, Sequence[str]]
) -> None:
    """Raise a `UserError` for fewer than two sentences, or a side of another length."""
    count = len(sides["sentences"])
    if count < 2:
        raise UserError(
            f"distillation needs at least two sentences, got {count}"
        )
    for name, texts in sides.items():
        if len(texts) != count:
            raise UserError(
                f"{count} sentences but {len(texts)} {name}; give one for each"
            )
        check_texts(student, texts, what=name)


class TeacherObjective(Objective):
    """The squared distance to a teacher's vectors, summed over dimensions.

    The metric is the mean cosine with the teacher's vectors on held-out texts.

    Args:
        student: the embedder to train.
        sides: lists of texts by name, of equal length: sentences, and their translations.
        vectors: targets of the texts of each side, shape (texts, dimension).
        training: see `TrainingSettings`.

    Attributes:
        texts: the training texts of all sides.
        held_out: positions of the held-out texts.
    """

    metric = "cosine"

    def __init__(
        self,
        student: SentenceEncoder,
        sides: Mapping[str, Sequence[str]],
        vectors: np.ndarray,
        training: TrainingSettings,
    ) -> None:
        self._student = student
        self._sides = sides
        self._vectors = vectors
        data = fingerprint({name: list(side) for name, side in sides.items()})
        self._facts = {
            "objective": "vectors",
            "data": data,
            "student": student.fingerprint(),
        }
        order = np.random.default_rng(training.seed).permutation(len(vectors))
        n_held_out = max(1, min(MAX_HELD_OUT, len(vectors) // HELD_OUT))
        self.held_out = order[:n_held_out]
        training_rows = order[n_held_out:]
        self.texts = self._texts(training_rows)
        targets = np.tile(vectors[training_rows], (len(sides), 1))
        self._targets = torch.from_numpy(targets)
        rows = [(text,) for text in self.texts]
        self.batches = LengthBatches.of_texts(
            rows,
            batch_size=training.batch_size,
            seed=training.seed,
        )

    def _texts(self, rows: np.ndarray) -> list[str]:
        """The texts at some positions, side by side."""
        return [side[row] for side in self._sides.values() for row in rows]

    def collate(self, batch: Sequence[int], *, epoch: int) -> Batch:
        """The windows of the texts, and their target vectors."""
        del epoch
        windows = windows_of(
            self._student, [self.texts[number] for number in batch]
        )
        return {"targets": self._targets[batch], **windows}

    def loss(self, network: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """The squared distance, see the class."""
        vectors = vectors_of(self._student, network, batch)
        if self._student.settings.unit_norm:
            vectors = normalize(vectors)
        # Summed over dimensions: a mean would be too small for the optimiser's epsilon.
        return mse_loss(vectors, batch["targets"]) * vectors.shape[1]

    def evaluate(self, network: PreTrainedModel) -> dict[str, float]:
        """The mean cosine of the held-out texts, of each side and of all sides together."""
        texts = self._texts(self.held_out)
        student = self._student.with_network(network)
        vectors = unit(student.vectors_of(texts))
        targets = unit(self._vectors[self.held_out])
        by_side = vectors.reshape(len(self._sides), *targets.shape)
        cosines = (by_side * targets).sum(axis=2).mean(axis=1)
        side_cosines = dict(zip(self._sides, cosines.tolist(), strict=True))
        return {"cosine": float(cosines.mean()), **side_cosines}

    def facts(self) -> dict[str, str]:
        """Hashes of all texts, and of the student before training."""
        return self._facts


def with_layers(student: SentenceEncoder, layers: int) -> None:
    """Keep evenly spaced layers of a network, from the first to the last, in place.

    Raises:
        UserError: fewer than one layer or more than the network has, or a network whose layers
            cannot be told apart.
    """
    network = student.network
    n_layers = network.config.num_hidden_layers
    if not 1 <= layers <= n_layers:
        raise UserError(
            f"layers must be from 1 to {n_layers} for this encoder, got {layers}"
        )
    stacks = [
        child
        for child in network.modules()
        if isinstance(child, torch.nn.ModuleList) and len(child) == n_layers
    ]
    if len(stacks) != 1:
        raise UserError(
            f"cannot tell the layers of a {network.config.model_type} model; distil without layers"
        )
    # From the last to the first: a single layer is the last one.
    kept = np.linspace(n_layers - 1, 0, layers).round().tolist()
    for layer in reversed(range(n_layers)):
        if layer not in kept:
            del stacks[0][layer]
    network.config.num_hidden_layers = layers
