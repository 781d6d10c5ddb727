"""Train sentence models by a recipe: bi-encoders by four objectives, and cross-encoders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import numpy as np
from pydantic import Field

from biomed.sentences.data import labelled, scores, without
from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
from domainbert.errors import UserError
from domainbert.models.pairs import PairSettings
from domainbert.models.pooling import EmbeddingSettings, unit
from domainbert.settings import Positive, Settings
from domainbert.training.pairs import fit_pairs, spearman
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.sentences import Kind, fit_embedder

if TYPE_CHECKING:
    import pandas as pd

    from domainbert.models.embedder import Embedder

AnyEmbedder = TypeVar("AnyEmbedder", bound="Embedder")
log = logging.getLogger(__name__)
METRICS: dict[Kind, str] = {
    "contrastive": "mrr",
    "regression": "spearman",
    "classification": "separation",
    "triplet": "accuracy",
}
_TIE = 1e-6  # cosines that differ by less count as equal


class SentenceTable(ModelTable, EmbeddingSettings):
    """The `[model]` table: the encoder, pooling (of bi-encoders), and what is trained.

    Attributes:
        kind: "bi-encoder" (a vector per text) or "cross-encoder" (two texts read together).
        objective: of a bi-encoder, see `domainbert.training.sentences.TextVectorsObjective`.
        share: of a bi-encoder, the share of the trained change that is kept; 0.5 averages the
            trained weights with the plain encoder's.
    """

    kind: Literal["bi-encoder", "cross-encoder"] = "bi-encoder"
    objective: Kind = "regression"
    share: Annotated[float, Field(gt=0, le=1)] = 1.0


class DataTable(Settings):
    """The `[data]` table.

    Attributes:
        scale: the largest score of the pairs, such as 5 for the STS benchmark.
    """

    scale: Positive = 1.0


class SentenceRecipe(Recipe):
    """A recipe of sentence models."""

    model: SentenceTable = SentenceTable()
    data: DataTable = DataTable()


def train_from_recipe(
    recipe: SentenceRecipe,
    train: pd.DataFrame,
    validation: pd.DataFrame,
    **place: Any,
) -> SentenceEncoder | CrossEncoder:
    """Train a model; the weights that do best on validation are kept.

    A cross-encoder reads a triplet as two pairs, with the scores 1 and 0. Pairs of the training
    side that are in validation too are left out, with a warning.

    Args:
        recipe: the plan.
        train: pairs or triplets, from `read_pairs`.
        validation: others.
        **place: `checkpoints` and `resume`, see `domainbert.training.train.train`.

    Raises:
        UserError: pairs that do not fit the objective, no pair that is not in validation, or
            `resume` with other data or another recipe.
    """
    given, train = len(train), without(train, validation)
    if train.empty:
        raise UserError(f"all {given} pairs are in training and validation; train on others")
    if shared := given - len(train):
        log.warning("%d of %d pairs are in validation too; left out of training", shared, given)
    trained: SentenceEncoder | CrossEncoder
    if recipe.model.kind == "cross-encoder":
        trained = _fit_cross(recipe, train, validation, **place)
    else:
        trained = fit_encoder({"pairs": train}, validation, recipe, **place)
    trained.manifest |= {
        "card": recipe.card.model_dump(),
        "scores": {"validation": trained.manifest["validation"]},
        "scores_note": f"On {len(validation)} validation examples, which chose the weights.",
    }
    return trained


def _fit_cross(
    recipe: SentenceRecipe, train: pd.DataFrame, validation: pd.DataFrame, **place: Any
) -> CrossEncoder:
    sides: list[list[tuple[str, str, float]]] = []
    for part in map(labelled, (train, validation)):
        targets = scores(part, recipe.data.scale).tolist()
        sides.append(list(zip(part["first"], part["second"], targets, strict=True)))
    model = recipe.model
    trained = fit_pairs(
        sides[0],
        validation=sides[1],
        encoder=model.encoder,
        training=recipe.training,
        settings=PairSettings(window=model.window),
        model_class=CrossEncoder,
        **place,
    )
    return cast("CrossEncoder", trained)


def fit_encoder(
    sets: Mapping[str, pd.DataFrame],
    validation: pd.DataFrame,
    recipe: SentenceRecipe,
    *,
    model_class: type[AnyEmbedder] = SentenceEncoder,  # type: ignore[assignment]
    **place: Any,
) -> AnyEmbedder:
    """Train a bi-encoder on one set of pairs or several; a batch comes from one set.

    Args:
        sets: pairs or triplets by name. For the objective "contrastive" they may have a column
            `key` that says what a row is about: rows with one key never share a batch.
        validation: pairs that choose the weights, see `scorer`.
        recipe: its `[model]`, `[data]` and `[training]` tables.
        model_class: `SentenceEncoder` or another embedder.
        **place: see `train_from_recipe`.

    Raises:
        UserError: pairs that do not fit the objective, none to train on, or `resume` with other
            data or another recipe.
    """
    import pandas as pd

    model = recipe.model
    classes: tuple[str, ...] = ()
    if model.objective == "classification":
        classes = _classes(pd.concat(sets.values()), validation)
    return fit_embedder(
        {name: _columns(pairs, recipe) for name, pairs in sets.items()},
        objective=model.objective,
        score=scorer(model.objective, validation, scale=recipe.data.scale),
        metric=METRICS[model.objective],
        encoder=model.encoder,
        training=recipe.training,
        settings=EmbeddingSettings(**model.model_dump(include=set(EmbeddingSettings.model_fields))),
        labels=classes,
        share=model.share,
        model_class=model_class,
        validation=_columns(validation, recipe),
        **place,
    )


def _classes(train: pd.DataFrame, validation: pd.DataFrame) -> tuple[str, ...]:
    """The class names, sorted."""
    names = tuple(sorted(set(train["label"]))) if "label" in train.columns else ()
    if len(names) < 2:
        msg = f"classification needs two classes or more in the column `label`, got {len(names)}"
        raise UserError(msg)
    if new := sorted(set(validation.get("label", ())).difference(names)):
        raise UserError(f"validation has the class {new[0]!r}, which training has not")
    return names


def _columns(pairs: pd.DataFrame, recipe: SentenceRecipe) -> dict[str, list[Any]]:
    """What the objective reads of the pairs."""
    objective = recipe.model.objective
    if objective == "triplet" and "negative" not in pairs.columns:
        raise UserError("triplets need a column `negative`, in validation too")
    names = ["first", "second"]
    if objective in ("contrastive", "triplet"):
        names += [name for name in ("negative", "key") if name in pairs.columns]
    columns: dict[str, list[Any]] = {name: pairs[name].tolist() for name in names}
    if objective == "regression":
        columns["label"] = scores(pairs, recipe.data.scale).tolist()
    elif objective == "classification":
        columns["label"] = pairs["label"].tolist()
    return columns


def scorer(
    objective: Kind, pairs: pd.DataFrame, *, scale: float = 1.0
) -> Callable[[Embedder, Any], dict[str, float]]:
    """(embedder, network) -> the metric of an objective on validation.

    "mrr" is the mean reciprocal rank of a row's second text among all second texts; "spearman"
    correlates cosines with scores; "separation" is the share of the cosines' variance that the
    classes explain; "accuracy" is the share of triplets whose positive is nearer.
    """
    expected = scores(pairs, scale) if objective == "regression" else np.empty(0)
    names = ["first", "second", *(["negative"] if objective == "triplet" else [])]
    texts = list(dict.fromkeys(text for name in names for text in pairs[name]))
    place = {text: row for row, text in enumerate(texts)}
    rows = [pairs[name].map(place).to_numpy() for name in names]

    def score(embedder: Embedder, network: Any) -> dict[str, float]:
        vectors = embedder.vectors_of(texts, network=network)
        if objective == "triplet":
            near, far = (np.linalg.norm(vectors[rows[0]] - vectors[r], axis=1) for r in rows[1:])
            return {"accuracy": float((near < far).mean())}
        vectors = unit(vectors)
        u, v = vectors[rows[0]], vectors[rows[1]]
        cosine = (u * v).sum(axis=1)
        if objective == "contrastive":
            all_seconds = vectors[np.unique(rows[1])]
            nearer = (u @ all_seconds.T > cosine[:, None] + _TIE).sum(axis=1)
            return {"mrr": float((1 / (1 + nearer)).mean())}
        if objective == "regression":
            return {"spearman": spearman(cosine, expected)}
        return {"separation": _explained(cosine, pairs["label"])}

    return score


def _explained(values: np.ndarray, labels: pd.Series) -> float:
    """The share of the variance between classes, in [0, 1]."""
    means = {name: values[(labels == name).to_numpy()].mean() for name in set(labels)}
    spread = np.var(values)
    return float(np.var(labels.map(means).to_numpy()) / spread) if spread else 0.0
