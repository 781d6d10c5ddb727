"""Train sentence models by a recipe: bi-encoders by four objectives, and cross-encoders."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field

from biomed.sentences.data import without
from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
from biomed.sentences.objectives import Kind, PairsObjective, TextVectorsObjective
from domainbert.errors import UserError
from domainbert.models.pairs import PairSettings
from domainbert.models.pooling import EmbeddingSettings
from domainbert.settings import Positive  # noqa: TC001  (pydantic reads it)
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.train import train

if TYPE_CHECKING:
    import pandas as pd

    from domainbert.models.embedder import Embedder
    from domainbert.models.model import Model

AnyEmbedder = TypeVar("AnyEmbedder", bound="Embedder")
AnyModel = TypeVar("AnyModel", bound="Model")
log = logging.getLogger(__name__)


class SentenceTable(ModelTable, EmbeddingSettings):
    """The `[model]` table: the encoder, pooling (of bi-encoders), and what is trained.

    Attributes:
        kind: "bi-encoder" (a vector per text) or "cross-encoder" (two texts read together).
        objective: of a bi-encoder, see `TextVectorsObjective`.
        share: of a bi-encoder, the share of the trained change that is kept; 0.5 averages the
            trained weights with the plain encoder's.
        scale: the largest score of the pairs, such as 5 for the STS benchmark.
    """

    kind: Literal["bi-encoder", "cross-encoder"] = "bi-encoder"
    objective: Kind = "regression"
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    scale: Positive = 1.0


class SentenceRecipe(Recipe):
    """A recipe of sentence models."""

    model: SentenceTable = SentenceTable()


def train_from_recipe(
    recipe: SentenceRecipe, pairs: pd.DataFrame, validation: pd.DataFrame, **place: Any
) -> SentenceEncoder | CrossEncoder:
    """Train a model; the weights that do best on validation are kept.

    Pairs of the training side that are in validation too are left out, with a warning.

    Args:
        recipe: the plan.
        pairs: pairs or triplets, from `read_pairs`.
        validation: others.
        **place: `checkpoints` and `resume`, see `domainbert.training.train.train`.

    Raises:
        UserError: pairs that do not fit the objective, no pair that is not in validation, or
            `resume` with other data or another recipe.
    """
    given, pairs = len(pairs), without(pairs, validation)
    if pairs.empty:
        raise UserError(
            f"all {given} pairs are in training and validation; train on others"
        )
    if shared := given - len(pairs):
        log.warning(
            "%d of %d pairs are in validation too; left out of training", shared, given
        )
    if recipe.model.kind == "cross-encoder":
        return _fit_cross(pairs, validation, recipe, **place)
    return fit_encoder({"pairs": pairs}, validation, recipe, **place)


def fit_encoder(
    sets: Mapping[str, pd.DataFrame],
    validation: pd.DataFrame,
    recipe: SentenceRecipe,
    *,
    model_class: type[AnyEmbedder] = SentenceEncoder,  # type: ignore[assignment]
    **place: Any,
) -> AnyEmbedder:
    """Train a bi-encoder on one set of pairs or several.

    Args:
        sets: pairs or triplets by name, see `TextVectorsObjective`.
        validation: pairs that choose the weights.
        recipe: its `[model]` and `[training]` tables.
        model_class: `SentenceEncoder` or another embedder.
        **place: see `train_from_recipe`.

    Raises:
        UserError: see `TextVectorsObjective`; no row to train on, a share without adapters, or
            `resume` with other data or another recipe.
    """
    model, training = recipe.model, recipe.training
    settings = EmbeddingSettings(
        **model.model_dump(include=set(EmbeddingSettings.model_fields))
    )
    embedder = model_class.untrained(
        model.encoder, training=training, settings=settings
    )
    objective = TextVectorsObjective(
        embedder,
        sets,
        validation,
        kind=model.objective,
        training=training,
        scale=recipe.model.scale,
    )
    stage = (objective, training)
    place = {
        "encoder": model.encoder,
        "start": model.start,
        "share": model.share,
        **place,
    }
    trained = train(embedder, stage, **place)
    trained.name = str(model.encoder)
    counts = {
        f"training rows, {name}": len(pairs)
        for name, pairs in sets.items()
        if len(pairs)
    }
    trained.manifest |= {"objective": model.objective, "counts": counts}
    return _described(trained, recipe, validation)


def _fit_cross(
    pairs: pd.DataFrame, validation: pd.DataFrame, recipe: SentenceRecipe, **place: Any
) -> CrossEncoder:
    plan, training = recipe.model, recipe.training
    settings = PairSettings(window=plan.window)
    model = CrossEncoder.untrained(
        plan.encoder, training=training, settings=settings, labels=("score",)
    )
    objective = PairsObjective(
        model, pairs, validation, training=training, scale=plan.scale
    )
    trained = train(
        model, (objective, training), encoder=plan.encoder, start=plan.start, **place
    )
    trained.manifest["counts"] = {
        "pairs for training": len(pairs),
        "pairs to choose weights": len(validation),
    }
    return _described(trained, recipe, validation)


def _described(
    trained: AnyModel, recipe: SentenceRecipe, validation: pd.DataFrame
) -> AnyModel:
    """The model, with what its card says."""
    trained.manifest |= {
        "card": recipe.card.model_dump(),
        "scores": {"validation": trained.manifest["validation"]},
        "scores_note": f"On {len(validation)} validation examples, which chose the weights.",
    }
    return trained
