"""Find, verify and load an encoder; adapters and heads on it."""
