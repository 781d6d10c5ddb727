"""Train a readmission model on a cohort: two objectives, c and calibration from validation."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from clinical.cohort.splits import check_disjoint
from clinical.evaluation.calibration import fit_platt
from clinical.evaluation.measures import recall_at_precision
from clinical.risk.aggregation import aggregate_stays, aggregate_tensor
from clinical.risk.model import ReadmissionModel, ReadmissionSettings
from clinical.risk.teacher import targets
from domainbert.errors import UserError
from domainbert.tables import require_columns
from domainbert.training.settings import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    import torch
    from transformers import PreTrainedModel


Objective = Literal["stay", "window"]
OBJECTIVES = ("stay", "window")
C_GRID = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
EPSILON = 1e-6
log = logging.getLogger(__name__)


def fit(
    cohort: pd.DataFrame,
    *,
    encoder: str | Path,
    objective: Objective = "stay",
    training: TrainingSettings | None = None,
    settings: ReadmissionSettings | None = None,
    teacher: float = 0.0,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> ReadmissionModel:
    """Train on the rows with split "train", choose on those with split "val".

    Objective `window` is the paper's: each window carries its stay's label. Objective `stay`
    trains through the readmission rule, so that a stay counts once however long its notes are.
    Positive stays are weighted up by the training prevalence; no side is resampled. Training
    keeps the weights with the best validation AUROC; then c is fitted there, and a calibrator.

    Args:
        cohort: `patient_id`, `text` (list of notes), `readmitted` (0/1) and `split`; rows with an
            `exclusion` are left out.
        encoder: shipped name, folder or hub:owner/name.
        objective: "stay" or "window".
        training: see `TrainingSettings`.
        settings: window and note settings; its c is the one trained with.
        teacher: weight in [0, 1] of a bag-of-words teacher in the training targets, see
            `clinical.risk.teacher`; 0 trains on the labels alone.
        checkpoints: folder that keeps the trainer's checkpoints; a temporary one by default.
        resume: go on from the last checkpoint there.

    Returns:
        The trained model, on the device it trained on.

    Raises:
        TableError: a column is missing.
        ValueError: patients straddle the split, a side is empty or has one outcome only.
    """
    if objective not in OBJECTIVES:
        msg = f"objective must be one of {OBJECTIVES}, got {objective!r}"
        raise UserError(msg)
    rows = eligible(cohort)
    training = training or TrainingSettings()
    model = ReadmissionModel.untrained(encoder, training=training, settings=settings)
    sides = {side: rows[rows["split"] == side] for side in ("train", "val")}
    for side, part in sides.items():
        if part["readmitted"].nunique() < 2:
            msg = f"the {side} side has {len(part)} stays and needs both outcomes among them"
            raise UserError(msg)
    windows = {side: model.token_ids(part["text"]) for side, part in sides.items()}
    outcome = sides["val"]["readmitted"].to_numpy()
    validate = _validator(model, windows["val"], outcome)
    with tempfile.TemporaryDirectory() as temporary:
        model = _train(
            model,
            _groups(windows["train"], targets(sides["train"], weight=teacher), objective),
            loss=_loss(objective, prevalence=sides["train"]["readmitted"].mean(), c=model.c),
            validate=validate,
            training=training,
            encoder=encoder,
            folder=Path(checkpoints or temporary),
            resume=resume,
        )
    _choose_on_validation(model, windows["val"], outcome)
    model.manifest = _manifest(rows, objective, training, teacher)
    model.manifest["validation_auroc"] = validate(model.network)["auroc"]
    return model


def eligible(cohort: pd.DataFrame) -> pd.DataFrame:
    """The rows to train and score on: no exclusion, at least one character of text, a side.

    Raises:
        TableError: a column is missing.
        ValueError: patients straddle the split.
    """
    require_columns(cohort.columns, ("patient_id", "text", "readmitted", "split"), source="cohort")
    check_disjoint(cohort)
    kept = cohort["split"].notna() & cohort["readmitted"].notna()
    if "exclusion" in cohort.columns:
        kept &= cohort["exclusion"].isna()
    has_text = cohort["text"].map(lambda notes: any(note and note.strip() for note in notes))
    if dropped := int((kept & ~has_text).sum()):
        log.warning("%d stays have no text and are left out", dropped)
    rows = cohort[kept & has_text]
    return rows.assign(readmitted=rows["readmitted"].astype(int))


def _groups(windows: list[list[np.ndarray]], target: np.ndarray, objective: str) -> Any:
    """What one target stands for: a stay's windows together, or each window alone."""
    from domainbert.training.old.batches import WindowGroups

    if objective == "stay":
        return WindowGroups(windows, target)
    counts = [len(stay) for stay in windows]
    return WindowGroups([[w] for stay in windows for w in stay], np.repeat(target, counts))


def _loss(
    objective: str, *, prevalence: float, c: float
) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    """Binary cross-entropy with positives weighted by negatives / positives."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    weight = (1 - prevalence) / prevalence

    def window_loss(
        logits: torch.Tensor, group: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        positive = torch.as_tensor(weight, device=logits.device)
        return binary_cross_entropy_with_logits(logits, targets[group], pos_weight=positive)

    def stay_loss(logits: torch.Tensor, group: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        risk = aggregate_tensor(torch.sigmoid(logits), group, stays=len(targets), c=c)
        risk = risk.clamp(EPSILON, 1 - EPSILON)
        loss = weight * targets * torch.log(risk) + (1 - targets) * torch.log1p(-risk)
        return -loss.mean()

    return window_loss if objective == "window" else stay_loss


def _validator(
    model: ReadmissionModel, windows: list[list[np.ndarray]], outcome: np.ndarray
) -> Callable[[PreTrainedModel], dict[str, float]]:
    """Network -> AUROC over validation stays, by the path that prediction takes."""
    from sklearn.metrics import roc_auc_score

    def validate(network: PreTrainedModel) -> dict[str, float]:
        probabilities, counts = model.window_probabilities(windows, network=network)
        risk = aggregate_stays(probabilities, counts, c=model.c)
        return {"auroc": float(roc_auc_score(outcome, risk))}

    return validate


def _train(
    model: ReadmissionModel,
    data: Any,
    *,
    loss: Callable[..., torch.Tensor],
    validate: Callable[[PreTrainedModel], dict[str, float]],
    training: TrainingSettings,
    encoder: str | Path,
    folder: Path,
    resume: bool,
) -> ReadmissionModel:
    from domainbert.lora import add_lora
    from domainbert.training.old.checkpoints import resume_point
    from domainbert.training.old.trainer import GroupTrainer

    trainer = GroupTrainer(
        add_lora(model.network, training.lora),
        data=data,
        settings=training,
        loss=loss,
        evaluate=validate,
        pad_token_id=model.tokenizer.pad_token_id,
        folder=folder,
    )
    trainer.train(resume_from_checkpoint=resume_point(folder, training, resume=resume))
    return model.finished(trainer.trained(), encoder=encoder, lora=training.lora)


def _choose_on_validation(
    model: ReadmissionModel, windows: list[list[np.ndarray]], outcome: np.ndarray
) -> None:
    """Fit c, the calibrator and the 80% precision threshold.

    c is the one under which calibrated risks have the highest likelihood: AUROC on a few hundred
    stays would jump about. Where a handful of validation stays are parted without error no
    calibration exists, and the trained model is worth keeping without one.
    """
    probabilities, counts = model.window_probabilities(windows)
    fits = []
    for c in C_GRID:
        risk = aggregate_stays(probabilities, counts, c=c)
        try:
            platt = fit_platt(outcome, risk)
        except ValueError as error:
            log.warning("c stays %g, no calibration: %s", model.c, error)
            return
        calibrated = np.clip(platt.apply(risk), EPSILON, 1 - EPSILON)
        likelihood = np.where(outcome == 1, np.log(calibrated), np.log1p(-calibrated)).mean()
        fits.append((likelihood, c, platt, risk))
    _, c, platt, risk = max(fits, key=lambda fitted: fitted[0])
    point = recall_at_precision(outcome, risk)
    model.settings = replace(
        model.settings,
        c=c,
        calibration=(platt.slope, platt.intercept),
        threshold=point.threshold if point else None,
    )


def _manifest(
    rows: pd.DataFrame, objective: str, training: TrainingSettings, teacher: float
) -> dict[str, Any]:
    from domainbert.training.old.recipes import versions

    return {
        "objective": objective,
        "training": training.model_dump(),
        "data_sha256": _data_hash(rows),
        "stays": {side: int(n) for side, n in rows["split"].value_counts().items()},
        "prevalence": {
            side: float(part.mean()) for side, part in rows.groupby("split")["readmitted"]
        },
        "teacher": teacher,
        "versions": versions(),
    }


def _data_hash(rows: pd.DataFrame) -> str:
    """A fingerprint of ids, labels, sides and texts; says nothing about any of them."""
    digest = hashlib.sha256()
    for row in rows.itertuples():
        digest.update(f"{row.patient_id}\x1f{row.readmitted}\x1f{row.split}\x1f".encode())
        digest.update("\x1f".join(row.text).encode(errors="replace"))
    return digest.hexdigest()
