"""Train sentence models by a recipe: bi-encoders by four objectives, and cross-encoders."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
from domainbert.errors import UserError
from domainbert.pairs import PairSettings
from domainbert.pooling import EmbeddingSettings, unit
from domainbert.settings import Positive, Settings
from domainbert.training.embedding import Objective, fit_embedder
from domainbert.training.library import fingerprint
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.sentences import fit_pairs, spearman

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from biomed.sentences.data import Examples
    from domainbert.embedding import Embedder
    from domainbert.pairs import PairModel

log = logging.getLogger(__name__)
Kind = Literal["bi-encoder", "cross-encoder"]
METRICS: dict[Objective, str] = {
    "contrastive": "mrr",
    "regression": "spearman",
    "classification": "separation",
    "triplet": "accuracy",
}


class SentenceTable(ModelTable, EmbeddingSettings):
    """The `[model]` table: the encoder, pooling (of bi-encoders), and what is trained.

    Attributes:
        kind: "bi-encoder" (a vector per text) or "cross-encoder" (two texts read together).
        objective: of a bi-encoder, see `domainbert.training.embedding.make_loss`.
        difference: whether the objective "classification" sees |u - v|.
        join: of a cross-encoder, how the windows of a long second text are joined.
    """

    kind: Kind = "bi-encoder"
    objective: Objective = "regression"
    difference: bool = True
    join: Literal["mean", "max"] = "mean"


class DataTable(Settings):
    """The `[data]` table.

    Attributes:
        scale: the largest score of the pairs, such as 5 for the STS benchmark.
    """

    scale: Positive = 1.0


class SentenceRecipe(Recipe):
    """A recipe of sentence models.

    Attributes:
        model: what to train.
        data: how to read the pairs.
    """

    model: SentenceTable = SentenceTable()
    data: DataTable = DataTable()


def train_from_recipe(
    recipe: SentenceRecipe,
    train: Examples,
    validation: Examples,
    *,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> SentenceEncoder | PairModel:
    """Train a model; the weights that do best on validation are kept.

    A cross-encoder reads a triplet as two pairs, with the scores 1 and 0. Pairs of the training
    side that are in validation too are left out, with a warning.

    Args:
        recipe: the plan.
        train: pairs or triplets.
        validation: others.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there.

    Raises:
        UserError: examples that do not fit the objective, no pair that is not in validation, or
            `resume` with other data or another recipe.
    """
    given, train = len(train), train.without(validation)
    if not train:
        msg = f"all {given} pairs are in training and validation; train on others"
        raise UserError(msg)
    if shared := given - len(train):
        log.warning("%d of %d pairs are in validation too; left out of training", shared, given)
    model = recipe.model
    trained: SentenceEncoder | PairModel
    place: dict[str, Any] = {"checkpoints": checkpoints, "resume": resume}
    if model.kind == "cross-encoder":
        trained = _fit_cross(recipe, train, validation, **place)
    else:
        trained = _fit_bi(recipe, train, validation, **place)
    trained.manifest |= {
        "card": recipe.card.model_dump(),
        "scores": {"validation": trained.manifest["validation"]},
        "scores_note": f"On {len(validation)} validation examples, which chose the weights.",
    }
    return trained


def _fit_cross(
    recipe: SentenceRecipe, train: Examples, validation: Examples, **place: Any
) -> PairModel:
    train, validation = train.labelled(), validation.labelled()
    labels = _classes(recipe, train, validation)
    model = recipe.model
    sides: list[list[tuple[str, str, Any]]] = []
    for part in (train, validation):
        targets = part.labels if labels else part.scores(recipe.data.scale)
        sides.append(list(zip(part.first, part.second, targets, strict=True)))
    return fit_pairs(
        sides[0],
        validation=sides[1],
        encoder=model.encoder,
        training=recipe.training,
        settings=PairSettings(window=model.window, join=model.join),
        labels=labels,
        model_class=CrossEncoder,
        **place,
    )


def _fit_bi(
    recipe: SentenceRecipe, train: Examples, validation: Examples, **place: Any
) -> SentenceEncoder:
    model = recipe.model
    classes = _classes(recipe, train, validation) if model.objective == "classification" else ()
    names = set(EmbeddingSettings.model_fields)
    return fit_embedder(
        {"pairs": _columns(train, recipe)},
        objective=model.objective,
        score=scorer(model.objective, validation, scale=recipe.data.scale),
        metric=METRICS[model.objective],
        encoder=model.encoder,
        training=recipe.training,
        settings=EmbeddingSettings(**model.model_dump(include=names)),
        labels=classes,
        difference=model.difference,
        model_class=SentenceEncoder,
        validation=_columns(validation, recipe),
        split=fingerprint(asdict(validation)),
        **place,
    )


def _classes(recipe: SentenceRecipe, train: Examples, validation: Examples) -> tuple[str, ...]:
    """The class names, sorted; none where labels are scores."""
    if recipe.model.kind == "cross-encoder" and all(map(_is_number, train.labels)):
        return ()
    found = tuple(sorted(set(train.labels)))
    if len(found) < 2:
        msg = f"classification needs two classes or more in the column `label`, got {len(found)}"
        raise UserError(msg)
    if new := sorted(set(validation.labels) - set(found)):
        msg = f"validation has the class {new[0]!r}, which training has not"
        raise UserError(msg)
    return found


def _columns(examples: Examples, recipe: SentenceRecipe) -> dict[str, list[Any]]:
    objective = recipe.model.objective
    columns: dict[str, list[Any]] = {"first": examples.first, "second": examples.second}
    if objective == "triplet" and not examples.third:
        raise UserError("triplets need a column `negative`")
    if examples.third and objective in ("triplet", "contrastive"):
        columns["third"] = examples.third
    if objective == "regression":
        columns["label"] = examples.scores(recipe.data.scale)
    elif objective == "classification":
        columns["label"] = examples.labels
    return columns


def scorer(
    objective: Objective, examples: Examples, *, scale: float
) -> Callable[[Embedder, Any], dict[str, float]]:
    """(embedder, network) -> the metric of an objective on validation.

    "mrr" is the mean reciprocal rank of a row's second text among all second texts; "spearman"
    correlates cosines with scores; "separation" is the share of the cosines' variance that the
    classes explain; "accuracy" is the share of triplets whose positive is nearer.
    """
    expected = np.array(examples.scores(scale)) if objective == "regression" else None
    columns = [examples.first, examples.second]
    columns += [examples.third] if objective == "triplet" else []
    texts = list(dict.fromkeys(text for column in columns for text in column))
    place = {text: row for row, text in enumerate(texts)}
    rows = [[place[text] for text in column] for column in columns]
    if objective == "triplet" and not examples.third:
        raise UserError("triplets need a column `negative`, in validation too")

    def score(embedder: Embedder, network: Any) -> dict[str, float]:
        vectors = embedder.vectors_of(texts, network=network)
        u, v, *rest = (vectors[index] for index in rows)
        if objective == "triplet":
            near, far = (np.linalg.norm(u - other, axis=1) for other in (v, rest[0]))
            return {"accuracy": float((near < far).mean())}
        u, v = unit(u), unit(v)
        if objective == "contrastive":
            cosines = u @ v.T
            own = np.diag(cosines)[:, None]
            return {"mrr": float((1 / (1 + (cosines > own).sum(axis=1))).mean())}
        cosine = (u * v).sum(axis=1)
        if expected is not None:
            return {"spearman": spearman(cosine, expected)}
        return {"separation": _explained(cosine, examples.labels)}

    return score


def _explained(values: np.ndarray, labels: Sequence[str]) -> float:
    """The share of the variance between classes, in [0, 1]."""
    names = np.array(labels)
    means = {name: values[names == name].mean() for name in set(labels)}
    between = ((np.array([means[name] for name in labels]) - values.mean()) ** 2).sum()
    total = ((values - values.mean()) ** 2).sum()
    return float(between / total) if total else 0.0


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
