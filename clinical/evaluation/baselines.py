"""Baselines to compare a model with on the same stays: word counts, LACE and HOSPITAL.

The vocabulary of the word counts contains rare words of the notes, possibly names. It exists in
memory only: no model folder, report or file keeps a vocabulary, a weight of a word, or a word.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd

from clinical.stays.choice import CHOICE, choice_of
from domainbert.errors import UserError
from domainbert.files import JsonObject, read_toml
from domainbert.statistics import Floats
from domainbert.statistics.calibration import (
    calibrated,
    fit_platt,
    logit,
    platt,
)
from domainbert.tables import id_key

# Bounds the memory of the phrase table on large hospitals.
_MANY_PHRASES = 200_000
_RARE = 5  # a phrase needs this many stays
_SMALL = 1000  # below this number of stays, phrases of two stays are kept too
_GRID = (0.3, 1.0, 10.0)


@dataclass(frozen=True, repr=False)
class BaselineRisks:
    """Probabilities of one baseline for the validation and test stays, in the order they came."""

    validation: Floats
    test: Floats


def baselines(
    train: pd.DataFrame,
    val: pd.DataFrame,
    test: pd.DataFrame,
) -> dict[str, BaselineRisks]:
    """TF-IDF with logistic regression; AUROC on validation chooses one of three penalties.

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
        min_df=2 if len(train) < _SMALL else _RARE,
        max_features=_MANY_PHRASES,
        sublinear_tf=True,
        dtype=np.float32,
    )
    train_texts, val_texts, test_texts = (
        frame["text"].map("\n".join) for frame in (train, val, test)
    )
    try:
        features = words.fit_transform(train_texts)
    except ValueError:  # its vocabulary is empty
        raise UserError(
            f"no word is left to count in {len(train)} training texts; pass notes with words"
        ) from None
    val_features = words.transform(val_texts)
    models = []
    for penalty in _GRID:
        model = LogisticRegression(
            C=penalty,
            solver="liblinear",
            max_iter=1000,
            random_state=0,
        )
        models.append(model.fit(features, train["readmitted"]))

    def auroc(model: LogisticRegression) -> float:
        risks = model.predict_proba(val_features)[:, 1]
        return float(roc_auc_score(val["readmitted"], risks))

    best = max(models, key=auroc)
    val_risks = best.predict_proba(val_features)[:, 1]
    test_risks = best.predict_proba(words.transform(test_texts))[:, 1]
    with contextlib.suppress(UserError):
        # With too few validation stays, the risks stay as they are.
        slope, intercept = fit_platt(logit(val_risks), val["readmitted"])
        val_risks = calibrated(val_risks, slope, intercept)
        test_risks = calibrated(test_risks, slope, intercept)
    return {"TF-IDF": BaselineRisks(val_risks, test_risks)}


def lace_and_hospital(
    train: pd.DataFrame,
    val: pd.DataFrame,
    test: pd.DataFrame,
) -> tuple[dict[str, BaselineRisks], list[str]]:
    """LACE and HOSPITAL as risks by name, and caveats: which was not computed and why.

    A score needs all its columns, because a model is easily better than a part of one. Points
    become a risk by a logistic regression on the training side. Where a stay has no value, its item
    gives no points. The tables are those of `baselines`, with the columns that `lace.toml` and
    `hospital.toml` name.
    """
    choice = choice_of(test.get(CHOICE, ()))
    if choice is not None and choice.notes == "early":
        return {}, [
            "LACE and HOSPITAL are for discharge: earlier, the length of stay is not known."
        ]
    risks = {}
    caveats = []
    for file in ("lace.toml", "hospital.toml"):
        score = read_toml(__file__, file)
        name = score["name"]
        columns = [item["column"] for item in score["items"]]
        missing = [c for c in columns if c not in test.columns]
        if missing:
            caveats.append(
                f"{name} was not computed: the cohort has no {', '.join(missing)}."
            )
            continue
        try:
            risks[name] = _fitted(score["items"], train, val, test)
        except UserError:
            caveats.append(
                f"{name} ranks the training stays no better than chance."
            )
    return risks, caveats


def _fitted(
    items: list[JsonObject],
    train: pd.DataFrame,
    val: pd.DataFrame,
    test: pd.DataFrame,
) -> BaselineRisks:
    """Points as risks, by a logistic regression on the training side."""
    train_points, val_points, test_points = (
        sum(_points(item, side) for item in items)
        for side in (train, val, test)
    )
    slope, intercept = fit_platt(train_points, train["readmitted"])
    return BaselineRisks(
        platt(val_points, slope, intercept),
        platt(test_points, slope, intercept),
    )


def _points(item: JsonObject, stays: pd.DataFrame) -> np.ndarray:
    """The points of each stay, shape (stays,); none for a missing value."""
    cells = stays[item["column"]]
    if "values" in item:
        cells = cells.astype(str).str.upper().isin(item["values"])
    numbers = pd.to_numeric(cells, errors="coerce").fillna(-np.inf)
    starts, points = np.transpose(item["steps"])
    steps = np.searchsorted(starts, numbers, side="right")
    return np.insert(points, 0, 0)[steps]


_EARLIER = """
SELECT count(DISTINCT earlier.start) AS n
FROM stays LEFT JOIN stays earlier ON earlier.patient = stays.patient
    AND earlier.start < stays.start AND earlier.start >= stays.start - INTERVAL 365 DAY
GROUP BY stays.row ORDER BY stays.row
"""


def with_history(cohort: pd.DataFrame) -> pd.DataFrame:
    """A cohort with `length_of_stay` (days) and `admissions_12_months`, where it has times.

    The latter are the patient's earlier episodes that began in the 365 days before this one;
    excluded stays count.
    """
    needed = {"patient_id", "admit_time", "discharge_time"}
    if not needed <= set(cohort.columns):
        return cohort
    starts = cohort.get("episode_start", cohort["admit_time"])
    start = pd.to_datetime(starts, errors="coerce")
    end = pd.to_datetime(cohort["discharge_time"], errors="coerce")
    stays = pd.DataFrame({"start": start.to_numpy()})
    stays["patient"] = list(map(id_key, cohort["patient_id"]))
    stays["row"] = range(len(stays))
    with duckdb.connect() as con:
        con.register("stays", stays)
        n_earlier = con.sql(_EARLIER).fetchnumpy()["n"]
    days = (end - start) / np.timedelta64(1, "D")
    return cohort.assign(length_of_stay=days, admissions_12_months=n_earlier)


def word_values(
    texts: Sequence[str], labels: np.ndarray, new_texts: Sequence[str]
) -> Floats:
    """Values of the groups by logistic regression on words and pairs, shape (new texts, groups).

    A group without a stay, or that every stay has, has its share.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    vectorizer = TfidfVectorizer(
        ngram_range=(1, 2),
        min_df=2,
        sublinear_tf=True,
        max_features=_MANY_PHRASES,
    )
    design = vectorizer.fit_transform(texts)
    new_design = vectorizer.transform(new_texts)
    values = np.tile(labels.mean(axis=0), (len(new_texts), 1)).astype(float)
    for number, outcome in enumerate(labels.T):
        if 0 < outcome.sum() < len(outcome):
            regression = LogisticRegression(
                C=10, class_weight="balanced", max_iter=1000
            )
            regression.fit(design, outcome)
            values[:, number] = regression.predict_proba(new_design)[:, 1]
    return values
