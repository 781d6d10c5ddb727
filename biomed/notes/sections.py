"""`sections`: the sections of a clinical note by their headings, with LOINC codes.

The names of headings are in `sections.toml`; docs/note_sections.md shows the forms of headings.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from biomed.notes.patterns import Spans as Spans
from biomed.notes.patterns import mended_word
from domainbert.files import read_toml
from domainbert.settings import check_choice

OTHER = "other"
MASK = "\u00a4"  # stands for each character of an entity in a masked text
_HEADING = re.compile(
    r"""
    (?: (?P<line>^)[ \t]{0,20}(?:[#>*_=•|-]{1,6}[ \t]{0,3})?  # at the start of a line
        (?P<number>\(?(?:\d{1,2}|[ivx]{1,4}|[IVX]{1,4}|[A-H])[.)][ \t]{1,3})?(?:\*\*|__)?
      | (?<=[.;,)][ ]) | (?<=[.;],) | (?<=,)(?=[A-Z]{3}) | (?<=[ ]{2}) | (?<=\t) )  # or within it
    (?P<name>[^\W\d_](?:[\w'’&/| \t-]|\([^()\n]{0,40}\)|\.(?![ ])){0,60}?)
    [ \t]{0,3}(?:\*\*|__|=+|\#+|-->)?[ \t]{0,3}
    (?: (?P<colon>:)(?:\*\*|__)?,? | (?:[-–—]|[-=]{1,2}>|→)(?=[ ]) | (?P<alone>$|,(?=[A-Z]))
      | (?:(?<=[A-Z]{2})|(?<=[A-Z]{2}x))(?=[ ](?:[a-z0-9]|[A-Z][a-z]))
        (?![ ](?i:history|hx|course|meds|medications|problems|diagnos[ei]s|exam|findings)[ ]?:) )
    """,
    re.MULTILINE | re.VERBOSE,
)
_NEXT_NUMBER = re.compile(
    r"[ \t]{0,20}\n\s{0,20}\(?(?:\d{1,2}|[ivxIVX]{1,4})[.)]\s"
)
_SAME_LETTERS = str.maketrans("’‘" + MASK, "'' ")
_BRACKETS = re.compile(r"\([^()]{0,60}\)")
_WORD = re.compile(r"[a-z]+(?:['’-][a-z]+)*")
_LINE_END = re.compile(r"[ \t]{0,20}$", re.MULTILINE)
_SMALL = {"and", "of", "the"}
_SAME = {
    "hx": "history",
    "fam": "family",
    "med": "medical",
    "meds": "medications",
    "soc": "social",
    "surg": "surgical",
    "patient’s": "patient's",
}
# What printed headings add to a name: "as of 3/5/2024", "reviewed by RN", "on file prior to visit".
_ADDED = re.compile(
    r"\s(?:as\sof|on\sfile|(?:last\s)?(?:reviewed|updated|verified|confirmed|marked)|per|by)\b.*"
)
_PARTED = re.compile(r"\s?[/&|]\s?|\sand\s")
# Headings of two letters that stand alone on a line; "PE" and "MS" are diseases too.
_SHORT = {"CC", "DH", "FH", "SH"}
_ABSTRACT = "abstract"
_DASHES = ("-", "–", "—", ">", "→")
_SHORTEST = 3  # letters of a heading in capitals that has no colon
_LONGEST = 6  # words of a heading that is not in the table
_FEWEST = 5  # letters of one in capitals with text after its colon


@dataclass(frozen=True)
class Section:
    """A section of a note: `text[section.start : section.end]`, with its heading.

    Attributes:
        body: first character of the text after the heading.
        name: such as "allergies"; "other" under a heading that is not in the table.
        code: LOINC code of the section, or None.
    """

    start: int
    body: int
    end: int
    name: str
    code: str | None


class SectionKind(NamedTuple):
    """A section of the table, and the assertions of a disease and a drug that it implies."""

    name: str
    code: str | None = None
    disease: str = ""
    drug: str = ""


class _Heading(NamedTuple):
    start: int
    body: int
    name: str
    is_capital: bool = False


def heading_key(heading: str) -> str:
    """A heading in the form of the table: its words without small ones and brackets."""
    plain = _BRACKETS.sub(" ", heading.casefold()).replace("h/o", "history")
    mended = map(mended_word, _WORD.findall(plain))
    words = (_SAME.get(word, word) for word in mended)
    return " ".join(word for word in words if word not in _SMALL)


_DATA = read_toml(__file__, "sections.toml")
_AROUND = frozenset(_DATA["around"].split())
_PARTS = {heading_key(part) for part in _DATA["parts"].splitlines()}
_NAMES: dict[str, str] = {}
SECTIONS = {OTHER: SectionKind(OTHER)}
for _row in _DATA["section"]:
    _headings_of_row = _row.pop("headings").strip().splitlines()
    _NAMES |= dict.fromkeys(map(heading_key, _headings_of_row), _row["name"])
    SECTIONS[_row["name"]] = SectionKind(**_row)
_ABSTRACT_ENDS = frozenset(map(heading_key, _DATA["abstract_ends"].split()))
_ABSTRACT_PARTS = _ABSTRACT_ENDS | {
    heading_key(part) for part in _DATA["abstract_parts"].splitlines()
}
ALL_SECTIONS = frozenset(["", *SECTIONS])


def sections(text: str) -> list[Section]:
    """The sections of a note, in order; text before the first heading is in none.

    A section ends where the next heading starts. Headings stand at the start of a line, with or
    without a colon, a dash, a number or Markdown, or within a line with a colon. Takes linear time.
    """
    return find_sections(text, text)


def find_sections(text: str, masked: str) -> list[Section]:
    """`sections` of a text; a heading that the table does not have contains no `MASK`."""
    end = _Heading(len(text), len(text), OTHER)
    headings = [*_of_abstract(text, list(_headings(text, masked))), end]
    return [
        Section(
            heading.start,
            heading.body,
            following.start,
            heading.name,
            SECTIONS[heading.name].code,
        )
        for heading, following in pairwise(headings)
    ]


def chosen_sections(choices: Sequence[str]) -> frozenset[str]:
    """The names of chosen sections; all, and "" for no section, without a choice.

    Args:
        choices: names or LOINC codes; those after a minus sign are left out.

    Raises:
        UserError: no such section.
    """
    names_by_code = {kind.code: kind.name for kind in SECTIONS.values()}
    kept = set()
    left_out = set()
    for choice in choices:
        bare_choice = choice.removeprefix("-")
        name = names_by_code.get(bare_choice, bare_choice)
        check_choice("section", name, tuple(sorted(SECTIONS)))
        if choice.startswith("-"):
            left_out.add(name)
        else:
            kept.add(name)
    return frozenset((kept or ALL_SECTIONS) - left_out)


def sections_of(
    text: str, spans: Spans, *, heading: str = ""
) -> list[Section]:
    """The section that holds each entity of a text; its name is "" before the first heading.

    Args:
        text: a note, or a part of one.
        spans: start, end and label of each entity, in any order.
        heading: the heading of the section that the text starts in, if the text does not have it.
    """
    note_sections = find_sections(text, mask_entities(text, spans))
    starts = [section.start for section in note_sections]
    kind = SectionKind("")
    if heading:
        kind = SECTIONS[_table_name(heading) or OTHER]
    first_end = min(starts, default=len(text))
    first_section = Section(0, 0, first_end, kind.name, kind.code)
    candidates = [first_section, *note_sections]
    return [candidates[bisect_right(starts, start)] for start, _, _ in spans]


def mask_entities(text: str, spans: Spans, *, mark: str = MASK) -> str:
    """The text in small letters with a mark for each character of an entity."""
    plain = text.translate(_SAME_LETTERS)
    letters = list(plain.lower())
    if len(letters) != len(plain):  # "İ" becomes two letters
        letters = [char.lower()[0] for char in plain]
    for start, end, _ in spans:
        letters[start:end] = mark * (end - start)
    return "".join(letters)


def _headings(text: str, masked: str) -> Iterator[_Heading]:
    """The headings of the table, and others in the form of the one before them."""
    open_heading: _Heading | None = None
    for match in _HEADING.finditer(text):
        words = match["name"].strip()
        name = _table_name(words)
        is_capital = _is_capital(words)
        heading = _Heading(
            match.start("name"), match.end(), name or OTHER, is_capital
        )
        if name:
            is_heading = _is_known_heading(match, words, open_heading)
        else:
            has_entity = MASK in masked[match.start() : match.end()]
            is_heading = not has_entity and _ends_section(
                match, words, open_heading
            )
        if is_heading:
            open_heading = heading
            yield heading


def _of_abstract(text: str, headings: list[_Heading]) -> list[_Heading]:
    """The headings; those of an abstract say nothing about a patient's history."""
    keys = [
        heading_key(text[heading.start : heading.body]) for heading in headings
    ]
    if not _ABSTRACT_ENDS.intersection(keys[1:]):
        return headings
    if not _ABSTRACT_PARTS.issuperset(keys):
        return headings
    return [heading._replace(name=_ABSTRACT) for heading in headings]


def _table_name(words: str) -> str | None:
    """The section of a heading, with or without the words around its name."""
    key = heading_key(words)
    if key in _NAMES or key in _PARTS:
        return _NAMES.get(key)
    bare = " ".join(word for word in key.split() if word not in _AROUND)
    if bare in _NAMES:
        return _NAMES[bare]
    plain = words.casefold()
    name = _ADDED.sub("", plain)
    if name != plain:
        return _table_name(name)
    parts = _PARTED.split(plain)
    if len(parts) < 2:
        return None
    names = [_NAMES.get(heading_key(part)) for part in parts]
    if not all(names):
        return None
    return names[0]


def _is_known_heading(
    match: re.Match[str], words: str, open_heading: _Heading | None
) -> bool:
    """Whether a name of the table stands as a heading does."""
    if match["colon"]:
        is_first = match["line"] is not None or words[0].isupper()
        return is_first or _follows_item(match)
    is_inside = match["line"] is None and _follows_item(match)
    if is_inside and open_heading and open_heading.is_capital:
        return _is_capital(words)  # "PMH asthma, FH stroke"
    if words in _SHORT:
        return match["alone"] is not None
    if len(words) < _SHORTEST or not words[0].isupper():
        return False
    text = match.string
    has_dash = match[0].endswith(_DASHES)
    if match["line"] is None:
        return has_dash and text.endswith(("; ", ". "), 0, match.start())
    if match["alone"] is None:
        return has_dash or _is_capital(words)
    is_item = match["number"] and _NEXT_NUMBER.match(text, match.end())
    return not is_item and not words.endswith(".")


def _is_title(words: str) -> bool:
    """Whether each word of two or more is capitalised, as "Discharge Labs"."""
    long_words = [word for word in words.split() if len(word) > 3]
    return len(long_words) > 1 and all(word.istitle() for word in long_words)


def _is_capital(words: str) -> bool:
    """Whether a heading is in capitals, as FH and PMHx are."""
    return words.removesuffix("x").isupper()


def _follows_item(match: re.Match[str]) -> bool:
    """Whether a heading within a line follows a list: "pmh: asthma; fh: stroke"."""
    return match.string.endswith((", ", "; ", ". "), 0, match.start())


def _ends_section(
    match: re.Match[str],
    words: str,
    open_heading: _Heading | None,
) -> bool:
    """Whether words that are not in the table are a heading of the same form as the one before."""
    if open_heading is None or heading_key(words) in _PARTS:
        return False
    text = match.string
    is_capital = words.isupper()
    follows_comma = text.endswith(",", 0, match.start())
    is_title = open_heading.is_capital and _is_title(words)
    has_form = words[0].isupper() and (
        is_capital == open_heading.is_capital or is_title
    )
    is_first = match["line"] is not None or follows_comma
    if not has_form or not is_first or len(words.split()) > _LONGEST:
        return False
    if match["colon"]:
        is_long = is_capital and len(words) >= _FEWEST
        return is_long or _LINE_END.match(text, match.end()) is not None
    if match["alone"] is None or words.endswith("."):
        return False
    follows_blank = text.endswith("\n\n", 0, match.start())
    return (is_capital or is_title) and follows_blank
