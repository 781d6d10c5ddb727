"""The made-up notes: discharge summaries, addenda, nursing and physician notes."""

from __future__ import annotations

import functools
import math
import re
import textwrap
from datetime import timedelta
from typing import TYPE_CHECKING

from clinical.datasets.sentences import (
    FILLER,
    FILLINGS,
    KIN,
    NEUTRAL,
    REFUTED,
    Told,
    fill,
    statements,
    tell,
)  # fmt: skip

if TYPE_CHECKING:
    import random
    from datetime import datetime

    from clinical.datasets.patients import Patient, Stay
    from clinical.datasets.sentences import Names

_WIDTH = 75
_TYPICAL_PIECES = 1330
_LEAST_PIECES, _MOST_PIECES = 1120, 3400
_SHORT_PIECES = (65, 125)  # of a nursing or physician note


class Chart:
    """Writes the notes of a stay, which share its facts, conditions and details.

    Conditions and details are drawn; they do not change the risk.

    Args:
        patient: whose stay it is.
        stay: with its dates.
        facts: names of the facts that its notes tell as true.
        rng: where all words are drawn from.

    Attributes:
        told: the sentences that the notes tell facts in.
    """

    def __init__(
        self, patient: Patient, stay: Stay, facts: frozenset[str], rng: random.Random
    ) -> None:
        self.patient, self.stay, self.rng = patient, stay, rng
        self.true = facts | {fact.name for fact in NEUTRAL if rng.random() < fact.rate}
        self.details = {slot: rng.choice(options) for slot, options in FILLINGS.items()}
        self.complaint = rng.choice(FILLER["complaints"])
        self.told: list[Told] = []
        self.names: Names = {}

    def discharge_summary(self, *, brief: bool = False) -> str:
        """A discharge summary of about 1,000 to 4,000 word-pieces, usually nearer to 1,000.

        The hospital course tells all true facts, and the issues that follow it tell them again.
        Each has about 300 word-pieces, so a cut between two windows leaves one of them whole. With
        `brief`, these two sections only.
        """
        rng = self._begin()
        if brief:
            return self._hospital_course() + "\n"
        target = _TYPICAL_PIECES * math.exp(rng.gauss(0.0, 0.42))
        target = min(max(target, _LEAST_PIECES), _MOST_PIECES)
        head = [self._header(), self._history()]
        core = self._hospital_course()
        tail = [self._discharge_medications(), self._instructions()]
        middle = [self._background(), self._exam()]
        pieces = sum(count_pieces(text) for text in (*head, core, *tail, *middle))
        writers = [functools.partial(self._report, report) for report in FILLER["reports"]]
        writers += [functools.partial(self._laboratory), functools.partial(self._progress)] * 12
        for write in rng.sample(writers, len(writers)):
            if pieces >= target:
                break
            middle.append(write())
            pieces += count_pieces(middle[-1])
        middle.insert(rng.randint(0, len(middle)), core)
        return "\n\n".join([*head, *middle, *tail]) + "\n"

    def addendum(self) -> str:
        """A short addendum to a discharge summary, without any fact."""
        self._begin()
        return f"{self._dates()}\n\nADDENDUM:\n{_wrap(' '.join(self._draw('progress', 4)))}\n"

    def nursing_note(self, *, told: float = 0.5) -> str:
        """A nursing note of 60 to 150 word-pieces; it tells each true fact with chance `told`."""
        story, lines = self._short_note("nursing", told)
        return "\n".join(["NPN 1900-0700", *lines, _wrap(f"NOTE: {story}")]) + "\n"

    def physician_note(self, *, told: float = 0.5) -> str:
        """A physician's note, otherwise like `nursing_note`."""
        story, lines = self._short_note("physician", told)
        return "\n".join([f"Chief Complaint: {self.complaint}", _wrap(story), *lines]) + "\n"

    def newborn_summary(self) -> str:
        """A short discharge summary of a healthy newborn."""
        text = _wrap(self._fill(FILLER["newborn"][0]))
        return f"{self._dates()}\n\nService: NEONATOLOGY\n\n{text}\n"

    def _begin(self) -> random.Random:
        """Draw the names of a new note."""
        female = ("she", "her", "Ms.", "woman")
        forms = ("he", "his", "Mr.", "man") if self.patient.sex == "M" else female
        admitted, rng = self.stay.admitted, self.rng
        days = max(1, (self.stay.discharged - admitted).days)
        years = int((admitted - self.patient.birth).days / 365.25)
        self.names = {
            **self.details,
            **dict(zip(("he", "his", "Mr", "man"), forms, strict=True)),
            "He": forms[0].capitalize(),
            "His": forms[1].capitalize(),
            "complaint": self.complaint,
            "age": str(years) if years < 90 else "[**Age over 90 **]",
            "pmh": " and ".join(rng.sample(FILLER["history"], 2)),
            "kin": [kin for people in KIN.values() for kin in people],
            "date": [_date(admitted + timedelta(days=rng.randint(0, days))) for _ in range(4)],
        }
        return rng

    def _fill(self, template: str) -> str:
        return fill(template, self.names, self.rng)

    def _draw(self, kind: str, least: int, most: int | None = None) -> list[str]:
        """That many different lines of one kind of filler."""
        count = least if most is None else self.rng.randint(least, most)
        return [self._fill(template) for template in self.rng.sample(FILLER[kind], count)]

    def _tell(
        self, *, clause_share: float, told: float = 1.0, refuted: float = REFUTED
    ) -> list[str]:
        """Sentences for the facts, which the chart collects."""
        parts = statements(self.true, self.rng, told=told, refuted=refuted)
        sentences = tell(parts, self.names, self.rng, clause_share=clause_share)
        self.told += sentences
        return [one.sentence for one in sentences]

    def _short_note(self, kind: str, told: float) -> tuple[str, list[str]]:
        """A few sentences on the facts, and lines that fill up the note."""
        rng = self._begin()
        # Absent facts are denied less often in notes that tell less.
        parts = statements(self.true, rng, told=told, refuted=0.4 * told)
        story, lines = "", list[str]()
        for one in tell(parts, self.names, rng, clause_share=0.6):
            if count_pieces(story + one.sentence) <= _SHORT_PIECES[1]:
                story = f"{story} {one.sentence}".strip()
                self.told.append(one)
        for line in self._draw(kind, len(FILLER[kind])):
            if lines and count_pieces(" ".join([story, *lines])) >= _SHORT_PIECES[0]:
                break
            lines.append(line)
        return story, lines

    def _dates(self) -> str:
        admitted, discharged = _date(self.stay.admitted), _date(self.stay.discharged)
        return f"Admission Date:  [**{admitted}**]     Discharge Date:  [**{discharged}**]"

    def _header(self) -> str:
        rng = self.rng
        service = rng.choice(("MEDICINE", "CARDIOTHORACIC", "SURGERY", "NEUROLOGY", "ORTHOPAEDICS"))
        procedure = self._fill(rng.choice(FILLER["procedures"]))
        allergy = rng.choice(FILLER["allergies"])
        return (
            f"{self._dates()}\n\nDate of Birth:  [**{_date(self.patient.birth)}**]     "
            f"Sex:  {self.patient.sex}\n\nService: {service}\n\n"
            f"Allergies:\n{allergy}\n\n"
            f"Attending: [**First Name{rng.randint(1, 9)} (NamePattern{rng.randint(1, 2)}) **]\n\n"
            f"Chief Complaint:\n{self.complaint.capitalize()}\n\n"
            f"Major Surgical or Invasive Procedure:\n{procedure}"
        )

    def _history(self) -> str:
        opening = self._fill(self.rng.choice(FILLER["presentation"]))
        # Charts copy part of the hospital course forward.
        told = self._tell(told=0.5, refuted=0.15, clause_share=0.8)
        lines = self._draw("hpi", 3, 5) + told
        self.rng.shuffle(lines)
        return "HISTORY OF PRESENT ILLNESS:\n" + _wrap(" ".join([opening, *lines]))

    def _hospital_course(self) -> str:
        course, issues = self._tell(clause_share=0.7), self._tell(clause_share=0.1)
        numbered = "\n".join(_wrap(f"{i}. {line}") for i, line in enumerate(issues, start=1))
        choice = self.rng.choice
        title = choice(("BRIEF HOSPITAL COURSE", "HOSPITAL COURSE", "ASSESSMENT AND PLAN"))
        second = choice(("TRANSITIONAL ISSUES", "ISSUES", "SUMMARY FOR THE NEXT CARE TEAM"))
        return f"{title}:\n{_wrap(' '.join(course))}\n\n{second}:\n{numbered}"

    def _background(self) -> str:
        history = self._draw("history", 3, 7) + self._draw("surgeries", 0, 2)
        listed = "\n".join(f"{i}. {item.capitalize()}" for i, item in enumerate(history, 1))
        social, family = self._draw("social", 2, 3), self._draw("family", 1, 3)
        return (
            f"PAST MEDICAL HISTORY:\n{listed}\n\nSOCIAL HISTORY:\n{_wrap(' '.join(social))}\n\n"
            f"FAMILY HISTORY:\n{_wrap(' '.join(family))}"
        )

    def _exam(self) -> str:
        lines = FILLER["exam"]
        kept = self.rng.sample(range(len(lines)), self.rng.randint(6, len(lines)))
        return "PHYSICAL EXAM:\n" + "\n".join(self._fill(lines[i]) for i in sorted(kept))

    def _laboratory(self) -> str:
        lines = self._draw("labs", 2, 4)
        title = self.rng.choice(("PERTINENT RESULTS", "LABS", "LABORATORY DATA"))
        stamp = "[**{date}**] {4..11}:{10..59}AM "
        return f"{title}:\n" + "\n".join(_wrap(self._fill(stamp) + line) for line in lines)

    def _report(self, report: str) -> str:
        title, text = report.split(": ", 1)
        return f"{title} {self._fill('[**{date}**]')}:\n{_wrap(self._fill(text))}"

    def _progress(self) -> str:
        lines = self._draw("progress", 4, 8)
        return f"EVENTS {self._fill('[**{date}**]')}:\n{_wrap(' '.join(lines))}"

    def _discharge_medications(self) -> str:
        new = self.rng.randint(1, 3)
        drugs = self._draw("medications", self.rng.randint(4, 8) + new)
        lines = [f"{i}. {item}" for i, item in enumerate(drugs, 1)]
        before, after = "\n".join(lines[:-new]), "\n".join(lines)
        return f"MEDICATIONS ON ADMISSION:\n{before}\n\nDISCHARGE MEDICATIONS:\n{after}"

    def _instructions(self) -> str:
        if self.stay.kind == "death":
            return "DISCHARGE CONDITION:\nExpired."
        condition = _wrap(self.rng.choice(FILLER["conditions"]))
        lines = _wrap(" ".join(self._draw("instructions", 3, 6)))
        return f"DISCHARGE CONDITION:\n{condition}\n\nDISCHARGE INSTRUCTIONS:\n{lines}"


def count_pieces(text: str) -> int:
    """A rough count of the word-pieces of an English text, within about a tenth."""
    tokens = re.findall(r"[A-Za-z]+|\d{1,3}|[^\w\s]", text)
    return sum(1 + (len(token) - 1) // 7 for token in tokens)


def _wrap(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _date(moment: datetime) -> str:
    return f"{moment.year}-{moment.month}-{moment.day}"
