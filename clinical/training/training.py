"""Training of readmission models: the recipe, the objective, and calibration on validation."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from clinical.evaluation.drift import describe_notes, profile
from clinical.risk.aggregation import aggregate_stays, aggregate_tensor
from clinical.risk.model import ReadingSettings, ReadmissionSettings, RiskModel
from clinical.stays.choice import CHOICE, choice_of
from clinical.stays.cohorts import usable_stays
from clinical.stays.patients import check_unseen, patient_hashes, patient_keys
from clinical.training.recalibration import EPSILON, check_events, choose
from domainbert.errors import UserError
from domainbert.training.objective import LengthBatches, Objective
from domainbert.training.recipes import ModelTable, Recipe

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from clinical.stays.choice import NoteChoice
    from domainbert.training.settings import TrainingSettings

log = logging.getLogger(__name__)
FOLDS = 5
"""Of cross-fitted calibration."""


class ReadmissionTable(ModelTable, ReadingSettings):
    """The `[model]` table of a readmission recipe; for the rest see `ReadingSettings`.

    Attributes:
        objective: "window" is the paper's: each window carries its stay's label. "stay" trains
            through the readmission rule, so that a stay counts once however long its notes are.
        calibration: "validation" fits c, the calibrator and the threshold on the validation side;
            "cross-fitted" on out-of-fold scores of both sides, which takes `FOLDS` more trainings
            and suits a small hospital.
        window: from 16 tokens to the encoder's limit, which is the default.
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
) -> RiskModel:
    """Train on the rows with split "train" and choose on those with split "val".

    Positive stays are weighted up by the training prevalence; no side is resampled. Training
    keeps the weights with the best validation AUROC. Then c, a calibrator and an alert threshold
    are fitted; see `ReadmissionTable.calibration`. If that fails, the log and the card say why.

    Args:
        cohort: see `clinical.stays.cohorts.usable_stays`; the test side is not used.
        recipe: how to train; the defaults by default.
        checkpoints: folder that keeps the checkpoints; a temporary one by default.
        resume: continue from the last checkpoint there; refused if anything differs.
        record_patients: keep hashes of the patients in the manifest, so that evaluation refuses
            patients that were trained on; see `clinical.stays.patients.patient_hashes`.

    Raises:
        TableError: a column is missing.
        UserError: the cohort cannot be trained on, or a resumed run differs.
    """
    import pandas as pd

    recipe = recipe or ReadmissionRecipe()
    usable = usable_stays(cohort)
    rows = usable[usable["split"].isin(["train", "val"])]
    _check_sides(rows)
    if (choice := choice_of(rows.get(CHOICE, ()))) is None:
        log.warning(
            "the cohort does not say how its notes were chosen: all will be read"
        )
    table, crossed = recipe.model, recipe.model.calibration == "cross-fitted"
    try:
        check_events(
            rows["readmitted"]
            if crossed
            else rows[rows["split"] == "val"]["readmitted"]
        )
    except UserError as few:
        log.warning(
            "this model will not be calibrated: %s. Use a larger validation side (clinical cohort "
            "--fractions 0.6 0.2 0.2, or the estimator's validation_fraction)%s",
            few,
            "" if crossed else " or --calibration cross-fitted",
        )
    earlier = RiskModel.from_pretrained(table.start).manifest if table.start else {}
    if table.start:
        held_out = usable[usable["split"] != "train"]["patient_id"]
        for remark in check_unseen(held_out, earlier, side="val"):
            log.warning("%s: %s", table.start, remark)
    model, objective = _trained(
        rows, recipe, choice, checkpoints=checkpoints, resume=resume
    )
    used = objective.rows
    sides = pd.concat([used, usable[usable["split"] == "test"]]).groupby("split")[
        "readmitted"
    ]
    model.manifest |= {
        "objective": table.objective,
        "calibration": table.calibration,
        "stays": sides.size().to_dict(),
        "prevalence": sides.mean().to_dict(),
        "without_patient_id": int(used["patient_id"].isna().sum()),
        "disjoint": True,
        "card": {name: text for name, text in recipe.card.model_dump().items() if text},
    }
    if record_patients:
        model.manifest["patients"] = patient_hashes(rows, earlier.get("patients"))
    values, counts = model.window_probabilities(objective.val_windows)
    fitted_on = (values, counts, objective.outcome)
    try:
        choose(model, *(_out_of_fold(used, recipe, choice) if crossed else fitted_on))
    except UserError as refused:
        log.warning("no calibration: %s", refused)
        model.manifest["calibration_refused"] = str(refused)
    probability = model.calibrated(aggregate_stays(values, counts, c=model.c))
    found = describe_notes(model, used.loc[used["split"] == "val", "text"])
    model.manifest["profile"] = {"val": profile(found | {"probability": probability})}
    return model


def _trained(
    rows: pd.DataFrame, recipe: ReadmissionRecipe, choice: NoteChoice | None, **run: Any
) -> tuple[RiskModel, ReadmissionObjective]:
    """A network trained on the train side of rows; `run` is for `domainbert.training.train`."""
    from domainbert.training.train import train

    table, training = recipe.model, recipe.training
    around = table.model_dump(exclude={"encoder", "start", "objective", "calibration"})
    settings = ReadmissionSettings(**around, notes=choice)
    model = RiskModel.untrained(table.encoder, training=training, settings=settings)
    objective = ReadmissionObjective(model, rows, table=table, training=training)
    place = {"encoder": table.encoder, "start": table.start, **run}
    return train(model, (objective, training), **place), objective


def _out_of_fold(
    rows: pd.DataFrame, recipe: ReadmissionRecipe, choice: NoteChoice | None
) -> tuple[np.ndarray, ...]:
    """Windows, counts and outcomes as `choose` wants them, of all stays.

    Each stay is scored by a model that was not trained on its patient (cross-fitting, as in
    scikit-learn's `CalibratedClassifierCV` with `ensemble=False`).
    """
    from sklearn.model_selection import StratifiedGroupKFold

    patients, outcome = patient_keys(rows["patient_id"]), rows["readmitted"].to_numpy()
    folds = min(FOLDS, *(len(set(patients[outcome == label])) for label in (0, 1)))
    splitter = StratifiedGroupKFold(
        folds, shuffle=True, random_state=recipe.training.seed
    )
    parts = []
    for number, (_, held_out) in enumerate(
        splitter.split(rows, outcome, patients), start=1
    ):
        log.info("calibration: training %d of %d", number, folds)
        is_val = np.isin(np.arange(len(rows)), held_out)
        model, fold = _trained(
            rows.assign(split=np.where(is_val, "val", "train")), recipe, choice
        )
        parts.append((*model.window_probabilities(fold.val_windows), fold.outcome))
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def _check_sides(rows: pd.DataFrame) -> None:
    for side in ("train", "val"):
        part = rows[rows["split"] == side]
        if part["readmitted"].nunique() < 2:
            msg = f"the {side} side has {len(part)} stays and needs both outcomes among them"
            raise UserError(msg)


class ReadmissionObjective(Objective):
    """Weighted binary cross-entropy of windows, or of stays through the readmission rule.

    Args:
        model: untrained; its windows and c are used.
        rows: from `usable_stays`; stays whose notes give no window are left out. A column `target`
            (from 0 to 1, a label with less noise) is what the train side is trained on.
        table: of the recipe.
        training: limits of a batch, and the seed.
    """

    metric = "auroc"

    def __init__(
        self,
        model: RiskModel,
        rows: pd.DataFrame,
        *,
        table: ReadmissionTable,
        training: TrainingSettings,
    ) -> None:
        import pandas as pd

        windows = model.token_ids(rows["text"])
        has_windows = np.array([len(stay) > 0 for stay in windows])
        if dropped := int((~has_windows).sum()):
            log.warning("%d stays have no readable text and are left out", dropped)
        self.rows = rows[has_windows].reset_index(drop=True)
        _check_sides(self.rows)
        kept = [stay for stay in windows if len(stay)]
        is_train, is_val = (self.rows["split"] == side for side in ("train", "val"))
        self.val_windows = [kept[i] for i in np.flatnonzero(is_val)]
        self.outcome = self.rows.loc[is_val, "readmitted"].to_numpy()
        train = self.rows[is_train]
        stays = [kept[i] for i in np.flatnonzero(is_train)]
        given = train["target" if "target" in train.columns else "readmitted"]
        target = pd.to_numeric(given, errors="coerce").to_numpy(dtype=np.float64)
        if not ((target >= 0) & (target <= 1)).all():  # NaN fails this too
            raise UserError("target: expected numbers from 0 to 1 on the train side")
        if table.objective == "window":
            target = np.repeat(target, [len(stay) for stay in stays])
            stays = [[window] for stay in stays for window in stay]
        self._groups, self._targets = stays, target.astype(np.float32)
        prevalence = train["readmitted"].mean()
        self._weight = float((1 - prevalence) / prevalence)
        self._model, self._table, self._training = model, table, training
        self.batches = LengthBatches(
            np.array(
                [(min(len(s), training.max_windows), max(map(len, s))) for s in stays]
            ),
            batch_size=training.batch_size,
            batch_tokens=training.batch_tokens,
            seed=training.seed,
        )

    def collate(self, batch: Sequence[int], *, epoch: int) -> dict[str, torch.Tensor]:
        """The windows of a batch of stays, padded, with the number of each window's stay."""
        import torch

        from domainbert.text.runner import pad

        limit = self._training.max_windows
        windows, group = [], []
        for number, index in enumerate(batch):
            chosen = self._groups[index]
            if len(chosen) > limit:
                # By epoch and stay, so that a resumed run draws what it would have drawn.
                generator = np.random.default_rng((self._training.seed, epoch, index))
                chosen = [
                    chosen[i]
                    for i in generator.choice(len(chosen), limit, replace=False)
                ]
            windows += chosen
            group += [number] * len(chosen)
        ids, mask = pad(windows, pad_token_id=self._model.tokenizer.pad_token_id)
        tensors = {
            "input_ids": ids,
            "group": torch.tensor(group),
            "targets": torch.from_numpy(self._targets[list(batch)]),
        }
        return tensors if mask is None else {**tensors, "attention_mask": mask}

    def loss(self, network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Binary cross-entropy with positives weighted by negatives / positives."""
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits

        output = network(
            input_ids=batch["input_ids"], attention_mask=batch.get("attention_mask")
        )
        logits = output.logits.squeeze(-1).float()
        group, targets = batch["group"], batch["targets"]
        if self._table.objective == "window":
            weight = torch.as_tensor(self._weight, device=logits.device)
            return binary_cross_entropy_with_logits(
                logits, targets[group], pos_weight=weight
            )
        risk = aggregate_tensor(
            torch.sigmoid(logits), group, stays=len(targets), c=self._model.c
        )
        risk = risk.clamp(EPSILON, 1 - EPSILON)
        loss = self._weight * targets * torch.log(risk) + (1 - targets) * torch.log1p(
            -risk
        )
        return -loss.mean()

    def score(self, network: Any) -> dict[str, float]:
        """AUROC of the rule's value over the validation stays."""
        from sklearn.metrics import roc_auc_score

        values, counts = self._model.window_probabilities(
            self.val_windows, network=network
        )
        risk = aggregate_stays(values, counts, c=self._model.c)
        return {"auroc": float(roc_auc_score(self.outcome, risk))}

    def facts(self) -> dict[str, Any]:
        """Hash of ids, labels, sides and texts, and the objective."""
        digest = hashlib.sha256()
        columns = ["patient_id", "readmitted", "split", "text"]
        for patient, readmitted, split, text in self.rows[columns].itertuples(
            index=False
        ):
            digest.update(f"{patient}\x1f{readmitted}\x1f{split}\x1f".encode())
            digest.update("\x1f".join(text).encode(errors="replace"))
        digest.update(self._targets.tobytes())
        return {"data_sha256": digest.hexdigest(), "objective": self._table.objective}
