"""Intervals, calibration and the base of all figures."""
