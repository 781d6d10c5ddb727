"""Train and measure a model of ICD-10 categories on CodiEsp.

python -m recipes.codiesp FOLDER --out MODEL
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import typer

from clinical.evaluation.diagnoses import (
    MEASURES,
    DiagnosisEvaluation,
    evaluate_diagnoses,
)
from clinical.stays.diagnoses import labels_of
from clinical.training.diagnoses import DiagnosisRecipe, fit
from recipes.codiesp.baselines import TFIDF, baseline_values
from recipes.codiesp.cases import build_cohort
from recipes.commands import training_command

if TYPE_CHECKING:
    import pandas as pd

    from clinical.risk.diagnoses import DiagnosisModel

_NOTE: Final = (
    "On CodiEsp's 250 dev cases, which were not trained on; the calibrators and thresholds were "
    "fitted on them, so F1 is a little optimistic. 95% intervals by bootstrapping cases."
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
    """Train on train, then choose, calibrate and measure on dev."""
    cohort = build_cohort(folder)
    model = fit(
        cohort,
        recipe,
        names=titles(),
        checkpoints=checkpoints,
        resume=resume,
        record_patients=False,
    )
    record(model, cohort, model_values(model, cohort))
    return model


def record(
    model: DiagnosisModel, cohort: pd.DataFrame, values: np.ndarray
) -> None:
    """Add how the model and the baselines do on the side "val" to the manifest.

    `values` are the model's probabilities there, see `model_values`.
    """
    sides = dict(list(cohort.groupby("split")))
    new = sides["val"]
    labels = labels_of(new, model.labels)
    every_value = {"model": values}
    every_value |= baseline_values(sides["train"], new, model.labels)
    evaluations = {
        name: evaluate_diagnoses(
            labels,
            np.clip(numbers, 0, 1),
            groups=model.labels,
            patients=new["patient_id"],
            thresholds=model.settings.thresholds if name == "model" else {},
            calibrated=model.settings.calibration if name == "model" else (),
        )
        for name, numbers in every_value.items()
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


def model_values(model: DiagnosisModel, cohort: pd.DataFrame) -> np.ndarray:
    """The probabilities of the side "val", shape (cases, groups)."""
    rows = cohort[cohort["split"] == "val"]
    stays = model.predict_many(rows["text"])
    return np.array(
        [[stay[group].probability for group in model.labels] for stay in stays]
    )


main = training_command("diagnoses-codiesp", DiagnosisRecipe, make_model)


if __name__ == "__main__":
    typer.run(main)
