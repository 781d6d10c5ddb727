"""The recipe of a readmission model, one TOML file.

[model]      encoder, objective, teacher, window, c
[training]   the names of `domainbert.training.settings.TrainingSettings`
[card]       name, title, data, limits, licence, rebuild: what people should know
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from clinical.risk.aggregation import DEFAULT_C
from clinical.risk.model import ReadmissionModel, ReadmissionSettings
from domainbert.encoders import DEFAULT_ENCODER
from domainbert.tables import read_table
from domainbert.training.old.recipes import CARD_NAMES, read_recipe_tables, training_names
from domainbert.training.settings import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd


@dataclass(frozen=True)
class Recipe:
    """A training plan; see `clinical.risk.fitting.fit` for what its parts do."""

    training: TrainingSettings
    encoder: str = DEFAULT_ENCODER
    objective: str = "stay"
    teacher: float = 0.0
    window: int | None = None
    c: float = DEFAULT_C
    card: dict[str, str] = field(default_factory=dict)


def read_recipe(path: Path | None, **overrides: Any) -> Recipe:
    """Read a recipe, or start from the defaults; overrides that are not None win.

    Raises:
        ValueError: not TOML, or a table or name that means nothing, with the legal ones.
    """
    own = {f.name for f in fields(Recipe)} - {"training", "card"}
    settings = training_names()
    tables = read_recipe_tables(
        path, legal={"model": own, "training": settings, "card": CARD_NAMES}
    )
    given = {name: value for name, value in overrides.items() if value is not None}
    training = {**tables["training"], **{k: v for k, v in given.items() if k in settings}}
    model = {**tables["model"], **{k: v for k, v in given.items() if k in own}}
    return Recipe(training=TrainingSettings(**training), card=tables["card"], **model)


def train_from_recipe(
    recipe: Recipe,
    cohort_file: Path,
    *,
    also: Sequence[Path] = (),
    checkpoints: Path | None = None,
    resume: bool = False,
) -> ReadmissionModel:
    """Train by a recipe and measure on the cohort's test side, if it has one.

    Args:
        recipe: the plan.
        cohort_file: the cohort, a table file.
        also: more cohorts, whose train sides join in training and in the baselines'; their other
            sides are not used.
        checkpoints: folder that keeps the trainer's checkpoints.
        resume: go on from the last checkpoint there.
    """
    import pandas as pd

    from clinical.evaluation.assessment import assess

    cohort = pd.concat([read_table(cohort_file), *(_train_side(path) for path in also)])
    model = ReadmissionModel.fit(
        cohort,
        encoder=recipe.encoder,
        objective=recipe.objective,
        training=recipe.training,
        settings=ReadmissionSettings(window=recipe.window, c=recipe.c),
        teacher=recipe.teacher,
        checkpoints=checkpoints,
        resume=resume,
    )
    model.manifest["card"] = recipe.card
    if (cohort["split"] == "test").any():
        evaluations = assess(model, cohort).evaluations
        model.manifest["scores"] = {name: e.to_dict() for name, e in evaluations.items()}
    return model


def _train_side(path: Path) -> pd.DataFrame:
    """Another cohort's training rows, its patients kept apart by the file's name."""
    rows = read_table(path)
    rows = rows[rows["split"] == "train"]
    return rows.assign(patient_id=path.stem + ":" + rows["patient_id"].astype(str))
