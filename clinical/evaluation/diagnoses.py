"""How well groups of diagnosis codes are ranked: over all groups, and group by group."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from clinical.risk.diagnoses import DiagnosisModel
from clinical.stays.choice import check_notes
from clinical.stays.cohorts import coded_stays, labels_of
from clinical.stays.patients import check_unseen, patient_codes
from domainbert.errors import UserError
from domainbert.progress import counted
from domainbert.statistics import Floats
from domainbert.statistics.bootstrap import Interval, Resampled, resample
from domainbert.statistics.calibration import calibration_error

MIN_POSITIVE = 20
"""Fewest stays with a group (and without it) for anything to be claimed of it."""
RANKED = 5
"""Groups of a stay that recall@5 looks at."""
MODEL = "model"
TFIDF = "TF-IDF"
SHARES = "prevalence"
_MANY_PHRASES = 200_000  # bounds the memory of word counts
MEASURES = (
    "macro AUROC",
    "micro AUROC",
    "macro AUPRC",
    "micro AUPRC",
    "MAP a stay",
    f"recall@{RANKED}",
)


class _Ranking:
    """Outcomes and values of columns, sorted once, and measured with any weights.

    Args:
        labels: 0 or 1, shape (rows, columns).
        values: the higher, the more probable; same shape.
    """

    def __init__(self, labels: Floats, values: Floats) -> None:
        self._order = np.argsort(-values, axis=0, kind="stable")
        ordered = np.take_along_axis(values, self._order, axis=0)
        self._labels = np.take_along_axis(labels, self._order, axis=0)
        rows, columns = values.shape
        # Equal values count together: first and last row of each one's block.
        position = np.broadcast_to(np.arange(rows)[:, None], values.shape)
        is_new = np.ones((rows, columns), dtype=bool)
        is_new[1:] = ordered[1:] != ordered[:-1]
        self._first = np.maximum.accumulate(np.where(is_new, position, 0))
        is_last = np.ones((rows, columns), dtype=bool)
        is_last[:-1] = is_new[1:]
        ends = np.where(is_last, position, rows - 1)
        self._last = np.minimum.accumulate(ends[::-1])[::-1]

    def measured(self, weights: Floats) -> tuple[Floats, Floats]:
        """AUROC and average precision of each column; NaN where an outcome is absent.

        `weights` have the shape (rows,) or (rows, columns).
        """
        if weights.ndim == 1:
            weights = weights[:, None]
        weights = np.broadcast_to(weights, self._order.shape)
        weights = np.take_along_axis(weights, self._order, axis=0)
        positive = weights * self._labels
        negative = weights - positive
        true = np.cumsum(positive, axis=0)
        false = np.cumsum(negative, axis=0)
        n_positive = true[-1]
        n_negative = false[-1]
        true_here = np.take_along_axis(true, self._last, axis=0)
        false_here = np.take_along_axis(false, self._last, axis=0)
        before = np.take_along_axis(false - negative, self._first, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = true_here / (true_here + false_here)
            precision = np.where(positive > 0, precision, 0)
            average = (positive * precision).sum(axis=0) / n_positive
            above = n_negative - (before + false_here) / 2
            area = (positive * above).sum(axis=0) / (n_positive * n_negative)
        average = np.where(n_negative > 0, average, np.nan)
        return area, average


class _AllGroups:
    """The measures over all groups, for weights of stays."""

    def __init__(self, labels: Floats, values: Floats) -> None:
        self._shape = labels.shape
        self._groups = _Ranking(labels, values)
        self._pairs = _Ranking(labels.reshape(-1, 1), values.reshape(-1, 1))
        # A stay's own groups, ranked: the rows are groups and the columns stays.
        _, self._of_stay = _Ranking(labels.T, values.T).measured(
            np.ones(labels.shape[1])
        )
        has_all = labels.all(axis=1)
        self._of_stay = np.where(has_all, 1.0, self._of_stay)
        top = np.argsort(-values, axis=1, kind="stable")[:, :RANKED]
        hits = np.take_along_axis(labels, top, axis=1).sum(axis=1)
        with np.errstate(invalid="ignore"):
            self._recall = hits / labels.sum(axis=1)

    def measured(self, weights: Floats) -> Floats:
        """The numbers of `MEASURES`."""
        return self.with_groups(weights)[: len(MEASURES)]

    def with_groups(self, weights: Floats) -> Floats:
        """The numbers of `MEASURES`, then AUROC and average precision of each group."""
        area, average = self._groups.measured(weights)
        pair_weights = np.repeat(weights, self._shape[1])
        micro_area, micro_average = self._pairs.measured(pair_weights)
        overall = [
            _mean(area),
            micro_area[0],
            _mean(average),
            micro_average[0],
            _mean(self._of_stay, weights),
            _mean(self._recall, weights),
        ]
        return np.concatenate([overall, area, average])


def _mean(values: Floats, weights: Floats | None = None) -> float:
    """The mean of the numbers that are defined; NaN if there is none."""
    is_defined = ~np.isnan(values)
    if weights is None:
        weights = np.ones_like(values)
    total = weights[is_defined].sum()
    if not total:
        return float("nan")
    return float((values * weights)[is_defined].sum() / total)


def ranking_scores(labels: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """The numbers of `MEASURES`, without intervals.

    Macro numbers are means over the groups of which some stays have it and some do not; a stay
    without any group does not count for its own ranking.

    Args:
        labels: 0 or 1, shape (stays, groups).
        values: probabilities or scores, same shape.
    """
    checked = _checked(labels, values)
    numbers = _AllGroups(*checked).measured(np.ones(len(labels)))
    return dict(zip(MEASURES, numbers.tolist(), strict=True))


def best_f1_threshold(outcome: np.ndarray, risk: np.ndarray) -> float:
    """The threshold with the best F1 on these very stays, a little below the risk that it equals.

    Choose it on validation and keep it.
    """
    order = np.argsort(-risk, kind="stable")
    true = np.cumsum(outcome[order])
    f1 = 2 * true / (np.arange(1, len(risk) + 1) + outcome.sum())
    # A threshold cannot part equal risks.
    is_last = np.append(np.diff(risk[order]) != 0, True)
    best = int(np.argmax(np.where(is_last, f1, -1)))
    # Rounding must not put the stay that defines it below.
    return max(0.0, float(risk[order][best]) - 1e-9)


@dataclass(frozen=True)
class DiagnosisEvaluation:
    """The measured quality of the groups of a set of stays.

    Attributes:
        n_stays: number of stays.
        n_patients: number of patients.
        overall: the numbers of `MEASURES` with 95% intervals by patient, and "F1" at the
            thresholds (of all pairs of a stay and a group with a threshold), if there are any.
        by_group: one row a group: `group, positive`, and where at least `MIN_POSITIVE` stays have
            it and as many do not, `auroc, auprc` with `_low` and `_high`; `f1` at its threshold
            and `ece`, the calibration error, where it has these.
        resampled: the numbers of `MEASURES` in each resample.
    """

    n_stays: int
    n_patients: int
    overall: dict[str, Interval]
    by_group: pd.DataFrame = field(repr=False)
    resampled: Resampled = field(repr=False)

    def minus(self, other: "DiagnosisEvaluation") -> dict[str, Interval]:
        """Paired differences from other values for the same stays, by measure."""
        return _named(self.resampled - other.resampled)


def evaluate_diagnoses(
    labels: np.ndarray,
    values: np.ndarray,
    *,
    groups: Sequence[str],
    patients: Iterable[object],
    thresholds: Mapping[str, float] | None = None,
    calibrated: Iterable[str] = (),
    bootstrap: int = 1000,
    seed: int = 0,
) -> DiagnosisEvaluation:
    """Compare the groups of stays with their probabilities.

    Args:
        labels: 0 or 1, shape (stays, groups).
        values: probabilities, same shape.
        groups: their names.
        patients: the patient of each stay.
        thresholds: from which probability a group is proposed, chosen on other stays.
        calibrated: the groups whose probabilities are calibrated.
        bootstrap: number of resamples of whole patients; 0 gives no intervals.
        seed: the same patients and seed give the same resamples.

    Raises:
        UserError: shapes that differ, or values that are not probabilities.
    """
    outcome, risk = _checked(labels, values)
    if len(groups) != outcome.shape[1]:
        raise UserError(
            f"{len(groups)} groups and {outcome.shape[1]} columns; pass a name for each column"
        )
    codes = patient_codes(patients, n=len(outcome))
    every_group = _AllGroups(outcome, risk)
    resampled = resample(
        every_group.with_groups, codes, bootstrap=bootstrap, seed=seed
    )
    overall = _named(resampled)
    limits = {**(thresholds or {})}
    columns = [n for n, group in enumerate(groups) if group in limits]
    if columns:
        edges = np.array([limits[groups[n]] for n in columns])
        is_proposed = (risk[:, columns] >= edges).astype(float)
        at_thresholds = resample(
            lambda weights: _f1(outcome[:, columns], is_proposed, weights),
            codes,
            bootstrap=bootstrap,
            seed=seed,
        )
        overall["F1"] = at_thresholds.interval()
    has_calibrator = set(calibrated)
    rows = []
    for number, group in enumerate(groups):
        of_group = outcome[:, number]
        positive = int(of_group.sum())
        row: dict[str, object] = {"group": group, "positive": positive}
        if min(positive, len(of_group) - positive) >= MIN_POSITIVE:
            at = len(MEASURES) + number
            row |= resampled[at].columns("auroc")
            row |= resampled[at + len(groups)].columns("auprc")
            if group in limits:
                chosen = (risk[:, number] >= limits[group]).astype(float)
                ones = np.ones(len(outcome))
                row["f1"] = _f1(of_group, chosen, ones)
            if group in has_calibrator:
                row["ece"] = calibration_error(of_group, risk[:, number])
        rows.append(row)
    names = ["group", "positive", "auroc", "auroc_low", "auroc_high"]
    names += ["auprc", "auprc_low", "auprc_high", "f1", "ece"]
    return DiagnosisEvaluation(
        len(outcome),
        int(codes.max()) + 1,
        overall,
        pd.DataFrame(rows).reindex(columns=names),
        resampled[: len(MEASURES)],
    )


@dataclass(frozen=True, repr=False)
class DiagnosisComparison:
    """A model of diagnoses and the baselines on one side of a cohort.

    Attributes:
        evaluations: by name, that of the model first.
        names: what the groups are called.
        caveats: what a reader of the numbers should know.
    """

    evaluations: dict[str, DiagnosisEvaluation]
    names: Mapping[str, str]
    caveats: list[str]

    @property
    def model(self) -> DiagnosisEvaluation:
        """The evaluation of the model."""
        return next(iter(self.evaluations.values()))

    def rows(self) -> list[list[str]]:
        """The measures over all groups as text, a head and then a row for each."""
        head = ["", *self.evaluations]
        rows = []
        for measure in self.model.overall:
            cells = [
                str(evaluation.overall.get(measure, ""))
                for evaluation in self.evaluations.values()
            ]
            rows.append([measure, *cells])
        return [head, *rows]


def compare_diagnoses(
    model: DiagnosisModel,
    cohort: pd.DataFrame,
    *,
    split: str = "test",
    bootstrap: int = 1000,
) -> DiagnosisComparison:
    """Measure a model on one side of a cohort, beside word counts and the shares of the groups.

    The baselines are fitted on the cohort's own train side.

    Args:
        model: its groups are measured.
        cohort: see `clinical.stays.cohorts.coded_stays`.
        split: the side to measure.
        bootstrap: resamples of patients for intervals.

    Raises:
        TableError: a column is missing.
        UserError: the side has no stay with codes, or none with a group of the model; no stay can
            be scored; or the model was trained on patients of this side.
    """
    rows, unknown = coded_stays(cohort)
    side = side_with_groups(rows, model.labels, split)
    hashes = model.manifest.data.patients
    caveats = check_unseen(side["patient_id"], hashes, side=split)
    caveats += check_notes(model.settings.notes, side)
    if unknown:
        caveats.append(
            f"{unknown:,} stays of the cohort have no code: their groups are not known, and they "
            "are left out."
        )
    stays = list(
        counted(
            model.predict_many(side["text"]), what="scoring", total=len(side)
        )
    )
    is_scored = np.array([stay.status == "ok" for stay in stays])
    if not is_scored.any():
        raise UserError(
            f"none of the {len(side)} stays can be scored: {stays[0].reason}"
        )
    if not is_scored.all():
        caveats.append(
            f"{int((~is_scored).sum())} of {len(side)} stays could not be scored and are not "
            "measured."
        )
    side = side[is_scored].reset_index(drop=True)
    values = {
        MODEL: np.array(
            [
                [stay[group].probability for group in model.labels]
                for stay in stays
                if stay.status == "ok"
            ]
        )
    }
    train = rows[rows["split"] == "train"]
    if split == "train" or train.empty:
        caveats.append("No baseline was fitted: there is no other train side.")
    else:
        values |= _baselines(train, side, model.labels)
    settings = model.settings
    labels = labels_of(side, model.labels)
    evaluations = {}
    for name, numbers in values.items():
        of_model = name == MODEL
        evaluations[name] = evaluate_diagnoses(
            labels,
            numbers,
            groups=model.labels,
            patients=side["patient_id"],
            thresholds=settings.thresholds if of_model else {},
            calibrated=settings.calibration if of_model else (),
            bootstrap=bootstrap,
        )
    unmeasured = int(evaluations[MODEL].by_group["auroc"].isna().sum())
    if unmeasured:
        caveats.append(
            f"{unmeasured} of {len(model.labels)} groups have fewer than {MIN_POSITIVE} stays "
            "with or without them here: nothing is said of each of these."
        )
    without = len(model.labels) - len(settings.calibration)
    if without:
        caveats.append(
            f"{without} groups have no calibrator: their probability is the rule's score."
        )
    return DiagnosisComparison(evaluations, settings.names, caveats)


def side_with_groups(
    rows: pd.DataFrame, groups: Sequence[str], split: str
) -> pd.DataFrame:
    """The coded stays of a side, of which some have one of these groups.

    Raises:
        UserError: there is no stay on that side, or none has one of the groups.
    """
    side = rows[rows["split"] == split].reset_index(drop=True)
    if side.empty:
        sides = ", ".join(sorted(rows["split"].unique()))
        raise UserError(
            f"the cohort has no stays with codes on the side {split!r}; its sides: {sides}"
        )
    if not labels_of(side, groups).any():
        present = sorted({g for cell in side["diagnoses"] for g in cell})
        example = ""
        if present:
            example = f", such as {present[0]}"
        raise UserError(
            f"no stay of the side {split!r} has a group of the model, such as {groups[0]}: it has "
            f"{len(present)} others{example}; group its codes as the model's cohort did"
        )
    return side


def _baselines(
    train: pd.DataFrame, side: pd.DataFrame, groups: Sequence[str]
) -> dict[str, Floats]:
    """The values of word counts and of the shares, each of shape (stays, groups)."""
    labels = labels_of(train, groups)
    texts = ["\n".join(notes) for notes in train["text"]]
    new_texts = ["\n".join(notes) for notes in side["text"]]
    shares = np.tile(labels.mean(axis=0), (len(side), 1))
    return {TFIDF: word_values(texts, labels, new_texts), SHARES: shares}


def word_values(
    texts: Sequence[str], labels: np.ndarray, new_texts: Sequence[str]
) -> Floats:
    """Values of the groups by logistic regression on words and pairs, shape (new texts, groups).

    A group without a stay, or that every stay has, has its share. The vocabulary exists in memory
    only, because it may hold names.
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


def _named(resampled: Resampled) -> dict[str, Interval]:
    return {
        name: resampled[number].interval()
        for number, name in enumerate(MEASURES)
    }


def _f1(outcome: Floats, proposed: Floats, weights: Floats) -> float:
    """F1 of proposals, of all pairs together; 0 without any."""
    weights = weights.reshape(-1, *[1] * (outcome.ndim - 1))
    true_positives = (weights * outcome * proposed).sum()
    total = (weights * (outcome + proposed)).sum()
    if not total:
        return 0.0
    return float(2 * true_positives / total)


def _checked(labels: np.ndarray, values: np.ndarray) -> tuple[Floats, Floats]:
    outcome = np.asarray(labels, dtype=np.float64)
    risk = np.asarray(values, dtype=np.float64)
    if outcome.ndim != 2 or outcome.shape != risk.shape or not outcome.size:
        raise UserError(
            f"labels have the shape {outcome.shape} and values {risk.shape}; expected one row a "
            "stay and one column a group for both"
        )
    if not np.isin(outcome, (0, 1)).all():
        raise UserError("labels must be 0 or 1")
    if not ((risk >= 0) & (risk <= 1)).all():
        raise UserError("values must be probabilities between 0 and 1")
    return outcome, risk
