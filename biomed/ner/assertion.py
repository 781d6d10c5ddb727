"""Assertion of entities in notes: present, negated, possible, historical, an allergy, or other.

Rules over the words around an entity, in the manner of ConText (Harkema et al. 2009, J. Biomed.
Inform. 42, 839): cues with a direction and a scope, words that end a scope, and section headings,
all in `cues.toml`. docs/entities.md defines the six assertions.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from biomed.corpora.words import split_words, starts_after_breaks

# In this order: of several that apply, the first counts.
ASSERTIONS = ("other", "allergy", "negated", "possible", "historical", "present")
DRUGS = frozenset({"chemical", "drug", "drugs", "medication", "treatment"})
_MASK = "\u00a4"
_FARTHEST = 400  # characters between a cue and an entity after it
_NEAR = 120  # and before it
_END = re.compile(
    r"\b(?:dr|mrs?|ms|vs|approx|pt|hx|e\.g|i\.e)\.(?=\s)|(?P<end>[;!]|[.?](?=\s|$))"
)
_HEADING = re.compile(r"(?:^[ \t]*|(?<=[.;] ))([a-z][a-z /&'-]{0,40}):", re.MULTILINE)
_CLEAN_TAIL = re.compile(r"\s{0,20}(?:$|[,.;)(&+/]|and\b|or\b|nor\b|w/|vs\b)")
_JOINED = re.compile(rf"[\s&+/{_MASK}]|\band\b|\bor\b")
_DIGIT = re.compile(r"\d")


def _any_of(lines: str) -> re.Pattern[str]:
    """One pattern of alternatives that are written one a line; a space may be any white space."""
    parts = [line.strip().replace(" ", r"\s+") for line in lines.strip().splitlines()]
    return re.compile(rf"(?<![\w/-])(?:{'|'.join(parts)})(?![\w])")


_DATA = tomllib.loads((Path(__file__).parent / "cues.toml").read_text("utf-8"))
_NOT_A_CUE, _TERMINATORS = _any_of(_DATA["not_a_cue"]), _any_of(_DATA["terminators"])
# Section headings in small letters, and what they make of a disease and of a drug.
_SECTIONS: dict[str, dict[str, str]] = {
    heading: section
    for section in _DATA["section"]
    for heading in section["headings"].splitlines()
}


@dataclass(frozen=True, eq=False)
class _Cue:
    """Words that decide the assertion of entities near them; cues.toml explains the fields."""

    assertion: str
    pattern: re.Pattern[str]
    after: bool = False
    reach: int = 5
    items: Literal["one", "list", "all"] = "one"
    kind: Literal["any", "disease", "drug"] = "any"
    barriers: re.Pattern[str] | None = None

    @classmethod
    def read(
        cls, *, words: str = "", regex: str = "", barriers: str = "", **row: Any
    ) -> _Cue:
        """A cue of the file."""
        for name in ("relative", "informant"):
            regex = regex.replace(f"{{{name}}}", _DATA[name].replace("\n", "|"))
        pattern = re.compile(regex) if regex else _any_of(words)
        barriers = _DATA["drug_barriers"] if row.get("kind") == "drug" else barriers
        return cls(
            pattern=pattern, barriers=_any_of(barriers) if barriers else None, **row
        )


_CUES = [_Cue.read(**row) for row in _DATA["cue"]]


def assert_spans(text: str, spans: Sequence[tuple[int, int, str]]) -> list[str]:
    """The assertion of each entity of a text, one of `ASSERTIONS`, in linear time.

    Args:
        text: a note, or a part of one. Section headings and lists are read.
        spans: start, end and label of each entity, in any order; they may overlap. A label such as
            "Chemical" or "Drug" is a drug; any other is read by the rules for diseases.
    """
    if not spans:
        return []
    masked = _masked(text, spans)
    headings = list(_HEADING.finditer(masked))
    sections = [_SECTIONS.get(match[1].strip()) for match in headings]
    places = [match.start() for match in headings]
    edges = _clause_edges(text, masked)
    clause = cache(lambda number: _Clause(masked, edges[number], edges[number + 1]))
    results = []
    for start, end, label in spans:
        kind = "drug" if label.casefold() in DRUGS else "disease"
        names = clause(bisect_right(edges, start) - 1).assertions(start, end, kind)
        at = bisect_right(places, start) - 1
        if at >= 0 and (section := sections[at]):
            names.add(section[kind])
        results.append(next((name for name in ASSERTIONS if name in names), "present"))
    return results


def _masked(text: str, spans: Sequence[tuple[int, int, str]]) -> str:
    """The text in small letters with a mark for each character of an entity."""
    letters = [low if len(low := char.lower()) == 1 else char for char in text]
    for start, end, _ in spans:
        letters[start:end] = _MASK * (end - start)
    return "".join(letters)


def _clause_edges(text: str, masked: str) -> list[int]:
    """Where clauses start: after sentence ends and semicolons, and at list items; and the end."""
    words = split_words(text)
    items = words[starts_after_breaks(text, words), 0].tolist()
    ends = [match.end() for match in _END.finditer(masked) if match["end"]]
    return sorted({0, len(text), *items, *ends})


class _Clause:
    """The cues of a clause and the words that end their scopes, in text order."""

    def __init__(self, masked: str, start: int, end: int) -> None:
        self._text, self._end = masked, end
        none = {
            at
            for m in _NOT_A_CUE.finditer(masked, start, end)
            for at in range(*m.span())
        }
        hits = [
            (*match.span(), cue)
            for cue in _CUES
            for match in cue.pattern.finditer(masked, start, end)
            if cue.assertion == "possible" or match.start() not in none
        ]
        self._hits = sorted(hits, key=itemgetter(0, 1))
        self._starts = [first for first, _, _ in self._hits]
        self._stops = [
            match.span() for match in _TERMINATORS.finditer(masked, start, end)
        ]

    def assertions(self, start: int, end: int, kind: str) -> set[str]:
        """The assertions of the cues that reach an entity; of each cue the nearest one counts."""
        names = set()
        last = bisect_left(self._stops, (start,)) - 1
        stop = self._stops[last][0] if last >= 0 else -1
        seen: set[_Cue] = set()
        for number in range(bisect_left(self._starts, start) - 1, -1, -1):
            begin, until, cue = self._hits[number]
            if start - begin > _FARTHEST:
                break
            fits = not cue.after and cue.kind in ("any", kind) and cue not in seen
            if fits and stop < until <= start:
                seen.add(cue)
                if self._reaches_forward(cue, until, start, end):
                    names.add(cue.assertion)
        first = bisect_left(self._stops, (end,))
        stop = self._stops[first][0] if first < len(self._stops) else self._end
        for number in range(bisect_left(self._starts, end), len(self._hits)):
            begin, _, cue = self._hits[number]
            if begin > min(stop, end + _NEAR):
                break
            if cue.after and cue.kind in ("any", kind):
                gap = _JOINED.sub(" ", self._text[end:begin])
                if "," not in gap and len(gap.split()) <= cue.reach:
                    names.add(cue.assertion)
        return names

    def _reaches_forward(self, cue: _Cue, until: int, start: int, end: int) -> bool:
        """Whether a cue that ends at `until` reaches an entity after it."""
        gap = self._text[until:start]
        if cue.barriers and cue.barriers.search(gap):
            return False
        first, *others = gap.split(",")
        if len(first.split()) > cue.reach:
            return False
        if not others or cue.items == "all":
            return True
        tail = self._text[end : min(self._end, end + 20)]
        is_bare = all(
            len(item.replace(_MASK, " ").split()) <= 3 and not _DIGIT.search(item)
            for item in others[:-1]
        )
        is_near = len(others[-1].split()) <= 2 and _CLEAN_TAIL.match(tail) is not None
        return cue.items == "list" and is_bare and is_near
