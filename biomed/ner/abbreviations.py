"""Abbreviations that a text defines: "heart failure (HF)", and "HF (heart failure)".

The algorithm of Schwartz and Hearst (2003, Pac. Symp. Biocomput. 451): each letter of the short
form occurs in the long form, in order and from the right, the first one at the start of a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from biomed.ner.entities import Entity

_BRACKETS = re.compile(r"\(([^()\n]{2,120})\)")
_SHORT = re.compile(
    r"\A(?=.{0,9}[^\W\d_])\w[^\s,;:()]{1,9}(?: [^\s,;:()]{1,8})?"
)
_LAST = re.compile(r"(?<!\S)\S+$")
_STOP = re.compile(r"[.;:!?()]\s|\n\s*\n")  # no long form reaches over these
# Brackets within a word, which are a part of it: "poly(ADP-ribose)".
_INNER = re.compile(r"(?<=\w)\(([^()\s]{1,30})\)")
_YEAR = re.compile(r"\s(?:19|20)\d\d$")  # "(PoCA 2002)"
# No long form starts with one of these if a word before it fits too.
_SMALL_WORDS = frozenset(["and", "or", "of", "the", "for"])
_GREEK = str.maketrans("\u03b1\u03b2\u03b3\u03b4\u03ba", "abgdk")
_FARTHEST = 200  # characters of the longest long form
_LONGEST = 10  # characters of a short form
_TOKEN = re.compile(r"\w+(?:-\w+)*")
_WORD_START = re.compile(r"(?<!\w)\w")
_WORD_END = re.compile(r"(?!\w)")


class Abbreviation(NamedTuple):
    """The long form of an abbreviation, and where it ends in the text."""

    long: str
    end: int


def find_abbreviations(text: str) -> dict[str, Abbreviation]:
    """The abbreviations that a text defines, by short form; the first definition counts."""
    definitions: dict[str, Abbreviation] = {}
    for match in _BRACKETS.finditer(text):
        start = max(match.start() - _FARTHEST, 0)
        before = text[start : match.start()].rstrip()
        before = _INNER.sub(r"_\1_", before)
        end = start + len(before)
        for stop in _STOP.finditer(before):
            start = end - len(before) + stop.end()
        short = re.split("[,;]", match[1])[0].strip()
        short = _YEAR.sub("", short)
        last_word = _LAST.search(before)
        if last_word and not _is_short(short):
            # The other way round: the long form is in the brackets.
            short = last_word[0]
            start = match.start(1)
            end = start + len(match[1].rstrip())
            before = text[start:end]
        else:
            before = before[len(before) - (end - start) :]
        offset = _long_start(short, before)
        if offset is not None:
            long = text[start + offset : end]
            definitions.setdefault(short, Abbreviation(long, end))
    return definitions


def _is_short(text: str) -> bool:
    is_short = len(text) <= _LONGEST and not text.islower()
    return is_short and _SHORT.fullmatch(text) is not None


def _long_start(short: str, before: str) -> int | None:
    """Where the long form of an abbreviation starts that ends with `before`, if there is one."""
    if not _is_short(short):
        return None
    word_count = min(len(short) + 5, 2 * len(short))
    words = list(re.finditer(r"\S+", before))[-word_count:]
    if not words:
        return None
    first = words[0].start()
    lowered = "".join(char.lower()[0] for char in before)
    letters = _letters(short, lowered)
    position = len(before)
    for letter in reversed(letters):
        position = lowered.rfind(letter, first, position)
        if position < 0:
            return None
    start = _word_start(before, letters[0], first, position)
    if start is None:
        return None
    if before[start:].split()[0] in _SMALL_WORDS:
        earlier = _word_start(before, letters[0], first, start - 1)
        if earlier is not None:
            start = earlier
    long = before[start:]
    # A long form is longer than its abbreviation and does not contain it.
    if len(long) <= len(short) or short in long.split():
        return None
    return start


def _letters(short: str, lowered: str) -> list[str]:
    """The letters and digits of an abbreviation, as the text before it writes them."""
    letters = [char.lower()[0] for char in short if char.isalnum()]
    # "TNF-α" is short for "tumor necrosis factor-alpha" too.
    for number, letter in enumerate(letters):
        if letter not in lowered:
            letters[number] = letter.translate(_GREEK)
    return letters


def _word_start(
    before: str, letter: str, first: int, position: int
) -> int | None:
    """The last position from `first` to `position` where a word starts with a letter."""
    while position >= first:
        starts_word = not before[position - 1 : position].isalnum()
        if starts_word and before[position].lower()[0] == letter:
            return position
        position -= 1
    return None


def expanded(name: str, definitions: Mapping[str, Abbreviation]) -> str:
    """A name with the long forms of its abbreviations; a plural ("MIs") has the same one."""
    if name in definitions:
        return definitions[name].long

    def long(match: re.Match[str]) -> str:
        entry = definitions.get(match[0]) or definitions.get(
            match[0].removesuffix("s")
        )
        return entry.long if entry else match[0]

    return _TOKEN.sub(long, name)


def with_short_forms(
    text: str,
    entities: list[Entity],
    abbreviations: Mapping[str, Abbreviation],
) -> list[Entity]:
    """Add every occurrence of an abbreviation the text defines, labelled like its long form."""
    entity_ending_at = {entity.end: entity for entity in reversed(entities)}
    long_forms = {
        short: entity_ending_at[definition.end]
        for short, definition in abbreviations.items()
        if definition.end in entity_ending_at
    }
    if not long_forms:
        return entities
    extents = [range(entity.start, entity.end) for entity in entities]
    covered = set(chain.from_iterable(extents))
    lengths = sorted(set(map(len, long_forms)), reverse=True)
    added = []
    # Each length is looked up at each word: one pattern of all forms would take quadratic time.
    for match in _WORD_START.finditer(text):
        start = match.start()
        for length in lengths:
            end = start + length
            long = long_forms.get(text[start:end])
            if (
                long
                and _WORD_END.match(text, end)
                and covered.isdisjoint(range(start, end))
            ):
                covered.update(range(start, end))
                entity = replace(
                    long,
                    start=start,
                    end=end,
                    text=text[start:end],
                )
                added.append(entity)
    return sorted([*entities, *added], key=lambda e: e.start)
