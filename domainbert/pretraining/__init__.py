"""Pretraining of a BERT encoder on one's own text: masked words and next sentences."""
