"""CodiEsp, clinical cases with ICD-10 codes: `python -m recipes.codiesp` trains a model."""
