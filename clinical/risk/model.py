"""ReadmissionModel, the model that users hold: a stay's notes -> its 30-day readmission risk."""

from __future__ import annotations

import logging
import pkgutil
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from clinical.risk.aggregation import aggregate
from clinical.risk.manifest import RiskManifest
from clinical.risk.reading import (
    ColumnEffect,
    PreparedStay,
    RiskGroup,
    StayRisk,
    WindowRisk,
)
from clinical.risk.stay_model import PreparationSettings, StayModel
from clinical.stays.choice import NoteChoice, outcome_of
from domainbert.statistics.calibration import calibrated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import ArrayLike

    from clinical.evidence.view import Explanation, StayView
    from clinical.stays.stays import StayInput

UNCALIBRATED = "this model has no calibrator: `probability` is the score, not a calibrated chance"
log = logging.getLogger(__name__)


class ReadmissionSettings(PreparationSettings):
    """What a readmission model does around its network; see `PreparationSettings` too.

    Attributes:
        calibration: slope and intercept on the logit scale; None without a calibrator.
        columns: what is read beside the notes, and how it shifts the calibrated log-odds.
        alert_threshold: the probability from which validation reached 80% precision; None if no
            probability did.
        after_discharge: when the outcome came in validation, by risk from 0 on; empty if that is
            not known.
        notes: which notes of a stay training read; None if its table did not say.
    """

    # It is a list in JSON.
    calibration: Annotated[tuple[float, float], Field(strict=False)] | None = (
        None
    )
    # Left out where there are none: the fingerprint of a model without columns stays.
    columns: Annotated[
        tuple[ColumnEffect, ...],
        Field(strict=False, exclude_if=lambda found: not found),
    ] = ()
    alert_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    after_discharge: Annotated[
        tuple[RiskGroup, ...],
        Field(strict=False, exclude_if=lambda groups: not groups),
    ] = ()
    notes: NoteChoice | None = None


class ReadmissionModel(StayModel[ReadmissionSettings, StayRisk]):
    """ClinicalBERT's readmission model: windows, a one-logit head on CLS, and the readmission rule.

    `from_pretrained` loads one, and `fit` trains one (see `clinical.training.training.fit`). For
    one row per stay, per note or per passage of a table, `score_frame` has the tasks "readmission"
    (see `clinical.risk.task.ReadmissionTask`), "trajectory" and "explain".

    For the network, the arguments and the cache see `StayModel`.
    """

    task = "readmission"
    labels = ("readmitted",)
    train_command = (
        "clinical train COHORT.parquet --encoder {encoder} --out MODEL"
    )
    trainer = "clinical.training.training:fit"
    tasks: ClassVar = {
        "readmission": "clinical.risk.task:ReadmissionTask",
        "trajectory": "clinical.risk.task:TrajectoryTask",
        "explain": "clinical.evidence.task:ExplainTask",
    }
    settings_class = ReadmissionSettings
    manifest_class = RiskManifest
    manifest: RiskManifest

    @property
    def outcome(self) -> str:
        """What the probability is of; see `outcome_of`."""
        return outcome_of(self.settings.notes)

    def explain(self, stay: StayInput, *, top: int = 5) -> Explanation:
        """The passages that raise and lower the risk of a stay; see `clinical.explain`."""
        # Named, not imported: a model does not depend on what explains it.
        explain = pkgutil.resolve_name("clinical.evidence.explain:explain")
        explanation: Explanation = explain(self, stay, top=top)
        return explanation

    def show(self, stay: StayInput) -> StayView:
        """The notes of a stay with those passages highlighted, for a notebook."""
        return self.explain(stay).show()

    def prepare(self) -> None:
        """What prepares stays, no cache, and no warning yet."""
        super().prepare()
        self._has_warned = False

    def card_facts(self) -> dict[str, object]:
        """The outcome, the stays of each side, and the risk that remained after discharge."""
        data = self.manifest.data
        sides = [["side", "stays", "with the outcome"]]
        sides += [
            [side, str(data.stays[side]), f"{data.prevalence[side]:.1%}"]
            for side in ("train", "val", "test")
            if side in data.stays
        ]
        remaining = [["risk at discharge", "day", "stays", "remaining risk"]]
        remaining += map(_remaining_cells, self.manifest.calibration.remaining)
        return {
            "outcome": self.outcome,
            "sides": sides,
            "remaining": remaining,
        }

    def scored(
        self, stays: Iterable[StayInput]
    ) -> Iterator[tuple[PreparedStay, np.ndarray]]:
        """See `StayModel.scored`; a model without a calibrator says so once."""
        if self.settings.calibration is None and not self._has_warned:
            self._has_warned = True
            log.warning(UNCALIBRATED)
        return super().scored(stays)

    def prepared(self, stay: StayInput) -> PreparedStay:
        """Cut a stay (as for `predict`) into windows, and weigh its columns.

        A model that reads columns takes a record: the notes as `text`, and its columns.
        """
        return super().prepared(stay).with_columns(self.settings.columns, stay)

    def calibrated(self, score: ArrayLike, shift: Any = 0.0) -> np.ndarray:
        """The probabilities of scores, of any shape; the scores themselves without a calibrator.

        `shift` is what columns add to the log-odds, a number or one for each score.
        """
        if self.settings.calibration is None:
            return np.asarray(score)
        slope, intercept = self.settings.calibration
        return calibrated(score, slope, intercept + shift)

    def risk_of(
        self, stay: PreparedStay, probabilities: np.ndarray
    ) -> StayRisk:
        """The risk of a stay from the probabilities of its windows, shape (windows,)."""
        risk = self.combined(stay.risk, probabilities)
        if risk.status != "ok":
            return risk
        windows = [
            WindowRisk(note, window.start, window.end, float(p))
            for (note, window), p in zip(
                stay.windows, probabilities, strict=True
            )
        ]
        return replace(risk, windows=tuple(windows))

    def combined(self, risk: StayRisk, probabilities: np.ndarray) -> StayRisk:
        """A risk with the numbers that follow from windows, shape (windows,), but without these."""
        if risk.status != "ok":
            return risk
        finite = np.isfinite(probabilities)
        if not finite.all():
            reason = f"the model gave no number for window {np.argmin(finite)}"
            return replace(risk, status="error", reason=reason)
        score = aggregate(probabilities, self.c)
        probability = float(self.calibrated(score, risk.shift))
        threshold = self.settings.alert_threshold
        alert = None
        if threshold is not None:
            alert = probability >= threshold
        return replace(
            risk,
            probability=probability,
            score=score,
            p_max=float(probabilities.max()),
            p_mean=float(probabilities.mean()),
            calibrated=self.settings.calibration is not None,
            alert=alert,
            after_discharge=self.settings.after_discharge,
        )


def _remaining_cells(row: Mapping[str, Any]) -> list[str]:
    """The risk that remained on a day, with its interval, as the card shows it."""
    low = row["observed_low"]
    high = row["observed_high"]
    return [
        row["risk"],
        f"{row['day']:g}",
        f"{row['n']}",
        f"{row['observed']:.3f} [{low:.3f}, {high:.3f}]",
    ]
