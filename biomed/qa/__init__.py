"""Extractive question answering: a question and text of any length -> exact spans of the text."""
