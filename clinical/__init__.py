"""ClinicalBERT: long clinical notes -> the risk of readmission within 30 days."""

from __future__ import annotations

from typing import TYPE_CHECKING

import domainbert

if TYPE_CHECKING:
    from clinical.cohort.build import build_cohort as build_cohort
    from clinical.cohort.result import Cohort as Cohort
    from clinical.datasets.hospital import synthesize as synthesize
    from clinical.evaluation.intervals import Evaluation as Evaluation
    from clinical.evaluation.intervals import evaluate as evaluate
    from clinical.evidence.explain import explain as explain
    from clinical.evidence.view import Explanation as Explanation
    from clinical.evidence.view import Passage as Passage
    from clinical.model import ReadmissionModel as ReadmissionModel
    from clinical.risk.aggregation import aggregate as aggregate
    from clinical.risk.convert import convert_release as convert_release
    from clinical.risk.model import ReadmissionSettings as ReadmissionSettings
    from clinical.stays.patients import assign_splits as assign_splits
    from clinical.stays.patients import check_disjoint as check_disjoint
    from clinical.stays.stays import Coverage as Coverage
    from clinical.stays.stays import StayRisk as StayRisk
    from clinical.stays.stays import UnreadSpan as UnreadSpan
    from clinical.stays.stays import WindowRisk as WindowRisk
    from clinical.training.estimator import (
        ReadmissionClassifier as ReadmissionClassifier,
    )
    from clinical.training.training import ReadmissionRecipe as ReadmissionRecipe

# Each name is imported on first use, so that `clinical --help` does not import torch.
_NAMES = {
    "cohort.build": "build_cohort",
    "cohort.result": "Cohort",
    "stays.patients": "assign_splits check_disjoint",
    "datasets.hospital": "synthesize",
    "evaluation.intervals": "Evaluation evaluate",
    "evidence.explain": "explain",
    "evidence.view": "Explanation Passage",
    "risk.aggregation": "aggregate",
    "risk.convert": "convert_release",
    "training.estimator": "ReadmissionClassifier",
    "model": "ReadmissionModel",
    "risk.model": "ReadmissionSettings",
    "stays.stays": "Coverage StayRisk UnreadSpan WindowRisk",
    "training.training": "ReadmissionRecipe",
}
__getattr__, __dir__, __all__ = domainbert.imported_on_use(__name__, _NAMES)
__version__ = domainbert.__version__
