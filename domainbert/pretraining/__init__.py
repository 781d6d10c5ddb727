"""Pretraining of a BERT encoder on your own text: masked words and next sentences."""
