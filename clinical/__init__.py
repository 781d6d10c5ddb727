"""ClinicalBERT: long clinical notes -> the risk of readmission within 30 days."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clinical.cohort import Cohort, build_cohort
    from clinical.cohort.splits import assign_splits, check_disjoint
    from clinical.datasets.diabetes130 import build_diabetes130
    from clinical.datasets.synthetic import synthesize
    from clinical.evaluation.measures import Evaluation, evaluate
    from clinical.risk.aggregation import aggregate
    from clinical.risk.convert import convert_release
    from clinical.risk.estimator import ReadmissionClassifier
    from clinical.risk.model import ReadmissionModel, ReadmissionSettings
    from clinical.risk.results import Coverage, StayRisk, UnreadSpan, WindowRisk

# Each name is imported when it is first used, so that `clinical --help` waits for no torch.
_HOMES = {
    "Cohort": "cohort",
    "Coverage": "risk.results",
    "Evaluation": "evaluation.measures",
    "ReadmissionClassifier": "risk.estimator",
    "ReadmissionModel": "risk.model",
    "ReadmissionSettings": "risk.model",
    "StayRisk": "risk.results",
    "UnreadSpan": "risk.results",
    "WindowRisk": "risk.results",
    "aggregate": "risk.aggregation",
    "assign_splits": "cohort.splits",
    "build_cohort": "cohort",
    "build_diabetes130": "datasets.diabetes130",
    "check_disjoint": "cohort.splits",
    "convert_release": "risk.convert",
    "evaluate": "evaluation.measures",
    "synthesize": "datasets.synthetic",
}

__all__ = [
    "Cohort",
    "Coverage",
    "Evaluation",
    "ReadmissionClassifier",
    "ReadmissionModel",
    "ReadmissionSettings",
    "StayRisk",
    "UnreadSpan",
    "WindowRisk",
    "aggregate",
    "assign_splits",
    "build_cohort",
    "build_diabetes130",
    "check_disjoint",
    "convert_release",
    "evaluate",
    "synthesize",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _HOMES:
        msg = f"module 'clinical' has no attribute {name!r}"
        raise AttributeError(msg)
    # A module may have the name of the function in it: what is exported is the function.
    value = getattr(importlib.import_module(f"clinical.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return __all__
