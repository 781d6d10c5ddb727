"""`sections`: the sections of a clinical note by their headings, with LOINC codes.

The names of headings are in `sections.toml`; docs/note_sections.md shows the forms of headings.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from domainbert.settings import check_choice

Spans = Sequence[tuple[int, int, str]]
"""Start, end and label of entities."""
OTHER = "other"
MASK = "\u00a4"  # stands for each character of an entity in a masked text
_HEADING = re.compile(
    r"""
    (?: (?P<line>^)[ \t]{0,20}(?:[#>*_=•|-]{1,6}[ \t]{0,3})?  # at the start of a line
        (?P<number>\(?(?:\d{1,2}|[ivx]{1,4}|[IVX]{1,4}|[A-H])[.)][ \t]{1,3})?(?:\*\*|__)?
      | (?<=[.;,)][ ]) | (?<=[.;],) | (?<=,)(?=[A-Z]{3}) | (?<=[ ]{2}) | (?<=\t) )  # or within it
    (?P<name>[^\W\d_](?:[\w'’&/()| \t-]|\.(?![ ])){0,60}?)
    [ \t]{0,3}(?:\*\*|__|=+|\#+|-->)?[ \t]{0,3}
    (?: (?P<colon>:)(?:\*\*|__)?,? | [-–—](?=[ ]) | (?P<alone>$|,(?=[A-Z]))
      | (?<=[A-Z]{2})(?=[ ](?:[a-z0-9]|[A-Z][a-z])) )
    """,
    re.MULTILINE | re.VERBOSE,
)
_NEXT_NUMBER = re.compile(r"[ \t]{0,20}\n\s{0,20}\(?(?:\d{1,2}|[ivxIVX]{1,4})[.)]\s")
_SAME_LETTERS = str.maketrans("’‘", "''")
_BRACKETS = re.compile(r"\([^()]{0,60}\)")
_WORD = re.compile(r"[a-z]+(?:['’-][a-z]+)*")
_LINE_END = re.compile(r"[ \t]{0,20}$", re.MULTILINE)
_SMALL = {"and", "of", "the"}
_SAME = {"hx": "history", "patient’s": "patient's"}
_SHORTEST = 3  # letters of a heading in capitals that has no colon
_LONGEST = 6  # words of a heading that is not in the table
_FEWEST = 5  # letters of one in capitals with text after its colon


@dataclass(frozen=True)
class Section:
    """A section of a note: `text[section.start : section.end]`, with its heading.

    Attributes:
        body: where the text after the heading starts.
        name: such as "allergies"; "other" under a heading that is not in the table.
        code: LOINC code of the section, or None.
    """

    start: int
    body: int
    end: int
    name: str
    code: str | None


class SectionKind(NamedTuple):
    """What the table says about a section; `asserts` has "disease" and "drug"."""

    name: str
    code: str | None
    asserts: dict[str, str]


class _Heading(NamedTuple):
    start: int
    body: int
    name: str
    is_capital: bool


def heading_key(heading: str) -> str:
    """A heading in the form of the table: its words without small ones and brackets."""
    plain = _BRACKETS.sub(" ", heading.casefold()).replace("h/o", "history")
    words = (_SAME.get(word, word) for word in _WORD.findall(plain))
    return " ".join(word for word in words if word not in _SMALL)


_DATA = tomllib.loads((Path(__file__).parent / "sections.toml").read_text("utf-8"))
_AROUND = frozenset(_DATA["around"].split())
_PARTS = {heading_key(part) for part in _DATA["parts"].splitlines()}
SECTIONS = {
    row["name"]: SectionKind(
        row["name"],
        row.get("code"),
        {kind: row[kind] for kind in ("disease", "drug") if kind in row},
    )
    for row in _DATA["section"]
}
SECTIONS[OTHER] = SectionKind(OTHER, None, {})
_NAMES = {
    heading_key(heading): row["name"]
    for row in _DATA["section"]
    for heading in row["headings"].strip().splitlines()
}


def sections(text: str) -> list[Section]:
    """The sections of a note, in order; text before the first heading is in none.

    A section ends where the next heading starts. Headings stand at the start of a line, with or
    without a colon, a dash, a number or Markdown, or within a line with a colon. Takes linear time.
    """
    return find_sections(text, text)


def find_sections(text: str, masked: str) -> list[Section]:
    """`sections` of a text; a heading that the table does not have contains no `MASK`."""
    headings = list(_headings(text, masked))
    edges = [heading.start for heading in headings] + [len(text)]
    results = []
    for heading, (start, end) in zip(headings, pairwise(edges), strict=True):
        code = SECTIONS[heading.name].code
        results.append(Section(start, heading.body, end, heading.name, code))
    return results


@dataclass(frozen=True)
class SectionChoice:
    """Sections to keep, or all but some; made by `read`."""

    kept: frozenset[str]
    left_out: frozenset[str]

    @classmethod
    def read(cls, names: Sequence[str]) -> SectionChoice:
        """A choice by names or LOINC codes; those after a minus sign are left out.

        Raises:
            UserError: no such section.
        """
        codes = {kind.code: name for name, kind in SECTIONS.items() if kind.code}
        chosen: dict[bool, set[str]] = {True: set(), False: set()}
        for name in names:
            bare = name.removeprefix("-")
            section = codes.get(bare, bare)
            check_choice("section", section, tuple(sorted(SECTIONS)))
            chosen[name == bare].add(section)
        return cls(frozenset(chosen[True]), frozenset(chosen[False]))

    def holds(self, section: Section | None) -> bool:
        """Whether entities of a section are kept; None is the text before the first heading."""
        name = section.name if section else ""
        return name not in self.left_out and (not self.kept or name in self.kept)


def sections_of(text: str, spans: Spans, *, heading: str = "") -> list[Section | None]:
    """The section that holds each entity of a text, or None before the first heading.

    Args:
        text: a note, or a part of one.
        spans: start, end and label of each entity, in any order.
        heading: of the section that the text starts in, if the text does not have it.
    """
    found = find_sections(text, mask_entities(text, spans))
    starts = [section.start for section in found]
    first = None
    if heading:
        kind = SECTIONS[_table_name(heading) or OTHER]
        first = Section(0, 0, starts[0] if starts else len(text), kind.name, kind.code)
    by_number = [first, *found]
    return [by_number[bisect_right(starts, start)] for start, _, _ in spans]


def mask_entities(text: str, spans: Spans) -> str:
    """The text in small letters with a mark for each character of an entity."""
    plain = text.translate(_SAME_LETTERS)
    letters = [low if len(low := char.lower()) == 1 else char for char in plain]
    for start, end, _ in spans:
        letters[start:end] = MASK * (end - start)
    return "".join(letters)


def _headings(text: str, masked: str) -> Iterator[_Heading]:
    """The headings of the table, and others in the form of the one before them."""
    open_heading: _Heading | None = None
    for match in _HEADING.finditer(text):
        words = match["name"].strip()
        name = _table_name(words)
        is_capital = words.isupper()
        heading = _Heading(match.start("name"), match.end(), name or OTHER, is_capital)
        if name:
            is_heading = _is_known_heading(match, words)
        else:
            has_entity = MASK in masked[match.start() : match.end()]
            is_heading = not has_entity and _ends_section(match, words, open_heading)
        if is_heading:
            open_heading = heading
            yield heading


def _table_name(words: str) -> str | None:
    """The section of a heading, with or without the words around its name."""
    key = heading_key(words)
    if key in _NAMES or key in _PARTS:
        return _NAMES.get(key)
    bare = " ".join(word for word in key.split() if word not in _AROUND)
    return _NAMES.get(bare)


def _is_known_heading(match: re.Match[str], words: str) -> bool:
    """Whether a name of the table stands as a heading does."""
    if match["colon"]:
        return match["line"] is not None or words[0].isupper()
    is_long = len(words) >= _SHORTEST
    has_dash = match[0][-1] in "-–—"
    if match["line"] is None:
        after_sentence = match.string.endswith(("; ", ". "), 0, match.start())
        return has_dash and is_long and after_sentence and words[0].isupper()
    if match["alone"] is not None:
        is_item = match["number"] and _NEXT_NUMBER.match(match.string, match.end())
        return (
            is_long and words[0].isupper() and not words.endswith(".") and not is_item
        )
    return is_long and (words.isupper() or (has_dash and words[0].isupper()))


def _ends_section(
    match: re.Match[str], words: str, open_heading: _Heading | None
) -> bool:
    """Whether words that are not in the table are a heading of the same form as the one before."""
    is_short = len(words.split()) <= _LONGEST and words[0].isupper()
    is_first = match["line"] is not None
    is_first = is_first or match.string.endswith(",", 0, match.start())
    if open_heading is None or not is_first or not is_short:
        return False
    if words.isupper() != open_heading.is_capital or heading_key(words) in _PARTS:
        return False
    text = match.string
    if match["colon"]:
        is_alone = _LINE_END.match(text, match.end()) is not None
        return is_alone or (words.isupper() and len(words) >= _FEWEST)
    follows_blank = text.endswith("\n\n", 0, match.start())
    is_title = words.isupper() and not words.endswith(".")
    return match["alone"] is not None and is_title and follows_blank
