"""The made-up notes: discharge summaries, addenda, nursing and physician notes.

`notes.j2` has their layout, `filler.toml` and `phrases.toml` their words.
"""

from __future__ import annotations

import math
import re
import textwrap
from datetime import timedelta
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import Environment

from clinical.datasets import sentences
from clinical.datasets.sentences import FILLER, REFUTED, statements

if TYPE_CHECKING:
    import random
    from datetime import datetime

    from clinical.datasets.patients import Patient, Stay

_TYPICAL_PIECES = 1330
_LEAST_PIECES, _MOST_PIECES = 1120, 3400
_SHORT_PIECES = (65, 125)  # of a nursing or physician note


def _date(moment: datetime) -> str:
    return f"{moment.year}-{moment.month}-{moment.day}"


_ENVIRONMENT = Environment(autoescape=False)  # noqa: S701 - plain text
_ENVIRONMENT.filters |= {
    "date": _date,
    "wrap": partial(
        textwrap.fill, width=75, break_long_words=False, break_on_hyphens=False
    ),
}
_LAYOUT = _ENVIRONMENT.from_string(
    (resources.files(__package__) / "notes.j2").read_text(encoding="utf-8")
)


class Chart:
    """Writes the notes of a stay, which share its facts, conditions and details.

    Conditions and details are drawn; they do not change the risk.

    Args:
        patient: whose stay it is.
        stay: with its dates.
        facts: names of the facts that its notes tell as true.
        rng: where all words are drawn from.
    """

    def __init__(
        self, patient: Patient, stay: Stay, facts: frozenset[str], rng: random.Random
    ) -> None:
        self.patient, self.stay, self.rng = patient, stay, rng
        self.true = facts | {f.name for f in sentences.NEUTRAL if rng.random() < f.rate}
        self.details = {
            slot: rng.choice(words) for slot, words in sentences.FILLINGS.items()
        }
        self.complaint = rng.choice(FILLER["complaints"])
        self.names: sentences.Names = {}

    def discharge_summary(self, *, brief: bool = False) -> str:
        """A discharge summary of about 1,000 to 4,000 word-pieces, usually nearer to 1,000.

        The hospital course tells all true facts, and the issues that follow it tell them again.
        Each has about 300 word-pieces, so a cut between two windows leaves one of them whole. With
        `brief`, these two sections only.
        """
        write, rng = self._begin(), self.rng
        if brief:
            return f"{write.course()}\n"
        target = _TYPICAL_PIECES * math.exp(rng.gauss(0.0, 0.42))
        target = min(max(target, _LEAST_PIECES), _MOST_PIECES)
        head = [write.header(), write.history()]
        course = write.course()
        tail = [write.medications(), write.instructions()]
        middle = [write.background(), write.exam()]
        pieces = sum(map(count_pieces, (*head, course, *tail, *middle)))
        writers = [
            partial(write.report, *text.split(": ", 1)) for text in FILLER["reports"]
        ]
        writers += [write.laboratory, write.progress] * 12
        for section in rng.sample(writers, len(writers)):
            if pieces >= target:
                break
            middle.append(section())
            pieces += count_pieces(middle[-1])
        middle.insert(rng.randint(0, len(middle)), course)
        return "\n\n".join([*head, *middle, *tail]) + "\n"

    def short_note(self, kind: str, *, told: float = 0.5) -> str:
        """A "nursing" or "physician" note of 60 to 150 word-pieces.

        It tells each true fact with the chance `told`; other lines fill up the note.
        """
        write, rng = self._begin(), self.rng
        # Absent facts are denied less often in notes that tell less.
        parts = statements(self.true, rng, told=told, refuted=0.4 * told)
        story, lines = "", list[str]()
        for one in sentences.tell(parts, self.names, rng, clause_share=0.6):
            if count_pieces(story + one.sentence) <= _SHORT_PIECES[1]:
                story = f"{story} {one.sentence}".strip()
        for line in self.draw(kind, len(FILLER[kind])):
            if lines and count_pieces(" ".join([story, *lines])) >= _SHORT_PIECES[0]:
                break
            lines.append(line)
        return f"{getattr(write, kind)(story, lines)}\n"

    def addendum(self) -> str:
        """A short addendum to a discharge summary, without any fact."""
        return f"{self._begin().addendum()}\n"

    def newborn_summary(self) -> str:
        """A short discharge summary of a healthy newborn."""
        return f"{self._sections().newborn()}\n"

    def _begin(self) -> Any:
        """Draw the names of a new note; returns its sections."""
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
            "kin": [kin for people in sentences.KIN.values() for kin in people],
            "date": [
                _date(admitted + timedelta(days=rng.randint(0, days))) for _ in range(4)
            ],
        }
        return self._sections()

    def _sections(self) -> Any:
        """The sections of `notes.j2` as functions."""
        known = {
            "chart": self,
            "patient": self.patient,
            "stay": self.stay,
            "filler": FILLER,
        }
        return _LAYOUT.make_module({**known, "rng": self.rng})

    def fill(self, template: str) -> str:
        """A template with the names and details of the note."""
        return sentences.fill(template, self.names, self.rng)

    def draw(self, kind: str, least: int, most: int | None = None) -> list[str]:
        """That many different lines of one kind of filler."""
        count = least if most is None else self.rng.randint(least, most)
        return [
            self.fill(template) for template in self.rng.sample(FILLER[kind], count)
        ]

    def tell(
        self, *, clause_share: float, told: float = 1.0, refuted: float = REFUTED
    ) -> list[str]:
        """Sentences for the facts."""
        parts = statements(self.true, self.rng, told=told, refuted=refuted)
        told_in = sentences.tell(parts, self.names, self.rng, clause_share=clause_share)
        return [one.sentence for one in told_in]


def count_pieces(text: str) -> int:
    """A rough count of the word-pieces of an English text, within about a tenth."""
    tokens = re.findall(r"[A-Za-z]+|\d{1,3}|[^\w\s]", text)
    return sum(1 + (len(token) - 1) // 7 for token in tokens)
