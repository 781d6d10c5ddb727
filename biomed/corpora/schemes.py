"""Tag schemes: IOB2, IOB1, IOBES and BILOU in their spellings, and the way to IOB2."""

import re
from collections.abc import Collection, Iterable

from biomed.corpora.documents import OUTSIDE

UNTYPED = "Entity"
"""The type of entities whose tags name none: `B`, `I` and `O`."""

_BEGINNING = frozenset("BSUW")  # marks of words that begin an entity
_ENDING = frozenset("ELSUW")  # and of those that end one
_SPELLINGS = (
    re.compile(r"(?P<mark>[BIESLUWM])[-_](?P<type>.+)"),
    re.compile(r"(?P<type>.+)[-_](?P<mark>[BIESLUWM])"),
    re.compile(r"(?P<mark>[BIESLUWM])(?P<type>)"),
)

Tag = tuple[str, str]
"""Mark and type: ("B", "Disease"), ("O", ""), or ("", "Disease") for a type alone."""


def read_tags(names: Iterable[str]) -> dict[str, Tag]:
    """Mark and type of each tag name of a file or a network.

    One spelling is used for all names: `B-x` (or `B_x`), `x-B`, or `B` alone, whose type is
    `UNTYPED`. Small letters are marks where all names have them. A name that fits no
    spelling is a type alone.
    """
    spelled = set(names) - {OUTSIDE}
    tags = _read_spelled(spelled)
    has_marks = any(mark for mark, _ in tags.values())
    if not has_marks:
        tags |= _read_small(spelled)
    return {**tags, OUTSIDE: (OUTSIDE, "")}


def _read_small(names: Collection[str]) -> dict[str, Tag]:
    """The tags of names with small marks, such as `b-disease`; empty unless all names have one."""
    outside = OUTSIDE.lower()
    upper = {
        name: _with_upper_marks(name) for name in names if name != outside
    }
    tags = _read_spelled(set(upper.values()))
    if not upper or not all(mark for mark, _ in tags.values()):
        return {}
    small_tags = {name: tags[upper_name] for name, upper_name in upper.items()}
    return {**small_tags, outside: (OUTSIDE, "")}


def _read_spelled(names: Collection[str]) -> dict[str, Tag]:
    """The tags in the first spelling that fits: any name with a prefix, or all of another form."""
    for spelling, fits in zip(_SPELLINGS, (any, all, all), strict=True):
        matches = {name: spelling.fullmatch(name) for name in names}
        if names and fits(matches.values()):
            return {
                name: _as_tag(name, match) for name, match in matches.items()
            }
    return {name: ("", name) for name in names}


def _as_tag(name: str, match: re.Match[str] | None) -> Tag:
    """The mark of a tag, such as "B", and its type; a name without a mark has the mark ""."""
    if match is None:
        return "", name
    return match["mark"], match["type"] or UNTYPED


def _with_upper_marks(name: str) -> str:
    """`b-disease` as `B-disease`, `disease-b` as `disease-B`, `b` as `B`."""
    if re.match(r"[a-z](?:[-_]|$)", name):
        return name[0].upper() + name[1:]
    return name[:-1] + name[-1:].upper()


def begins(mark: str) -> bool:
    """Whether words with this mark always begin an entity."""
    return mark in _BEGINNING


def to_iob2(tags: Iterable[Tag]) -> list[str]:
    """The IOB2 tags of a sentence.

    A word that continues nothing begins an entity, as in IOB1, where `I` may begin one.
    """
    converted = []
    open_type = ""  # of the entity that the next word may continue
    for mark, label in tags:
        if mark == OUTSIDE:
            converted.append(OUTSIDE)
            open_type = ""
            continue
        new_mark = "B"
        if label == open_type and not begins(mark):
            new_mark = "I"
        converted.append(f"{new_mark}-{label}")
        open_type = label
        if mark in _ENDING:
            open_type = ""
    return converted
