"""The made-up notes: discharge summaries, addenda, nursing and physician notes.

`notes.j2` has their layout, `filler.toml` and `phrases.toml` their words.
"""

import math
import random
import re
import textwrap
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from itertools import chain

from jinja2 import Environment

from clinical.datasets import sentences
from clinical.datasets.patients import Patient, Stay
from clinical.datasets.sentences import FILLER, REPORTS, statements
from domainbert.files import data_text

_TYPICAL_PIECES = 1330
_LEAST_PIECES = 1120
_MOST_PIECES = 3400
_LEAST_SHORT_PIECES = 65  # of a nursing or physician note
_MOST_SHORT_PIECES = 125
# The sections of every discharge summary, in the order in which they are drawn.
_SECTIONS = (
    "header",
    "history",
    "course",
    "medications",
    "instructions",
    "background",
    "exam",
)


def _date(moment: datetime) -> str:
    return f"{moment.year}-{moment.month}-{moment.day}"


def _numbered(lines: Iterable[str]) -> list[str]:
    return [f"{number}. {line}" for number, line in enumerate(lines, start=1)]


_ENVIRONMENT = Environment(autoescape=False)  # noqa: S701 - plain text
_ENVIRONMENT.filters["date"] = _date
_ENVIRONMENT.filters["numbered"] = _numbered
_ENVIRONMENT.filters["wrap"] = partial(
    textwrap.fill,
    width=75,
    break_long_words=False,
    break_on_hyphens=False,
)
_LAYOUT = _ENVIRONMENT.from_string(data_text(__file__, "notes.j2"))


class Chart:
    """Writes the notes of a stay, which share its facts, conditions and details.

    Conditions and details are drawn; they do not change the risk.

    Args:
        patient: whose stay it is.
        stay: with its dates.
        facts: names of the facts that its notes tell as true.
        rng: the generator that all words are drawn with.
    """

    def __init__(
        self,
        patient: Patient,
        stay: Stay,
        facts: frozenset[str],
        rng: random.Random,
    ) -> None:
        self.patient = patient
        self.stay = stay
        self.rng = rng
        self.true = facts | {
            f.name for f in sentences.NEUTRAL if rng.random() < f.rate
        }
        self.details = {
            slot: rng.choice(words)
            for slot, words in sentences.FILLINGS.items()
        }
        self.complaint = rng.choice(FILLER["complaints"])
        self.names: sentences.SlotValues = {}

    def discharge_summary(self, *, brief: bool = False) -> str:
        """A discharge summary of about 1,000 to 4,000 word-pieces, usually nearer to 1,000.

        The hospital course tells all true facts, and the issues that follow it tell them again.
        Each has about 300 word-pieces, so a cut between two windows leaves one of them whole. With
        `brief`, these two sections only.
        """
        self._draw_names()
        rng = self.rng
        if brief:
            return f"{self._write('course')}\n"
        target = _TYPICAL_PIECES * math.exp(rng.gauss(0.0, 0.42))
        target = min(max(target, _LEAST_PIECES), _MOST_PIECES)
        texts = list(map(self._write, _SECTIONS))
        n_pieces = sum(map(count_pieces, texts))
        header, history, course, medications, instructions, *middle = texts
        writers = [
            partial(self._write, "report", title=title, text=text)
            for title, text in REPORTS.items()
        ]
        repeatable = [
            partial(self._write, "laboratory"),
            partial(self._write, "progress"),
        ]
        writers += repeatable * 12
        for section in rng.sample(writers, len(writers)):
            if n_pieces >= target:
                break
            middle.append(section())
            n_pieces += count_pieces(middle[-1])
        middle.insert(rng.randint(0, len(middle)), course)
        sections = [header, history, *middle, medications, instructions]
        return "\n\n".join(sections) + "\n"

    def short_note(self, filler: str, *, telling_rate: float = 0.5) -> str:
        """A "nursing" or "physician" note of 60 to 150 word-pieces.

        It tells each true fact with the chance `telling_rate`; other lines fill up the note.
        """
        self._draw_names()
        # Absent facts are denied less often in notes that tell less.
        sentences_told = self.tell(
            clause_share=0.6,
            telling_rate=telling_rate,
            refuted=0.4 * telling_rate,
        )
        story = ""
        for sentence in sentences_told:
            if count_pieces(story + sentence) <= _MOST_SHORT_PIECES:
                story = f"{story} {sentence}".strip()
        lines: list[str] = []
        for line in self.draw(filler, len(FILLER[filler])):
            n_pieces = count_pieces(" ".join([story, *lines]))
            if lines and n_pieces >= _LEAST_SHORT_PIECES:
                break
            lines.append(line)
        return f"{self._write(filler, story=story, lines=lines)}\n"

    def addendum(self) -> str:
        """A short addendum to a discharge summary, without any fact."""
        self._draw_names()
        return f"{self._write('addendum')}\n"

    def newborn_summary(self) -> str:
        """A short discharge summary of a healthy newborn."""
        return f"{self._write('newborn')}\n"

    def _draw_names(self) -> None:
        """Draw the names of a new note."""
        rng = self.rng
        admitted = self.stay.admitted
        n_days = max(1, (self.stay.discharged - admitted).days)
        years = int((admitted - self.patient.birth).days / 365.25)
        age = str(years)
        if years >= 90:
            age = "[**Age over 90 **]"
        self.names = {
            **self.details,
            **sentences.FORMS[self.patient.sex],
            "complaint": self.complaint,
            "age": age,
            "pmh": " and ".join(rng.sample(FILLER["history"], 2)),
            "kin": list(chain.from_iterable(sentences.KIN.values())),
            "date": [
                _date(admitted + timedelta(days=rng.randint(0, n_days)))
                for _ in range(4)
            ],
        }

    def _write(self, section: str, **values: object) -> str:
        """A section of `notes.j2`."""
        context = _LAYOUT.new_context(
            {"chart": self, "filler": FILLER, **values}
        )
        return "".join(_LAYOUT.blocks[section](context))

    def fill(self, template: str) -> str:
        """A template with the names and details of the note."""
        return sentences.fill(template, self.names, self.rng)

    def draw(
        self, filler: str, fewest: int, limit: int | None = None
    ) -> list[str]:
        """Different lines of one sort of filler: `fewest` of them, or up to `limit`."""
        count = fewest
        if limit is not None:
            count = self.rng.randint(fewest, limit)
        return list(map(self.fill, self.rng.sample(FILLER[filler], count)))

    def tell(self, *, clause_share: float, **chances: float) -> list[str]:
        """Sentences for the facts; `chances` are those of `statements`."""
        parts = statements(self.true, self.rng, **chances)
        return sentences.tell(
            parts, self.names, self.rng, clause_share=clause_share
        )


def count_pieces(text: str) -> int:
    """A rough count of the word-pieces of an English text, within about a tenth."""
    tokens = re.findall(r"[A-Za-z]+|\d{1,3}|[^\w\s]", text)
    return sum(1 + (len(token) - 1) // 7 for token in tokens)
