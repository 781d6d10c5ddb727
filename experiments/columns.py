"""What the columns of the diabetes table say that the readmission model does not read in the note.

Boosting on the source's columns and TF-IDF on the notes are the yardsticks, alone and together with
the model, with weights fitted on the validation side. Then each column is permuted on that side,
under two models of the outcome: the columns alone, and the columns with the readmission model's
log-odds beside them, fitted in folds of patients. A column that matters in both is one that the
model does not read.

    python experiments/columns.py --data ../shared/data/readmission
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import typer
from scipy.special import logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import GroupKFold

import clinical
from clinical.datasets import icd9
from clinical.datasets.diabetes130 import build_diabetes130
from clinical.evaluation.baselines import baselines
from domainbert.tables import read_table

LEFT_OUT = {"encounter_id", "patient_nbr", "readmitted"}
FOLDS, REPEATS, COMMON = 5, 5, 200


def features(source: pd.DataFrame) -> pd.DataFrame:
    """Numbers as numbers, other columns as codes; values rarer than COMMON are one value."""
    columns = {}
    for name in source.columns.difference(list(LEFT_OUT)):
        numbers = pd.to_numeric(source[name], errors="coerce")
        if numbers.notna().all() and not name.endswith("_id"):
            columns[name] = numbers.astype(float)
        else:
            value = source[name].str.slice(stop=3) if name.startswith("diag_") else source[name]
            counts = value.map(value.value_counts())
            codes = value.where(counts >= COMMON, "rare").astype("category").cat.codes
            columns[name] = codes.astype("category")
    return pd.DataFrame(columns)


def boosting() -> HistGradientBoostingClassifier:
    """Boosting as scikit-learn has it, with small steps."""
    return HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=300, min_samples_leaf=50, l2_regularization=1.0,
        categorical_features="from_dtype", early_stopping=True, random_state=0,
    )  # fmt: skip


def quality(y: np.ndarray, risk: np.ndarray) -> str:
    """AUROC and AUPRC."""
    return f"AUROC {roc_auc_score(y, risk):.3f}, AUPRC {average_precision_score(y, risk):.3f}"


def falls(table: pd.DataFrame, y: np.ndarray, groups: np.ndarray) -> pd.Series:
    """Mean fall of AUPRC when a column is permuted, over folds of patients."""
    random = np.random.default_rng(0)
    found: dict[str, list[float]] = {name: [] for name in table}
    for fit, rest in GroupKFold(FOLDS).split(table, y, groups):
        model, kept = boosting().fit(table.iloc[fit], y[fit]), table.iloc[rest]
        whole = average_precision_score(y[rest], model.predict_proba(kept)[:, 1])
        for name in table:
            for _ in range(REPEATS):
                mixed = kept.assign(**{name: kept[name].to_numpy()[random.permutation(len(kept))]})
                if isinstance(kept[name].dtype, pd.CategoricalDtype):
                    mixed[name] = mixed[name].astype(kept[name].dtype)
                risk = model.predict_proba(mixed)[:, 1]
                found[name].append(whole - average_precision_score(y[rest], risk))
    return pd.Series({name: float(np.mean(values)) for name, values in found.items()})


def main() -> None:
    """Print the yardstick and the columns that matter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/readmission"))
    parser.add_argument("--model", default="readmission-diabetes130")
    asked = parser.parse_args()
    cohort = build_diabetes130(asked.data)
    path = icd9.source_file(asked.data, icd9.ENCOUNTERS)
    table = features(read_table(path).fillna(""))
    side = {name: (cohort["split"] == name).to_numpy() for name in ("train", "val", "test")}
    y = cohort["readmitted"].to_numpy()
    fitted = boosting().fit(table[side["train"]], y[side["train"]])
    words = baselines(*(cohort[side[name]] for name in side))["TF-IDF"]
    model = clinical.ReadmissionModel.from_pretrained(asked.model)
    odds = {}
    for name, of_words in (("val", words.validation), ("test", words.test)):
        read = model.predict_many(cohort.loc[side[name], "text"])
        risks = {
            "boosting on the columns": fitted.predict_proba(table[side[name]])[:, 1],
            "TF-IDF": of_words,
            asked.model: np.array([risk.probability for risk in read]),
        }
        for ranker, risk in risks.items():
            typer.echo(f"{ranker}, {name}: {quality(y[side[name]], risk)}")
        odds[name] = np.column_stack([logit(risk) for risk in risks.values()])
    together = LogisticRegression().fit(odds["val"], y[side["val"]])
    risk = together.predict_proba(odds["test"])[:, 1]
    typer.echo(f"all three, weighted on val, test: {quality(y[side['test']], risk)}")
    kept, y = cohort[side["val"]], y[side["val"]]
    columns, groups = table[side["val"]], kept["patient_id"].to_numpy()
    shown = pd.DataFrame(
        {
            "columns alone": falls(columns, y, groups),
            "beside the model": falls(columns.assign(model=odds["val"][:, -1]), y, groups),
        }
    )
    typer.echo(shown.sort_values("beside the model", ascending=False).head(15).to_string())


if __name__ == "__main__":
    main()
