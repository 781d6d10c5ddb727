"""Train and measure a model of ICD-10 categories on CodiEsp.

python -m recipes.codiesp FOLDER --out MODEL
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import typer

from clinical.evaluation.diagnoses import (
    MEASURES,
    DiagnosisEvaluation,
    evaluate_diagnoses,
)
from clinical.stays.diagnoses import coded_stays, labels_of
from clinical.training.diagnoses import (
    DiagnosisObjective,
    DiagnosisRecipe,
    fit,
)
from domainbert.training.train import train
from recipes.codiesp.baselines import TFIDF, baseline_values
from recipes.codiesp.cases import build_cohort
from recipes.commands import training_command

if TYPE_CHECKING:
    from clinical.risk.diagnoses import DiagnosisModel

MORE_EPOCHS: Final = 1.5  # on all cases, after the choice on dev
_NOTE: Final = (
    "On CodiEsp's 250 dev cases, by the model that had read the 500 training cases alone; the same "
    "cases chose the weights, so the model's numbers are a little optimistic. 95% intervals by "
    "bootstrapping cases."
)


def titles() -> dict[str, str]:
    """The names of the categories."""
    path = Path(__file__).with_name("titles.csv")
    with path.open(encoding="utf-8", newline="") as lines:
        return {row["code"]: row["title"] for row in csv.DictReader(lines)}


def make_model(
    recipe: DiagnosisRecipe,
    folder: Path,
    *,
    checkpoints: Path | None = None,
    resume: bool = False,
) -> DiagnosisModel:
    """Train on train, measure and calibrate on dev, then go on with all cases."""
    cohort = build_cohort(folder)
    model = fit(
        cohort,
        recipe,
        names=titles(),
        checkpoints=checkpoints and checkpoints / "first",
        resume=resume,
        record_patients=False,
    )
    record(model, cohort)
    return more_cases(
        model,
        cohort,
        recipe,
        checkpoints=checkpoints and checkpoints / "second",
        resume=resume,
    )


def record(model: DiagnosisModel, cohort: pd.DataFrame) -> None:
    """Add how the model and the baselines do on the side "val" to the manifest."""
    sides = dict(list(cohort.groupby("split")))
    new = sides["val"]
    labels = labels_of(new, model.labels)
    values = {"model": model_values(model, new)}
    values |= baseline_values(sides["train"], new, model.labels)
    evaluations = {
        name: evaluate_diagnoses(
            labels,
            np.clip(numbers, 0, 1),
            groups=model.labels,
            patients=new["patient_id"],
            thresholds=model.settings.thresholds if name == "model" else {},
            calibrated=model.settings.calibration if name == "model" else (),
        )
        for name, numbers in values.items()
    }
    manifest = model.manifest
    manifest.scores.note = _NOTE
    for name, evaluation in evaluations.items():
        for measure, interval in evaluation.overall.items():
            manifest.scores.table.setdefault(name, {})[measure] = interval
    difference = evaluations["model"].minus(evaluations[TFIDF])
    for measure in MEASURES:
        column = manifest.scores.table.setdefault("model - TF-IDF", {})
        column[measure] = difference[measure]
    manifest.by_group = group_rows(evaluations["model"])


def group_rows(evaluation: DiagnosisEvaluation) -> list[dict[str, Any]]:
    """The groups that were measured, with their intervals as text."""
    rows = []
    for row in evaluation.by_group.to_dict("records"):
        if np.isnan(row["auroc"]):
            continue
        texts = {
            f"{name}_text": (
                f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"
            )
            for name in ("auroc", "auprc")
        }
        numbers = {
            name: None if value != value else value
            for name, value in row.items()
        }
        rows.append(numbers | texts)
    return rows


def model_values(model: DiagnosisModel, rows: pd.DataFrame) -> np.ndarray:
    """The probabilities of cases, shape (cases, groups)."""
    stays = model.predict_many(rows["text"])
    return np.array(
        [[stay[group].probability for group in model.labels] for stay in stays]
    )


def more_cases(
    model: DiagnosisModel,
    cohort: pd.DataFrame,
    recipe: DiagnosisRecipe,
    *,
    checkpoints: Path | None,
    resume: bool,
) -> DiagnosisModel:
    """Go on training with the cases of both sides; settings and manifest stay."""
    rows, _ = coded_stays(cohort)
    rows = pd.concat(
        [rows.assign(split="train"), rows[rows["split"] == "val"]],
        ignore_index=True,
    )
    training = recipe.training.replaced(
        epochs=MORE_EPOCHS, seed=recipe.training.seed + 1
    )
    longer = type(model).untrained(
        recipe.model.encoder,
        training=training,
        settings=model.settings,
        labels=model.labels,
    )
    objective = DiagnosisObjective(
        longer, rows, table=recipe.model, training=training
    )
    with tempfile.TemporaryDirectory() as start:
        model.save_pretrained(Path(start) / "start")
        trained = train(
            longer,
            (objective, training),
            start=str(Path(start) / "start"),
            checkpoints=checkpoints,
            resume=resume,
        )
    manifest = model.manifest
    manifest.training.stages += trained.manifest.training.stages
    manifest.training.facts += trained.manifest.training.facts
    trained.manifest = manifest
    return trained


if __name__ == "__main__":
    typer.run(
        training_command("diagnoses-codiesp", DiagnosisRecipe, make_model)
    )
