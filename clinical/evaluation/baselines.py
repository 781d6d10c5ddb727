"""Baselines to compare a model with on the same stays: word counts, LACE and HOSPITAL.

The vocabulary of the word counts contains rare words of the notes, possibly names. It exists in
memory only: no model folder, report or file keeps a vocabulary, a weight of a word, or a word.
"""

from __future__ import annotations

import contextlib
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.stays.choice import CHOICE, choice_of
from domainbert.errors import UserError
from domainbert.statistics.calibration import calibrated, checked, fit_platt, logit, platt
from domainbert.tables import id_key, is_missing, require_columns

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

_MANY_PHRASES = 200_000  # bounds the memory of the phrase table on large hospitals
_RARE = 5  # a phrase needs this many stays
_SMALL = 1000  # below this number of stays, phrases of two stays are kept too
_GRID = (0.3, 1.0, 10.0)
DEFINITIONS = ("lace.toml", "hospital.toml")
ENOUGH = 0.5
"""A score is compared where columns for at least this share of its points exist."""


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
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    for name, frame in (("train", train), ("val", val)):
        require_columns(frame.columns, ("text", "readmitted"), source=name)
    require_columns(test.columns, ("text",), source="test")
    train_y, val_y = (_outcomes(frame["readmitted"]) for frame in (train, val))
    words = TfidfVectorizer(
        ngram_range=(1, 2),
        min_df=_RARE if len(train) >= _SMALL else 2,
        max_features=_MANY_PHRASES,
        sublinear_tf=True,
        dtype=np.float32,
    )
    with contextlib.suppress(ValueError):  # its vocabulary is empty
        features = words.fit_transform(joined(train))
    if not hasattr(words, "vocabulary_"):
        counted = f"no word is left to count in {len(train)} training texts"
        raise UserError(f"{counted}; pass notes with words")
    checks, tests = (words.transform(joined(frame)) for frame in (val, test))
    how: dict[str, Any] = {"solver": "liblinear", "max_iter": 1000, "random_state": 0}
    models = (LogisticRegression(C=c, **how).fit(features, train_y) for c in _GRID)
    best = max(models, key=lambda model: roc_auc_score(val_y, model.predict_proba(checks)[:, 1]))
    scores = [best.predict_proba(side)[:, 1] for side in (checks, tests)]
    with contextlib.suppress(UserError):  # too few validation stays: as they are
        fitted = fit_platt(logit(scores[0]), val_y)
        scores = [calibrated(side, *fitted) for side in scores]
    return {"TF-IDF": BaselineScores(*scores)}


def _outcomes(y: pd.Series) -> NDArray[np.float64]:
    outcome, _ = checked(y, np.zeros(len(y)))
    if not 0 < outcome.sum() < len(y):
        raise UserError(
            f"{int(outcome.sum())} of {len(y)} stays have the outcome; a baseline needs both "
            "outcomes in training and in validation"
        )
    return outcome


def joined(frame: pd.DataFrame) -> list[str]:
    """One text a stay: its notes joined by line breaks; '' without notes."""
    return [
        notes if isinstance(notes, str) else "\n".join(note for note in notes if note)
        for notes in frame["text"].map(lambda notes: [] if is_missing(notes) else notes)
    ]


def point_scores(
    train: pd.DataFrame, val: pd.DataFrame, test: pd.DataFrame
) -> tuple[dict[str, BaselineScores], list[str]]:
    """The scores that the columns allow, as risks by name, and what is missing, in sentences.

    Points become a risk by a logistic regression on the training side. Where a stay has no value,
    its item gives no points. The tables are those of `baselines`, with the columns that `lace.toml`
    and `hospital.toml` name.
    """
    choice = choice_of(test.get(CHOICE, ()))
    if choice is not None and choice.notes == "early":
        return {}, [
            "LACE and HOSPITAL are for discharge: earlier, the length of stay is not known."
        ]
    found, remarks = {}, []
    for file in DEFINITIONS:
        text = (resources.files(__package__) / file).read_text("utf-8")
        score: dict[str, Any] = tomllib.loads(text)
        known = [item for item in score["items"] if item["column"] in test.columns]
        missing = [item["column"] for item in score["items"] if item not in known]
        have, full = (sum(map(_most, items)) for items in (known, score["items"]))
        name, lacks = score["name"], f"the cohort has no {', '.join(missing)}"
        if have < ENOUGH * full:
            remarks.append(f"{name} was not computed: {lacks}.")
            continue
        if missing:
            name = f"{name} ({have} of {full} points)"
        points = [sum(_points(item, side) for item in known) for side in (train, val, test)]
        try:
            fitted = fit_platt(points[0], train["readmitted"])
        except UserError:
            why = f"; {lacks}" if missing else ""
            remarks.append(f"{name} ranks the training stays no better than chance{why}.")
            continue
        found[name] = BaselineScores(*(platt(side, *fitted) for side in points[1:]))
        remarks += [f"{score['name']} is incomplete: {lacks}."] if missing else []
    return found, remarks


def _most(item: dict[str, Any]) -> int:
    """The most points that an item gives."""
    return int(item["steps"][-1][1] if "steps" in item else item["points"])


def _points(item: dict[str, Any], stays: pd.DataFrame) -> np.ndarray:
    """The points of each stay, shape (stays,)."""
    import pandas as pd

    values = stays[item["column"]]
    if "values" in item:
        return item["points"] * values.astype(str).str.upper().isin(item["values"]).to_numpy()
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64)
    if "below" in item:
        return np.asarray(item["points"] * (numbers < item["below"]))
    starts, points = np.array(item["steps"], dtype=np.float64).T
    place = np.searchsorted(starts, np.nan_to_num(numbers, nan=-np.inf), side="right")
    return np.r_[0.0, points][place]


def with_history(cohort: pd.DataFrame) -> pd.DataFrame:
    """A cohort with `length_of_stay` (days) and `admissions_12_months`, where it has times.

    The latter are the patient's earlier episodes that began in the 365 days before this one;
    excluded stays count.
    """
    import pandas as pd

    if not {"patient_id", "admit_time", "discharge_time"} <= set(cohort.columns):
        return cohort
    named = "episode_start" if "episode_start" in cohort.columns else "admit_time"
    start, end = (pd.to_datetime(cohort[name]) for name in (named, "discharge_time"))
    patient = cohort["patient_id"].map(id_key)
    first = pd.DataFrame({"patient": patient, "start": start}).dropna().drop_duplicates()
    starts = {key: np.sort(times) for key, times in first.groupby("patient")["start"]}
    year = np.timedelta64(365, "D")
    earlier = [
        int(((starts[key] < time) & (starts[key] >= time - year)).sum()) if key in starts else 0
        for key, time in zip(patient, start.to_numpy(), strict=True)
    ]
    days = (end - start) / np.timedelta64(1, "D")
    return cohort.assign(length_of_stay=days, admissions_12_months=earlier)
