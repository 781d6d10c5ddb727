"""A bag-of-words teacher: training targets with less noise than 0 and 1.

One readmission is a coin toss with an unknown bias, so a network that learns from labels alone
needs a great many stays. A bag of words learns the coarse part of that bias from the same stays
in seconds. Its out-of-fold probabilities, mixed into the labels, hand that part to the network
(knowledge distillation, Hinton et al., arXiv 1503.02531), and the labels' share lets the network
go beyond it. The teacher sees training patients alone, and no stay is taught by a fold that held
its own patient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clinical.cohort.splits import assign_splits
from clinical.evaluation.bagofwords import fit_words, joined, learn_words, probabilities, vectorizer
from domainbert.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

FOLDS = 5
PENALTY = 0.3  # inverse strength, the middle of what serves cohorts of this kind


def targets(rows: pd.DataFrame, *, weight: float) -> np.ndarray:
    """Training targets: (1 - weight) label + weight teacher.

    Args:
        rows: training stays: `patient_id`, `text` (list of notes), `readmitted` (0/1).
        weight: of the teacher, in [0, 1].

    Returns:
        Shape (rows,), float64, in [0, 1].

    Raises:
        ValueError: a weight outside [0, 1].
    """
    if not 0 <= weight <= 1:
        msg = f"the teacher's weight must be between 0 and 1, got {weight}"
        raise UserError(msg)
    labels = rows["readmitted"].to_numpy(dtype=np.float64)
    if weight == 0:
        return labels
    return (1 - weight) * labels + weight * out_of_fold(rows)


def out_of_fold(rows: pd.DataFrame) -> np.ndarray:
    """Each stay's probability from a bag of words fitted on the other patients' folds.

    TF-IDF over words and word pairs with logistic regression; shape (rows,), in (0, 1).

    Raises:
        ValueError: all patients fall into one fold, or the others have one outcome only.
    """
    labels = rows["readmitted"].to_numpy(dtype=np.float64)
    folds = {str(k): 1 / FOLDS for k in range(FOLDS)}
    fold = assign_splits(rows["patient_id"], seed=1, fractions=folds)
    features = learn_words(vectorizer("TF-IDF", stays=len(rows)), joined(rows))
    if len(set(fold)) < 2:
        msg = f"{rows['patient_id'].nunique()} patients fall into one fold; a teacher needs more"
        raise UserError(msg)
    result = np.empty(len(rows))
    for held_out in np.unique(fold):
        inside = fold == held_out
        model = fit_words(features[~inside], labels[~inside], c=PENALTY)
        result[inside] = probabilities(model, features[inside])
    return result
