"""Distillation: a student for another language, or with fewer layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import mse_loss, normalize

from biomed.sentences.encoder import SentenceEncoder
from biomed.sentences.objectives import check_texts, vectors_of, windows_of
from domainbert.errors import UserError
from domainbert.models.pooling import unit
from domainbert.settings import Count  # noqa: TC001  (pydantic reads it)
from domainbert.training.objective import LengthBatches, Objective, fingerprint
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.train import train

if TYPE_CHECKING:
    from domainbert.training.settings import TrainingSettings

HELD_OUT = 20  # one text of so many chooses the weights
MOST_HELD_OUT = 500


class StudentTable(ModelTable):
    """The `[model]` table; `encoder` is the teacher.

    Attributes:
        layers: that the student keeps, evenly spaced; None for all.
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
    **place: Any,
) -> SentenceEncoder:
    """Train a student whose vectors are the teacher's (Reimers and Gurevych 2020, 2004.09813).

    With translations, the target of a sentence's translation is the sentence's vector too. All
    weights are trained. One sentence of twenty, 500 at most, chooses them.

    Args:
        recipe: the plan.
        sentences: in the teacher's language.
        translations: of each, in a language that the student's vocabulary has.
        student: the model to start from; by default the teacher.
        **place: `checkpoints` and `resume`, see `domainbert.training.train.train`.

    Raises:
        UserError: fewer than two sentences, another number of translations, an empty text, or a
            student of another width.
    """
    name, training = recipe.model.encoder, recipe.training
    teacher = SentenceEncoder.from_pretrained(name)
    settings = SentenceEncoder.from_pretrained(student or name).settings
    learner = SentenceEncoder.untrained(
        student or name, training=training, settings=settings
    )
    if recipe.model.layers:
        with_layers(learner, recipe.model.layers)
    if (width := teacher.dimension) != learner.dimension:
        raise UserError(
            f"the teacher's vectors have {width} numbers, the student's {learner.dimension}; "
            "choose a student of the same width"
        )
    sides = {"sentences": sentences}
    if translations is not None:
        sides["translations"] = translations
    check_sides(learner, sides)
    objective = TeacherObjective(learner, sides, teacher.embed(sentences), training)
    stage = (objective, training.replaced(full=True))
    trained = train(learner, stage, encoder=name, start=recipe.model.start, **place)
    trained.name = str(name)
    trained.manifest |= {
        "objective": "the teacher's vectors",
        "counts": {"training texts": len(objective.texts)},
        "card": recipe.card.model_dump(),
        "scores": {"validation": trained.manifest["validation"]},
        "scores_note": f"Cosines with the teacher's vectors, {len(objective.held)} held-out "
        "sentences.",
    }
    return trained


def check_sides(student: SentenceEncoder, sides: Mapping[str, Sequence[str]]) -> None:
    """Raise a `UserError` if there are too few sentences, or a side does not fit."""
    count = len(sides["sentences"])
    if count < 2:
        raise UserError(f"distillation needs at least two sentences, got {count}")
    for name, texts in sides.items():
        if len(texts) != count:
            raise UserError(
                f"{count} sentences but {len(texts)} {name}; give one for each"
            )
        check_texts(student, texts, what=name)


class TeacherObjective(Objective):
    """The vectors of a teacher: the squared distance to them, summed over dimensions.

    Weights are chosen by the mean of the cosines with the teacher's vectors on held-out texts.

    Args:
        student: the embedder that trains.
        sides: texts by name, equally many, such as sentences and their translations.
        vectors: that the texts at the same place of each side should have, shape (texts,
            dimension).
        training: see `TrainingSettings`.

    Attributes:
        texts: the training texts of all sides.
        held: places of the held-out texts.
    """

    metric = "cosine"

    def __init__(
        self,
        student: SentenceEncoder,
        sides: Mapping[str, Sequence[str]],
        vectors: np.ndarray,
        training: TrainingSettings,
    ) -> None:
        self._student, self._sides, self._vectors = student, sides, vectors
        data = fingerprint({name: list(side) for name, side in sides.items()})
        self._facts = {
            "objective": "vectors",
            "data": data,
            "student": student.fingerprint(),
        }
        order = np.random.default_rng(training.seed).permutation(len(vectors))
        share = max(1, min(MOST_HELD_OUT, len(vectors) // HELD_OUT))
        self.held, rest = order[:share], order[share:]
        self.texts = [side[place] for side in sides.values() for place in rest]
        self._targets = torch.from_numpy(np.tile(vectors[rest], (len(sides), 1)))
        rows = [(text,) for text in self.texts]
        self.batches = LengthBatches.of_texts(
            rows, batch_size=training.batch_size, seed=training.seed
        )

    def collate(self, batch: Sequence[int], *, epoch: int) -> dict[str, torch.Tensor]:
        """The windows of the texts, and the vectors they should have."""
        del epoch
        windows = windows_of(self._student, [self.texts[number] for number in batch])
        return {"targets": self._targets[batch], **windows}

    def loss(self, network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """See the class."""
        vectors = vectors_of(self._student, network, batch)
        if self._student.settings.unit_norm:
            vectors = normalize(vectors)
        # Summed over dimensions: a mean would be too small for the optimiser's epsilon.
        return mse_loss(vectors, batch["targets"]) * vectors.shape[1]

    def score(self, network: Any) -> dict[str, float]:
        """The mean cosine of each side's held-out texts, and the mean of all."""
        held = [side[place] for side in self._sides.values() for place in self.held]
        ours = unit(self._student.vectors_of(held, network=network))
        wanted = np.tile(unit(self._vectors[self.held]), (len(self._sides), 1))
        cosines = (ours * wanted).sum(axis=1).reshape(len(self._sides), -1).mean(axis=1)
        sides = dict(zip(self._sides, cosines.tolist(), strict=True))
        return {"cosine": float(cosines.mean()), **sides}

    def facts(self) -> dict[str, Any]:
        """A hash of all texts, and of the student as it was before training."""
        return self._facts


def with_layers(student: SentenceEncoder, layers: int) -> None:
    """Keep some layers of a network, evenly spaced from the first to the last, in place.

    Raises:
        UserError: fewer than 1 or more than it has, or a network whose layers were not found.
    """
    network = student.network
    number = network.config.num_hidden_layers
    if not 1 <= layers <= number:
        raise UserError(
            f"layers must be from 1 to {number} for this encoder, got {layers}"
        )
    stacks = [
        child
        for child in network.modules()
        if isinstance(child, torch.nn.ModuleList) and len(child) == number
    ]
    if len(stacks) != 1:
        raise UserError(
            f"cannot tell the layers of a {network.config.model_type} model; distil without layers"
        )
    kept = (
        np.linspace(0, number - 1, layers).round().tolist()
        if layers > 1
        else [number - 1]
    )
    for place in reversed(range(number)):
        if place not in kept:
            del stacks[0][place]
    network.config.num_hidden_layers = layers
