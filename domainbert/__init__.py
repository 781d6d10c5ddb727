"""The foundation under `clinical` and `biomed`: a BERT encoder and its text, nothing medical."""

__version__ = "0.1.0"
