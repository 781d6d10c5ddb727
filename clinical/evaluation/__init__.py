"""How good the risks are: measures, calibration, baselines, figures, report."""
