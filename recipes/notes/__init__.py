"""Clinical notes that are not real: generated ones for training, and tagged ones for measuring."""
