"""Training of readmission models: recipe, objective and calibration on validation."""

import hashlib
import logging
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

import numpy as np
import pandas as pd
import torch
from pydantic import Field
from torch.nn.functional import binary_cross_entropy_with_logits

from clinical.risk.aggregation import aggregate_stays, aggregate_tensor
from clinical.risk.manifest import CohortData
from clinical.risk.model import ReadmissionModel, ReadmissionSettings
from clinical.risk.stay_model import PreparationSettings
from clinical.stays.choice import CHOICE, NoteChoice, choice_of
from clinical.stays.cohorts import usable_stays
from clinical.stays.patients import check_unseen, patient_hashes, patient_keys
from clinical.training.recalibration import (
    EPSILON,
    check_events,
    choose,
    record_validation,
)
from domainbert.errors import UserError
from domainbert.text.runner import padded_inputs
from domainbert.training.objective import Batch, LengthBatches, Objective
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.settings import Resuming, TrainingSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)
FOLDS = 5
"""Folds of cross-fitted calibration."""


class ReadmissionTable(ModelTable, PreparationSettings):
    """The `[model]` table of a readmission recipe; see also `PreparationSettings`.

    Attributes:
        objective: with "window", as in the paper, each window has its stay's label; "stay" trains
            through the readmission rule, so that each stay counts once, whatever its length.
        calibration: "validation" fits c, the calibrator and the threshold on the validation side;
            "cross-fitted" on out-of-fold scores of both sides, which trains `FOLDS` more models
            and suits a small hospital.
        window: tokens, from 16 to the encoder's limit, which is the default.
    """

    objective: Literal["stay", "window"] = "stay"
    calibration: Literal["validation", "cross-fitted"] = "validation"
    window: Annotated[int, Field(ge=16)] | None = None


class ReadmissionRecipe(Recipe):
    """The recipe of a readmission model: `[model]`, `[training]` and `[card]`."""

    model: ReadmissionTable = ReadmissionTable()


def fit(
    cohort: pd.DataFrame,
    recipe: ReadmissionRecipe | None = None,
    *,
    checkpoints: str | Path | None = None,
    resume: bool = False,
    record_patients: bool = True,
    model_class: type[ReadmissionModel] = ReadmissionModel,
) -> ReadmissionModel:
    """Train a model on the rows with split "train", and choose weights on those with "val".

    Positive stays are weighted by the training prevalence; no side is resampled. The weights with
    the best validation AUROC are kept. Then c, a calibrator and an alert threshold are fitted, see
    `ReadmissionTable.calibration`; if that fails, the log and the card give the reason.

    Args:
        cohort: see `clinical.stays.cohorts.usable_stays`; the test side is not used.
        recipe: the recipe; by default one with default values.
        checkpoints: folder for checkpoints; by default a temporary one.
        resume: continue from the last checkpoint; refused if anything differs.
        record_patients: keep hashes of the patients in the manifest, so that evaluation can refuse
            patients that were trained on; see `clinical.stays.patients.patient_hashes`.
        model_class: the class of the model.

    Raises:
        TableError: a column is missing.
        UserError: the cohort cannot be trained on, or a resumed run differs.
    """
    recipe = recipe or ReadmissionRecipe()
    table = recipe.model
    usable = usable_stays(cohort)
    rows = usable[usable["split"].isin(["train", "val"])]
    _check_sides(rows)
    choice = choice_of(rows.get(CHOICE, ()))
    if choice is None:
        log.warning(
            "the cohort does not say how its notes were chosen: all will be read"
        )
    _warn_of_few_events(rows, table)
    start_hashes = None
    if table.start:
        start = ReadmissionModel.from_pretrained(table.start)
        start_hashes = start.manifest.data.patients
        held_out = usable[usable["split"] != "train"]["patient_id"]
        for caveat in check_unseen(held_out, start_hashes, side="val"):
            log.warning("%s: %s", table.start, caveat)
    model, objective = _trained(
        rows,
        recipe,
        choice,
        model_class=model_class,
        checkpoints=checkpoints,
        resume=resume,
    )
    test_rows = usable[usable["split"] == "test"]
    _describe(model, recipe, objective.rows, test_rows)
    if record_patients:
        model.manifest.data.patients = patient_hashes(rows, start_hashes)
    values, counts = model.window_probabilities(objective.val_windows)
    try:
        if table.calibration == "cross-fitted":
            choose(model, *_out_of_fold(objective.rows, recipe, choice))
        else:
            choose(model, values, counts, objective.outcome)
    except UserError as error:
        log.warning("no calibration: %s", error)
        model.manifest.calibration.refused = str(error)
    scores = aggregate_stays(values, counts, c=model.c)
    record_validation(model, objective.val_rows, model.calibrated(scores))
    return model


def _warn_of_few_events(rows: pd.DataFrame, table: ReadmissionTable) -> None:
    """Warn before training that calibration will fail."""
    outcome = rows["readmitted"]
    advice = ""
    if table.calibration == "validation":
        outcome = outcome[rows["split"] == "val"]
        advice = " or cross-fitted calibration"
    try:
        check_events(outcome)
    except UserError as error:
        log.warning(
            "this model will not be calibrated: %s. Use a larger validation side (clinical cohort "
            "--fractions 0.6 0.2 0.2, or the estimator's validation_fraction)%s",
            error,
            advice,
        )


def _describe(
    model: ReadmissionModel,
    recipe: ReadmissionRecipe,
    used: pd.DataFrame,
    test_rows: pd.DataFrame,
) -> None:
    """Add what the card says about the data to the manifest."""
    sides = pd.concat([used, test_rows]).groupby("split")["readmitted"]
    manifest = model.manifest
    manifest.card = recipe.card
    manifest.training.objective = recipe.model.objective
    manifest.calibration.method = recipe.model.calibration
    manifest.data = CohortData(
        stays=sides.size().to_dict(),
        prevalence=sides.mean().to_dict(),
        without_patient_id=int(used["patient_id"].isna().sum()),
        disjoint=True,
    )


def _trained(
    rows: pd.DataFrame,
    recipe: ReadmissionRecipe,
    choice: NoteChoice | None,
    *,
    model_class: type[ReadmissionModel] = ReadmissionModel,
    **run: Unpack[Resuming],
) -> tuple[ReadmissionModel, "ReadmissionObjective"]:
    """A model trained on the train side of rows; `run` is for `domainbert.training.train`."""
    from domainbert.training.train import train

    table = recipe.model
    training = recipe.training
    reading = table.model_dump(
        exclude={"encoder", "start", "objective", "calibration"}
    )
    settings = ReadmissionSettings(**reading, notes=choice)
    model = model_class.untrained(
        table.encoder, training=training, settings=settings
    )
    objective = ReadmissionObjective(
        model, rows, table=table, training=training
    )
    trained = train(model, (objective, training), start=table.start, **run)
    return trained, objective


def _out_of_fold(
    rows: pd.DataFrame,
    recipe: ReadmissionRecipe,
    choice: NoteChoice | None,
) -> tuple[np.ndarray, ...]:
    """Probabilities of windows, counts and outcomes of all stays, for `choose`.

    Each stay is scored by a model that was not trained on its patient (cross-fitting, as in
    scikit-learn's `CalibratedClassifierCV` with `ensemble=False`).
    """
    folds = patient_folds(
        rows["readmitted"].to_numpy(),
        patient_keys(rows["patient_id"]),
        folds=FOLDS,
        seed=recipe.training.seed,
    )
    parts = []
    for number, sides in enumerate(folds, start=1):
        log.info("calibration: training %d of %d", number, len(folds))
        model, fold = _trained(rows.assign(split=sides), recipe, choice)
        values, counts = model.window_probabilities(fold.val_windows)
        parts.append((values, counts, fold.outcome))
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def patient_folds(
    outcome: np.ndarray,
    patients: np.ndarray,
    *,
    folds: int,
    seed: int,
) -> list[np.ndarray]:
    """The sides of stays, with one fold after the other as "val", each of shape (stays,).

    The folds are stratified by outcome and keep patients together. There are fewer where an outcome
    has fewer patients.

    Raises:
        UserError: an outcome has fewer than two patients.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    n_patients = min(len(set(patients[outcome == label])) for label in (0, 1))
    if n_patients < 2:
        raise UserError(
            f"{n_patients} patients of one class; expected at least 2 of each class"
        )
    splitter = StratifiedGroupKFold(
        min(folds, n_patients),
        shuffle=True,
        random_state=seed,
    )
    every_side = []
    # The splitter does not read its first argument.
    for _, held_out in splitter.split(outcome, outcome, patients):
        sides = np.full(len(outcome), "train", dtype=object)
        sides[held_out] = "val"
        every_side.append(sides)
    return every_side


def _check_sides(rows: pd.DataFrame) -> None:
    for side in ("train", "val"):
        part = rows[rows["split"] == side]
        if part["readmitted"].nunique() < 2:
            raise UserError(
                f"the {side} side has {len(part)} stays, which do not have both outcomes. Build "
                "a cohort of more stays, or with other shares: "
                "clinical cohort ... --fractions 0.6 0.2 0.2"
            )


class ReadmissionObjective(Objective):
    """Weighted binary cross-entropy of windows, or of stays through the readmission rule.

    Args:
        model: an untrained model, which gives windows and c.
        rows: from `usable_stays`, with an index without repeats; stays without any window are left
            out. A column `target` (from 0 to 1, a label with less noise) replaces the label in
            training.
        table: the recipe's table.
        training: limits of a batch, and the seed.
    """

    metric = "auroc"

    def __init__(
        self,
        model: ReadmissionModel,
        rows: pd.DataFrame,
        *,
        table: ReadmissionTable,
        training: TrainingSettings,
    ) -> None:
        tokens = model.token_ids(rows["text"])
        windows = pd.Series(tokens, index=rows.index, dtype=object)
        has_windows = windows.map(len) > 0
        n_empty = int((~has_windows).sum())
        if n_empty:
            log.warning(
                "%d stays have no readable text and are left out", n_empty
            )
        self.rows = rows[has_windows]
        _check_sides(self.rows)
        self.val_rows = self.rows[self.rows["split"] == "val"]
        self.val_windows = windows[self.val_rows.index].tolist()
        self.outcome = self.val_rows["readmitted"].to_numpy()
        train_rows = self.rows[self.rows["split"] == "train"]
        stays = windows[train_rows.index].tolist()
        targets = _targets(train_rows)
        if table.objective == "window":
            targets = np.repeat(targets, [len(stay) for stay in stays])
            stays = [[window] for window in chain.from_iterable(stays)]
        self._groups = stays
        self._targets = targets
        prevalence = train_rows["readmitted"].mean()
        self._weight = float((1 - prevalence) / prevalence)
        self._model = model
        self._table = table
        self._training = training
        sizes = [
            (min(len(stay), training.max_windows), max(map(len, stay)))
            for stay in stays
        ]
        self.batches = LengthBatches(
            np.array(sizes),
            batch_size=training.batch_size,
            batch_tokens=training.batch_tokens,
            seed=training.seed,
        )

    def collate(self, batch: Sequence[int], *, epoch: int) -> Batch:
        """The windows of a batch of stays, padded, with the number of each window's stay."""
        windows = []
        group = []
        for number, row in enumerate(batch):
            stay_windows = self._sample(row, epoch)
            windows += stay_windows
            group += [number] * len(stay_windows)
        padding = self._model.tokenizer.pad_token_id
        return {
            "group": torch.tensor(group),
            "targets": torch.from_numpy(self._targets[list(batch)]),
            **padded_inputs(windows, pad_token_id=padding),
        }

    def _sample(self, row: int, epoch: int) -> list[np.ndarray]:
        """At most `max_windows` windows of a stay."""
        windows = self._groups[row]
        limit = self._training.max_windows
        if len(windows) <= limit:
            return windows
        # The seed includes epoch and stay, so that a resumed run draws the same windows.
        generator = np.random.default_rng((self._training.seed, epoch, row))
        numbers = generator.choice(len(windows), limit, replace=False)
        return [windows[number] for number in numbers]

    def loss(self, network: "PreTrainedModel", batch: Batch) -> torch.Tensor:
        """Binary cross-entropy, with positives weighted by negatives / positives."""
        output = network(
            input_ids=batch["input_ids"],
            attention_mask=batch.get("attention_mask"),
        )
        logits = output.logits.squeeze(-1).float()
        group = batch["group"]
        targets = batch["targets"]
        if self._table.objective == "window":
            weight = torch.as_tensor(self._weight, device=logits.device)
            return binary_cross_entropy_with_logits(
                logits,
                targets[group],
                pos_weight=weight,
            )
        risk = aggregate_tensor(
            torch.sigmoid(logits),
            group,
            stays=len(targets),
            c=self._model.c,
        )
        risk = risk.clamp(EPSILON, 1 - EPSILON)
        positive = self._weight * targets * torch.log(risk)
        negative = (1 - targets) * torch.log1p(-risk)
        return -(positive + negative).mean()

    def evaluate(self, network: "PreTrainedModel") -> dict[str, float]:
        """AUROC of the scores of the validation stays."""
        from sklearn.metrics import roc_auc_score

        model = self._model.with_network(network)
        values, counts = model.window_probabilities(self.val_windows)
        risk = aggregate_stays(values, counts, c=self._model.c)
        return {"auroc": float(roc_auc_score(self.outcome, risk))}

    def facts(self) -> dict[str, object]:
        """A hash of ids, labels, sides and texts, and the objective."""
        digest = hashlib.sha256()
        columns = ["patient_id", "readmitted", "split", "text"]
        rows = self.rows[columns].itertuples(index=False)
        for patient, readmitted, split, text in rows:
            digest.update(f"{patient}\x1f{readmitted}\x1f{split}\x1f".encode())
            digest.update("\x1f".join(text).encode(errors="replace"))
        digest.update(self._targets.tobytes())
        return {
            "data_sha256": digest.hexdigest(),
            "objective": self._table.objective,
        }


def _targets(rows: pd.DataFrame) -> np.ndarray:
    """The column `target`, or else the labels, shape (stays,)."""
    cells = rows.get("target", rows["readmitted"])
    targets = pd.to_numeric(cells, errors="coerce")
    if not targets.between(0, 1).all():  # false for NaN too
        raise UserError(
            "target: expected numbers from 0 to 1 on the train side"
        )
    return targets.to_numpy(np.float32)
