"""Explanations of risks, and their passages tinted in the notes: in notebooks, and as a page."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.files import write_text

if TYPE_CHECKING:
    import pandas as pd

    from clinical.stays.stays import StayRisk


@dataclass(frozen=True)
class Passage:
    """Characters `start` to `end` of note number `note`, and what they do to the risk.

    Attributes:
        window: number of its window in `StayRisk.windows`.
        value: what it adds to the log-odds of its window, times the window's probability. It
            ranks passages; see `occlusion`.
        score_contribution: the stay's score minus its score without the passage, measured; its
            sign is the direction, which a `value` of the other sign does not change.
        probability_contribution: the same for the probability. It is small where another passage
            says the same thing, because the risk then stays high without this one.
        text: the passage itself, not in the repr.
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
        risk: with the exact contribution of each window.
        passages: the raising and lowering ones, the largest `value` (without its sign) first;
            empty where `risk.status` is not "ok".
        examined: numbers of the windows that were searched for passages, the riskiest first.
        without_raising: the probability without all raising passages (comprehensiveness is what
            it falls by); None without such a passage.
        raising_alone: the probability of the raising passages alone (sufficiency); likewise.
        texts: the notes by number, not in the repr.
        outcome: what the probability is of.
    """

    risk: StayRisk
    passages: tuple[Passage, ...]
    examined: tuple[int, ...]
    without_raising: float | None
    raising_alone: float | None
    texts: dict[int, str] = field(repr=False)
    outcome: str = ""

    @property
    def raising(self) -> tuple[Passage, ...]:
        """The passages that raise the risk, the strongest first."""
        return tuple(passage for passage in self.passages if passage.raises)

    def to_frame(self) -> pd.DataFrame:
        """One row a passage, with the columns of `Passage`."""
        import pandas as pd

        columns = list(Passage.__dataclass_fields__)
        return pd.DataFrame([vars(p) for p in self.passages], columns=columns)

    def show(self) -> StayView:
        """The notes with the passages tinted and numbered: in a notebook, or `save_html`."""
        return StayView(self)


@dataclass(frozen=True)
class StayView:
    """The notes of an explained stay. Shown by a notebook; `save_html` writes a page."""

    explanation: Explanation = field(repr=False)

    def _repr_html_(self) -> str:
        """Escaped HTML without scripts or files."""
        found = self.explanation
        notes = [(number, list(self._parts(number))) for number in found.texts]
        largest = max((abs(passage.value) for passage in found.passages), default=1.0)
        return _template("stay_view.html.j2").render(
            found=found, notes=notes, largest=largest
        )

    def save_html(self, path: str | Path, *, title: str = "A stay") -> Path:
        """Write a whole HTML page, self-contained and escaped, without scripts."""
        page = _template("stay_page.html.j2").render(
            title=title, body=self._repr_html_()
        )
        write_text(page, path)
        return Path(path)

    def _parts(self, note: int) -> Iterator[tuple[str, int, bool]]:
        """The parts of a note: text, the number of its passage, and whether the passage ends there.

        Passages count from 1; 0 is none. Where they overlap, the first one is shown.
        """
        text = self.explanation.texts[note]
        here = [
            (n, p)
            for n, p in enumerate(self.explanation.passages, start=1)
            if p.note == note
        ]
        edges = {0, len(text)} | {at for _, p in here for at in (p.start, p.end)}
        for start, end in itertools.pairwise(sorted(edges)):
            number, last = next(
                ((n, p.end) for n, p in here if p.start <= start < p.end), (0, None)
            )
            yield text[start:end], number, last == end


@cache
def _template(name: str) -> Any:
    from jinja2 import Environment, PackageLoader

    templates = Environment(loader=PackageLoader("clinical.evidence"), autoescape=True)
    return templates.get_template(name)
