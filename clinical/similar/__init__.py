"""Stays that are alike, and text copied between the notes of a stay."""
