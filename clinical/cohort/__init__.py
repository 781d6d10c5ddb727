"""Labelled readmission cohorts from admissions, notes and a definition."""
