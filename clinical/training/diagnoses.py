"""Training of diagnosis models: recipe, objective, and calibration of each group."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
import torch
from pydantic import Field
from torch.nn.functional import binary_cross_entropy

from clinical.evaluation.diagnoses import best_f1_threshold, ranking_scores
from clinical.risk.aggregation import aggregate_stays, aggregate_tensor
from clinical.risk.diagnoses import DiagnosisModel, DiagnosisSettings
from clinical.risk.manifest import DiagnosisData
from clinical.risk.stay_model import PreparationSettings
from clinical.stays.choice import CHOICE, choice_of
from clinical.stays.diagnoses import (
    DIAGNOSES,
    EVIDENCE,
    coded_stays,
    labels_of,
)
from clinical.stays.patients import patient_hashes
from clinical.training.recalibration import (
    C_GRID,
    EPSILON,
    check_events,
)
from domainbert.errors import UserError
from domainbert.settings import Count, Positive
from domainbert.statistics.calibration import calibrated, fit_platt, logit
from domainbert.text.runner import padded_inputs
from domainbert.training.objective import Batch, FreshBatches, Objective
from domainbert.training.recipes import ModelTable, Recipe

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from domainbert.training.settings import TrainingSettings

log = logging.getLogger(__name__)


class DiagnosisTable(ModelTable, PreparationSettings):
    """The `[model]` table of a diagnosis recipe; see also `PreparationSettings`.

    Attributes:
        min_stays: stays that a group needs on the train side; rarer groups are left out.
        positive_weight: how much more a group that is there counts in the loss than one that is
            not. 1 keeps the probabilities near the shares; more helps rare groups.
        negatives: share of the windows without any group that an epoch draws, where it is known
            in which windows the groups are; see `DiagnosisObjective`.
        window: tokens, from 16 to the encoder's limit, which is the default.
    """

    min_stays: Count = 20
    positive_weight: Positive = 5.0
    negatives: Annotated[float, Field(gt=0, le=1)] = 0.4
    window: Annotated[int, Field(ge=16)] | None = None


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
) -> DiagnosisModel:
    """Train a model on the rows with split "train", and choose weights on those with "val".

    The labels are the groups with at least `min_stays` stays on the train side. The weights with
    the best mean average precision of the groups on validation are kept; then c, the calibrators
    and the thresholds are fitted there.

    Args:
        cohort: see `clinical.stays.diagnoses.coded_stays`; the test side is not used.
        recipe: the recipe; by default one with default values.
        names: what the groups are called.
        checkpoints: folder for checkpoints; by default a temporary one.
        resume: continue from the last checkpoint; refused if anything differs.
        record_patients: keep hashes of the patients in the manifest; see
            `clinical.stays.patients.patient_hashes`.

    Raises:
        TableError: a column is missing.
        UserError: the cohort cannot be trained on, or a resumed run differs.
    """
    from domainbert.training.train import train

    recipe = recipe or DiagnosisRecipe()
    table = recipe.model
    usable, unknown = coded_stays(cohort)
    rows = usable[usable["split"].isin(["train", "val"])].reset_index(
        drop=True
    )
    groups = frequent_groups(rows, table.min_stays)
    reading = table.model_dump(include=set(PreparationSettings.model_fields))
    settings = DiagnosisSettings(
        **reading,
        names={group: (names or {}).get(group, "") for group in groups},
        notes=choice_of(rows.get(CHOICE, ())),
    )
    model = DiagnosisModel.untrained(
        table.encoder,
        training=recipe.training,
        settings=settings,
        labels=groups,
    )
    objective = DiagnosisObjective(
        model, rows, table=table, training=recipe.training
    )
    trained = train(
        model,
        (objective, recipe.training),
        start=table.start,
        checkpoints=checkpoints,
        resume=resume,
    )
    is_here = labels_of(rows, groups).astype(bool)
    sides = rows["split"].to_numpy()
    n_evidence = 0
    if EVIDENCE in rows:
        n_evidence = int(rows[EVIDENCE].notna().sum())
    patients = None
    if record_patients:
        patients = patient_hashes(rows)
    manifest = trained.manifest
    manifest.card = recipe.card
    manifest.data = DiagnosisData(
        stays=dict(Counter(sides.tolist())),
        positive={
            group: dict(Counter(sides[is_here[:, number]].tolist()))
            for number, group in enumerate(groups)
        },
        unknown=unknown,
        evidence=n_evidence,
        patients=patients,
    )
    values, counts = trained.window_probabilities(objective.val_windows)
    return calibrate(trained, values, counts, objective.val_labels)


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


@dataclass(frozen=True)
class Example:
    """Windows that are trained on together: a stay, or one window whose groups are known.

    Attributes:
        windows: token ids.
        target: 1 for each group that is there, shape (groups,).
        weight: 0 for a group that is not known in this window, else 1.
    """

    windows: list[np.ndarray] = field(repr=False)
    target: np.ndarray
    weight: np.ndarray

    @property
    def ids(self) -> np.ndarray:
        """All tokens; batches are planned by their number."""
        return np.concatenate(self.windows)


class DiagnosisObjective(Objective):
    """Binary cross-entropy of the groups of stays through the readmission rule.

    Where the column `evidence` says at which characters of the notes a group was found, each
    window is an example by itself: its groups are those whose place it contains, and a group whose
    place it cuts does not count. Of windows without any group, each epoch draws a new share. A
    stay without evidence is one example with all groups of the stay.

    Args:
        model: an untrained model, which gives windows and c.
        rows: from `coded_stays`, of the sides train and val.
        table: the recipe's table.
        training: limits of a batch, and the seed.
    """

    metric = "auprc"

    def __init__(
        self,
        model: DiagnosisModel,
        rows: pd.DataFrame,
        *,
        table: DiagnosisTable,
        training: TrainingSettings,
    ) -> None:
        self._model = model
        self._table = table
        self._training = training
        self._rows = rows
        read = [model.prepared(text) for text in rows["text"]]
        has_windows = np.array([bool(stay.windows) for stay in read])
        if not has_windows.all():
            log.warning(
                "%d stays have no readable text and are left out",
                int((~has_windows).sum()),
            )
        labels = labels_of(rows, model.labels)
        is_train = (rows["split"] == "train").to_numpy() & has_windows
        is_val = (rows["split"] == "val").to_numpy() & has_windows
        if not is_train.any() or not is_val.any():
            raise UserError(
                f"{int(is_train.sum())} stays to train on and {int(is_val.sum())} to choose "
                "weights on; expected some of each side, train and val"
            )
        self.val_labels = labels[is_val]
        self.val_windows = [
            read[row].input_ids for row in np.flatnonzero(is_val)
        ]
        places = rows.get(EVIDENCE, pd.Series([None] * len(rows)))
        self._stays: list[list[Example]] = []
        for row in np.flatnonzero(is_train).tolist():
            if isinstance(places[row], Sequence):
                examples = self._by_window(read[row], places[row])
            else:
                every_group = np.ones_like(labels[row])
                examples = [
                    Example(read[row].input_ids, labels[row], every_group)
                ]
            self._stays.append(examples)
        self.batches = FreshBatches(
            self, batch_tokens=training.batch_tokens, seed=training.seed
        )

    def _by_window(self, stay: Any, evidence: Sequence[Any]) -> list[Example]:
        """The windows of a stay, each with the groups whose evidence it contains."""
        numbers = {
            group: number for number, group in enumerate(self._model.labels)
        }
        examples = []
        for (note, window), ids in zip(
            stay.windows, stay.input_ids, strict=True
        ):
            target = np.zeros(len(numbers), np.float32)
            weight = np.ones(len(numbers), np.float32)
            for span in evidence:
                number = numbers.get(span["group"])
                if number is None or span["note"] != note:
                    continue
                if span["end"] <= window.start or span["start"] >= window.end:
                    continue
                is_whole = (
                    span["start"] >= window.start and span["end"] <= window.end
                )
                if is_whole:
                    target[number] = weight[number] = 1
                elif not target[number]:
                    weight[number] = 0
            examples.append(Example([ids], target, weight))
        return examples

    def make(self, epoch: int) -> list[Example]:
        """The examples of an epoch."""
        generator = np.random.default_rng((self._training.seed, epoch, 2))
        limit = self._training.max_windows
        chosen = []
        for stay in self._stays:
            for example in stay:
                is_drawn = (
                    len(stay) == 1
                    or example.target.any()
                    or generator.random() < self._table.negatives
                )
                if not is_drawn:
                    continue
                windows = example.windows
                if len(windows) > limit:
                    rows = generator.choice(len(windows), limit, replace=False)
                    windows = [windows[row] for row in rows]
                chosen.append(Example(windows, example.target, example.weight))
        return chosen

    def collate(self, batch: Sequence[Example], *, epoch: int) -> Batch:
        """The windows of a batch, padded, with the number of each window's example."""
        del epoch
        windows = [ids for example in batch for ids in example.windows]
        numbers = np.repeat(
            np.arange(len(batch)), [len(e.windows) for e in batch]
        )
        padding = self._model.tokenizer.pad_token_id
        return {
            "group": torch.from_numpy(numbers),
            "targets": torch.from_numpy(np.stack([e.target for e in batch])),
            "weights": torch.from_numpy(np.stack([e.weight for e in batch])),
            **padded_inputs(windows, pad_token_id=padding),
        }

    def loss(self, network: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """Binary cross-entropy, summed over groups; see `DiagnosisTable.positive_weight`."""
        output = network(
            input_ids=batch["input_ids"],
            attention_mask=batch.get("attention_mask"),
        )
        targets = batch["targets"]
        risk = aggregate_tensor(
            torch.sigmoid(output.logits.float()),
            batch["group"],
            stays=len(targets),
            c=self._model.c,
        )
        factor = 1 + (self._table.positive_weight - 1) * targets
        losses = binary_cross_entropy(
            risk.clamp(EPSILON, 1 - EPSILON),
            targets,
            weight=factor * batch["weights"],
            reduction="none",
        )
        return losses.sum(dim=1).mean()

    def evaluate(self, network: PreTrainedModel) -> dict[str, float]:
        """Ranking of the groups on the validation stays; see `ranking_scores`."""
        model = self._model.with_network(network)
        values, counts = model.window_probabilities(self.val_windows)
        risks = aggregate_stays(values, counts, c=self._model.c)
        scores = ranking_scores(self.val_labels, risks)
        return {
            "auprc": scores["macro AUPRC"],
            "auroc": scores["macro AUROC"],
            "micro_auprc": scores["micro AUPRC"],
        }

    def facts(self) -> dict[str, object]:
        """A hash of patients, groups, sides, texts and evidence, and the settings of the loss."""
        digest = hashlib.sha256()
        for cells in _cells(self._rows):
            digest.update(cells.encode(errors="replace"))
        return {
            "data_sha256": digest.hexdigest(),
            "positive_weight": self._table.positive_weight,
            "negatives": self._table.negatives,
        }


def _cells(rows: pd.DataFrame) -> Iterator[str]:
    """What identifies each stay."""
    columns = ["patient_id", "split", DIAGNOSES, "text"]
    if EVIDENCE in rows:
        columns.append(EVIDENCE)
    for cells in rows[columns].itertuples(index=False):
        yield "\x1f".join(map(str, cells))


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
