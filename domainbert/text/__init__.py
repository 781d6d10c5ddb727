"""Windows of text with their offsets, and what runs them through a network."""
