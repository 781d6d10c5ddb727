"""Labelled readmission cohorts from admissions, notes and a definition."""

from clinical.cohort.build import build_cohort
from clinical.cohort.definition import Definition, load_definition
from clinical.cohort.result import Cohort, issues_path

__all__ = [
    "Cohort",
    "Definition",
    "build_cohort",
    "issues_path",
    "load_definition",
]
