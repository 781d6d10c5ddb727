"""How good the risks are: measures, baselines, subgroups and drift, as numbers."""
