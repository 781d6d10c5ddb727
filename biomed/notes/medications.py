"""What a note says about each drug: dose, route, frequency, duration, form, reason and status.

A small grammar: one pattern finds the attributes, drugs, diseases, verbs and sentence ends of a
text (`medications.toml` has the words), and `_Parser` goes through them once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from biomed.notes.assertion import DRUGS, drug_spans
from biomed.notes.attributes import KINDS, Attribute, Medication
from biomed.notes.dosages import DATA, PATTERNS
from biomed.notes.sections import Spans, mask_entities
from biomed.notes.statuses import STATUSES, Drug, StatusParser

# At most so many words between an attribute and the drug, or the attribute before it.
_REACH = {"dose": 8, "form": 2}
_USUAL_REACH = 4
_REASON_REACH = 6
_AROUND = 400  # characters that are read before the first drug and after the last one
_LONGEST = 20  # drugs of a list that share a reason
_FAR = -_AROUND  # nowhere
_DISEASE = "\u00a7"
_NAMES = {"course": "duration", "strength": "dose"}

_TOKEN = re.compile(PATTERNS.source(DATA["tokens"]))
_FORM = re.compile(PATTERNS.source("{form}"))
_CLASSES = re.compile(PATTERNS.source("{classes}"))
# Attributes that count only directly after a dose.
_WEAK = re.compile(r"(?:an?|per|each)\b|/|(?:once|stat)$")
_JOINED = re.compile(r"[\s,&+]{0,4}(?:and|or|plus|with|/|-)?\s{0,3}")
# Between an attribute and the next one, or the drug after it: "six weeks of Lamisil".
_LEADS = re.compile(
    r"[\s-]{0,3}(?:(?:doses?|course|elemental|total|supply|applications?|use)\s)?(?P<of>of\s{1,3})?"
)
_TREATED = re.compile(
    r"[\s,]{1,3}(?:with|using|on|takes?|taking)\s(?:\w+\s){0,2}"
)
_RESUMES = re.compile(
    rf"[\s.]{{1,6}}(?:{PATTERNS.source(DATA['resumes'])}\b[:\s]{{1,3}})?"
)
_THIS = re.compile(
    r"\s(?:taking\s)?(?:(?:this|that)\s(?:medication|drug|medicine)|it)\b"
)
_ATTRIBUTES = [
    name for name in _TOKEN.groupindex if _NAMES.get(name, name) in KINDS
]
# Between a drug and what an allergy to it causes: "Bactrim which causes a rash", "PCN (hives)".
_CAUSES = re.compile(
    r"(?:\s(?:drug\s)?(?:allergy|intolerance|hypersensitivity))?"
    r"[ \t,:(|/=\u2013-]{0,5}(?:(?:and|which|that|with|it|the)\s){0,3}"
    r"(?:caus(?:es?|ed|ing)|gives?|gave|reactions?|leads?\sto|resulted\sin|gets?)?"
    r"[:\s]{0,2}(?:(?:is|was|of|an?|her|him|severe|mild)\s){0,3}"
)
_VAGUE = re.compile(r"(?:reactions?|allergy|allergies|intolerance)$")
_FROM = re.compile(
    r"\s(?:to|from|with|after|on|due\sto|secondary\sto)\s(?:\w+\s)?"
)
_NO_ALLERGY = re.compile(
    r"\b(?:allerg|intoleran|reaction)[a-z]{0,4}\s(?:to|of)\s[^.;\n]{0,60}$"
)
_ALLERGY_AFTER = re.compile(
    r"[\s-]{1,3}(?:drug\s)?(?:allerg|intoleran|hypersens|sensitiv)"
)
_NEXT_SMALL = re.compile(r"[ \t\r]{0,20}[a-z]")


def read_medications(
    text: str,
    spans: Spans,
    assertions: Sequence[str] | None = None,
) -> list[Medication]:
    """The drugs of a text with what it says about them, in linear time.

    Args:
        text: a note, or a part of one.
        spans: start, end and label of each entity, as in `assert_spans`. Entities that are no
            drugs may be the reason for one.
        assertions: one for each entity, from `assert_spans`; allergies may have a reaction.
    """
    assertions = assertions or ["present"] * len(spans)
    drugs = [
        Drug(start, end, assertion)
        for (start, end, label), assertion in zip(
            spans, assertions, strict=True
        )
        if label.casefold() in DRUGS
    ]
    if not drugs:
        return []
    drugs.sort(key=lambda drug: drug.start)
    masked = mask_entities(text, spans, mark=_DISEASE)
    masked = mask_entities(masked, drug_spans(spans))
    parser = _Parser(text, masked, drugs)
    region = (max(0, drugs[0].start - _AROUND), drugs[-1].end + _AROUND)
    for token in _TOKEN.finditer(parser.masked, *region):
        parser.take(token)
    return [drug.result(text) for drug in drugs]


@dataclass
class _Bracket:
    """An open bracket, and what the drug before it is."""

    end: int
    group: list[Drug]
    has_slash: bool
    follows_drug: bool  # directly


class _Parser:
    """The drugs that the next attribute may belong to, and the verbs before them."""

    def __init__(self, text: str, masked: str, drugs: list[Drug]) -> None:
        self.text = text
        self.masked = masked
        self.drugs = {drug.start: drug for drug in drugs}
        # The drugs of a list: "aspirin and nitroglycerin".
        self.group: list[Drug] = []
        self.has_slash = False  # "lisinopril/hydrochlorothiazide"
        self.group_end = 0  # of its last drug or attribute
        self.sentence_end = 0  # of the group's sentence; 0 while it lasts
        self.is_barred = False  # no attribute reaches back to the group
        self.statuses = StatusParser(masked)
        self.list_start = _FAR  # of the list below a heading: "STOP taking:"
        self.line_start = 0
        self.negation_end = _FAR
        self.is_conditional = False  # "if", "when"
        self.purpose_end = _FAR  # of the last "for"
        self.chain: list[Attribute] = []  # attributes in a row
        self.is_separated = False  # a word or comma is before the chain
        self.reasons: list[Attribute] = []  # diseases before any drug
        self.bracket: _Bracket | None = None  # the last open one
        self.last_disease = (_FAR, _FAR)

    def take(self, token: re.Match[str]) -> None:
        """Read the next token."""
        kind = token.lastgroup or ""
        start, end = token.span()
        match kind:
            case "drug":
                self._take_drug(self.drugs[start])
            case "disease":
                self._take_disease(start, end)
            case "end":
                self._take_end(start, end)
            case "open":
                self._open(start, end)
            case "close":
                self._close(start, end)
            case _ if kind in STATUSES:
                self._take_verb(
                    kind, start, end, is_passive=bool(token["passive"])
                )
            case _ if kind in _ATTRIBUTES:
                self._take_attributes(token)
            case _:
                self._take_word(kind, start, end)

    def _take_word(self, kind: str, start: int, end: int) -> None:
        """Remember a word that changes how the next tokens are read."""
        match kind:
            case "negation":
                self.negation_end = end
            case "condition":
                self.is_conditional = True
                self.statuses.end_verb()
            case "uses":
                self.statuses.end_verb()
            case "barrier":
                self.is_barred = True
                self.purpose_end = _FAR
            case "purpose":
                if not self.group or self._reaches(start, _REASON_REACH):
                    self.purpose_end = end
            case "skip":
                if not self.sentence_end and self._reaches(start, 0):
                    self.group_end = end

    def _attribute(self, kind: str, start: int, end: int) -> Attribute:
        return Attribute(
            _NAMES.get(kind, kind), start, end, self.text[start:end]
        )

    def _words(self, start: int, end: int) -> int:
        """Words between two positions that are near each other."""
        if end - start >= _AROUND:
            return _AROUND
        return len(self.text[start:end].split())

    def _reaches(self, start: int, reach: int) -> bool:
        """Whether an attribute or verb at `start` may belong to the group."""
        if not self.group:
            return False
        if self.sentence_end:
            resumes = _RESUMES.fullmatch(
                self.masked, self.sentence_end - 1, start
            )
            return reach > 0 and resumes is not None
        return (
            not self.is_barred and self._words(self.group_end, start) <= reach
        )

    def _take_attributes(self, token: re.Match[str]) -> None:
        """Give attributes at one position to the group, or keep them for the next drug."""
        kinds = [kind for kind in _ATTRIBUTES if token[kind]]
        parts = [self._attribute(kind, *token.span(kind)) for kind in kinds]
        first = parts[0]
        last = parts[-1]
        # A weak attribute belongs to the drug before it only if no word is between them.
        is_weak = (
            last.kind == "dose"
            or (first.kind == "frequency" and _WEAK.match(first.text))
            or (first.kind == "form" and len(first.text) == 2)  # "XR"
        )
        # "2 tablets" is an amount, and says the form too.
        if last.kind == "unit" and _FORM.fullmatch(token["unit"]):
            parts.append(self._attribute("form", last.start, last.end))
        if not self._extends_chain(first.start):
            self.chain = []
            self.is_separated = self._words(self.group_end, first.start) > 0
        self.chain += parts
        self.statuses.extend(first.start, last.end)
        reach = _REACH.get(first.kind, _USUAL_REACH) * (not is_weak)
        if self._reaches(first.start, reach):
            self._give(parts)
        if first.kind == "as_needed":
            self.purpose_end = first.end

    def _extends_chain(self, start: int) -> bool:
        if not self.chain:
            return False
        end = self.chain[-1].end
        return _LEADS.fullmatch(self.masked, end, start) is not None

    def _give(self, parts: list[Attribute]) -> None:
        """Give attributes to the last drug of the group, or to all that share them."""
        for part in parts:
            amounts = part.text.split("/")
            is_split = self.has_slash and part.kind == "dose"
            if is_split and len(amounts) == len(self.group):
                self._give_each(part.start, amounts)
                continue
            for drug in self._sharing(part):
                drug.attributes.append(part)
        self.group_end = parts[-1].end
        self.sentence_end = 0

    def _give_each(self, start: int, amounts: list[str]) -> None:
        for drug, amount in zip(self.group, amounts, strict=True):
            end = start + len(amount)
            drug.attributes.append(self._attribute("dose", start, end))
            start = end + 1

    def _sharing(self, part: Attribute) -> list[Drug]:
        """The drugs of the group that an attribute after them belongs to."""
        last = self.group[-1:]
        if self.has_slash or part.kind == "reason":
            return self.group
        if part.kind in ("dose", "unit") or len(self.group) > 2:
            return last
        if any(other.kind == "dose" for other in last[0].attributes):
            return last
        # "albuterol and Atrovent inhalers", but "Zofran and steroid injection".
        if part.kind == "form" and not part.text.endswith("s"):
            return last
        return self.group

    def _take_drug(self, drug: Drug) -> None:
        """Give a drug what stands before it, and start a group or add the drug to it."""
        gap = self.masked[self.group_end : drug.start]
        is_joined = (
            self.group
            and self.group_end == self.group[-1].end
            and not self.sentence_end
            and _JOINED.fullmatch(gap)
        )
        drug.attributes += self._take_reasons(drug.start)
        drug.attributes += self._take_chain(drug.start)
        group = self._sentence_group()
        self.statuses.take_drug(drug, group, self.group_end)
        before = self.text[max(0, drug.start - _AROUND) : drug.start]
        names_allergy = _NO_ALLERGY.search(
            before.lower()
        ) or _ALLERGY_AFTER.match(self.masked, drug.end)
        if drug.assertion == "negated" and names_allergy:
            drug.status = "no allergy"
        is_reaction = _FROM.fullmatch(
            self.masked, self.last_disease[1], drug.start
        )
        if drug.assertion == "allergy" and is_reaction:
            self._react(drug, *self.last_disease)
        if is_joined:
            shared = self.group[0].attributes
            drug.attributes += [
                part for part in shared if part.kind == "duration"
            ]
            self.has_slash |= gap.strip() == "/"
            self.group = [*self.group[-_LONGEST:], drug]
        else:
            self.group = [drug]
            self.has_slash = False
        self.group_end = drug.end
        self.sentence_end = 0
        self.is_barred = False
        self.purpose_end = _FAR
        self.chain = []

    def _take_reasons(self, start: int) -> list[Attribute]:
        """The reasons before any drug, if the drug treats them: "pain, treated with Tylenol"."""
        reasons = self.reasons
        self.reasons = []
        if reasons and _TREATED.fullmatch(self.masked, reasons[-1].end, start):
            return reasons
        return []

    def _open(self, start: int, end: int) -> None:
        """Remember the drugs before a bracket: what is inside may name another one."""
        self.bracket = None
        if self.group and not self.sentence_end:
            last = self.group[-1]
            gap = self.masked[self.group_end : start]
            follows_drug = self.group_end == last.end and not gap.strip()
            is_class = _CLASSES.fullmatch(
                self.text[last.start : last.end].lower()
            )
            self.bracket = _Bracket(
                end,
                self.group,
                self.has_slash,
                follows_drug=follows_drug and not is_class,
            )

    def _close(self, start: int, end: int) -> None:
        """Return to the drugs before the bracket, if there was a drug inside."""
        bracket = self.bracket
        self.bracket = None
        if bracket is None or self.group is bracket.group:
            return
        inside = self.group[0]
        is_name = not (
            self.masked[bracket.end : inside.start].strip()
            or self.masked[self.group_end : start].strip()
        )
        if bracket.follows_drug and is_name and len(self.group) == 1:
            main = bracket.group[-1]
            main.attributes += inside.attributes
            inside.same_as = main
        self.group = bracket.group
        self.has_slash = bracket.has_slash
        self.group_end = end
        self.chain = []

    def _take_chain(self, start: int) -> list[Attribute]:
        """The chain, if it belongs to the drug after it: "5 mg of metoprolol", "IV Flagyl".

        A drug before the chain that had been given it loses it.
        """
        if not self.chain:
            return []
        gap = self.masked[self.chain[-1].end : start]
        owners = [
            drug for drug in self.group if self.chain[-1] in drug.attributes
        ]
        lead = _LEADS.fullmatch(gap)
        is_leading = lead is not None
        if owners:
            # "from IV furosemide to oral torsemide"
            chain_start = self.chain[0].start
            before = self.masked[max(0, chain_start - 4) : chain_start]
            is_after_to = before.split()[-1:] == ["to"]
            is_inside = self.bracket and self.bracket.end <= chain_start
            is_marked = is_after_to or is_inside or (lead and lead["of"])
            is_leading = bool(lead and is_marked) or self._is_for_next(gap)
        if not is_leading:
            return []
        for owner in owners:
            owner.attributes = [
                p for p in owner.attributes if p not in self.chain
            ]
        return self.chain

    def _is_for_next(self, gap: str) -> bool:
        """Whether a chain belongs to the drug after it: "Tylenol, occasional ibuprofen"."""
        if gap != " " or not self.is_separated:
            return False
        previous = self.group[-1]
        # Amounts stand before all drugs of a sentence or after all.
        if any(part.start < previous.start for part in previous.attributes):
            return True
        return all(part.kind in ("frequency", "route") for part in self.chain)

    def _take_disease(self, start: int, end: int) -> None:
        """Take a disease as a reaction to an allergy, or as the reason for a drug."""
        self.last_disease = (start, end)
        drug = None
        if self.group:
            drug = self.group[-1]
        if drug and drug.assertion == "allergy" and not self.sentence_end:
            if _CAUSES.fullmatch(self.masked, self.group_end, start):
                self._react(drug, start, end)
                self.group_end = end
            return
        earlier = self.reasons
        if drug and not earlier:
            earlier = drug.attributes
        is_list = bool(earlier) and earlier[-1].kind == "reason"
        if is_list and _JOINED.fullmatch(self.masked, earlier[-1].end, start):
            self.purpose_end = start  # the next item of a list of reasons
        if self._words(self.purpose_end, start) > _USUAL_REACH:
            return
        reason = self._attribute("reason", start, end)
        if self._reaches(start, 2 * _REASON_REACH):
            self._give([reason])
        else:
            self.reasons.append(reason)

    def _react(self, drug: Drug, start: int, end: int) -> None:
        """Give an allergy its reaction, if it is more than "adverse reaction"."""
        reaction = self._attribute("reaction", start, end)
        if not _VAGUE.search(reaction.text.lower()):
            drug.attributes.append(reaction)

    def _sentence_group(self) -> list[Drug]:
        """The group, or no drugs if the sentence with it has ended."""
        if self.sentence_end:
            return []
        return self.group

    def _take_verb(
        self,
        status: str,
        start: int,
        end: int,
        *,
        is_passive: bool,
    ) -> None:
        """Take a verb such as "stopped": for the group before it, or for the drugs after it."""
        is_negated = self._words(self.negation_end, start) <= 3
        self.negation_end = _FAR
        if self.is_conditional or is_negated:
            self.statuses.end_verb()
            return
        # "She stopped this medication", after the sentence with the drug.
        if self.sentence_end and _THIS.match(self.masked, end):
            for drug in self.group:
                drug.status = status
        self.statuses.take_verb(
            status,
            (start, end),
            is_passive=is_passive,
            group=self._sentence_group(),
            group_end=self.group_end,
        )

    def _take_end(self, start: int, end: int) -> None:
        """End a clause, unless a line break only wraps it."""
        mark = self.text[start]
        if mark == "\n":
            self._end_line(start)
        is_wrapped = _NEXT_SMALL.match(self.text, end) is not None
        if is_wrapped and mark != ";":
            return
        self.bracket = None
        self.statuses.end_verb()
        self.negation_end = _FAR
        self.is_conditional = False
        self.purpose_end = _FAR
        self.reasons = []
        self.chain = []
        self.sentence_end = self.sentence_end or end

    def _end_line(self, end: int) -> None:
        """A line that ends with a colon is a heading, up to a blank line after its drugs."""
        line = self.masked[self.line_start : end].strip()
        if line.endswith(":"):
            self.statuses.take_heading()
            self.list_start = end
        elif not line and self.group_end > self.list_start:
            self.statuses.end_heading()
        self.line_start = end + 1
