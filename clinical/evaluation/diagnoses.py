"""How well groups of diagnosis codes are ranked: over all groups, and group by group."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from clinical.evaluation.baselines import word_values
from clinical.evaluation.measures import RANKING_MEASURES, AllGroups
from clinical.risk.diagnoses import DiagnosisModel
from clinical.stays.choice import check_notes
from clinical.stays.cohorts import coded_stays, labels_of
from clinical.stays.patients import check_unseen, patient_codes
from domainbert.errors import UserError
from domainbert.progress import counted
from domainbert.statistics import Floats
from domainbert.statistics.bootstrap import Interval, Resampled, resample
from domainbert.statistics.calibration import calibration_error
from domainbert.tables import is_missing, key_like, require_columns

MIN_POSITIVE = 20
"""Fewest stays with a group (and without it) for anything to be claimed of it."""
MODEL = "model"
TFIDF = "TF-IDF"
SHARES = "prevalence"


def ranking_scores(labels: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """The numbers of `RANKING_MEASURES`, without intervals.

    Macro numbers are means over the groups of which some stays have it and some do not; a stay
    without any group does not count for its own ranking.

    Args:
        labels: 0 or 1, shape (stays, groups).
        values: probabilities or scores, same shape.
    """
    checked = _checked(labels, values)
    numbers = AllGroups(*checked).measured(np.ones(len(labels)))
    return dict(zip(RANKING_MEASURES, numbers.tolist(), strict=True))


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
        overall: the numbers of `RANKING_MEASURES` with 95% intervals by patient, and "F1" at the
            thresholds (of all pairs of a stay and a group with a threshold), if there are any.
        by_group: one row a group: `group, positive`, and where at least `MIN_POSITIVE` stays have
            it and as many do not, `auroc, auprc` with `_low` and `_high`; `f1` at its threshold
            and `ece`, the calibration error, where it has these.
        resampled: the numbers of `RANKING_MEASURES` in each resample.
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
    every_group = AllGroups(outcome, risk)
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
            at = len(RANKING_MEASURES) + number
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
        resampled[: len(RANKING_MEASURES)],
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
    model: DiagnosisModel | None,
    cohort: pd.DataFrame,
    *,
    scores: pd.DataFrame | None = None,
    split: str = "test",
    bootstrap: int = 1000,
) -> DiagnosisComparison:
    """Measure a model on one side of a cohort, beside word counts and the shares of the groups.

    The baselines are fitted on the cohort's own train side; with `scores` the cohort's notes are
    not needed, and there is no baseline on words.

    Args:
        model: its groups are measured; may be None with `scores`, whose groups are measured then.
        cohort: see `clinical.stays.cohorts.coded_stays`.
        scores: a table of groups whose probabilities are measured instead of scoring, see
            `probabilities_of`.
        split: the side to measure.
        bootstrap: resamples of patients for intervals.

    Raises:
        TableError: a column is missing.
        UserError: the side has no stay with codes, or none with a group of the model; no stay can
            be scored; or the model was trained on patients of this side.
    """
    rows, unknown = coded_stays(cohort, notes=scores is None)
    if model is not None:
        settings = model.settings
        measured = _Groups(
            list(model.labels),
            settings.names,
            settings.thresholds,
            frozenset(settings.calibration),
        )
    elif scores is not None:
        measured = _groups_of(scores)
    else:
        raise UserError(
            "neither a model nor scores were given; pass one of them"
        )
    groups = measured.groups
    side = side_with_groups(rows, groups, split)
    hashes = None
    if model is not None:
        hashes = model.manifest.data.patients
    caveats = check_unseen(side["patient_id"], hashes, side=split)
    if unknown:
        caveats.append(
            f"{unknown:,} stays of the cohort have no code: their groups are not known, and they "
            "are left out."
        )
    if scores is not None:
        require_columns(side.columns, ("stay_id",), source="the cohort")
        probabilities = probabilities_of(scores, side["stay_id"], groups)
        reason = "their stay_id is not in the score table, or has no probability of these groups"
        caveats.append(
            "The notes of the cohort were not read: no baseline on words was fitted."
        )
    elif model is not None:
        probabilities, reason = _predicted(model, side)
        caveats += check_notes(model.settings.notes, side)
    is_scored = ~np.isnan(probabilities).any(axis=1)
    if not is_scored.any():
        raise UserError(
            f"none of the {len(side)} stays can be scored: {reason}"
        )
    if not is_scored.all():
        caveats.append(
            f"{int((~is_scored).sum())} of {len(side)} stays could not be scored and are not "
            "measured."
        )
    side = side[is_scored].reset_index(drop=True)
    values = {MODEL: probabilities[is_scored]}
    train = rows[rows["split"] == "train"]
    if split == "train" or train.empty:
        caveats.append("No baseline was fitted: there is no other train side.")
    else:
        values |= _baselines(train, side, groups)
    return _measured(side, values, measured, caveats, bootstrap)


@dataclass(frozen=True)
class _Groups:
    """The groups that are measured, with their names, thresholds and calibrators."""

    groups: list[str]
    names: Mapping[str, str]
    thresholds: Mapping[str, float]
    calibrated: frozenset[str]


def _groups_of(scores: pd.DataFrame) -> _Groups:
    """The groups of a score table; without its model their thresholds are not known."""
    require_columns(scores.columns, ("group",), source="the score table")
    rows = scores[~scores["group"].map(is_missing).astype(bool)]
    firsts = rows.drop_duplicates("group").set_index("group").sort_index()
    names = {}
    if "name" in rows:
        names = firsts["name"].dropna().to_dict()
    calibrated: frozenset[str] = frozenset()
    if "calibrated" in rows:
        is_calibrated = firsts["calibrated"].astype(str).str.lower() == "true"
        calibrated = frozenset(firsts.index[is_calibrated])
    return _Groups(list(firsts.index), names, {}, calibrated)


def probabilities_of(
    scores: pd.DataFrame, stay_ids: pd.Series, groups: Sequence[str]
) -> Floats:
    """The probabilities of each stay from a score table, as `clinical score` writes it.

    Args:
        scores: `stay_id, group, probability`, a row for each stay and group, and perhaps `status`.
        stay_ids: the stays.
        groups: the groups, of which the table may have others too.

    Returns:
        Shape (stays, groups); NaN for a stay that the table lacks, or whose `status` is not "ok".

    Raises:
        TableError: a column is missing.
        UserError: the table has a group of a stay twice, or some groups of a stay only.
    """
    needed = ("stay_id", "group", "probability")
    require_columns(scores.columns, needed, source="the score table")
    key = key_like(stay_ids)
    rows = scores[scores["group"].isin(groups)]
    if "status" in rows:
        rows = rows[rows["status"] == "ok"]
    rows = rows.assign(stay_id=rows["stay_id"].map(key))
    rows = rows.dropna(subset=["stay_id"]).set_index(["stay_id", "group"])
    n_repeated = int(rows.index.duplicated().sum())
    if n_repeated:
        raise UserError(
            f"the score table has {n_repeated} repeated groups of a stay; expected one row for "
            "each stay and group, as clinical score writes"
        )
    keys = stay_ids.map(key)
    pairs = pd.MultiIndex.from_product([keys, groups])
    values = rows["probability"].reindex(pairs).to_numpy(dtype=np.float64)
    values = values.reshape(len(keys), len(groups))
    is_missing_one = np.isnan(values)
    n_partial = int(
        (is_missing_one.any(axis=1) & ~is_missing_one.all(axis=1)).sum()
    )
    if n_partial:
        raise UserError(
            f"the score table lacks groups of {n_partial} stays; expected all {len(groups)} groups "
            "of each: score without --top and --proposed"
        )
    return values


def _predicted(
    model: DiagnosisModel, side: pd.DataFrame
) -> tuple[Floats, str]:
    """The probabilities of stays, NaN for one that cannot be scored, and why the first is not."""
    stays = counted(
        model.predict_many(side["text"]), what="scoring", total=len(side)
    )
    values = np.full((len(side), len(model.labels)), np.nan)
    reason = ""
    for number, stay in enumerate(stays):
        if stay.status == "ok":
            values[number] = [stay[g].probability for g in model.labels]
        else:
            reason = reason or stay.reason
    return values, reason


def _measured(
    side: pd.DataFrame,
    values: Mapping[str, Floats],
    measured: _Groups,
    caveats: list[str],
    bootstrap: int,
) -> DiagnosisComparison:
    """The comparison of probabilities of the stays of a side."""
    labels = labels_of(side, measured.groups)
    evaluations = {}
    for name, numbers in values.items():
        thresholds: Mapping[str, float] = {}
        calibrated: frozenset[str] = frozenset()
        if name == MODEL:
            thresholds = measured.thresholds
            calibrated = measured.calibrated
        evaluations[name] = evaluate_diagnoses(
            labels,
            numbers,
            groups=measured.groups,
            patients=side["patient_id"],
            thresholds=thresholds,
            calibrated=calibrated,
            bootstrap=bootstrap,
        )
    n_groups = len(measured.groups)
    unmeasured = int(evaluations[MODEL].by_group["auroc"].isna().sum())
    if unmeasured:
        caveats.append(
            f"{unmeasured} of {n_groups} groups have fewer than {MIN_POSITIVE} stays "
            "with or without them here: nothing is said of each of these."
        )
    without = n_groups - len(measured.calibrated)
    if without:
        caveats.append(
            f"{without} groups have no calibrator: their probability is the rule's score."
        )
    return DiagnosisComparison(evaluations, measured.names, caveats)


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
    """The values of word counts, where there are notes, and of the shares: (stays, groups)."""
    labels = labels_of(train, groups)
    values = {}
    if "text" in train:
        texts = ["\n".join(notes) for notes in train["text"]]
        new_texts = ["\n".join(notes) for notes in side["text"]]
        values[TFIDF] = word_values(texts, labels, new_texts)
    return values | {SHARES: np.tile(labels.mean(axis=0), (len(side), 1))}


def _named(resampled: Resampled) -> dict[str, Interval]:
    return {
        name: resampled[number].interval()
        for number, name in enumerate(RANKING_MEASURES)
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
