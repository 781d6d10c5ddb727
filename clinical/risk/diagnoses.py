"""DiagnosisModel: a stay's notes -> the probability of each group of diagnosis codes."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from clinical.risk.aggregation import aggregate_stays
from clinical.risk.manifest import DiagnosisManifest
from clinical.risk.model import ReadmissionModel, ReadmissionSettings
from clinical.risk.stay_model import PreparationSettings, StayModel
from clinical.stays.choice import NoteChoice
from domainbert.settings import check_choice
from domainbert.statistics.calibration import calibrated

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from clinical.evidence.view import Explanation, StayView
    from clinical.risk.reading import Coverage, PreparedStay, Status
    from clinical.stays.stays import StayInput

Platt = Annotated[tuple[float, float], Field(strict=False)]
Probability = Annotated[float, Field(ge=0, le=1)]


class DiagnosisSettings(PreparationSettings):
    """What a diagnosis model does around its network; see `PreparationSettings` too.

    Attributes:
        names: what groups are called, by group; a group may have none.
        calibration: slope and intercept on the logit scale of each group that had enough stays.
        thresholds: the probability of each group from which it is proposed.
        notes: which notes of a stay training read; None if its table did not say.
    """

    names: dict[str, str] = Field(default_factory=dict)
    calibration: dict[str, Platt] = Field(default_factory=dict)
    thresholds: dict[str, Probability] = Field(default_factory=dict)
    notes: NoteChoice | None = None
    # No column is read beside the notes.
    columns: ClassVar[tuple[()]] = ()


@dataclass(frozen=True)
class GroupRisk:
    """The probability of one group of codes for one stay.

    Attributes:
        group: such as "I50".
        name: what it is called; "" if that is not known.
        rank: 1 for the most probable group of the stay.
        probability: the calibrated chance; equal to `score` where the group has no calibrator.
        score: the value of the readmission rule, in [0, 1].
        calibrated: whether `probability` is calibrated.
        proposed: whether `probability` reaches the threshold of the group; None without one.
    """

    group: str
    name: str
    rank: int
    probability: float
    score: float
    calibrated: bool
    proposed: bool | None = None


@dataclass(frozen=True, eq=False)
class StayDiagnoses:
    """The probability of each group of codes for one stay; `result["I50"]` is one of them.

    Attributes:
        groups: the most probable first; empty where `status` is not "ok".
        windows: number of the note, first and last character of each window, in reading order.
        window_probabilities: shape (windows, groups), in the order of the model's `labels`.
        coverage: what was read.
        status: "ok", "empty" (no note has text) or "error" (not text, or not a number).
        reason: why it is not "ok"; else a remark, or "".
    """

    groups: tuple[GroupRisk, ...]
    windows: tuple[tuple[int, int, int], ...] = field(repr=False)
    window_probabilities: np.ndarray = field(repr=False)
    coverage: Coverage = field(repr=False)
    status: Status = "ok"
    reason: str = ""

    def __getitem__(self, group: str) -> GroupRisk:
        """The group of this code; a `KeyError` for one that the model does not know."""
        for risk in self.groups:
            if risk.group == group:
                return risk
        raise KeyError(group)

    @property
    def proposed(self) -> tuple[GroupRisk, ...]:
        """The groups whose probability reaches their threshold, the most probable first."""
        return tuple(risk for risk in self.groups if risk.proposed)

    def top(self, number: int = 5) -> tuple[GroupRisk, ...]:
        """The most probable groups."""
        return self.groups[:number]

    def to_frame(self) -> pd.DataFrame:
        """One row a group, with the attributes of `GroupRisk`, the most probable first."""
        import pandas as pd

        columns = list(GroupRisk.__dataclass_fields__)
        return pd.DataFrame(list(self.groups), columns=columns)

    def _repr_html_(self) -> str:
        """The most probable groups as a table, for a notebook."""
        return self.to_frame().head(20).to_html(index=False)


class DiagnosisModel(StayModel[DiagnosisSettings, StayDiagnoses]):
    """Groups of diagnosis codes from all notes of a stay: one head with a logit for each group.

    Every window is read once, whatever the number of groups. The readmission rule makes the score
    of each group, with one c, and each group that had enough stays in validation has a calibrator.
    `from_pretrained` loads a model, and `fit` trains one (see `clinical.training.diagnoses.fit`).
    For tables, `score_frame` has the tasks "diagnoses" (see
    `clinical.risk.diagnosis_task.DiagnosisTask`) and "explain".

    For the network, the arguments and the cache see `StayModel`.

    Attributes:
        labels: the groups, in the order of the logits.
    """

    task = "diagnoses"
    train_command = "clinical train COHORT.parquet --out MODEL"
    trainer = "clinical.training.diagnoses:fit"
    tasks: ClassVar = {
        "diagnoses": "clinical.risk.diagnosis_task:DiagnosisTask",
        "explain": "clinical.evidence.task:DiagnosisExplainTask",
    }
    card_template = "diagnosis_card.md.j2"
    settings_class = DiagnosisSettings
    manifest_class = DiagnosisManifest
    manifest: DiagnosisManifest

    def prepare(self) -> None:
        """The reader of stays, and the calibrators as arrays."""
        super().prepare()
        by_number: Mapping[int, str] = self._network.config.id2label
        self.labels = tuple(by_number[n] for n in range(len(by_number)))
        self._number = {group: n for n, group in enumerate(self.labels)}
        self._names = [
            self.settings.names.get(group, "") for group in self.labels
        ]
        self._thresholds = [
            self.settings.thresholds.get(group) for group in self.labels
        ]
        fits = self.settings.calibration
        self.is_calibrated = np.array([group in fits for group in self.labels])
        # Without a calibrator the score stays as it is.
        pairs = [fits.get(group, (1.0, 0.0)) for group in self.labels]
        self._slopes, self._intercepts = np.array(pairs).T

    def card_facts(self) -> dict[str, object]:
        """The stays of each side, the scores on validation, and a table of the groups."""
        manifest = self.manifest
        sides = [
            f"{number} stays on the side {side}"
            for side, number in manifest.data.stays.items()
        ]
        validation = [
            f"{name} {score:.3f}"
            for name, score in manifest.training.validation.items()
        ]
        return {
            "sides": ", ".join(sides),
            "validation": ", ".join(validation),
            "groups": self._group_table(),
        }

    def _group_table(self) -> list[list[str]]:
        """Each group as the card shows it, with its measures if they were taken."""
        measured = {row["group"]: row for row in self.manifest.by_group}
        head = ["group", "name", "stays trained on", "calibrated", "threshold"]
        if measured:
            head += ["AUROC", "AUPRC"]
        rows = [head]
        for group, name in zip(self.labels, self._names, strict=True):
            stays = self.manifest.data.positive.get(group, {})
            is_calibrated = group in self.settings.calibration
            row = [
                group,
                name,
                str(sum(stays.values())),
                "yes" if is_calibrated else "no",
                _shown(self.settings.thresholds.get(group)),
            ]
            if measured:
                scores = measured.get(group, {})
                row += [
                    str(scores.get("auroc_text", "–")),
                    str(scores.get("auprc_text", "–")),
                ]
            rows.append(row)
        return rows

    @property
    def outcome(self) -> str:
        """What the probabilities are of."""
        choice = self.settings.notes
        if choice:
            return choice.event
        return "coded with a group of diagnoses"

    def with_settings(self, settings: DiagnosisSettings) -> DiagnosisModel:
        """The model with other settings, such as calibrators."""
        model = copy(self)
        model.settings = settings
        model.prepare()
        return model

    def predict_windows(self, windows: Sequence[ArrayLike]) -> np.ndarray:
        """See `StayModel.predict_windows`: shape (windows, groups), also with one group."""
        return self._by_group(super().predict_windows(windows))

    def window_probabilities(
        self, windows: Sequence[Sequence[np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `StayModel.window_probabilities`: shape (windows, groups), also with one group."""
        values, counts = super().window_probabilities(windows)
        return self._by_group(values), counts

    def _by_group(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(-1, len(self.labels))

    def calibrated(self, scores: np.ndarray) -> np.ndarray:
        """The probabilities of scores, shape (..., groups)."""
        probabilities = calibrated(scores, self._slopes, self._intercepts)
        return np.where(self.is_calibrated, probabilities, scores)

    def risk_of(
        self, stay: PreparedStay, probabilities: np.ndarray
    ) -> StayDiagnoses:
        """The groups of a stay from its windows' probabilities, shape (windows, groups)."""
        risk = stay.risk
        if risk.status == "ok" and not np.isfinite(probabilities).all():
            reason = "the model gave no number for a window"
            return self._without_numbers(risk.coverage, "error", reason)
        if risk.status != "ok":
            return self._without_numbers(
                risk.coverage, risk.status, risk.reason
            )
        count = np.array([len(probabilities)])
        scores = aggregate_stays(probabilities, count, c=self.c)[0]
        windows = tuple(
            (note, window.start, window.end) for note, window in stay.windows
        )
        return StayDiagnoses(
            self._ranked(scores),
            windows,
            probabilities,
            risk.coverage,
            reason=risk.reason,
        )

    def _ranked(self, scores: np.ndarray) -> tuple[GroupRisk, ...]:
        """The groups of a stay by falling probability, from scores of shape (groups,)."""
        values = self.calibrated(scores)
        order = np.argsort(-values, kind="stable").tolist()
        columns = (values.tolist(), scores.tolist())
        probability_of, rule_values = columns
        has_calibrator = self.is_calibrated.tolist()
        groups = []
        for rank, number in enumerate(order, start=1):
            threshold = self._thresholds[number]
            probability = probability_of[number]
            is_proposed = None
            if threshold is not None:
                is_proposed = probability >= threshold
            groups.append(
                GroupRisk(
                    self.labels[number],
                    self._names[number],
                    rank,
                    probability,
                    rule_values[number],
                    has_calibrator[number],
                    is_proposed,
                )
            )
        return tuple(groups)

    def _without_numbers(
        self, coverage: Coverage, status: Status, reason: str
    ) -> StayDiagnoses:
        nothing = np.empty((0, len(self.labels)))
        return StayDiagnoses((), (), nothing, coverage, status, reason)

    def single(self, outcome: str) -> ReadmissionModel:
        """The model of one group alone, which shares the network; for explanations.

        Raises:
            UserError: a group that the model does not know.
        """
        check_choice("outcome", outcome, self.labels)
        settings = self.settings
        model = _OneGroup(
            self._network,
            self._tokenizer,
            settings=ReadmissionSettings(
                **settings.model_dump(
                    include=set(PreparationSettings.model_fields)
                ),
                calibration=settings.calibration.get(outcome),
                alert_threshold=settings.thresholds.get(outcome),
                notes=settings.notes,
            ),
            device=self.runner.device,
            batch_tokens=self.runner.batch_tokens,
        )
        model.name = self.name
        model.runner.output = self._number[outcome]
        name = settings.names.get(outcome)
        model.of_group = outcome
        if name:
            model.of_group = f"{outcome} {name}"
        return model

    def explain(
        self, stay: StayInput, *, outcome: str, top: int = 5
    ) -> Explanation:
        """The passages that raise and lower the probability of one group, such as "I50"."""
        # Named, not imported: a model does not depend on what explains it.
        explain = pkgutil.resolve_name("clinical.evidence.explain:explain")
        explanation: Explanation = explain(self.single(outcome), stay, top=top)
        return explanation

    def show(self, stay: StayInput, *, outcome: str) -> StayView:
        """The notes of a stay with those passages highlighted, for a notebook."""
        return self.explain(stay, outcome=outcome).show()


class _OneGroup(ReadmissionModel):
    """One output of a `DiagnosisModel`; `of_group` is what its probability is of."""

    of_group = ""

    @property
    def outcome(self) -> str:
        """The group and its name."""
        return self.of_group


def _shown(threshold: float | None) -> str:
    """A threshold as the card shows it."""
    if threshold is None:
        return "–"
    return f"{threshold:.3f}"
