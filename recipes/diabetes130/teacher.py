"""Training targets with less noise, from a bag of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

WEIGHT = 0.7


def teacher_targets(
    rows: pd.DataFrame, *, weight: float = WEIGHT
) -> np.ndarray:
    """(1 - weight) label + weight teacher, shape (rows,).

    A bag of words learns the coarse part of the risk from few stays; its out-of-fold predictions
    pass it on to the network (knowledge distillation, Hinton et al., arXiv 1503.02531). A stay's
    teacher was trained on other patients.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    words = TfidfVectorizer(
        ngram_range=(1, 2), min_df=2, sublinear_tf=True, dtype=np.float32
    )
    teacher = make_pipeline(words, LogisticRegression(C=0.3, max_iter=1000))
    texts = list(map(_joined, rows["text"]))
    labels = rows["readmitted"].to_numpy(dtype=np.float64)
    patients = rows["patient_id"]
    probabilities = cross_val_predict(
        teacher,
        texts,
        labels,
        groups=patients,
        cv=GroupKFold(5),
        method="predict_proba",
    )
    return (1 - weight) * labels + weight * probabilities[:, 1]


def _joined(notes: str | Sequence[str]) -> str:
    if isinstance(notes, str):
        return notes
    return "\n".join(notes)
