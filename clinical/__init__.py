"""ClinicalBERT: long clinical notes -> the risk of readmission within 30 days."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clinical.cohort.build import build_cohort
    from clinical.cohort.result import Cohort
    from clinical.datasets.hospital import synthesize
    from clinical.evaluation.intervals import Evaluation, evaluate
    from clinical.evidence.explain import explain
    from clinical.evidence.view import Explanation, Passage
    from clinical.model import ReadmissionModel, fit_readmission
    from clinical.risk.aggregation import aggregate
    from clinical.risk.convert import convert_release
    from clinical.risk.model import ReadmissionSettings
    from clinical.stays.patients import assign_splits, check_disjoint
    from clinical.stays.stays import Coverage, StayRisk, UnreadSpan, WindowRisk
    from clinical.training.estimator import ReadmissionClassifier
    from clinical.training.training import ReadmissionRecipe

import domainbert

__version__ = domainbert.__version__

# Each name is imported when it is first used, so that `clinical --help` waits for no torch.
_HOMES = {
    name: module
    for module, names in {
        "cohort.build": ("build_cohort",),
        "cohort.result": ("Cohort",),
        "stays.patients": ("assign_splits", "check_disjoint"),
        "datasets.hospital": ("synthesize",),
        "evaluation.intervals": ("Evaluation", "evaluate"),
        "evidence.explain": ("explain",),
        "evidence.view": ("Explanation", "Passage"),
        "risk.aggregation": ("aggregate",),
        "risk.convert": ("convert_release",),
        "training.estimator": ("ReadmissionClassifier",),
        "model": ("ReadmissionModel", "fit_readmission"),
        "risk.model": ("ReadmissionSettings",),
        "stays.stays": ("Coverage", "StayRisk", "UnreadSpan", "WindowRisk"),
        "training.training": ("ReadmissionRecipe",),
    }.items()
    for name in names
}

__all__ = [
    "Cohort",
    "Coverage",
    "Evaluation",
    "Explanation",
    "Passage",
    "ReadmissionClassifier",
    "ReadmissionModel",
    "ReadmissionRecipe",
    "ReadmissionSettings",
    "StayRisk",
    "UnreadSpan",
    "WindowRisk",
    "aggregate",
    "assign_splits",
    "build_cohort",
    "check_disjoint",
    "convert_release",
    "evaluate",
    "explain",
    "fit_readmission",
    "synthesize",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _HOMES:
        msg = f"module 'clinical' has no attribute {name!r}"
        raise AttributeError(msg)
    # A module may have the name of the function in it: what is exported is the function.
    module = importlib.import_module(f"clinical.{_HOMES[name]}")
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return __all__
