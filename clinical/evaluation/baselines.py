"""A baseline on word counts, to compare a model with on the same stays.

Its vocabulary contains rare words of the notes, possibly names. It exists in memory only: no model
folder, report or file keeps a vocabulary, a weight of a word, or a word.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.statistics.calibration import calibrated, checked, fit_platt, logit
from domainbert.tables import is_missing, require_columns

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

_MANY_PHRASES = 200_000  # bounds the memory of the phrase table on large hospitals
_RARE = 5  # a phrase needs this many stays
_SMALL = 1000  # below this number of stays, phrases of two stays are kept too
_GRID = (0.3, 1.0, 10.0)


@dataclass(frozen=True)
class BaselineScores:
    """Probabilities of one baseline for the validation and test stays, in the order they came."""

    validation: NDArray[np.float64] = field(repr=False)
    test: NDArray[np.float64] = field(repr=False)


def baselines(
    train: pd.DataFrame, val: pd.DataFrame, test: pd.DataFrame
) -> dict[str, BaselineScores]:
    """TF-IDF with logistic regression, of three penalties the best by AUROC on validation.

    Its risks are calibrated on validation, as the model's are.

    Features are words and pairs of words, weighted by inverse document frequency, with logarithmic
    counts: on readmission, stronger than the bag of words of Huang, Altosaar and Ranganath 2019.

    Each table has `text` (a list of notes, or one string) and `readmitted` (0/1); the outcomes of
    `test` are not used and may be absent.

    Raises:
        TableError: a column is missing.
        UserError: labels other than 0 and 1, one outcome only, or no text contains a word.
    """
    from sklearn.metrics import roc_auc_score

    for name, frame in (("train", train), ("val", val)):
        require_columns(frame.columns, ("text", "readmitted"), source=name)
    require_columns(test.columns, ("text",), source="test")
    train_y, val_y = (_outcomes(frame["readmitted"]) for frame in (train, val))
    words = _vectorizer(len(train))
    features = _learned(words, train)
    checks, tests = (words.transform(joined(frame)) for frame in (val, test))
    models = [_logistic(c).fit(features, train_y) for c in _GRID]
    best = max(models, key=lambda model: roc_auc_score(val_y, model.predict_proba(checks)[:, 1]))
    scores = [best.predict_proba(side)[:, 1] for side in (checks, tests)]
    with contextlib.suppress(UserError):  # too few validation stays: as they are
        platt = fit_platt(logit(scores[0]), val_y)
        scores = [calibrated(side, *platt) for side in scores]
    return {"TF-IDF": BaselineScores(*scores)}


def _vectorizer(stays: int) -> Any:
    """The unfitted vectorizer for a number of training stays."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        ngram_range=(1, 2),
        min_df=_RARE if stays >= _SMALL else 2,
        max_features=_MANY_PHRASES,
        sublinear_tf=True,
        dtype=np.float32,
    )


def _learned(words: Any, frame: pd.DataFrame) -> Any:
    """Fit a vectorizer on training stays; their features, shape (stays, features)."""
    try:
        return words.fit_transform(joined(frame))
    except ValueError:
        failed = f"no word is left to count in {len(frame)} training texts; pass notes with words"
    raise UserError(failed)


def _logistic(c: float) -> Any:
    """An unfitted logistic regression; c is the inverse of its penalty."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=c, solver="liblinear", max_iter=1000, random_state=0)


def _outcomes(y: pd.Series) -> NDArray[np.float64]:
    outcome, _ = checked(y, np.zeros(len(y)))
    if not 0 < outcome.sum() < len(y):
        raise UserError(
            f"{int(outcome.sum())} of {len(y)} stays are readmitted; a baseline needs both "
            "outcomes in training and in validation"
        )
    return outcome


def joined(frame: pd.DataFrame) -> list[str]:
    """One text a stay: its notes joined by line breaks; '' without notes."""
    return [
        notes if isinstance(notes, str) else "\n".join(note for note in notes if note)
        for notes in frame["text"].map(lambda notes: [] if is_missing(notes) else notes)
    ]
