"""Text -> sentences, also where lines are wrapped, lists have no full stops and headings none."""

from __future__ import annotations

import re
from itertools import pairwise

# What ends in a full stop without ending a sentence.
_ABBREVIATIONS = frozenset(
    [
        *("dr", "drs", "mr", "mrs", "ms", "prof", "st", "dept", "vs", "ca", "cf", "eq", "al"),
        *("fig", "figs", "ref", "refs", "e.g", "i.e", "approx"),
    ]
)
_ITEM = re.compile(r"(?:[-*#+•·▪◦–—]|\(?\d{1,3}[.)]|\(?[A-Za-z][.)])(?:\s|$)")
_HEADING = re.compile(r"[A-Z][\w /&,'()-]{0,40}:(?:\s|$)")
# In tokenised text a full stop stands apart, and so does the point of 0 . 05.
_POINT = r"(?<=\s)\.\s+\d"
# Matching begins where a run of marks does, and none is given back: time grows with the length.
_END = re.compile(rf"""(?<![.!?])(?!{_POINT})[.!?]++["'”’)\]]*+(?=\s++["'“‘(\[]*+[A-Z0-9])""")
_LONGEST_WORD = 40  # characters before a full stop that can matter
# Text is wrapped by hand or machine at some width between these, but for a few lines.
_WIDTHS = range(40, 121)
_FEW = 0.1
# A line may be this much shorter than the widest and yet have had no room for the next word:
# marks that hide names were put in after the lines were wrapped.
_SLACK = 0.9


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, their white space made single spaces.

    A line break ends a sentence unless the line was wrapped: it is about as long as lines get
    here, or it is long and goes on in lower case. Blank lines, list items and headings always
    begin anew. Within a line, a full stop ends a sentence where a capital or a digit follows and
    no title or common abbreviation stands before.

    Every word of the text is in one sentence, in order, and none is empty.
    """
    return [part for block in _unwrapped(text) for part in _parts(" ".join(block))]


def _unwrapped(text: str) -> list[list[str]]:
    """The words of each paragraph, list item and heading, none of them empty."""
    lines = [line.strip() for line in text.splitlines()]
    width = _wrap_width([len(line) for line in lines if line])
    blocks: list[list[str]] = []
    before = ""
    for line in lines:
        if before and line and _goes_on(before, line, width=width):
            blocks[-1] += line.split()
        elif line:
            blocks.append(line.split())
        before = line
    return blocks


def _wrap_width(lengths: list[int]) -> int:
    """The width that several lines come up to, or 0 where lines were not wrapped."""
    within = sorted(length for length in lengths if length < _WIDTHS.stop)
    if len(lengths) - len(within) > _FEW * len(lengths):
        return 0
    widths = (high for low, high in pairwise(within) if high in _WIDTHS and low > _SLACK * high)
    return max(widths, default=0)


def _goes_on(line: str, following: str, *, width: int) -> bool:
    if line.endswith(":") or _ITEM.match(following) or _HEADING.match(following):
        return False
    word = following.split(maxsplit=1)[0]
    is_full = len(line) <= width < (len(line) + 1 + len(word)) / _SLACK
    flows = len(line) >= _WIDTHS.start and line[-1] not in ".!?;" and following[0].islower()
    return is_full or flows


def _parts(block: str) -> list[str]:
    parts, start = [], 0
    for end in _END.finditer(block):
        if _is_full_stop(block[max(start, end.start() - _LONGEST_WORD) : end.start()]):
            parts.append(block[start : end.end()])
            start = end.end() + 1
    return [*parts, block[start:]]


def _is_full_stop(before: str) -> bool:
    """Whether a full stop after these words ends the sentence."""
    *words, last = before.rsplit(maxsplit=1) or [""]
    plain = last.lower().strip("(['\"")
    is_number_of_item = not words and len(last) <= 3
    is_initial = len(plain) == 1 and last.isupper()
    return bool(last) and not (is_number_of_item or is_initial or plain in _ABBREVIATIONS)
