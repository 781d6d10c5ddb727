"""Text -> words, cut as the entity corpora are: runs of letters and digits, and single marks.

NCBI-disease and BC5CDR, as everyone trains on them, are split at every hyphen, stroke and bracket
(`adenomatous`, `-`, `3beta`). A tagger trained on such words must read a user's text the same way,
so this one function serves both.
"""

from __future__ import annotations

import re

import numpy as np

# What stands inside a word without being a letter: combining accents, and the invisible joiners
# (soft hyphen, zero-width joiners, word joiner).
_INNER = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f\u00ad\u200c\u200d\u2060"
_WORD = re.compile(rf"[^\W_]+(?:[{_INNER}]+[^\W_]*)*|\S")
_BLANK_LINE = re.compile(r"\n\s*\n")


def split_words(text: str) -> np.ndarray:
    """Where the words of a text are.

    A word is a longest run of letters and digits of any script (with the accents and joiners on
    them), or one other character that is no white space.

    Returns:
        Start and end (one past the last) character of each word, shape (words, 2), int64.
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    return np.array(spans, dtype=np.int64).reshape(-1, 2)


def after_blank_lines(text: str, words: np.ndarray) -> np.ndarray:
    """The words that follow a blank line: another paragraph, or another entry of a list.

    Args:
        text: the text.
        words: from `split_words`.

    Returns:
        Word numbers, shape (paragraphs - 1,), int64.
    """
    blanks = [match.start() for match in _BLANK_LINE.finditer(text)]
    numbers = np.searchsorted(words[:, 0], np.array(blanks, dtype=np.int64))
    return np.unique(numbers[numbers < len(words)])
