"""Train a model on an objective: batches, settings, checkpoints, recipes."""
