"""Assertion of entities in notes: present, negated, possible, historical, an allergy, or other.

Rules over the words around an entity, in the manner of ConText (Harkema et al. 2009, J. Biomed.
Inform. 42, 839): cues with a direction and a scope, words that end a scope, and the sections of
a note. The cues are in `cues.toml`; docs/assertions.md shows what they understand.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from biomed.corpora.documents import ASSERTIONS as ASSERTIONS
from biomed.corpora.words import split_words, starts_after_breaks
from biomed.notes.cues import AssertionRules, Cue, Label
from biomed.notes.patterns import Mended, without_stops
from biomed.notes.sections import (
    MASK,
    SECTIONS,
    Section,
    Spans,
    mask_entities,
    sections_of,
)

DRUGS = frozenset({"chemical", "drug", "drugs", "medication", "treatment"})
_FARTHEST = 400  # characters between a cue and an entity after it
_NEAR = 120  # and before it
_ITEM_WORDS = 3  # of an item of a list, besides the entity
_TAIL = 60  # characters after an entity that may show a clause of its own
_END = re.compile(
    # ".,Next": dictated reports whose line breaks became commas; "1) No effusion 2) Pneumonia".
    r"(?P<end>(?<=\s)(?=[1-9]\d?\)\s)|[;!]|\.(?=\s|$|,\s?[\w\u00a4])|(?<=[^\s.;])\?(?=\s|$)(?!\s{0,9}(?:no|yes|none|n|y|nil|never|denie[sd])\b))"
)
_JOINED = re.compile(rf"[\s&+/{MASK}]|\band\b|\bor\b|\bnor\b")
_CONJUNCTION = re.compile(r"\b(?:and|or|nor)\b|[&/]|\+(?!,)")
_CLOSED_LIST = re.compile(r"\b(?:and|or|nor)\b[^,]{0,200},")
_LIST_TAIL = re.compile(r"\s{0,20}(?:$|[,.;)(&+/]|and\b|or\b|nor\b|w/|vs\b)")
_PLURAL = re.compile(r"(?:were|are|have)\b")
_SINGULAR = re.compile(r"(?:was|is|has)\b")
_POSITIVE_END = re.compile(r"\band\s+an?\b")
_ALLERGY_CUE = re.compile(
    r"(?:(?:drug|medication|medicine|med|known|severe|multiple)\s)*"
    r"(?:allerg(?:y|ies|ic)|(?:hyper)?sensitivit(?:y|ies)|intolerances?)",
    re.IGNORECASE,
)
_GOVERNS = re.compile(r"\s{0,9}(?:to\b|against\b|include|[:|])")
# Words before a name within an entity that say when or whether.
_MODIFIER = re.compile(
    r"(?:(?:old(?!\s+world)|prior|previous|remote|past|resolved|healed|former|possible|probable"
    r"|suspected|presumed|questionable)\s{1,3}){1,3}",
    re.IGNORECASE,
)
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_DIGIT = re.compile(r"\d")
_OWN_STATEMENT = re.compile(
    r"\s{0,9}(?:(?:also|now|still|has|have)\s+)?(?:is|was|are|were|had|been|improv\w+|worsen\w+|"
    r"persist\w+|continu\w+|started|began|remain\w*|occurred|resolv\w+|after|since|due|but\s+(?:no|not|without))\b|\s{1,9}\d"
)
# A dose and how often it is taken, after a drug: nobody takes what they are allergic to.
_REGIMEN = re.compile(
    r"[ ,(]{0,3}\d[\d.,/]{0,7} ?(?:mg|mcg|g|units?|iu|ml|meq|puffs?|tab(?:let)?s?|caps?)\b"
    r"[^.;\n]{0,30}?"
    r"\b(?:daily|nightly|weekly|once|twice|every|[bt]\.?i\.?d|q\.?i?\.?d|qhs|q ?\d|prn)\b"
)


class Decision(NamedTuple):
    """The assertion of an entity, and the words of the text that decided it.

    Attributes:
        assertion: one of `ASSERTIONS`.
        rule: "before" or "after" for a cue on that side of the entity, "section" for the heading of
            its section, "" if nothing in the text decided.
        start: first character of the cue or heading.
        end: one past its last.
    """

    assertion: str
    rule: str = ""
    start: int = 0
    end: int = 0

    def fields(self, text: str) -> dict[str, Any]:
        """The fields of an `Entity` that say what was decided, and by which words of its text."""
        words = text[self.start : self.end].rstrip()
        if not words:
            return {"assertion": self.assertion}
        return {
            "assertion": self.assertion,
            "cue": words,
            "cue_start": self.start,
            "cue_end": self.start + len(words),
            "cue_rule": self.rule,
        }


class _Hit(NamedTuple):
    """A cue in a text."""

    start: int
    end: int
    cue: Cue

    @property
    def rule(self) -> str:
        if self.cue.row.after:
            return "after"
        return "before"


class _Mention(NamedTuple):
    """An entity, its clause, and the number of the clause."""

    start: int
    end: int
    clause_start: int
    clause_end: int
    clause: int


def assert_spans(
    text: str,
    spans: Spans,
    *,
    rules: AssertionRules | None = None,
    heading: str = "",
    sections: Sequence[Section] | None = None,
) -> list[str]:
    """The assertion of each entity of a text, one of `ASSERTIONS`, in linear time.

    Args:
        text: a note, or a part of one. Section headings, lists and forms are read.
        spans: start, end and label of each entity, in any order; they may overlap. A label such as
            "Chemical" or "Drug" is a drug; any other is read by the rules for diseases.
        rules: `AssertionRules.read()` by default.
        heading: the heading of the section that the text starts in, if the text does not have it.
        sections: the section of each entity, from `sections_of`, if they are known.
    """
    decisions = decide_spans(
        text, spans, rules=rules, heading=heading, sections=sections
    )
    return [decision.assertion for decision in decisions]


def decide_spans(
    text: str,
    spans: Spans,
    *,
    rules: AssertionRules | None = None,
    heading: str = "",
    sections: Sequence[Section] | None = None,
) -> list[Decision]:
    """As `assert_spans`, with the cue or the heading that decided."""
    if not spans:
        return []
    rules = rules or AssertionRules.read()
    if sections is None:
        sections = sections_of(text, spans, heading=heading)
    mended = Mended(text, [_without_modifier(text, *span) for span in spans])
    headings = {mended.shifted(section.start) for section in sections}
    ends = {mended.shifted(section.end) for section in sections}
    note = _Note(mended.text, mended.spans, rules, headings | ends)
    decisions = []
    for span, section in zip(mended.spans, sections, strict=True):
        decision = note.decision(*span, section)
        start = mended.original(decision.start)
        end = mended.original(decision.end)
        if decision.rule == "section":
            start = section.start
            end = section.body
        decisions.append(decision._replace(start=start, end=end))
    return decisions


def _without_modifier(
    text: str, start: int, end: int, label: str
) -> tuple[int, int, str]:
    """A span without words before its name that say when or whether: "Old anterior MI"."""
    modifier = _MODIFIER.match(text, start, end)
    if modifier and modifier.end() < end:
        start = modifier.end()
    return start, end, label


class _Note:
    """A text with its entities masked and split into clauses."""

    def __init__(
        self,
        text: str,
        spans: Spans,
        rules: AssertionRules,
        section_edges: Iterable[int],
    ) -> None:
        # For a drug, diseases are not masked: what it does ("rash to penicillin") is a cue.
        masked = without_stops(text, mask_entities(text, spans))
        drugs = without_stops(text, mask_entities(text, drug_spans(spans)))
        self._masked: dict[Label, str] = {"disease": masked, "drug": drugs}
        self._edges = _clause_edges(text, masked, section_edges)
        self._ends = sorted({end for _, end, _ in spans})
        self._rules = rules
        self._parsers: dict[Label, _Parser] = {}

    def decision(
        self, start: int, end: int, label: str, section: Section
    ) -> Decision:
        """The assertion of an entity in its section."""
        group: Label = "disease"
        if label.casefold() in DRUGS:
            group = "drug"
        default = ""
        if section.name:
            default = getattr(SECTIONS[section.name], group)
        if default == "allergy" and _REGIMEN.match(self._masked[group], end):
            default = ""  # "Allergies: penicillin. Lisinopril 20 mg daily."
        return self._parser(group).decision(start, end, default)

    def _parser(self, group: Label) -> _Parser:
        if group not in self._parsers:
            self._parsers[group] = _Parser(
                self._masked[group],
                self._edges,
                self._ends,
                self._rules.cues[group],
            )
        return self._parsers[group]


def drug_spans(spans: Spans) -> Spans:
    """The spans whose label is one of `DRUGS`."""
    return [span for span in spans if span[2].casefold() in DRUGS]


def is_allergy_cue(text: str, start: int, end: int, section: Section) -> bool:
    """Whether an entity is words that only say that a drug is an allergy: "Allergy to"."""
    if not _ALLERGY_CUE.fullmatch(text, start, end):
        return False
    return start < section.body or _GOVERNS.match(text, end) is not None


def _clause_edges(
    text: str, masked: str, section_edges: Iterable[int]
) -> list[int]:
    """Where clauses start: after sentence ends and semicolons, at list items and sections."""
    words = split_words(text)
    items = words[starts_after_breaks(text, words), 0].tolist()
    ends = [
        match.end()
        for match in _END.finditer(masked)
        if match["end"] is not None
    ]
    return sorted({0, len(text), *items, *ends, *section_edges})


class _Parser:
    """Decides the assertions of the entities of one label in a text."""

    def __init__(
        self,
        masked: str,
        edges: list[int],
        ends: list[int],
        cues: Sequence[Cue],
    ) -> None:
        self._text = masked
        self._edges = edges
        self._hits = list(_outermost(self._all_hits(cues, ends)))
        self._starts = [hit.start for hit in self._hits]
        self._leads = self._lead_clauses()

    def decision(self, start: int, end: int, default: str) -> Decision:
        """The first of `ASSERTIONS` among the cues that reach an entity and its section's."""
        number = bisect_right(self._edges, start) - 1
        clause_end = max(self._edges[number + 1], end)
        mention = _Mention(start, end, self._edges[number], clause_end, number)
        hits = [
            *self._cues_before(mention),
            *self._cues_after(mention),
            *self._cues_of_lead(mention),
        ]
        decisions: dict[str, Decision] = {}
        for hit in hits:
            name = hit.cue.row.assertion
            decisions.setdefault(
                name, Decision(name, hit.rule, hit.start, hit.end)
            )
        decisive = {
            hit.cue.row.assertion for hit in hits if hit.cue.row.over_section
        }
        if "negated" in decisive:  # "no penicillin allergy"
            decisions.pop("allergy", None)
        if default == "other" or (default and not decisive):
            decisions.setdefault(default, Decision(default, "section"))
        names = (name for name in ASSERTIONS if name in decisions)
        return decisions.get(next(names, ""), Decision("present"))

    def _all_hits(self, cues: Sequence[Cue], ends: list[int]) -> list[_Hit]:
        """Every cue that lies in one clause, in text order, the longest first."""
        hits = [
            _Hit(match.start(), match.end(), cue)
            for cue in cues
            for match in cue.matches(self._text, ends)
        ]
        inside = [hit for hit in hits if not self._crosses_edge(hit)]
        return sorted(inside, key=lambda hit: (hit.start, -hit.end))

    def _crosses_edge(self, hit: _Hit) -> bool:
        edge = bisect_right(self._edges, hit.start)
        return edge < len(self._edges) and self._edges[edge] < hit.end

    def _hits_from(self, start: int, stop: int) -> list[_Hit]:
        """The cues that start from `start` on and before `stop`."""
        first = bisect_left(self._starts, start)
        return self._hits[first : bisect_left(self._starts, stop)]

    def _cues_before(self, mention: _Mention) -> Iterator[_Hit]:
        """The cues before an entity that reach it; of each cue the nearest one counts."""
        first_start = max(mention.clause_start, mention.start - _FARTHEST)
        nearer: list[_Hit] = []
        seen = set()
        for hit in reversed(self._hits_from(first_start, mention.start)):
            if hit.cue.row.after or hit.end > mention.start:
                continue
            is_nearest = hit.cue not in seen
            is_open = not any(
                self._ends_scope(hit, near_hit) for near_hit in nearer
            )
            seen.add(hit.cue)
            nearer.append(hit)
            if is_nearest and is_open and self._reaches_forward(hit, mention):
                yield hit

    def _ends_scope(self, hit: _Hit, nearer: _Hit) -> bool:
        """Whether a cue between a cue and the entity starts a statement of its own."""
        assertion = hit.cue.row.assertion
        near_assertion = nearer.cue.row.assertion
        if assertion == "other":
            return False
        if assertion == "historical":
            return near_assertion == "present" and nearer.cue.row.over_section
        if near_assertion == "present":
            return True
        between = self._text[hit.end : nearer.start]
        if "," not in between and MASK not in between:
            return False
        if nearer.cue.row.label == "drug":
            return True  # "hold Plavix, stop warfarin"
        return near_assertion not in (assertion, "historical")

    def _reaches_forward(self, hit: _Hit, mention: _Mention) -> bool:
        """Whether a cue reaches an entity after it."""
        if hit.cue.stops.search(self._text, hit.end, mention.start):
            return False
        row = hit.cue.row
        gap = self._text[hit.end : mention.start]
        first_item, *items = gap.split(",")
        if len(_single_words(first_item)) > row.reach:
            return False
        if not items or row.items == "all":
            return True
        is_strict = (
            row.assertion == "historical"
            or row.label == "drug"
            or _CLOSED_LIST.search(gap) is not None
        )
        return (
            row.items == "list"
            and all(map(_is_bare, items[:-1]))
            and len(_single_words(items[-1])) <= _ITEM_WORDS
            and self._is_item(mention, is_strict=is_strict)
            and not self._is_inserted(hit, mention)
        )

    def _is_item(self, mention: _Mention, *, is_strict: bool) -> bool:
        """Whether what follows an entity may follow an item of a list."""
        if is_strict:
            tail = _LIST_TAIL.match(
                self._text, mention.end, mention.clause_end
            )
            return tail is not None
        last = mention.end + _TAIL
        return _OWN_STATEMENT.match(self._text, mention.end, last) is None

    def _is_inserted(self, hit: _Hit, mention: _Mention) -> bool:
        """Whether a negation is in a list of findings: "goitre, no nodes, a cyst, and a mass"."""
        last = min(mention.end + _NEAR, mention.clause_end)
        follows_finding = MASK in self._text[mention.clause_start : hit.start]
        positive_end = _POSITIVE_END.search(self._text, mention.end, last)
        return follows_finding and positive_end is not None

    def _cues_after(self, mention: _Mention) -> Iterator[_Hit]:
        """The cues in the clause after an entity that reach back to it."""
        for hit in self._hits_from(mention.end, mention.end + _NEAR + 1):
            is_inside = hit.end <= mention.clause_end
            if (
                is_inside
                and hit.cue.row.after
                and self._reaches_backward(hit, mention.end)
            ):
                yield hit

    def _cues_of_lead(self, mention: _Mention) -> Iterator[_Hit]:
        """The cues of a line that ends with a colon before a list: "Denies:", "call if any of:"."""
        lead = self._leads[mention.clause]
        if lead is None:
            return
        start, end = self._edges[lead : lead + 2]
        for hit in self._hits_from(max(start, end - _NEAR), end):
            row = hit.cue.row
            if row.after or row.items == "one":
                continue
            words = self._text[hit.end : end].split()
            is_stopped = hit.cue.stops.search(self._text, hit.end, end)
            if len(words) <= row.reach and not is_stopped:
                yield hit

    def _lead_clauses(self) -> list[int | None]:
        """For each clause, the one before it that ends with a colon, up to a blank line."""
        leads: list[int | None] = []
        lead = None
        for number, (start, end) in enumerate(pairwise(self._edges)):
            leads.append(lead)
            clause = self._text[start:end]
            if clause.rstrip().endswith(":"):
                lead = number
            elif _BLANK_LINE.search(clause):
                lead = None
        return [*leads, None]

    def _reaches_backward(self, hit: _Hit, end: int) -> bool:
        """Whether a cue reaches an entity before it, perhaps over a list that ends at the cue."""
        gap = self._text[end : hit.start]
        if hit.cue.stops.search(self._text, end, hit.start):
            return False
        words = _single_words(gap.replace(",", " "))
        is_joined = _CONJUNCTION.search(gap) is not None
        if MASK in gap:
            # A list of entities ends at the cue: "rash and cough denied", not "and cough was".
            is_singular = _SINGULAR.match(self._text, hit.start) is not None
            return is_joined and not words and not is_singular
        if is_joined and _PLURAL.match(self._text, hit.start):
            return len(words) <= _ITEM_WORDS
        return "," not in gap and len(words) <= hit.cue.row.reach


def _single_words(text: str) -> list[str]:
    """The words of a text without entities and conjunctions."""
    return _JOINED.sub(" ", text).split()


def _is_bare(item: str) -> bool:
    """Whether an item of a list has few words besides its entities, and no number."""
    words = item.replace(MASK, " ").split()
    return len(words) <= _ITEM_WORDS and not _DIGIT.search(item)


def _outermost(hits: Sequence[_Hit]) -> Iterator[_Hit]:
    """The hits from left to right without overlap: "no change" hides "no"."""
    last = None
    for hit in hits:
        if last is None or hit.start >= last.end or hit[:2] == last[:2]:
            yield hit
            last = hit
