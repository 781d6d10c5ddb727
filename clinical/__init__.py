"""ClinicalBERT: long clinical notes -> the risk of readmission within 30 days."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clinical.cohort.build import build_cohort
    from clinical.cohort.result import Cohort
    from clinical.cohort.splits import assign_splits, check_disjoint
    from clinical.datasets.diabetes130 import build_diabetes130
    from clinical.datasets.synthetic import synthesize
    from clinical.evaluation.intervals import Evaluation, evaluate
    from clinical.evidence.explain import Explanation, Passage, explain
    from clinical.risk.aggregation import aggregate
    from clinical.risk.convert import convert_release
    from clinical.risk.estimator import ReadmissionClassifier
    from clinical.risk.model import ReadmissionModel, ReadmissionSettings
    from clinical.risk.stays import Coverage, StayRisk, UnreadSpan, WindowRisk
    from clinical.risk.training import ReadmissionRecipe
    from clinical.risk.training import fit as fit_readmission
    from clinical.risk.trajectory import Trajectory, TrajectoryPoint
    from clinical.similar.copied import copied_text
    from clinical.similar.stays import similar_stays

import domainbert

__version__ = domainbert.__version__

# Each name is imported when it is first used, so that `clinical --help` waits for no torch.
_HOMES = {
    name: module
    for module, names in {
        "cohort.build": ("build_cohort",),
        "cohort.result": ("Cohort",),
        "cohort.splits": ("assign_splits", "check_disjoint"),
        "datasets.diabetes130": ("build_diabetes130",),
        "datasets.synthetic": ("synthesize",),
        "evaluation.intervals": ("Evaluation", "evaluate"),
        "evidence.explain": ("Explanation", "Passage", "explain"),
        "risk.aggregation": ("aggregate",),
        "risk.convert": ("convert_release",),
        "risk.estimator": ("ReadmissionClassifier",),
        "risk.model": ("ReadmissionModel", "ReadmissionSettings"),
        "risk.stays": ("Coverage", "StayRisk", "UnreadSpan", "WindowRisk"),
        "risk.trajectory": ("Trajectory", "TrajectoryPoint"),
        "risk.training": ("ReadmissionRecipe", "fit_readmission"),
        "similar.copied": ("copied_text",),
        "similar.stays": ("similar_stays",),
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
    "Trajectory",
    "TrajectoryPoint",
    "UnreadSpan",
    "WindowRisk",
    "aggregate",
    "assign_splits",
    "build_cohort",
    "build_diabetes130",
    "check_disjoint",
    "convert_release",
    "copied_text",
    "evaluate",
    "explain",
    "fit_readmission",
    "similar_stays",
    "synthesize",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _HOMES:
        msg = f"module 'clinical' has no attribute {name!r}"
        raise AttributeError(msg)
    # A module may have the name of the function in it: what is exported is the function.
    module = importlib.import_module(f"clinical.{_HOMES[name]}")
    value = getattr(module, "fit" if name == "fit_readmission" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return __all__
