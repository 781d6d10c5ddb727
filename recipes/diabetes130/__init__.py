"""The UCI table "Diabetes 130-US hospitals" as a cohort: `python -m recipes.diabetes130`."""
