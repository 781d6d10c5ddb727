"""Split text into words as the entity corpora do: runs of letters and digits, and single marks.

NCBI-disease and BC5CDR, as distributed for training, are split at every hyphen, slash and bracket
(`adenomatous`, `-`, `3beta`). Tagging must split a user's text in the same way.
"""

from __future__ import annotations

import itertools
import re

import numpy as np

# Characters inside a word that are not letters: combining accents and invisible joiners (soft
# hyphen, zero-width joiners, word joiner).
_INNER = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f\u00ad\u200c\u200d\u2060"
_WORD = re.compile(rf"[^\W_]+(?:[{_INNER}]+[^\W_]*)*|\S")
_NARROWEST = 40  # characters: lines are not wrapped at fewer


def split_words(text: str) -> np.ndarray:
    """Start and end (one past the last) character of each word, shape (words, 2), int64.

    A word is a maximal run of letters and digits of any script (including their accents and
    joiners), or one other character that is not white space.
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    return np.array(spans, dtype=np.int64).reshape(-1, 2)


def starts_after_breaks(text: str, words: np.ndarray) -> np.ndarray:
    """The words that start a paragraph or a list item, into which no entity continues.

    A paragraph starts after a blank line. A line starts a list item if the line before it had room
    for its first word (so it was not wrapped) and it starts with anything but a small letter. In a
    paragraph of three or more lines that are all short, every line is a list item.

    Returns:
        Numbers of `words` (from `split_words`) in order, int64.
    """
    starts: list[int] = []
    paragraph: list[tuple[int, str]] = []
    offset = 0
    for line in [*text.split("\n"), ""]:
        if line.strip():
            paragraph.append((offset, line.rstrip()))
        elif paragraph:
            starts += [paragraph[0][0], *_list_items(paragraph)]
            paragraph = []
        offset += len(line) + 1
    numbers = np.searchsorted(words[:, 0], np.array(starts, dtype=np.int64))
    return np.unique(numbers[(numbers > 0) & (numbers < len(words))])


def _list_items(lines: list[tuple[int, str]]) -> list[int]:
    """Offsets of the lines of a paragraph that start a list item, but for the first line."""
    width = max(_NARROWEST, *(len(line) for _, line in lines)) if len(lines) > 1 else 0
    had_room = [
        len(line) + 1 + len(following.split(maxsplit=1)[0]) <= width
        for (_, line), (_, following) in itertools.pairwise(lines)
    ]
    is_list = len(lines) > 2 and all(had_room)
    return [
        offset
        for room, (offset, line) in zip(had_room, lines[1:], strict=True)
        if room and (is_list or not line.lstrip()[0].islower())
    ]
