"""ReadmissionClassifier: the readmission model as a scikit-learn estimator."""

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from clinical.stays.patients import patient_keys
from clinical.training.training import (
    ReadmissionRecipe,
    fit,
    patient_folds,
)
from domainbert.encoders.loading import DEFAULT_ENCODER
from domainbert.errors import UserError

log = logging.getLogger(__name__)


class ReadmissionClassifier(ClassifierMixin, BaseEstimator):
    """Fit and predict readmission from notes with scikit-learn's interface.

    All notes are read. Pass the patient of each stay, so that the inner split keeps patients
    together: as the column `group` of X, or as `groups`, which `fit` requests if metadata routing
    is enabled.

    Args:
        encoder: shipped name, folder or hub:owner/name.
        objective: "stay" or "window"; see `clinical.training.training.ReadmissionTable`.
        epochs: passes over the training stays.
        learning_rate: peak learning rate.
        validation_fraction: share of the patients that is held out for early stopping and
            calibration.
        calibration: "validation", or "cross-fitted" for few stays; see `ReadmissionTable`.
        full: train all weights instead of a LoRA adapter.
        random_state: seed.

    Attributes:
        model_: the trained `clinical.risk.model.ReadmissionModel`, which `clinical.explain` takes.
        classes_: array([0, 1]).
    """

    __metadata_request__fit = {"groups": True}  # noqa: RUF012  (defined by scikit-learn)

    def __init__(
        self,
        *,
        encoder: str = DEFAULT_ENCODER,
        objective: str = "stay",
        epochs: float = 3.0,
        learning_rate: float = 5e-4,
        validation_fraction: float = 0.15,
        calibration: str = "validation",
        full: bool = False,
        random_state: int = 0,
    ) -> None:
        self.encoder = encoder
        self.objective = objective
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.calibration = calibration
        self.full = full
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """The input is text, and there are two classes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.classifier_tags.multi_class = False
        return tags

    def fit(
        self,
        X: Any,  # noqa: N803  (scikit-learn's name)
        y: ArrayLike,
        *,
        groups: Sequence[object] | None = None,
    ) -> Self:
        """Train; the inner split is stratified by label and keeps patients together.

        Args:
            X: stays, each a note or a list of notes, shape (stays,); or a DataFrame with the
                columns `text` and `group`.
            y: 1 if readmitted within 30 days, else 0, shape (stays,).
            groups: patient of each stay, shape (stays,); by default the column `group` of X.
                Without either, each stay counts as another patient, with a warning.

        Raises:
            UserError: X is a string or has no column `text`, lengths differ, labels other than 0
                and 1, or too few stays of an outcome.
        """
        import pandas as pd

        stays = _stays(X)
        labels = _labels(y)
        if groups is None and "group" in getattr(X, "columns", ()):
            groups = X["group"]
        if groups is None:
            _warn_of_no_groups()
        patients = list(range(len(labels)) if groups is None else groups)
        if not len(stays) == len(labels) == len(patients):
            raise UserError(
                f"X, y and groups differ: {len(stays)}, {len(labels)}, {len(patients)} rows"
            )
        keys = patient_keys(patients)
        cohort = pd.DataFrame({"patient_id": keys, "readmitted": labels})
        cohort["text"] = pd.Series(stays, dtype=object)
        cohort["split"] = self._split(labels, keys)
        tables = {
            "model": {
                "encoder": str(self.encoder),
                "objective": self.objective,
                "calibration": self.calibration,
            },
            "training": {
                "epochs": self.epochs,
                "learning_rate": self.learning_rate,
                "full": self.full,
                "seed": self.random_state,
            },
        }
        recipe = ReadmissionRecipe.model_validate(tables)
        # Without `groups` there are no ids that another cohort could share.
        self.model_ = fit(cohort, recipe, record_patients=groups is not None)
        self.classes_ = np.array([0, 1])
        return self

    def _split(self, labels: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """The side of each stay in the inner split, shape (stays,)."""
        if not 0 < self.validation_fraction < 1:
            raise UserError(
                f"validation_fraction: expected a number in (0, 1), got {self.validation_fraction}"
            )
        folds = max(2, round(1 / self.validation_fraction))
        seed = self.random_state
        return patient_folds(labels, keys, folds=folds, seed=seed)[0]

    def predict_proba(self, X: Sequence[object]) -> np.ndarray:  # noqa: N803
        """Probabilities of 0 and 1, shape (stays, 2); NaN for a stay that cannot be scored."""
        check_is_fitted(self, "model_")
        risks = self.model_.predict_many(_stays(X))
        positive = np.array([risk.probability for risk in risks])
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Sequence[object]) -> np.ndarray:  # noqa: N803
        """1 if the probability is at least 0.5, else 0.

        Raises:
            UserError: a stay cannot be scored.
        """
        positive = self.predict_proba(X)[:, 1]
        rows = np.flatnonzero(np.isnan(positive))
        if len(rows):
            raise UserError(
                f"{len(rows)} of {len(positive)} stays cannot be scored (row {rows[0]} first); "
                "leave them out, or use predict_proba, which gives NaN for them"
            )
        return (positive >= 0.5).astype(int)


@cache
def _warn_of_no_groups() -> None:
    log.warning(
        "no groups: each stay counts as another patient, so that training and calibration may "
        "share patients; pass groups=patient_ids, or X with a column 'group'"
    )


def _stays(X: Any) -> list[Any]:  # noqa: N803
    """The notes of each stay, from what scikit-learn passes as X."""
    is_frame = hasattr(X, "columns")
    if is_frame and "text" in X.columns:
        return list(X["text"])
    is_single = isinstance(X, str | bytes | dict) or not hasattr(X, "__iter__")
    if is_frame or is_single:
        raise UserError(
            f"X is a {type(X).__name__}; expected a note or a list of notes for each stay, such as "
            "frame['text'], or a DataFrame with the columns text and group"
        )
    return list(X)


def _labels(y: ArrayLike | None) -> np.ndarray:
    """The labels as integers, 0 or 1; others are refused."""
    if y is None:
        raise UserError(
            "ReadmissionClassifier requires y to be passed, but the target y is None"
        )
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise UserError(
            f"y has shape {labels.shape}; expected one label per stay"
        )
    if labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all():
        raise UserError(
            "Only binary classification is supported, and y holds other values (perhaps NaN); "
            "expected 0 and 1 (1 = readmitted within 30 days)"
        )
    return labels.astype(int)
