"""What verbs say happened to drugs: started, stopped, changed, continued, held, or replaced.

A verb governs its own noun: in "hold tube feeds, give insulin" nothing is held that is a drug.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from biomed.notes.attributes import Attribute, Medication
from biomed.notes.patterns import Patterns
from domainbert.files import read_toml

DATA = read_toml(__file__, "statuses.toml")
PATTERNS = Patterns(DATA["macros"])
STATUSES = tuple(DATA["status"])


def _between(name: str) -> re.Pattern[str]:
    return re.compile(PATTERNS.source(DATA["between"][name]))


# What may stand between a verb and the drugs that it governs, and between drugs and their verb.
_OBJECT = _between("object")
_SUBJECT = _between("subject")
_DIRECT = _between("direct")
# Between a drug and the one that takes its place.
_NEW_TO = _between("new_to")
_NEW_WITH = _between("new_with")
_OLD = _between("old")
# After a passive verb: "was started on"; and after a verb whose subject is the drug before it.
_PASSES_ON = _between("passes_on")
_PASSES_ON_REPLACED = _between("passes_on_replaced")
_ENDS_STATEMENT = _between("ends_statement")
_TAKES_WITH = ("replac", "substitut", "swap", "exchang", "chang", "switch")
_LEADS_ON = re.compile(
    r"\b(?:on|from|off|of|using|taking|with|prescribed|advised|recommended)$"
)
# "Foley discontinued, aspirin daily": the verb has told of what is before it.
_PARTICIPLE = re.compile(r"(?:ed|held|['’]d|cut|kept|begun)$")
_SUBJECT_BEFORE = re.compile(r"[^\s:;.,(]\s{1,3}$")
_LEAVES = re.compile(r"\b(?:from|off)\b")  # "switched from", "weaned off"
# "Bleeding stopped with" a drug: the drug is no object of these verbs.
_ADVERBIAL = (["with"], ["on"], ["at"])
_NEEDS_OBJECT = ("stopped", "held", "changed")
_REVERSED = "substitut"  # "substituted X for Y": Y is stopped


def status_cues() -> str:
    """The verbs as lines of alternatives, each status a named group."""
    return "\n".join(
        f"(?P<{status}>{PATTERNS.source(row['words'])})"
        for status, row in DATA["status"].items()
    )


@dataclass
class Drug:
    """A drug while its text is read."""

    start: int
    end: int
    assertion: str
    status: str | None = None
    attributes: list[Attribute] = field(default_factory=list)
    same_as: Drug | None = None  # "Zestril" in "Lisinopril (Zestril)"

    def result(self, text: str) -> Medication:
        """What the text says about the drug."""
        drug = self.same_as or self
        parts = tuple(sorted(drug.attributes, key=lambda part: part.start))
        name = text[self.start : self.end]
        same_as: int | None = None
        if self.same_as:
            same_as = self.same_as.start
        return Medication(
            self.start,
            self.end,
            name,
            drug.status,
            parts,
            self.assertion,
            same_as=same_as,
        )


class StatusParser:
    """The verb that governs the next drugs of a text, or the heading of their list.

    Args:
        masked: the text in small letters, with drugs and diseases masked.
    """

    def __init__(self, masked: str) -> None:
        self._masked = masked
        self._status: str | None = None  # of the last verb
        self._verb = ""
        self._verb_end = 0
        self._end = 0  # of what the verb governs so far
        self._heading: str | None = None  # of "STOP taking:"
        # The drugs that another one may replace, and the verb's word.
        self._replaced: Sequence[Drug] = ()

    def end_verb(self) -> None:
        """No verb governs what follows: a sentence ends, or another verb comes."""
        self._status = None
        self._verb = ""
        self._replaced = ()

    def take_heading(self) -> None:
        """What the last verb says counts for the list below it: "STOP taking:"."""
        self._heading = self._status

    def end_heading(self) -> None:
        """The list of a heading ends."""
        self._heading = None

    def take_verb(
        self,
        status: str,
        span: tuple[int, int],
        *,
        is_passive: bool,
        group: Sequence[Drug],
        group_end: int,
    ) -> None:
        """Take a verb: for the group before it, or for the drugs after it.

        `group` are the drugs of the sentence so far, and `group_end` is where the last attribute
        of the last one ends.
        """
        start, end = span
        verb = self._masked[start:end]
        is_replaced = status == "replaced"
        passes_on = _PASSES_ON
        if is_replaced:
            passes_on = _PASSES_ON_REPLACED
        is_over = is_passive
        self.end_verb()
        if group and self._is_subject(span, group_end, is_passive=is_passive):
            if is_replaced:
                status = "changed"
                self._replaced = group
            for drug in group:
                drug.status = status
            is_over = True
        is_over = is_over or self._is_told(start, end)
        leads_on = _LEADS_ON.search(verb) or passes_on.match(self._masked, end)
        if is_over and not leads_on:
            self._replaced = ()
            return
        self._verb = verb
        self._status = status
        self._verb_end = end
        self._end = end

    def _is_told(self, start: int, end: int) -> bool:
        """Whether a participle ends what is said of a noun before it."""
        before = self._masked[max(0, start - 4) : start]
        return (
            self._masked.startswith(",", end)
            and _PARTICIPLE.search(self._masked, start, end) is not None
            and _SUBJECT_BEFORE.search(before) is not None
        )

    def _is_subject(
        self, span: tuple[int, int], group_end: int, *, is_passive: bool
    ) -> bool:
        """Whether a verb tells of the drugs before it: "warfarin was stopped", "Plavix held"."""
        start, end = span
        gap = self._masked[group_end:start]
        if is_passive:
            return _SUBJECT.fullmatch(gap) is not None
        return _DIRECT.fullmatch(gap) is not None and (
            _ENDS_STATEMENT.match(self._masked, end) is not None
        )

    def extend(self, start: int, end: int) -> None:
        """Let the verb govern an attribute, if it governs what stands before it."""
        if self._status and self._governs(start):
            self._end = end

    def _governs(self, start: int) -> bool:
        first_word = self._masked[self._end : start].split(maxsplit=1)[:1]
        is_adverbial = self._end == self._verb_end and first_word in _ADVERBIAL
        if is_adverbial and self._status in _NEEDS_OBJECT:
            return False
        return _OBJECT.fullmatch(self._masked, self._end, start) is not None

    def take_drug(
        self, drug: Drug, group: Sequence[Drug], group_end: int
    ) -> None:
        """Give a drug its status, and those that it replaces theirs."""
        gap = self._masked[group_end : drug.start]
        if self._replaced:
            first = max(self._verb_end, self._replaced[-1].end)
            gap = self._masked[first : drug.start]
        if self._replaced and self._is_replacement(gap):
            self._replace(drug, is_reversed=self._is_reversed(gap))
        elif group and self._status == "started" and _OLD.fullmatch(gap):
            drug.status = "stopped"
            self.end_verb()
        elif self._status is None:
            drug.status = self._heading
        elif not self._governs(drug.start):
            self.end_verb()
        else:
            self._take_object(drug)

    def _is_replacement(self, gap: str) -> bool:
        """Whether the drug after the gap takes the place of those before it, or they of it."""
        if _NEW_TO.fullmatch(gap):
            return True
        takes_with = any(map(self._verb.__contains__, _TAKES_WITH))
        return takes_with and _NEW_WITH.fullmatch(gap) is not None

    def _is_reversed(self, gap: str) -> bool:
        is_for = gap.split()[:1] == ["for"]
        return is_for and self._verb.startswith(_REVERSED)

    def _replace(self, drug: Drug, *, is_reversed: bool) -> None:
        """Another drug comes after "changed X to", or Y after "substituted X for"."""
        old_status = "stopped"
        new_status = "started"
        if is_reversed:
            old_status = "started"
            new_status = "stopped"
        for other in self._replaced:
            other.status = old_status
        drug.status = new_status
        self._replaced = ()
        self._status = drug.status
        self._end = drug.end

    def _take_object(self, drug: Drug) -> None:
        """A drug that the verb governs."""
        drug.status = self._status
        if self._status == "replaced":
            before = self._masked[self._end : drug.start].split()
            if before[:1] == ["to"]:
                drug.status = "started"
                self._status = "started"
            else:
                drug.status = "changed"
                self._replaced = (*self._replaced, drug)
        elif self._status == "stopped" and _LEAVES.search(self._verb):
            self._replaced = (*self._replaced, drug)
        self._end = drug.end
