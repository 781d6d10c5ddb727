"""`sections`: the sections of a clinical note by their headings, with LOINC codes.

The names of headings are in `sections.toml`; docs/note_sections.md shows the forms of headings.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

OTHER = "other"
MASK = "\u00a4"  # stands for each character of an entity in a masked text
_HEADING = re.compile(
    r"""
    (?: (?P<line>^)[ \t]{0,20}(?:[#>*_=•|-]{1,6}[ \t]{0,3})?  # at the start of a line
        (?:\(?(?:\d{1,2}|[ivx]{1,4}|[IVX]{1,4}|[A-H])[.)][ \t]{1,3})?(?:\*\*|__)?
      | (?<=[.;,)][ ]) | (?<=[.;],) | (?<=,)(?=[A-Z]{3}) | (?<=[ ]{2}) | (?<=\t) )  # or within it
    (?P<name>[^\W\d_][\w'’&/()| \t.-]{0,60}?)
    [ \t]{0,3}(?:\*\*|__|=+|\#+|-->)?[ \t]{0,3}
    (?: (?P<colon>:)(?:\*\*|__)?,? | [-–—](?=[ ]) | (?P<alone>$|,(?=[A-Z]))
      | (?<=[A-Z]{2})(?=[ ](?:[a-z0-9]|[A-Z][a-z])) )
    """,
    re.MULTILINE | re.VERBOSE,
)
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


def section_at(found: Sequence[Section], starts: Sequence[int]) -> list[Section | None]:
    """The section that holds each of several positions, which are in order."""
    results: list[Section | None] = []
    number = -1
    for start in starts:
        while number + 1 < len(found) and found[number + 1].start <= start:
            number += 1
        results.append(found[number] if number >= 0 else None)
    return results


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
    if match["line"] is None:
        return False
    is_long = len(words) >= _SHORTEST
    if match["alone"] is not None:
        return is_long and words[0].isupper()
    has_dash = match[0][-1] in "-–—"
    return is_long and (words.isupper() or (has_dash and words[0].isupper()))


def _ends_section(
    match: re.Match[str], words: str, open_heading: _Heading | None
) -> bool:
    """Whether words that are not in the table are a heading of the same form as the one before."""
    is_short = len(words.split()) <= _LONGEST and words[0].isupper()
    if open_heading is None or match["line"] is None or not is_short:
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
