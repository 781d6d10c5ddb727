"""The manifests of models of stays: their cohorts, measures, and calibration."""

from pydantic import JsonValue

from domainbert.models.manifest import (
    Calibration,
    Data,
    Manifest,
    Record,
    Scores,
)
from domainbert.statistics.bootstrap import Interval

MACRO = "macro AUROC"
"""The row of a diagnosis model's scores that stands for it in a list."""


class QuantityProfile(Record):
    """How a number, such as the tokens of a stay, was distributed on the validation side.

    Attributes:
        n: number of stays.
        median: the median of that number.
        edges: the limits of up to ten bins of about equally many stays, without the outer two.
        shares: the share of the stays in each bin.
        percentiles: 1 to 99, of the predicted risk only.
    """

    n: int
    median: float
    edges: list[float]
    shares: list[float]
    percentiles: list[float] = []


class CohortData(Data):
    """The cohort that a readmission model was trained on.

    Attributes:
        stays: number of stays of each side.
        prevalence: share of each side with the outcome.
        without_patient_id: stays that count as a patient of their own.
        disjoint: whether it was checked that no patient is on two sides.
        patients: see `clinical.stays.patients.patient_hashes`; None if they were not kept.
        profile: distributions on the validation side, by quantity; see `clinical.evaluation.drift`.
        profile_note: what a reader should know about it.
    """

    stays: dict[str, int] = {}
    prevalence: dict[str, float] = {}
    without_patient_id: int = 0
    disjoint: bool = False
    patients: dict[str, str | int] | None = None
    profile: dict[str, QuantityProfile] = {}
    profile_note: str = ""


class RiskMeasures(Record):
    """The measures of one set of risks; see `clinical.evaluation.intervals.Evaluation`."""

    n_stays: int
    n_patients: int
    n_readmitted: int
    measures: dict[str, Interval]


class RiskScores(Scores):
    """How a readmission model scored on the test side.

    Attributes:
        risks: the measures of the model, and then of each baseline.
        summary: the table of the card, its head first.
        verdicts: what the measures show.
        caveats: what limits them.
        disparities: what the differences between groups of patients show.
    """

    risks: dict[str, RiskMeasures] = {}
    summary: list[list[str]] = []
    verdicts: list[str] = []
    caveats: list[str] = []
    disparities: list[str] = []

    @property
    def model(self) -> RiskMeasures | None:
        """The measures of the model itself; None if nothing was measured."""
        return next(iter(self.risks.values()), None)


class StayCounts(Record):
    """Stays, and those with the outcome."""

    stays: int
    readmitted: int


class RiskCalibration(Calibration):
    """How a readmission model was calibrated.

    Attributes:
        method: how it was fitted in training: on "validation" or "cross-fitted".
        refused: why there is no calibrator; empty if there is one.
        recalibrated: the stays of a later calibration; None if there was none.
        without: settings for the risk without each column, by what is left out.
        remaining: the risk that was left on days after discharge, a record for each third of the
            risks and day; see `clinical.evaluation.after_discharge.remaining_risks`.
    """

    method: str = ""
    refused: str = ""
    recalibrated: StayCounts | None = None
    without: dict[str, dict[str, JsonValue]] = {}
    remaining: list[dict[str, JsonValue]] = []


class Evidence(Record):
    """How faithful explanations were measured to be, by `recipes/evidence.py`."""

    cohort: str = ""
    side: str = ""
    stays: int
    patients: int
    table: list[list[str]]
    verdicts: list[str]
    measures: list[dict[str, str | float | None]]


class RiskManifest(Manifest):
    """All that is known of a readmission model beyond what loading needs."""

    data: CohortData = CohortData()
    scores: RiskScores = RiskScores()
    calibration: RiskCalibration = RiskCalibration()
    evidence: Evidence | None = None


class DiagnosisData(Data):
    """The cohort that a diagnosis model was trained on.

    Attributes:
        stays: number of stays of each side.
        positive: for each group, the number of its stays of each side.
        unknown: stays without any code, which are on no side.
        evidence: for how many stays it was known where in the notes a code was found.
        patients: see `clinical.stays.patients.patient_hashes`; None if they were not kept.
    """

    stays: dict[str, int] = {}
    positive: dict[str, dict[str, int]] = {}
    unknown: int = 0
    evidence: int = 0
    patients: dict[str, str | int] | None = None


class DiagnosisManifest(Manifest):
    """All that is known of a diagnosis model beyond what loading needs.

    Attributes:
        by_group: how each group scored on stays not trained on, a row for each.
        recalibrated: the stays of a later calibration; None if there was none.
    """

    data: DiagnosisData = DiagnosisData()
    by_group: list[dict[str, JsonValue]] = []
    recalibrated: int | None = None
