"""Explanation of a risk, and its passages highlighted in the notes (notebook or HTML page)."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader

from clinical.risk.reading import StayRisk
from domainbert.files import write_text

_TEMPLATES = Environment(
    loader=PackageLoader("clinical.evidence"), autoescape=True
)


@dataclass(frozen=True)
class Passage:
    """A passage of a note, and its effect on the risk.

    Attributes:
        note: number of the note.
        start: first character in the note.
        end: one past the last character.
        window: number of its window in `StayRisk.windows`.
        value: what it adds to the log-odds of its window, times the window's probability. It
            ranks passages; see `occlusion`.
        score_contribution: the stay's score minus its score without the passage. Its sign is the
            direction of the passage, even if `value` has the other sign.
        probability_contribution: the same for the probability. It is small if another passage
            says the same thing, because the risk then stays high without this one.
        text: the passage; not in the repr.
    """

    note: int
    start: int
    end: int
    window: int
    value: float
    score_contribution: float
    probability_contribution: float
    text: str = field(repr=False)

    @property
    def raises(self) -> bool:
        """Whether the stay's score is lower without the passage; else it is higher."""
        return self.score_contribution > 0


@dataclass(frozen=True)
class Explanation:
    """Why a stay has its risk.

    Attributes:
        risk: the risk, with the exact contribution of each window.
        texts: the notes by number; not in the repr.
        outcome: the outcome that the risk is about.
        passages: raising and lowering passages, the largest absolute `value` first; empty if
            `risk.status` is not "ok".
        examined: numbers of the windows that were searched for passages, the riskiest first.
        without_raising: the probability without the raising passages, which measures
            comprehensiveness; None if there is no such passage.
        raising_alone: the probability of the raising passages alone, which measures sufficiency;
            None if there is no such passage.
    """

    risk: StayRisk
    texts: dict[int, str] = field(repr=False)
    outcome: str
    passages: tuple[Passage, ...] = ()
    examined: tuple[int, ...] = ()
    without_raising: float | None = None
    raising_alone: float | None = None

    @property
    def raising(self) -> tuple[Passage, ...]:
        """The passages that raise the risk, strongest first."""
        return tuple(passage for passage in self.passages if passage.raises)

    def to_frame(self) -> pd.DataFrame:
        """One row per passage, with the attributes of `Passage`."""
        columns = list(Passage.__dataclass_fields__)
        return pd.DataFrame(list(self.passages), columns=columns)

    def show(self) -> "StayView":
        """The notes with highlighted, numbered passages, for a notebook or `save_html`."""
        return StayView(self)


@dataclass(frozen=True)
class StayView:
    """The notes of an explained stay, for a notebook or an HTML page."""

    explanation: Explanation

    def __repr__(self) -> str:
        """The risk and how many passages there are; the notes are private."""
        explanation = self.explanation
        return (
            f"StayView: risk {explanation.risk.probability:.1%}, "
            f"{len(explanation.passages)} passages in {len(explanation.texts)} notes"
        )

    def _repr_html_(self) -> str:
        """Escaped HTML without scripts or files."""
        explanation = self.explanation
        notes = [
            (number, list(self._parts(number))) for number in explanation.texts
        ]
        values = [abs(passage.value) for passage in explanation.passages]
        return _TEMPLATES.get_template("stay_view.html.j2").render(
            explanation=explanation,
            notes=notes,
            largest=max(values, default=1.0),
        )

    def save_html(self, path: str | Path) -> Path:
        """Write a self-contained HTML page, escaped and without scripts."""
        page = _TEMPLATES.get_template("stay_page.html.j2")
        write_text(page.render(body=self._repr_html_()), path)
        return Path(path)

    def _parts(self, note: int) -> Iterator[tuple[str, int, bool]]:
        """The parts of a note: text, number of its passage, and whether the passage ends there.

        Passages count from 1; 0 is no passage. If passages overlap, the first one is shown.
        """
        text = self.explanation.texts[note]
        edges = {0, len(text)}
        passages = {}
        for number, passage in enumerate(self.explanation.passages, start=1):
            if passage.note == note:
                passages[number] = passage
                edges |= {passage.start, passage.end}
        for start, end in itertools.pairwise(sorted(edges)):
            numbers = (
                number
                for number, passage in passages.items()
                if passage.start <= start < passage.end
            )
            number = next(numbers, 0)
            ends = number > 0 and passages[number].end == end
            yield text[start:end], number, ends
