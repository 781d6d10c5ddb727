"""Abbreviations that a text defines: "heart failure (HF)", and "HF (heart failure)".

The algorithm of Schwartz and Hearst (2003, Pac. Symp. Biocomput. 451): each letter of the short
form occurs in the long form, in order and from the right, the first one at the start of a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_BRACKETS = re.compile(r"\(([^()\n]{2,120})\)")
_SHORT = re.compile(r"\A(?=.{0,9}[^\W\d_])\w[^\s,;:()]{1,9}(?: [^\s,;:()]{1,8})?")
_LAST = re.compile(r"(?<!\S)\S+$")
_STOP = re.compile(r"[.;:!?()]\s|\n\s*\n")  # no long form reaches over these
_FARTHEST = 200  # characters of the longest long form
_LONGEST = 10  # characters of a short form
_TOKEN = re.compile(r"\w+(?:-\w+)*")


class Abbreviation(NamedTuple):
    """The long form of an abbreviation, and where it ends in the text."""

    long: str
    end: int


def find_abbreviations(text: str) -> dict[str, Abbreviation]:
    """The abbreviations that a text defines, by short form; the first definition counts."""
    found: dict[str, Abbreviation] = {}
    for match in _BRACKETS.finditer(text):
        offset = max(match.start() - _FARTHEST, 0)
        before = text[offset : match.start()].rstrip()
        inside = re.split(r"[,;]", match[1], maxsplit=1)[0].strip()
        short, start, end = inside, offset, offset + len(before)
        if stops := [stop.end() for stop in _STOP.finditer(before)]:
            start += stops[-1]
        if not _is_short(inside) and (word := _LAST.search(before)):
            short = word[0]  # the other way round: the long form is inside
            start, end = match.start(1), match.start(1) + len(match[1].rstrip())
        if _is_short(short) and (at := _long_start(short, text[start:end])) is not None:
            found.setdefault(short, Abbreviation(text[start + at : end], end))
    return found


def _is_short(text: str) -> bool:
    return (
        len(text) <= _LONGEST
        and _SHORT.fullmatch(text) is not None
        and not text.islower()
    )


def _long_start(short: str, before: str) -> int | None:
    """Where the long form starts that ends with `before`; None if there is none."""
    words = [match.start() for match in re.finditer(r"\S+", before)]
    first = words[-min(len(short) + 5, 2 * len(short), len(words))] if words else 0
    place = len(before)
    for number in range(len(short) - 1, -1, -1):
        letter = short[number].lower()
        if not letter.isalnum():
            continue
        place -= 1
        while place >= first and (
            before[place].lower() != letter
            or (number == 0 and place > 0 and before[place - 1].isalnum())
        ):
            place -= 1
        if place < first:
            return None
    long = before[place:]
    # A long form is longer than its abbreviation and does not contain it.
    return place if len(long) > len(short) and short not in long.split() else None


def expanded(name: str, known: Mapping[str, Abbreviation]) -> str:
    """A name with the long forms of its abbreviations; a plural ("MIs") has the same."""
    if name in known:
        return known[name].long

    def long(match: re.Match[str]) -> str:
        entry = known.get(match[0]) or known.get(match[0].removesuffix("s"))
        return entry.long if entry else match[0]

    return _TOKEN.sub(long, name)
