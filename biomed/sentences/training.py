"""Training of sentence models from a recipe: bi-encoders and cross-encoders."""

import logging
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, Unpack

import pandas as pd
from pydantic import Field

from biomed.sentences.data import without
from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
from biomed.sentences.objectives import (
    ObjectiveName,
    PairsObjective,
    TextVectorsObjective,
)
from domainbert.errors import UserError
from domainbert.models.embedder import Embedder
from domainbert.models.manifest import Manifest, Scores, Value
from domainbert.models.model import Model
from domainbert.models.pairs import PairSettings
from domainbert.models.pooling import EmbeddingSettings
from domainbert.settings import Positive
from domainbert.training.objective import Objective
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.settings import Resuming
from domainbert.training.train import train

AnyEmbedder = TypeVar("AnyEmbedder", bound=Embedder)
AnyModel = TypeVar("AnyModel", bound=Model[Any])
log = logging.getLogger(__name__)


class SentenceTable(ModelTable, EmbeddingSettings):
    """The `[model]` table: the encoder, its pooling, and what is trained.

    Attributes:
        kind: "bi-encoder" (a vector per text) or "cross-encoder" (two texts read together).
        objective: a bi-encoder's objective, see `TextVectorsObjective`.
        share: for a bi-encoder, the share of the change of the weights that is kept; 0.5 averages
            the trained and the initial weights.
        scale: the largest score of the pairs, such as 5 for the STS benchmark.
    """

    kind: Literal["bi-encoder", "cross-encoder"] = "bi-encoder"
    objective: ObjectiveName = "regression"
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    scale: Positive = 1.0


class SentenceRecipe(Recipe):
    """A recipe of sentence models."""

    model: SentenceTable = SentenceTable()


def fit(
    pairs: pd.DataFrame,
    recipe: SentenceRecipe | None = None,
    *,
    validation: pd.DataFrame,
    model_class: type[SentenceEncoder | CrossEncoder] | None = None,
    **resuming: Unpack[Resuming],
) -> SentenceEncoder | CrossEncoder:
    """Train a model, and keep the weights with the best score on validation.

    Training pairs that are also in validation are left out with a warning.

    Args:
        pairs: pairs or triplets, from `read_pairs`.
        recipe: how to train.
        validation: pairs or triplets that choose the weights.
        model_class: the class of the model; by default as the recipe says.
        **resuming: `checkpoints` and `resume`, see `domainbert.training.train.train`.

    Raises:
        UserError: pairs that do not fit the objective, no training pair outside of validation,
            or `resume` with other data or another recipe.
    """
    recipe = recipe or SentenceRecipe()
    is_cross = recipe.model.kind == "cross-encoder"
    if model_class is not None:
        is_cross = issubclass(model_class, CrossEncoder)
    training_pairs = without(pairs, validation)
    if training_pairs.empty:
        raise UserError(
            f"all {len(pairs)} pairs are in training and validation; train on other pairs"
        )
    n_shared = len(pairs) - len(training_pairs)
    if n_shared:
        log.warning(
            "%d of %d pairs are also in validation; left out of training",
            n_shared,
            len(pairs),
        )
    if is_cross:
        return _fit_cross(training_pairs, validation, recipe, **resuming)
    return fit_encoder(
        {"pairs": training_pairs}, validation, recipe, **resuming
    )


def fit_encoder(
    sets: Mapping[str, pd.DataFrame],
    validation: pd.DataFrame,
    recipe: SentenceRecipe,
    *,
    model_class: type[AnyEmbedder] = SentenceEncoder,  # type: ignore[assignment]
    objective_class: type[TextVectorsObjective] = TextVectorsObjective,
    **resuming: Unpack[Resuming],
) -> AnyEmbedder:
    """Train a bi-encoder on one or several sets of pairs.

    Args:
        sets: pairs or triplets by name, see `TextVectorsObjective`.
        validation: pairs that choose the weights.
        recipe: gives the `[model]` and `[training]` tables.
        model_class: `SentenceEncoder` or another embedder.
        objective_class: `TextVectorsObjective` or one derived from it.
        **resuming: see `fit`.

    Raises:
        UserError: see `TextVectorsObjective`; no row to train on, a share without adapters, or
            `resume` with other data or another recipe.
    """
    table = recipe.model
    training = recipe.training
    names = set(EmbeddingSettings.model_fields)
    settings = EmbeddingSettings(**table.model_dump(include=names))
    embedder = model_class.untrained(
        table.encoder,
        training=training,
        settings=settings,
    )
    objective = objective_class(
        embedder,
        sets,
        validation,
        objective=table.objective,
        training=training,
        scale=table.scale,
    )
    trained = _trained(
        embedder,
        objective,
        recipe,
        validation,
        share=table.share,
        **resuming,
    )
    trained.name = str(table.encoder)
    trained.manifest.training.objective = table.objective
    trained.manifest.data.counts = {
        f"training rows, {name}": len(pairs)
        for name, pairs in sets.items()
        if len(pairs)
    }
    return trained


def _fit_cross(
    pairs: pd.DataFrame,
    validation: pd.DataFrame,
    recipe: SentenceRecipe,
    **resuming: Unpack[Resuming],
) -> CrossEncoder:
    """A cross-encoder trained on rated pairs."""
    table = recipe.model
    training = recipe.training
    model = CrossEncoder.untrained(
        table.encoder,
        training=training,
        settings=PairSettings(window=table.window),
        labels=("score",),
    )
    objective = PairsObjective(
        model,
        pairs,
        validation,
        training=training,
        scale=table.scale,
    )
    trained = _trained(model, objective, recipe, validation, **resuming)
    trained.manifest.data.counts = {
        "pairs for training": len(pairs),
        "pairs to choose weights": len(validation),
    }
    return trained


def _trained(
    model: AnyModel,
    objective: Objective,
    recipe: SentenceRecipe,
    validation: pd.DataFrame,
    share: float = 1.0,
    **resuming: Unpack[Resuming],
) -> AnyModel:
    """The model after training, with its scores on validation for its card."""
    trained = train(
        model,
        (objective, recipe.training),
        start=recipe.model.start,
        share=share,
        **resuming,
    )
    manifest = trained.manifest
    manifest.card = recipe.card
    manifest.scores = validation_scores(
        manifest,
        f"On {len(validation)} validation examples, which chose the weights.",
    )
    return trained


def validation_scores(manifest: Manifest, note: str) -> Scores:
    """The scores that chose the weights, for the card."""
    column: dict[str, Value] = {
        name: score
        for name, score in manifest.training.validation.items()
        if score is not None
    }
    return Scores(table={"validation": column}, note=note)
