"""Baselines on word counts, which a model must beat on the same stays.

Their vocabularies contain rare words of the notes, possibly names. They exist in memory only:
no model folder, report or file keeps a vocabulary, a weight of a word, or a word.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.risk.calibration import checked
from domainbert.errors import UserError
from domainbert.tables import is_missing, require_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

WORDS = 5000
"""Most frequent words in the paper's bag."""

_MANY_PHRASES = 200_000  # bounds the memory of the phrase table on large hospitals
_RARE = 5  # a phrase needs this many stays
_SMALL = 1000  # below this number of stays, phrases of two stays are kept too
_GRIDS = {"bag of words": (0.01, 0.1, 1.0), "TF-IDF": (0.3, 1.0, 10.0)}


@dataclass(frozen=True)
class BaselineScores:
    """Probabilities of one baseline for the validation and test stays, in the order they came.

    `c` is the inverse strength of its penalty, chosen on validation, and `n_features` the number
    of words or phrases.
    """

    validation: NDArray[np.float64] = field(repr=False)
    test: NDArray[np.float64] = field(repr=False)
    c: float
    n_features: int


def baselines(
    train: pd.DataFrame, val: pd.DataFrame, test: pd.DataFrame, *, seed: int = 0
) -> dict[str, BaselineScores]:
    """Both baselines, each with the best of three penalties by AUROC on validation.

    `bag of words` is the paper's: logistic regression on counts of the 5,000 most frequent words
    (Huang, Altosaar and Ranganath 2019, section 4). `TF-IDF` is the one to beat: words and pairs
    of words, weighted by inverse document frequency, with logarithmic counts.

    Args:
        train: rows of a cohort: text (a list of notes, or one string) and readmitted (0/1).
        val: the same, of other patients, with both outcomes.
        test: the same; its outcomes are not used and may be absent.
        seed: of the solver.

    Raises:
        TableError: a column is missing.
        UserError: labels other than 0 and 1, one outcome only, or no text contains a word.
    """
    for name, frame in (("train", train), ("val", val)):
        require_columns(frame.columns, ("text", "readmitted"), source=name)
    require_columns(test.columns, ("text",), source="test")
    train_y = _outcomes(train["readmitted"], len(train))
    val_y = _outcomes(val["readmitted"], len(val))
    texts = [joined(frame) for frame in (train, val, test)]
    return {
        name: _best(vectorizer(name, stays=len(train)), grid, texts, train_y, val_y, seed=seed)
        for name, grid in _GRIDS.items()
    }


def _best(
    words: Any,
    grid: Sequence[float],
    texts: Sequence[Sequence[str]],
    train_y: NDArray[np.float64],
    val_y: NDArray[np.float64],
    *,
    seed: int,
) -> BaselineScores:
    from sklearn.metrics import roc_auc_score

    train = learn_words(words, texts[0])
    val, test = (words.transform(side) for side in texts[1:])
    models = {c: fit_words(train, train_y, c=c, seed=seed) for c in grid}
    scores = {c: probabilities(model, val) for c, model in models.items()}
    best = max(grid, key=lambda c: roc_auc_score(val_y, scores[c]))
    return BaselineScores(
        validation=scores[best],
        test=probabilities(models[best], test),
        c=best,
        n_features=train.shape[1],
    )


def vectorizer(name: str, *, stays: int) -> Any:
    """The vectorizer of `bag of words`, or of `TF-IDF` for a number of training stays."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    if name == "bag of words":
        return CountVectorizer(max_features=WORDS)
    return TfidfVectorizer(
        ngram_range=(1, 2),
        min_df=_RARE if stays >= _SMALL else 2,
        max_features=_MANY_PHRASES,
        sublinear_tf=True,
        dtype=np.float32,
    )


def learn_words(words: Any, texts: Sequence[str]) -> Any:
    """Fit a vectorizer on training texts; their features, shape (texts, features)."""
    try:
        return words.fit_transform(texts)
    except ValueError:
        failed = f"no word is left to count in {len(texts)} training texts; pass notes with words"
    raise UserError(failed)


def fit_words(features: Any, y: NDArray[np.float64], *, c: float, seed: int = 0) -> Any:
    """Logistic regression of y, shape (stays,), on features; c is the inverse of its penalty."""
    from sklearn.linear_model import LogisticRegression

    # liblinear: raw counts differ in scale a thousandfold, which slows the other solvers down.
    model = LogisticRegression(C=c, solver="liblinear", max_iter=1000, random_state=seed)
    return model.fit(features, y)


def probabilities(model: Any, features: Any) -> NDArray[np.float64]:
    """A fitted model's probabilities of readmission, shape (stays,)."""
    return np.asarray(model.predict_proba(features)[:, 1], dtype=np.float64)


def _outcomes(y: ArrayLike, stays: int) -> NDArray[np.float64]:
    outcome, _ = checked(y, np.zeros(stays))
    if not 0 < outcome.sum() < stays:
        raise UserError(
            f"{int(outcome.sum())} of {stays} stays are readmitted; a baseline needs both outcomes "
            "in training and in validation"
        )
    return outcome


def joined(frame: pd.DataFrame) -> list[str]:
    """One text a stay: its notes joined by line breaks; '' without notes."""
    return [
        notes if isinstance(notes, str) else "\n".join(note for note in notes if note)
        for notes in frame["text"].map(lambda notes: [] if is_missing(notes) else notes)
    ]
