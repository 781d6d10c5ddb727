"""The public names, each with the module that is imported when it is first used."""

from clinical.cohort.build import build_cohort as build_cohort
from clinical.cohort.result import Cohort as Cohort
from clinical.datasets.hospital import synthesize as synthesize
from clinical.evaluation.diagnoses import (
    DiagnosisEvaluation as DiagnosisEvaluation,
)
from clinical.evaluation.diagnoses import (
    evaluate_diagnoses as evaluate_diagnoses,
)
from clinical.evaluation.intervals import Evaluation as Evaluation
from clinical.evaluation.intervals import evaluate as evaluate
from clinical.evidence.explain import explain as explain
from clinical.evidence.view import Explanation as Explanation
from clinical.evidence.view import Passage as Passage
from clinical.risk.aggregation import aggregate as aggregate
from clinical.risk.convert import convert_release as convert_release
from clinical.risk.diagnoses import DiagnosisModel as DiagnosisModel
from clinical.risk.diagnoses import DiagnosisSettings as DiagnosisSettings
from clinical.risk.diagnoses import GroupRisk as GroupRisk
from clinical.risk.diagnoses import StayDiagnoses as StayDiagnoses
from clinical.risk.model import ReadmissionModel as ReadmissionModel
from clinical.risk.model import ReadmissionSettings as ReadmissionSettings
from clinical.risk.reading import Coverage as Coverage
from clinical.risk.reading import StayRisk as StayRisk
from clinical.risk.reading import UnreadSpan as UnreadSpan
from clinical.risk.reading import WindowRisk as WindowRisk
from clinical.stays.patients import assign_splits as assign_splits
from clinical.stays.patients import check_disjoint as check_disjoint
from clinical.training.diagnoses import DiagnosisRecipe as DiagnosisRecipe
from clinical.training.estimator import (
    ReadmissionClassifier as ReadmissionClassifier,
)
from clinical.training.training import ReadmissionRecipe as ReadmissionRecipe

__version__: str
