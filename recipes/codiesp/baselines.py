"""What a diagnosis model is compared with: word counts of cases and of lines, and the shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from clinical.stays.diagnoses import EVIDENCE, labels_of
from recipes.codiesp.alignment import english_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

TFIDF: Final = "TF-IDF of the case"
TFIDF_LINES: Final = "TF-IDF of its lines"
SHARES: Final = "prevalence"


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
        TFIDF: _regressions(texts, labels, new_texts),
        SHARES: np.tile(labels.mean(axis=0), (len(new), 1)),
    }
    lines, line_labels = _labelled_lines(train, groups)
    new_lines = [_lines(text) for text in new_texts]
    of_lines = _regressions(
        lines, line_labels, [line for case in new_lines for line in case]
    )
    starts = np.cumsum([0, *map(len, new_lines)])[:-1]
    values[TFIDF_LINES] = np.maximum.reduceat(of_lines, starts)
    return values


def _regressions(
    texts: Sequence[str], labels: np.ndarray, new_texts: Sequence[str]
) -> np.ndarray:
    """Probabilities by logistic regression on words and pairs, shape (new texts, groups)."""
    vectorizer = TfidfVectorizer(
        ngram_range=(1, 2), min_df=2, sublinear_tf=True
    )
    design = vectorizer.fit_transform(texts)
    new_design = vectorizer.transform(new_texts)
    columns = []
    for outcome in labels.T:
        regression = LogisticRegression(
            C=10, class_weight="balanced", max_iter=1000
        )
        regression.fit(design, outcome)
        columns.append(regression.predict_proba(new_design)[:, 1])
    return np.stack(columns, axis=1)


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
