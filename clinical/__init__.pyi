"""The public names, each with the module that is imported when it is first used."""

from .cohort.build import build_cohort as build_cohort
from .cohort.result import Cohort as Cohort
from .datasets.hospital import synthesize as synthesize
from .evaluation.diagnoses import (
    DiagnosisEvaluation as DiagnosisEvaluation,
)
from .evaluation.diagnoses import (
    evaluate_diagnoses as evaluate_diagnoses,
)
from .evaluation.intervals import Evaluation as Evaluation
from .evaluation.intervals import evaluate as evaluate
from .evidence.explain import explain as explain
from .evidence.view import Explanation as Explanation
from .evidence.view import Passage as Passage
from .risk.aggregation import aggregate as aggregate
from .risk.convert import convert_release as convert_release
from .risk.diagnoses import DiagnosisModel as DiagnosisModel
from .risk.diagnoses import DiagnosisSettings as DiagnosisSettings
from .risk.diagnoses import GroupRisk as GroupRisk
from .risk.diagnoses import StayDiagnoses as StayDiagnoses
from .risk.model import ReadmissionModel as ReadmissionModel
from .risk.model import ReadmissionSettings as ReadmissionSettings
from .risk.reading import Coverage as Coverage
from .risk.reading import StayRisk as StayRisk
from .risk.reading import UnreadSpan as UnreadSpan
from .risk.reading import WindowRisk as WindowRisk
from .stays.patients import assign_splits as assign_splits
from .stays.patients import check_disjoint as check_disjoint
from .training.diagnoses import DiagnosisRecipe as DiagnosisRecipe
from .training.estimator import (
    ReadmissionClassifier as ReadmissionClassifier,
)
from .training.training import ReadmissionRecipe as ReadmissionRecipe

__version__: str
