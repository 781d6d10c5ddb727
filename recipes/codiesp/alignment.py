"""Which English line of a translated case says what a Spanish sentence says.

Lines and sentences come in the same order, but a few are merged, split or missing. Dynamic
programming finds the best pairs, as Gale and Church (1993) do by length, here also by the numbers
and the beginnings of words that both languages share.
"""

from __future__ import annotations

import math
import re
import unicodedata
from itertools import product
from typing import Final

Span = tuple[int, int]
Link = tuple[range, range]
_SENTENCE_END: Final = re.compile(r"(?<=[.!?;:])\s+|\n+")
_WORD: Final = re.compile(r"[a-z]{3,}|\d+")
_BEGINNING: Final = (
    4  # letters of a word that are compared: "neumonía" and "pneumonia" differ
)
_SPANISH_LONGER: Final = 1.1
_STEPS: Final = (
    (1, 1),
    (1, 0),
    (0, 1),
    (1, 2),
    (2, 1),
    (1, 3),
    (3, 1),
    (2, 2),
)
_ENUMERATION: Final = (
    4  # a line of so few characters is the number of a paragraph
)


def spanish_sentences(text: str) -> list[Span]:
    """The sentences and clauses of a text, without the blanks between them."""
    spans = []
    start = 0
    for gap in _SENTENCE_END.finditer(text):
        if text[start : gap.start()].strip():
            spans.append((start, gap.start()))
        start = gap.end()
    if text[start:].strip():
        spans.append((start, len(text)))
    return spans


def english_lines(text: str) -> list[Span]:
    """The lines of a text, empty ones too."""
    spans = []
    start = 0
    for line in text.split("\n"):
        spans.append((start, start + len(line)))
        start += len(line) + 1
    return spans


def align(english: list[str], spanish: list[str]) -> list[Link]:
    """Which lines belong to which sentences, in order; either side of a link may be empty."""
    words = [list(map(_words, texts)) for texts in (english, spanish)]
    lengths = [list(map(len, texts)) for texts in (english, spanish)]

    def likeness(lines: range, sentences: range) -> float:
        if not lines or not sentences:
            is_number = lines and lengths[0][lines[0]] < _ENUMERATION
            return -0.05 if is_number else -0.5
        shared, total = _shared(words, lines, sentences)
        of_lines = sum(lengths[0][n] for n in lines)
        of_sentences = sum(lengths[1][n] for n in sentences)
        if not of_lines or not of_sentences:
            return -9.0
        stretch = math.log(_SPANISH_LONGER * of_lines / of_sentences)
        value = 2 * shared / math.sqrt(total) + 0.6 - abs(stretch) / 2
        value *= min(math.sqrt(of_lines), 12) / 8
        return value - 0.1 * (len(lines) + len(sentences) - 2)

    best: dict[Span, tuple[float, Span]] = {(0, 0): (0.0, (0, 0))}
    places = product(range(len(english) + 1), range(len(spanish) + 1))
    for line, sentence in places:
        if (line, sentence) not in best:
            continue
        for lines, sentences in _STEPS:
            end = (line + lines, sentence + sentences)
            if end[0] > len(english) or end[1] > len(spanish):
                continue
            value = best[line, sentence][0] + likeness(
                range(line, end[0]), range(sentence, end[1])
            )
            if end not in best or value > best[end][0]:
                best[end] = (value, (line, sentence))
    links = []
    end = (len(english), len(spanish))
    while end != (0, 0):
        start = best[end][1]
        links.append((range(start[0], end[0]), range(start[1], end[1])))
        end = start
    return links[::-1]


def english_place(
    english: str, spanish: str, links: list[Link], position: int
) -> Span | None:
    """About where the English text says what is at a position of the Spanish one.

    It is the same share of the aligned lines, with a margin of 15% of their length to both sides;
    None where no line is aligned.
    """
    sentences = spanish_sentences(spanish)
    lines = english_lines(english)
    distances = [
        max(start - position, position - end, 0) for start, end in sentences
    ]
    number = distances.index(min(distances))
    group = range(number, number + 1)
    chosen = range(0)
    for of_lines, of_sentences in links:
        if of_lines and number in of_sentences:
            chosen, group = of_lines, of_sentences
            break
        if of_lines and (not of_sentences or of_sentences[0] <= number):
            # The sentence may have no line; then the last line before it is the nearest.
            chosen = of_lines[-1:]
    if not chosen:
        return None
    start, end = sentences[group[0]][0], sentences[group[-1]][1]
    share = min(max((position - start) / max(end - start, 1), 0), 1)
    first, last = lines[chosen[0]][0], lines[chosen[-1]][1]
    middle = first + share * (last - first)
    margin = 0.15 * (last - first)
    return max(first, round(middle - margin)), min(
        last, round(middle + margin)
    )


def _words(text: str) -> set[str]:
    """Numbers, and the first letters of words without accents."""
    plain = unicodedata.normalize("NFKD", text.lower())
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    return {
        word if word.isdigit() else word[:_BEGINNING]
        for word in _WORD.findall(plain)
    }


def _shared(
    words: list[list[set[str]]], lines: range, sentences: range
) -> tuple[int, int]:
    """Words of both, and the product of the numbers of words of each."""
    english: set[str] = set().union(*(words[0][n] for n in lines))
    spanish: set[str] = set().union(*(words[1][n] for n in sentences))
    return len(english & spanish), (len(english) + 1) * (len(spanish) + 1)
