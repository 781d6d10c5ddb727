"""Train and measure a model of ICD-10 categories on CodiEsp.

python -m recipes.codiesp FOLDER --out MODEL
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import typer

from clinical.evaluation.baselines import word_values
from clinical.evaluation.diagnoses import (
    SHARES,
    evaluate_diagnoses,
)
from clinical.evaluation.measures import RANKING_MEASURES
from clinical.stays.cohorts import EVIDENCE, labels_of
from clinical.training.diagnoses import (
    DiagnosisRecipe,
    fit,
    group_rows,
    refit,
)
from recipes.codiesp.alignment import english_lines
from recipes.codiesp.cases import build_cohort
from recipes.commands import training_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from clinical.risk.diagnoses import DiagnosisModel

TFIDF: Final = "TF-IDF of the case"
TFIDF_LINES: Final = "TF-IDF of its lines"
_NOTE: Final = (
    "On CodiEsp's 250 dev cases, by a model that was trained on the 500 training cases alone; the "
    "calibrators and thresholds were fitted on these 250, so F1 is a little optimistic. 95% "
    "intervals by bootstrapping cases."
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
    """Train on train, choose, calibrate and measure on dev, then train anew on both."""
    cohort = build_cohort(folder)
    names = titles()
    steps = dict.fromkeys(("measured", "both"), checkpoints)
    if checkpoints:
        steps = {name: checkpoints / name for name in steps}
    measured = fit(
        cohort,
        recipe,
        names=names,
        checkpoints=steps["measured"],
        resume=resume,
        record_patients=False,
    )
    record(measured, cohort, model_values(measured, cohort))
    return refit(
        measured,
        cohort,
        recipe,
        checkpoints=steps["both"],
        resume=resume,
        record_patients=False,
    )


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
    for measure in RANKING_MEASURES:
        column = manifest.scores.table.setdefault("model - TF-IDF", {})
        column[measure] = difference[measure]
    manifest.by_group = group_rows(evaluations["model"])


def model_values(model: DiagnosisModel, cohort: pd.DataFrame) -> np.ndarray:
    """The probabilities of the side "val", shape (cases, groups)."""
    rows = cohort[cohort["split"] == "val"]
    stays = model.predict_many(rows["text"])
    return np.array(
        [[stay[group].probability for group in model.labels] for stay in stays]
    )


def baseline_values(
    train: pd.DataFrame, new: pd.DataFrame, groups: Sequence[str]
) -> dict[str, np.ndarray]:
    """Values of each baseline for new cases, each of shape (cases, groups).

    `TFIDF_LINES` learns from the places of the codes, as the model does: a line has the groups
    whose place it contains, and the highest value of a line is that of the case.
    """
    labels = labels_of(train, groups)
    texts = ["\n".join(notes) for notes in train["text"]]
    new_texts = ["\n".join(notes) for notes in new["text"]]
    values = {
        TFIDF: word_values(texts, labels, new_texts),
        SHARES: np.tile(labels.mean(axis=0), (len(new), 1)),
    }
    lines, line_labels = _labelled_lines(train, groups)
    new_lines = [_lines(text) for text in new_texts]
    of_lines = word_values(
        lines, line_labels, [line for case in new_lines for line in case]
    )
    starts = np.cumsum([0, *map(len, new_lines)])[:-1]
    values[TFIDF_LINES] = np.maximum.reduceat(of_lines, starts)
    return values


def _lines(text: str) -> list[str]:
    return [
        text[start:end] for start, end in english_lines(text) if end > start
    ]


def _labelled_lines(
    rows: pd.DataFrame, groups: Sequence[str]
) -> tuple[list[str], np.ndarray]:
    """The lines of all cases, and the groups whose middle they contain."""
    numbers = {group: number for number, group in enumerate(groups)}
    texts: list[str] = []
    labels = []
    for notes, places in zip(rows["text"], rows[EVIDENCE], strict=True):
        for start, end in english_lines(notes[0]):
            if end == start:
                continue
            row = np.zeros(len(groups))
            for place in places:
                middle = (place["start"] + place["end"]) / 2
                if place["group"] in numbers and start <= middle <= end:
                    row[numbers[place["group"]]] = 1
            texts.append(notes[0][start:end])
            labels.append(row)
    return texts, np.stack(labels)


main = training_command("diagnoses-codiesp", DiagnosisRecipe, make_model)


if __name__ == "__main__":
    typer.run(main)
