"""What a note says about each drug: dose, route, frequency, duration, form, reason and status.

A small grammar: one pattern finds the attributes, drugs, diseases, verbs and sentence ends of a
text (`medications.toml` has the words), and `_Reader` goes through them once.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from biomed.ner.assertion import DRUGS

KINDS = ("dose", "unit", "route", "frequency", "duration", "form", "as_needed")
KINDS += ("reason",)
# At most so many words between an attribute and the drug, or the attribute before it.
_REACH = {"dose": 8, "unit": 8, "form": 2}
_USUAL_REACH = 4
_REASON_REACH = 6
_CUE_REACH = 7  # between a verb ("continue") and the drug
_AROUND = 400  # characters that are read before the first drug and after the last one
_DRUG = "\u00a4"
_DISEASE = "\u00a7"

DATA: dict[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)


def _any_of(lines: Iterable[str]) -> str:
    """The source of a pattern of alternatives, the named parts filled in."""
    source = "|".join(lines)
    while part := _PART.search(source):
        source = source.replace(part[0], f"(?:{'|'.join(_PARTS[part[1]])})")
    source = source.replace("[ -]", r"[\s-]").replace(" ?", r"\s{0,2}")
    return source.replace(" ", r"\s{1,8}")


def _parts() -> dict[str, list[str]]:
    """The lines of each named part of the grammar."""
    lists = {**DATA["parts"], **DATA["words"]}
    parts = {name: lines.strip().splitlines() for name, lines in lists.items()}
    for table in ("form", "route", "frequency"):
        rows = [row["words"].strip() for row in DATA[table]]
        parts[table] = sorted("\n".join(rows).splitlines(), key=len, reverse=True)
    parts["units"] = list(DATA["units"].values())
    parts["counted"] = [DATA["units"][""]]
    parts["per"] = list(DATA["per"].values())
    parts["cues"] = [
        f"(?P<{status}>{'|'.join(row['words'].strip().splitlines())})"
        for status, row in DATA["status"].items()
    ]
    return parts


_PART = re.compile(r"\{([a-z_]+)\}")
_PARTS = _parts()
_TOKEN = re.compile(
    rf"(?P<drug>{_DRUG}+)|(?P<disease>{_DISEASE}+)|(?P<end>[.!?](?=[\s,]|$)|[;\n])"
    rf"|(?:(?<![\w.])|(?=/))(?:{_any_of(DATA['tokens'].strip().splitlines())})"
)
_FORM = re.compile(_any_of(["{form}"]))
_WEAK = re.compile(r"(?:an?|per|each)\b|/|(?:once|stat)$")  # only directly after a dose
_JOINED = re.compile(r"[\s,&+]{0,4}(?:and|or|plus|with|/|-)?\s{0,3}")
_LEADS = re.compile(r"[\s-]{0,3}(?:(?:dose|course|total|supply)\s)?")
_FRACTION = re.compile(r"(?:\d\s)?[1-3]/[2-4]")
_OF = re.compile(r"[\s-]{0,3}(?:(?:dose|course|total|supply)\s)?of\s{1,3}")
_TREATED = re.compile(r"[\s,]{1,3}(?:with|using|on|takes?|taking)\s(?:\w+\s){0,2}")
_RESUMES = re.compile(
    r"[\s.]{1,6}(?:(?:please\s)?(?:(?:he|she)\s)?(?:takes?|give|use|apply|inject|inhale|instill|place"
    r"|sig|dose|dosage|directions)\b[:\s]{1,3})?"
)
_THIS = re.compile(
    r"\s(?:taking\s)?(?:(?:this|that)\s(?:medication|drug|medicine)|it)\b"
)
_NEXT = re.compile(r"[ \t\r]{0,20}(\S)")


@dataclass(frozen=True)
class Attribute:
    """A part of a text that says something about a drug; `text[start:end]` is its text.

    Attributes:
        kind: one of `KINDS`.
    """

    kind: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Medication:
    """A drug of a text with its attributes in the order of the text.

    Attributes:
        status: "started", "stopped", "changed", "continued" or "held"; None if the text does not
            say so.
    """

    start: int
    end: int
    text: str
    status: str | None = None
    attributes: tuple[Attribute, ...] = ()

    def __getitem__(self, kind: str) -> str | None:
        """The attribute of a kind as the text writes it; several are joined by " | "."""
        texts = [a.text for a in self.attributes if a.kind == kind]
        return " | ".join(texts) or None


def read_medications(
    text: str, spans: Iterable[tuple[int, int, str]]
) -> list[Medication]:
    """The drugs of a text with what it says about them, in linear time.

    Args:
        text: a note, or a part of one.
        spans: start, end and label of each entity, as in `assert_spans`. Entities that are no
            drugs may be the reason for one.
    """
    drugs = sorted(s for s in spans if s[2].casefold() in DRUGS)
    if not drugs:
        return []
    others = [s for s in spans if s[2].casefold() not in DRUGS]
    letters = [low if len(low := char.lower()) == 1 else char for char in text]
    for mark, marked in ((_DISEASE, others), (_DRUG, drugs)):
        for start, end, _ in marked:
            letters[start:end] = mark * (end - start)
    reader = _Reader(text, "".join(letters), [(start, end) for start, end, _ in drugs])
    return reader.read()


@dataclass
class _Reader:
    """What has been read so far: the drugs that the next attribute may belong to, and verbs."""

    text: str
    masked: str
    drugs: Sequence[tuple[int, int]]
    group: list[int] = field(
        default_factory=list
    )  # of drugs: "aspirin and nitroglycerin"
    with_slash: bool = False
    anchor: int = 0  # the end of the last drug or attribute of the group
    closed: int | None = None  # where the sentence of the group ended
    barred: bool = False
    cue: tuple[str, int] | None = None  # a status and where its verb ends
    heading: tuple[str, int] | None = None  # a cue at the end of a line: "STOP taking:"
    line: int = 0  # where the line starts
    negated: int | None = None
    conditional: bool = False
    purpose: int | None = None  # where the last "for" ends
    chain: list[Attribute] = field(default_factory=list)  # attributes in a row
    is_separated: bool = False  # whether a word or comma stands before the chain
    reasons: list[Attribute] = field(default_factory=list)  # before any drug

    def read(self) -> list[Medication]:
        """The drugs with their attributes."""
        self.attributes: list[list[Attribute]] = [[] for _ in self.drugs]
        self.statuses: list[str | None] = [None] * len(self.drugs)
        self.numbers = {start: number for number, (start, _) in enumerate(self.drugs)}
        start = max(0, self.drugs[0][0] - _AROUND)
        end = self.drugs[-1][1] + _AROUND
        for match in _TOKEN.finditer(self.masked, start, end):
            self._take(match)
        return [
            Medication(
                start,
                end,
                self.text[start:end],
                self.statuses[number],
                tuple(sorted(self.attributes[number], key=lambda a: a.start)),
            )
            for number, (start, end) in enumerate(self.drugs)
        ]

    def _take(self, match: re.Match[str]) -> None:
        kind = match.lastgroup or ""
        if kind in DATA["status"]:
            self._on_status(kind, match)
        elif kind in ("dose", "unit"):
            self._on_dose(match)
        elif kind in ("route", "frequency", "duration", "course", "as_needed", "form"):
            name = "duration" if kind == "course" else kind
            self._on_attribute([self._attribute(name, *match.span(kind))])
            if kind == "as_needed":
                self.purpose = match.end()
        else:
            getattr(self, f"_on_{kind}")(match)

    def _attribute(self, kind: str, start: int, end: int) -> Attribute:
        return Attribute(kind, start, end, self.text[start:end])

    def _words(self, start: int, end: int) -> int:
        is_near = end - start < _AROUND
        return len(self.text[start:end].split()) if is_near else _AROUND

    def _reaches(self, start: int, reach: int) -> bool:
        """Whether an attribute or verb at `start` may belong to the group."""
        if not self.group:
            return False
        if self.closed is not None:
            return _RESUMES.fullmatch(self.masked, self.closed - 1, start) is not None
        return not self.barred and self._words(self.anchor, start) <= reach

    def _on_dose(self, match: re.Match[str]) -> None:
        attributes = [self._attribute("dose", *match.span("dose"))]
        unit = match["unit"]
        is_form = unit is not None and _FORM.fullmatch(unit) is not None
        # "400/80 tab" is a strength and a form, "1/2 tab" is half of one.
        is_strength = "/" in match["dose"] and not _FRACTION.fullmatch(match["dose"])
        if unit and not (is_form and is_strength):
            attributes.append(self._attribute("unit", *match.span("unit")))
        if is_form:
            attributes.append(self._attribute("form", *match.span("unit")))
        self._on_attribute(attributes)

    def _on_attribute(self, attributes: list[Attribute]) -> None:
        """Give attributes at one position to the group, or keep them for the next drug."""
        first = attributes[0]
        gap = self.masked[self.chain[-1].end : first.start] if self.chain else "."
        if not (_LEADS.fullmatch(gap) or _OF.fullmatch(gap)):
            self.chain = []
            between = self.masked[self.anchor : first.start][-_AROUND:]
            self.is_separated = bool(between.strip())
        self.chain += attributes
        is_weak = first.kind == "dose" and len(attributes) == 1
        is_weak |= first.kind == "frequency" and bool(_WEAK.match(first.text))
        is_weak |= first.kind == "form" and len(first.text) == 2  # "XR"
        reach = 0 if is_weak else _REACH.get(first.kind, _USUAL_REACH)
        if self._reaches(first.start, reach):
            for attribute in attributes:
                self._give(attribute)
            self.anchor = attributes[-1].end
            self.closed = None

    def _give(self, attribute: Attribute) -> None:
        """Give an attribute to the last drug of the group, or to all that share it."""
        amounts = attribute.text.split("/")
        is_split = self.with_slash and attribute.kind == "dose"
        if is_split and len(amounts) == len(self.group):
            start = attribute.start
            for number, amount in zip(self.group, amounts, strict=True):
                part = self._attribute("dose", start, start + len(amount))
                self.attributes[number].append(part)
                start += len(amount) + 1
            return
        for number in self._sharing(attribute):
            self.attributes[number].append(attribute)

    def _sharing(self, attribute: Attribute) -> list[int]:
        if self.with_slash or attribute.kind == "reason":
            return self.group
        last = self.group[-1]
        has_dose = any(a.kind == "dose" for a in self.attributes[last])
        is_single = attribute.kind == "form" and not attribute.text.endswith("s")
        if len(self.group) > 2 or has_dose or is_single:
            return [last]
        return [last] if attribute.kind in ("dose", "unit") else self.group

    def _on_drug(self, match: re.Match[str]) -> None:
        start, end = match.span()
        number = self.numbers[start]
        gap = self.masked[self.anchor : start]
        last_drug_end = self.drugs[self.group[-1]][1] if self.group else -1
        is_joined = self.anchor == last_drug_end and self.closed is None
        is_joined = is_joined and _JOINED.fullmatch(gap) is not None
        self.attributes[number] += self._leading(start)
        self.statuses[number] = self._status_before(start)
        if is_joined:
            first = self.group[0]
            self.attributes[number] += [
                a for a in self.attributes[first] if a.kind == "duration"
            ]
            self.with_slash |= gap.strip() == "/"
            self.group.append(number)
        else:
            self.group = [number]
            self.with_slash = False
        self.anchor = end
        self.closed = None
        self.barred = False
        self.purpose = None
        self.chain = []

    def _status_before(self, start: int) -> str | None:
        """The status that a verb or heading before a drug gives it."""
        if self.cue is None:
            return self.heading[0] if self.heading else None
        status, end = self.cue
        end = max(end, self.anchor)
        if self._words(end, start) > _CUE_REACH:
            return None
        if status == "stopped" and self.masked[end:start].strip() == "to":
            return "started"  # switched from one drug to another
        return status

    def _leading(self, start: int) -> list[Attribute]:
        """Attributes before a drug that are its own: "5 mg of metoprolol", "IV Flagyl"."""
        reasons = self.reasons
        self.reasons = []
        if reasons and not _TREATED.fullmatch(self.masked, reasons[-1].end, start):
            reasons = []
        chain = self.chain
        if not chain:
            return reasons
        gap = self.masked[chain[-1].end : start]
        owned_by_group = [self.attributes[number] for number in self.group]
        owners = [owned for owned in owned_by_group if chain[-1] in owned]
        if owners and not _OF.fullmatch(gap) and not self._leads(gap):
            return reasons
        if not owners and not (_OF.fullmatch(gap) or _LEADS.fullmatch(gap)):
            return reasons
        for owned in owners:
            owned[:] = [a for a in owned if a not in chain]
        return reasons + chain

    def _leads(self, gap: str) -> bool:
        """Whether a chain goes with the drug after it: "Tylenol, occasional ibuprofen"."""
        if gap != " " or not self.is_separated:
            return False
        previous = self.group[-1]
        drug_start = self.drugs[previous][0]
        # Amounts stand before all drugs of a sentence or after all.
        if any(a.start < drug_start for a in self.attributes[previous]):
            return True
        return all(a.kind in ("frequency", "route") for a in self.chain)

    def _on_disease(self, match: re.Match[str]) -> None:
        start, end = match.span()
        reason = self._attribute("reason", start, end)
        last = self.attributes[self.group[-1]][-1:] if self.group else []
        last = last or self.reasons[-1:]
        is_listed = bool(last) and last[0].kind == "reason"
        if is_listed and _JOINED.fullmatch(self.masked, last[0].end, start):
            self.purpose = start
        if self.purpose is None or self._words(self.purpose, start) > _USUAL_REACH:
            return
        if self._reaches(start, 2 * _REASON_REACH):
            self._give(reason)
            self.anchor = end
        else:
            self.reasons.append(reason)

    def _on_status(self, status: str, match: re.Match[str]) -> None:
        start, end = match.span()
        negated = self.negated is not None and self._words(self.negated, start) <= 3
        self.negated = None
        if self.conditional or negated:
            self.cue = None
            return
        gap = self.text[self.anchor : start]
        is_direct = bool(gap) and not gap.strip(" (:-") and len(gap) < 4
        is_after = is_direct or match["passive"] is not None
        is_after = is_after and self._reaches(start, _USUAL_REACH)
        # "She stopped this medication", after the sentence with the drug.
        is_after |= self.closed is not None and bool(_THIS.match(self.masked, end))
        if is_after:
            for number in self.group:
                self.statuses[number] = status
        self.cue = (status, end)

    def _on_end(self, match: re.Match[str]) -> None:
        if match[0] == "\n":
            self._end_line(match.start())
        following = _NEXT.match(self.text, match.end())
        is_wrapped = following is not None and following[1].islower()
        if is_wrapped and match[0] != ";":
            return
        self.cue = None
        self.negated = None
        self.conditional = False
        self.purpose = None
        self.reasons = []
        self.chain = []
        if self.closed is None:
            self.closed = match.end()

    def _end_line(self, end: int) -> None:
        """A line that ends with a colon is a heading; its status ends at the next one."""
        line = self.masked[self.line : end].strip()
        if line.endswith(":"):
            self.heading = self.cue
        elif not line and self.heading and self.anchor > self.heading[1]:
            self.heading = None
        self.line = end + 1

    def _on_skip(self, match: re.Match[str]) -> None:
        if self._reaches(match.start(), 0) and self.closed is None:
            self.anchor = match.end()

    def _on_purpose(self, match: re.Match[str]) -> None:
        if not self.group or self._reaches(match.start(), _REASON_REACH):
            self.purpose = match.end()

    def _on_condition(self, match: re.Match[str]) -> None:
        del match
        self.conditional = True
        self.cue = None

    def _on_negation(self, match: re.Match[str]) -> None:
        self.negated = match.end()

    def _on_uses(self, match: re.Match[str]) -> None:
        del match
        self.cue = None

    def _on_barrier(self, match: re.Match[str]) -> None:
        del match
        self.barred = True
        self.purpose = None
