"""Admissions, notes and a definition -> a labelled readmission cohort, and how it came about."""

from clinical.cohort.build import build_cohort
from clinical.cohort.definition import Definition, DefinitionError, load_definition
from clinical.cohort.result import Cohort, issues_path

__all__ = [
    "Cohort",
    "Definition",
    "DefinitionError",
    "build_cohort",
    "issues_path",
    "load_definition",
]
