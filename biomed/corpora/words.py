"""Split text into words as the entity corpora do: runs of letters and digits, and single marks.

NCBI-disease and BC5CDR, as distributed for training, are split at every hyphen, slash and bracket
(`adenomatous`, `-`, `3beta`). Tagging must split a user's text in the same way.
"""

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

JOINER = "\u2060"
"""An invisible character that joins what is before and after it into one word."""

# Combining accents belong to the letter before them.
_ACCENTS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_JOINERS = f"\u00ad\u200c\u200d{JOINER}"  # soft hyphen, zero-width joiners
_WORD = re.compile(
    rf"[^\W_]+(?:[{_ACCENTS}{_JOINERS}]+[^\W_]+)*[{_ACCENTS}]*|\S"
)

_NARROWEST = 40  # characters: lines are seldom wrapped at fewer
# Lines wrapped at fewer look like a list, unless they have so many characters and words.
_NARROW_WIDTH = 20
_NARROW_WORDS = 3
_LEAST_FULL = 3  # lines without room that make a page of running text
_SENTENCE_END = re.compile(r"[.:;!?][\"')\]]*$")
_LIST_MARK = re.compile(r"\d+[.)]\s|[^\w(]")
_BROKEN_WORD = re.compile(r"\w[-\u00ad\u2010]$")


def split_words(text: str) -> np.ndarray:
    """Start and end (one past the last) character of each word, shape (words, 2), int64.

    A word is a maximal run of letters and digits of any script (including their accents,
    and joiners between them), or one other character that is not white space.
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    return np.array(spans, dtype=np.int64).reshape(-1, 2)


class _Line(NamedTuple):
    """A line with something on it; `blanks` is the number of blank lines before it."""

    offset: int
    text: str
    blanks: int


def starts_after_breaks(text: str, words: np.ndarray) -> np.ndarray:
    """The words that start a paragraph or a list item, into which no entity continues.

    A paragraph starts after a blank line, unless the text is double-spaced. A line starts a
    list item if the line before it had room for its first word (so it was not wrapped) and
    it starts with anything but a small letter. In a paragraph of three or more lines that
    are all short, every line is a list item. The rest of a word that a hyphen at the end of
    a line has broken starts nothing.

    Returns:
        Numbers of `words` (from `split_words`) in order, int64.
    """
    starts = []
    for block in _blocks(text):
        starts.append(block[0].offset)
        starts += _later_starts(block)
    numbers = np.searchsorted(words[:, 0], np.array(starts, dtype=np.int64))
    return np.unique(numbers[(numbers > 0) & (numbers < len(words))])


def _blocks(text: str) -> list[list[_Line]]:
    """The lines of each paragraph; single lines with one blank line between are one block."""
    blocks: list[list[_Line]] = []
    offset = 0
    blanks = 0
    for line_text in text.split("\n"):
        line = _Line(offset, line_text.strip(), blanks)
        offset += len(line_text) + 1
        if not line.text:
            blanks += 1
            continue
        blanks = 0
        block: list[_Line] = []
        if blocks:
            block = blocks[-1]
        is_double_spaced = _is_double_spaced(block)
        if len(block) == 1:
            continues = line.blanks < 2
        else:
            continues = bool(block) and line.blanks == is_double_spaced
        if continues:
            block.append(line)
        elif is_double_spaced and line.blanks == 0:
            # The last line starts an ordinary paragraph.
            blocks.append([block.pop(), line])
        else:
            blocks.append([line])
    return blocks


def _had_room(lines: Sequence[_Line], width: int) -> list[bool]:
    """For each line but the last, whether the next line's first word would have fitted."""
    first_words = [line.text.split(maxsplit=1)[0] for line in lines[1:]]
    return [
        len(line.text) + 1 + len(word) <= width
        for line, word in zip(lines, first_words, strict=False)
    ]


def _wrapped_width(lines: Sequence[_Line]) -> int:
    """The width at which the lines of a text were wrapped: the length of the longest line.

    It is at least 40, so that a list of short lines does not count as wrapped. Shorter lines count
    as wrapped only if they read as running text and no line had room for the next word.
    """
    width = max(len(line.text) for line in lines)
    following = lines[1:]
    lower_count = sum(line.text[0].islower() for line in following)
    word_count = sum(len(line.text.split()) for line in lines)
    is_running_text = (
        width >= _NARROW_WIDTH
        and len(lines) > 2
        and word_count >= _NARROW_WORDS * len(lines)
        and 2 * lower_count >= len(following)
        and not any(_had_room(lines, width))
    )
    if not is_running_text:
        width = max(width, _NARROWEST)
    return width


def _is_double_spaced(lines: Sequence[_Line]) -> bool:
    return len(lines) > 1 and lines[1].blanks == 1


def _later_starts(lines: Sequence[_Line]) -> list[int]:
    """Offsets of the lines of a block, but for the first, into which no entity continues.

    In a double-spaced block a line continues the one before it if that was wrapped within a
    sentence. A few lines show this by a small letter; on a page, a third of them must be wrapped.
    """
    had_room = _had_room(lines, _wrapped_width(lines))
    full_count = len(had_room) - sum(had_room)
    is_list = len(lines) > 2 and not full_count
    is_page = full_count >= _LEAST_FULL and 3 * full_count >= len(had_room)
    starts = []
    for room, (line, following) in zip(
        had_room,
        itertools.pairwise(lines),
        strict=True,
    ):
        is_lower = following.text[0].islower()
        is_start = room and (is_list or not is_lower)
        if _is_double_spaced(lines):
            is_wrapped = not (room or _SENTENCE_END.search(line.text))
            can_follow = is_page or is_lower
            is_start = (
                not (is_wrapped and can_follow)
                or _LIST_MARK.match(following.text) is not None
            )
        if is_start and not _BROKEN_WORD.search(line.text):
            starts.append(following.offset)
    return starts
