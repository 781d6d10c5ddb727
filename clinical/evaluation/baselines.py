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
from domainbert.statistics.calibration import calibrated, fit_platt, logit, platt
from domainbert.tables import id_key

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

_MANY_PHRASES = 200_000  # bounds the memory of the phrase table on large hospitals
_RARE = 5  # a phrase needs this many stays
_SMALL = 1000  # below this number of stays, phrases of two stays are kept too
_GRID = (0.3, 1.0, 10.0)
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

    Each table has `text` (lists of notes) and `readmitted` (0/1), from `usable_stays`; the outcomes
    of `test` are not used.

    Raises:
        UserError: training or validation has one outcome only, or no text contains a word.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    for outcome in (train["readmitted"], val["readmitted"]):
        if outcome.nunique() < 2:
            raise UserError(
                f"{int(outcome.sum())} of {len(outcome)} stays have the outcome; a baseline needs "
                "both outcomes in training and in validation"
            )
    words = TfidfVectorizer(
        ngram_range=(1, 2),
        min_df=_RARE if len(train) >= _SMALL else 2,
        max_features=_MANY_PHRASES,
        sublinear_tf=True,
        dtype=np.float32,
    )
    texts, checks, tests = (
        frame["text"].map("\n".join) for frame in (train, val, test)
    )
    try:
        features = words.fit_transform(texts)
    except ValueError:  # its vocabulary is empty
        few = f"no word is left to count in {len(train)} training texts; pass notes with words"
        raise UserError(few) from None
    sides = [words.transform(side) for side in (checks, tests)]
    how: dict[str, Any] = {"solver": "liblinear", "max_iter": 1000, "random_state": 0}
    models = [
        LogisticRegression(C=c, **how).fit(features, train["readmitted"]) for c in _GRID
    ]
    risks = [[model.predict_proba(side)[:, 1] for side in sides] for model in models]
    scores = max(risks, key=lambda both: roc_auc_score(val["readmitted"], both[0]))
    with contextlib.suppress(UserError):  # too few validation stays: as they are
        fitted = fit_platt(logit(scores[0]), val["readmitted"])
        scores = [calibrated(side, *fitted) for side in scores]
    return {"TF-IDF": BaselineScores(*scores)}


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
    for file in ("lace.toml", "hospital.toml"):
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
        points = [
            sum(_points(item, side) for item in known) for side in (train, val, test)
        ]
        try:
            fitted = fit_platt(points[0], train["readmitted"])
        except UserError:
            why = f"; {lacks}" if missing else ""
            remarks.append(
                f"{name} ranks the training stays no better than chance{why}."
            )
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
        return (
            item["points"]
            * values.astype(str).str.upper().isin(item["values"]).to_numpy()
        )
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
    first = (
        pd.DataFrame({"patient": patient, "start": start}).dropna().drop_duplicates()
    )
    starts = {key: np.sort(times) for key, times in first.groupby("patient")["start"]}
    year = np.timedelta64(365, "D")
    earlier = [
        int(((starts[key] < time) & (starts[key] >= time - year)).sum())
        if key in starts
        else 0
        for key, time in zip(patient, start.to_numpy(), strict=True)
    ]
    days = (end - start) / np.timedelta64(1, "D")
    return cohort.assign(length_of_stay=days, admissions_12_months=earlier)
