"""Training of diagnosis models: recipe, calibration of each group, later calibration."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from clinical.evaluation.diagnoses import (
    TFIDF,
    best_f1_threshold,
    side_with_groups,
)
from clinical.risk.aggregation import aggregate_stays
from clinical.risk.diagnoses import DiagnosisModel, DiagnosisSettings
from clinical.risk.manifest import DiagnosisData
from clinical.risk.stay_model import PreparationSettings
from clinical.stays.choice import CHOICE, choice_of
from clinical.stays.cohorts import (
    DIAGNOSES,
    EVIDENCE,
    coded_stays,
    labels_of,
)
from clinical.stays.patients import (
    patient_hashes,
    with_patients,
)
from clinical.training.diagnosis_objective import (
    DiagnosisObjective,
    DiagnosisTable,
)
from clinical.training.recalibration import (
    C_GRID,
    EPSILON,
    MIN_EVENTS,
    check_events,
    unseen_stays,
)
from domainbert.encoders.adapters import OUTPUT_LAYERS, Adapter
from domainbert.encoders.configs import named_outputs
from domainbert.errors import UserError
from domainbert.statistics.calibration import calibrated, fit_platt, logit
from domainbert.training.recipes import Recipe

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedModel

    from clinical.evaluation.diagnoses import (
        DiagnosisComparison,
        DiagnosisEvaluation,
    )

log = logging.getLogger(__name__)
_HEAD_SCALE = 0.1  # of a new head's weights, so that it begins near the shares


class DiagnosisRecipe(Recipe):
    """The recipe of a diagnosis model: `[model]`, `[training]` and `[card]`."""

    model: DiagnosisTable = DiagnosisTable()


def fit(
    cohort: pd.DataFrame,
    recipe: DiagnosisRecipe | None = None,
    *,
    names: Mapping[str, str] | None = None,
    checkpoints: str | Path | None = None,
    resume: bool = False,
    record_patients: bool = True,
    model_class: type[DiagnosisModel] = DiagnosisModel,
) -> DiagnosisModel:
    """Train a model on the rows with split "train", and choose weights on those with "val".

    The labels are the groups with at least `min_stays` stays on the train side. The weights with
    the best mean average precision of the groups on validation are kept; then c, the calibrators
    and the thresholds are fitted there.

    Args:
        cohort: see `clinical.stays.cohorts.coded_stays`; the test side is not used.
        recipe: the recipe; by default one with default values.
        names: what the groups are called.
        checkpoints: folder for checkpoints; by default a temporary one.
        resume: continue from the last checkpoint; refused if anything differs.
        record_patients: keep hashes of the patients in the manifest; see
            `clinical.stays.patients.patient_hashes`.
        model_class: the class of the model.

    Raises:
        TableError: a column is missing.
        UserError: the cohort cannot be trained on, or a resumed run differs.
    """
    recipe = recipe or DiagnosisRecipe()
    usable, unknown = coded_stays(cohort)
    rows = usable[usable["split"].isin(["train", "val"])].reset_index(
        drop=True
    )
    sides = Counter(rows["split"])
    if not sides["train"] or not sides["val"]:
        raise UserError(
            f"{sides['train']} stays to train on and {sides['val']} to choose weights on; expected "
            "some of each side, train and val"
        )
    trained, objective = _train(
        rows,
        recipe,
        names=names,
        checkpoints=checkpoints,
        resume=resume,
        model_class=model_class,
    )
    trained.manifest.data = _data(
        rows, trained.labels, unknown=unknown, record_patients=record_patients
    )
    values, counts = trained.window_probabilities(objective.val_windows)
    labels = objective.val_labels[:, : len(trained.labels)]
    return calibrate(trained, values, counts, labels)


def refit(
    model: DiagnosisModel,
    cohort: pd.DataFrame,
    recipe: DiagnosisRecipe,
    *,
    checkpoints: str | Path | None = None,
    resume: bool = False,
    record_patients: bool = True,
) -> DiagnosisModel:
    """Train anew on the sides train and val together, after a model has been measured.

    Groups, c, calibrators, thresholds and scores are those of `model`, which `fit` trained by the
    same recipe on the train side alone: nothing is left that could choose or measure them anew.

    Args:
        model: from `fit`.
        cohort: see `fit`.
        recipe: the recipe of `model`.
        checkpoints: see `fit`; another folder than that of `model`.
        resume: see `fit`.
        record_patients: see `fit`.
    """
    usable, unknown = coded_stays(cohort)
    is_known = usable["split"].isin(["train", "val"])
    rows = usable[is_known].assign(split="train").reset_index(drop=True)
    trained, _ = _train(
        rows,
        recipe,
        groups=list(model.labels),
        checkpoints=checkpoints,
        resume=resume,
    )
    settings = model.settings
    refitted = trained.with_settings(settings)
    refitted.manifest.data = _data(
        rows, trained.labels, unknown=unknown, record_patients=record_patients
    )
    refitted.manifest.training.validation = {}  # there was none
    refitted.manifest.scores = model.manifest.scores
    refitted.manifest.by_group = model.manifest.by_group
    return refitted


def _train(
    rows: pd.DataFrame,
    recipe: DiagnosisRecipe,
    *,
    groups: list[str] | None = None,
    names: Mapping[str, str] | None = None,
    checkpoints: str | Path | None = None,
    resume: bool = False,
    model_class: type[DiagnosisModel] = DiagnosisModel,
) -> tuple[DiagnosisModel, DiagnosisObjective]:
    """A model of `groups`, by default the frequent ones, and what it was trained on."""
    from domainbert.training.train import train

    table = recipe.model
    training = recipe.training
    if groups is None:
        groups = frequent_groups(rows, table.min_stays)
    auxiliary: list[str] = []
    if table.auxiliary_stays:
        frequent = frequent_groups(rows, table.auxiliary_stays)
        auxiliary = [group for group in frequent if group not in groups]
    reading = table.model_dump(include=set(PreparationSettings.model_fields))
    settings = DiagnosisSettings(
        **reading,
        names={group: (names or {}).get(group, "") for group in groups},
        notes=choice_of(rows.get(CHOICE, ())),
    )
    model = model_class.untrained(
        table.encoder,
        training=training,
        settings=settings,
        labels=[*groups, *auxiliary],
    )
    objective = DiagnosisObjective(model, rows, table=table, training=training)
    start_at_shares(model.network, objective.shares())
    if not len(objective.val_labels):
        # There is nothing to choose weights by: the last ones count.
        once = 1 / (training.epochs + 1)
        training = training.replaced(evaluations=once)
    trained = train(
        model,
        (objective, training),
        start=table.start,
        checkpoints=checkpoints,
        resume=resume,
    )
    trained = first_outputs(trained, groups)
    trained.manifest.card = recipe.card
    return trained, objective


def _data(
    rows: pd.DataFrame,
    groups: Sequence[str],
    *,
    unknown: int,
    record_patients: bool,
) -> DiagnosisData:
    """What the manifest says of the stays that were trained on."""
    is_here = labels_of(rows, groups).astype(bool)
    sides = rows["split"].to_numpy()
    n_evidence = 0
    if EVIDENCE in rows:
        n_evidence = int(rows[EVIDENCE].notna().sum())
    patients = None
    if record_patients:
        patients = patient_hashes(rows)
    return DiagnosisData(
        stays=dict(Counter(sides.tolist())),
        positive={
            group: dict(Counter(sides[is_here[:, number]].tolist()))
            for number, group in enumerate(groups)
        },
        unknown=unknown,
        evidence=n_evidence,
        patients=patients,
    )


def start_at_shares(network: PreTrainedModel, shares: np.ndarray) -> None:
    """Let a new head begin at the share of each output, in (0, 1), whatever the text is."""
    head = _head(network)
    with torch.no_grad():
        head.weight.mul_(_HEAD_SCALE)
        head.bias.copy_(torch.from_numpy(logit(shares)))


def first_outputs(
    model: DiagnosisModel, labels: Sequence[str]
) -> DiagnosisModel:
    """The model without its outputs after these first ones."""
    number = len(labels)
    if number == len(model.labels):
        return model
    head = _head(model.network)
    head.weight = torch.nn.Parameter(head.weight[:number].detach().clone())
    head.bias = torch.nn.Parameter(head.bias[:number].detach().clone())
    head.out_features = number
    model.network.config.update(named_outputs(labels))
    model.network.num_labels = number
    if model.adapter:
        heads = tuple(f".{layer}." for layer in OUTPUT_LAYERS)
        tensors = {}
        for name, tensor in model.adapter.tensors.items():
            tensors[name] = tensor
            if any(layer in name for layer in heads):
                tensors[name] = tensor[:number].contiguous()
        model.adapter = Adapter(model.adapter.settings, tensors)
    if model.config:
        model.config = model.config.replaced(labels=tuple(labels))
    model.prepare()
    return model


def _head(network: PreTrainedModel) -> torch.nn.Linear:
    """The last layer of a classifier."""
    head: torch.nn.Linear = network.classifier
    return head


def frequent_groups(rows: pd.DataFrame, min_stays: int) -> list[str]:
    """The groups with enough stays on the train side, in alphabetical order.

    Raises:
        UserError: no group has so many, or every stay has one of them.
    """
    train = rows[rows["split"] == "train"]
    counts = Counter(
        group for groups in train[DIAGNOSES] for group in set(groups)
    )
    frequent = sorted(g for g, number in counts.items() if number >= min_stays)
    if not frequent:
        raise UserError(
            f"no group has {min_stays} stays on the train side of {len(train)} stays: lower "
            "min_stays, or use larger groups"
        )
    if everywhere := [g for g in frequent if counts[g] == len(train)]:
        raise UserError(
            f"every stay of the train side has {everywhere[0]!r}, so there is nothing to learn of "
            "it: use smaller groups"
        )
    return frequent


def _group_calibrators(
    groups: Sequence[str], scores: np.ndarray, labels: np.ndarray
) -> tuple[dict[str, tuple[float, float]], float]:
    """Platt's calibrator of each group that has enough stays, and the sum of their log losses."""
    fits = {}
    loss = 0.0
    for number, group in enumerate(groups):
        outcome = labels[:, number]
        try:
            check_events(outcome)
            fit_of_group = fit_platt(logit(scores[:, number]), outcome)
        except UserError:
            continue
        fits[group] = fit_of_group
        risk = calibrated(scores[:, number], *fit_of_group)
        risk = np.clip(risk, EPSILON, 1 - EPSILON)
        loss -= float(
            np.mean(outcome * np.log(risk) + (1 - outcome) * np.log1p(-risk))
        )
    return fits, loss


def calibrate(
    model: DiagnosisModel,
    values: np.ndarray,
    counts: np.ndarray,
    labels: np.ndarray,
    *,
    grid: Sequence[float] = C_GRID,
) -> DiagnosisModel:
    """Fit c, a calibrator for each group with enough stays, and thresholds, on other stays.

    The c with the highest likelihood of the calibrated groups is chosen. A group with fewer stays
    of an outcome than `check_events` asks for has no calibrator. The threshold of a group is the
    one with the best F1, where the group has a calibrator.

    Args:
        model: a trained model.
        values: probabilities of windows, shape (windows, groups).
        counts: windows of each stay, shape (stays,).
        labels: 0 or 1, shape (stays, groups).
        grid: values of c to choose from.

    Returns:
        The model with these settings.
    """
    best: tuple[float, float, dict[str, tuple[float, float]]] | None = None
    for c in grid:
        scores = aggregate_stays(values, counts, c=c)
        fits, loss = _group_calibrators(model.labels, scores, labels)
        # A c that calibrates more groups wins; then the likelihood decides.
        rank = (-len(fits), loss)
        if best is None or rank < (-len(best[2]), best[0]):
            best = (loss, c, fits)
    if best is None or not best[2]:
        log.warning(
            "no group has enough validation stays for a calibrator: every probability is the score"
        )
        return model
    _, c, fits = best
    settings = model.settings.replaced(
        c=c, calibration={group: list(pair) for group, pair in fits.items()}
    )
    fitted = model.with_settings(settings)
    risks = fitted.calibrated(aggregate_stays(values, counts, c=c))
    thresholds = {
        group: best_f1_threshold(labels[:, number], risks[:, number])
        for number, group in enumerate(model.labels)
        if group in fits
    }
    return fitted.with_settings(settings.replaced(thresholds=thresholds))


def recalibrate(
    model: DiagnosisModel,
    cohort: pd.DataFrame,
    *,
    split: str = "val",
    keep_c: bool = False,
) -> DiagnosisModel:
    """Fit c, the calibrators and the thresholds of a model on a hospital's own stays.

    A group with too few stays there keeps no calibrator, because that of other stays, and perhaps
    of another c, does not hold here.

    Args:
        model: not changed.
        cohort: see `clinical.stays.cohorts.coded_stays`.
        split: the side to fit on; measure on another one.
        keep_c: keep c, if shorter or longer stays will be scored too.

    Raises:
        TableError: a column is missing.
        UserError: no stay of that side has a group of the model or can be scored, no group has
            enough stays, or the model was trained on some of the patients.
    """
    rows, _ = coded_stays(cohort)
    side = side_with_groups(rows, model.labels, split)
    hashes = model.manifest.data.patients
    side, windows = unseen_stays(model, side, split)
    values, counts = model.window_probabilities(windows)
    grid: Sequence[float] = C_GRID
    if keep_c:
        grid = (model.c,)
    blank = model.settings.replaced(
        calibration={},
        thresholds={},
        notes=choice_of(side.get(CHOICE, ())) or model.settings.notes,
    )
    labels = labels_of(side, model.labels)
    fitted = calibrate(
        model.with_settings(blank), values, counts, labels, grid=grid
    )
    if not fitted.settings.calibration:
        raise UserError(
            f"no group has {2 * MIN_EVENTS} of the {len(side)} stays of the side {split!r} and is "
            f"missing from as many: too few to calibrate on; take more stays"
        )
    manifest = model.manifest.model_copy(deep=True)
    fitted.manifest = manifest
    manifest.example = None  # its probability is no longer right
    manifest.recalibrated = len(side)
    if hashes:
        manifest.data.patients = with_patients(
            hashes, side["patient_id"], side="val"
        )
    return fitted


def record(comparison: DiagnosisComparison, model: DiagnosisModel) -> None:
    """Put the measures into the model's manifest, for its card."""
    evaluation = comparison.model
    scores = model.manifest.scores
    scores.note = (
        f"On {evaluation.n_stays:,} stays of {evaluation.n_patients:,} patients of the side test. "
        "95% intervals by bootstrapping patients."
    )
    scores.table = {
        name: dict(measured.overall)
        for name, measured in comparison.evaluations.items()
    }
    if TFIDF in comparison.evaluations:
        difference = evaluation.minus(comparison.evaluations[TFIDF])
        scores.table[f"difference to {TFIDF}"] = dict(difference)
    model.manifest.by_group = group_rows(evaluation)


def group_rows(evaluation: DiagnosisEvaluation) -> list[dict[str, Any]]:
    """The groups that were measured, with their intervals as text."""
    rows = []
    for row in evaluation.by_group.to_dict("records"):
        if np.isnan(row["auroc"]):
            continue
        texts = {
            f"{name}_text": (
                f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"
            )
            for name in ("auroc", "auprc")
        }
        numbers = {}
        for name, value in row.items():
            numbers[name] = value
            if value != value:
                numbers[name] = None
        rows.append(numbers | texts)
    return rows
