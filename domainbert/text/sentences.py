"""Split text into sentences."""

import re
from collections.abc import Iterator
from itertools import pairwise

# Words that end in a full stop without ending a sentence.
_ABBREVIATIONS = frozenset(
    "dr drs mr mrs ms prof st dept vs ca cf eq al fig figs ref refs e.g i.e approx".split()  # noqa: SIM905
)  # fmt: skip
_ITEM = re.compile(r"(?:[-*#+•·▪◦–—]|\(?\d{1,3}[.)]|\(?[A-Za-z][.)])(?:\s|$)")
_WORD = re.compile(r"\S+")
_HEADING = re.compile(r"[A-Z][\w /&,'()-]{0,40}:(?:\s|$)")
# Tokenized text separates the full stop from its word, and also the point of 0 . 05.
_POINT = r"(?<= )\. \d"
# A run of marks is tried once, at its start, and never given back: linear in the text.
_END = re.compile(
    rf"""(?<![.!?])(?!{_POINT})[.!?]++["'”’)\]]*+(?= ["'“‘(\[]*+[A-Z0-9])"""
)
# Text is wrapped at a width in this range, except for a few long lines.
_WIDTHS = range(40, 121)
_LONG_LINES = 0.1
# A full line may be this much shorter than the widest: names were masked after the wrapping.
_SLACK = 0.9


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences with single spaces between words, in linear time.

    A line break ends a sentence unless the line was wrapped: it is about as long as the longest
    lines, or it is long and the next line starts in lower case. Blank lines, list items and
    headings start a sentence. Within a line, a full stop ends one if a capital or a digit follows
    and the word before is no title, initial or abbreviation. Every word is in exactly one sentence.
    """
    sentences: list[str] = []
    for block in _unwrapped(text):
        sentences += _block_sentences(" ".join(block.split()))
    return sentences


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """The sentences of `split_sentences` as (start, end) in the text, in order, not overlapping."""
    words = [word.span() for word in _WORD.finditer(text)]
    spans = []
    first = 0
    for sentence in split_sentences(text):
        # Both functions see the same words, so counting them finds the characters.
        end = first + len(sentence.split())
        if end > first:
            spans.append((words[first][0], words[end - 1][1]))
        first = end
    return spans


def _unwrapped(text: str) -> list[str]:
    """Paragraphs, list items and headings, their wrapped lines joined."""
    lines = [line.strip() for line in text.splitlines()]
    width = _wrap_width([len(line) for line in lines if line])
    blocks: list[list[str]] = []
    before = ""
    for line in lines:
        if before and line and _continues(before, line, width=width):
            blocks[-1].append(line)
        elif line:
            blocks.append([line])
        before = line
    return [" ".join(block) for block in blocks]


def _wrap_width(lengths: list[int]) -> int:
    """The width that several lines nearly reach, or 0 if lines were not wrapped."""
    within = sorted(length for length in lengths if length < _WIDTHS.stop)
    if len(lengths) - len(within) > _LONG_LINES * len(lengths):
        return 0
    for longer, shorter in pairwise(reversed(within)):
        if longer in _WIDTHS and shorter > _SLACK * longer:
            return longer
    return 0


def _continues(
    line: str,
    following: str,
    *,
    width: int,
) -> bool:
    """Whether a line of a text wrapped at a width runs on into the following one."""
    if (
        line.endswith(":")
        or _ITEM.match(following)
        or _HEADING.match(following)
    ):
        return False
    word = following.split(maxsplit=1)[0]
    if len(line) <= width < (len(line) + 1 + len(word)) / _SLACK:
        return True
    is_long = len(line) >= _WIDTHS.start
    return is_long and line[-1] not in ".!?;" and following[0].islower()


def _block_sentences(block: str) -> Iterator[str]:
    """Cut a paragraph, with single spaces between words, after its full stops."""
    start = 0
    for end in _END.finditer(block):
        if _is_full_stop(block, start, end.start()):
            yield block[start : end.end()]
            start = end.end() + 1
    yield block[start:]


def _is_full_stop(
    block: str,
    start: int,
    stop: int,
) -> bool:
    """Whether a full stop at `stop` ends the sentence that starts at `start`."""
    if stop > start and block[stop - 1] == " ":  # tokenized text: "word ."
        stop -= 1
    space = block.rfind(" ", start, stop)
    last = block[max(space + 1, start) : stop]
    plain = last.lower().strip("(['\"")
    if not last or plain in _ABBREVIATIONS:
        return False
    is_item_number = space < 0 and len(last) <= 3
    is_initial = len(plain) == 1 and last.isupper()
    return not (is_item_number or is_initial)
