"""The foundation of `clinical` and `biomed`: encoders, text and tables, nothing medical."""

__version__ = "0.1.0"
