"""ReadmissionClassifier: the readmission model as a scikit-learn estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from clinical.cohort.splits import assign_splits
from clinical.risk.model import ReadmissionModel
from domainbert.encoders import DEFAULT_ENCODER
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


class ReadmissionClassifier(ClassifierMixin, BaseEstimator):
    """Fit and predict readmission from notes, the scikit-learn way.

    Args:
        encoder: shipped name, folder or hub:owner/name.
        objective: "stay" or "window"; see `clinical.risk.fitting.fit`.
        epochs: passes over the training stays.
        learning_rate: peak.
        validation_fraction: share of the patients held back to stop early, to fit c and to
            calibrate.
        full: train all weights instead of a LoRA adapter.
        random_state: seed.

    Attributes:
        model_: the `ReadmissionModel`.
        classes_: array([0, 1]).
    """

    def __init__(
        self,
        *,
        encoder: str = DEFAULT_ENCODER,
        objective: str = "stay",
        epochs: float = 3.0,
        learning_rate: float = 5e-4,
        validation_fraction: float = 0.15,
        full: bool = False,
        random_state: int = 0,
    ) -> None:
        self.encoder = encoder
        self.objective = objective
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.full = full
        self.random_state = random_state

    def fit(
        self,
        X: Sequence[Any],  # noqa: N803  (scikit-learn's name)
        y: ArrayLike,
        *,
        groups: Sequence[object] | None = None,
    ) -> Self:
        """Train.

        Args:
            X: stays, each a note or a list of notes, shape (stays,).
            y: 1 = readmitted within 30 days, shape (stays,).
            groups: patient of each stay, shape (stays,), so that none is on both sides of the
                inner validation split; without it every stay counts as a patient of its own.

        Raises:
            ValueError: lengths differ, or a side of the inner split lacks an outcome.
        """
        import pandas as pd

        from domainbert.training.settings import TrainingSettings

        labels = np.asarray(y).astype(int)
        patients = list(range(len(labels))) if groups is None else list(groups)
        stays = [[stay] if isinstance(stay, str) else list(stay) for stay in X]
        if not len(stays) == len(labels) == len(patients):
            msg = f"X, y and groups differ: {len(stays)}, {len(labels)}, {len(patients)} rows"
            raise UserError(msg)
        sides = {"train": 1 - self.validation_fraction, "val": self.validation_fraction}
        cohort = pd.DataFrame(
            {
                "patient_id": [str(patient) for patient in patients],
                "text": stays,
                "readmitted": labels,
                "split": assign_splits(patients, seed=self.random_state, fractions=sides),
            }
        )
        self.model_ = ReadmissionModel.fit(
            cohort,
            encoder=self.encoder,
            objective=self.objective,
            training=TrainingSettings(
                epochs=self.epochs,
                learning_rate=self.learning_rate,
                full=self.full,
                seed=self.random_state,
            ),
        )
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X: Sequence[Any]) -> np.ndarray:  # noqa: N803
        """Calibrated probabilities of 0 and 1, shape (stays, 2); NaN for a stay without text."""
        check_is_fitted(self, "model_")
        risks = self.model_.predict_many(X)
        positive = np.array(
            [r.probability if r.calibrated is None else r.calibrated for r in risks]
        )
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Sequence[Any]) -> np.ndarray:  # noqa: N803
        """1 where the calibrated probability is at least one half, shape (stays,)."""
        return (self.predict_proba(X)[:, 1] >= 0.5).astype(int)
