"""Cohorts to try things on: real diabetes encounters, and a made-up hospital."""
