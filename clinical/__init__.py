"""ClinicalBERT: long clinical notes -> the risk of readmission within 30 days."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clinical.aggregation import aggregate
    from clinical.cohort import Cohort, build_cohort
    from clinical.convert import convert_release
    from clinical.diabetes130 import build_diabetes130
    from clinical.estimator import ReadmissionClassifier
    from clinical.evaluation import Evaluation, evaluate
    from clinical.readmission import ReadmissionModel, ReadmissionSettings
    from clinical.results import Coverage, StayRisk, UnreadSpan, WindowRisk
    from clinical.splits import assign_splits, check_disjoint
    from clinical.synthetic import synthesize

# Each name is imported when it is first used, so that `clinical --help` waits for no torch.
_HOMES = {
    "Cohort": "cohort",
    "Coverage": "results",
    "Evaluation": "evaluation",
    "ReadmissionClassifier": "estimator",
    "ReadmissionModel": "readmission",
    "ReadmissionSettings": "readmission",
    "StayRisk": "results",
    "UnreadSpan": "results",
    "WindowRisk": "results",
    "aggregate": "aggregation",
    "assign_splits": "splits",
    "build_cohort": "cohort",
    "build_diabetes130": "diabetes130",
    "check_disjoint": "splits",
    "convert_release": "convert",
    "evaluate": "evaluation",
    "synthesize": "synthetic",
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
