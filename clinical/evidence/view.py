"""Notes with what raises and lowers the risk tinted: in notebooks, and as a page to keep or print.

Raising passages are orange with a solid underline, lowering ones blue with a dashed one (Okabe and
Ito's colours, distinct with any colour vision); both have a mark in text, which survives a printer
without colours.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clinical.stays.stays import StayRisk


@dataclass(frozen=True)
class Mark:
    """Characters of a note to be tinted.

    `strength` is from 0 (no tint) to 1, `raises` the direction, `label` what is written after it,
    and `title` what a pointer shows.
    """

    note: int
    start: int
    end: int
    raises: bool
    strength: float
    label: str
    title: str


@dataclass(frozen=True)
class StayView:
    """The notes of a stay with marks. Shown by a notebook; `save_html` writes a page.

    `facts` are the numbers that are written above the notes, from `Explanation.show`.
    """

    risk: StayRisk
    texts: Mapping[int, str] = field(repr=False)
    marks: tuple[Mark, ...]
    facts: Mapping[str, float | None] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """Escaped HTML without scripts or files."""
        notes = [(number, list(self._parts(number))) for number in self.texts]
        return _template("stay_view.html.j2").render(risk=self.risk, facts=self.facts, notes=notes)

    def page(self) -> str:
        """A whole HTML page, self-contained and escaped, without scripts."""
        title = f"Stay {self.risk.stay_id}" if self.risk.stay_id else "A stay"
        body = self._repr_html_()
        return _template("stay_page.html.j2").render(title=title, body=body)

    def save_html(self, path: str | Path) -> Path:
        """Write `page`."""
        path = Path(path)
        with atomic_path(path) as temporary:
            temporary.write_text(self.page(), encoding="utf-8", errors="replace")
        return path

    def _parts(self, number: int) -> Iterator[tuple[str, Mark | None, bool]]:
        """The parts of a note: text, its mark, and whether the mark ends there.

        Where marks overlap, the first one is shown.
        """
        text = self.texts[number]
        marks = [mark for mark in self.marks if mark.note == number]
        edges = {0, len(text)} | {at for mark in marks for at in (mark.start, mark.end)}
        for start, end in itertools.pairwise(sorted(edges)):
            over = next((mark for mark in marks if mark.start <= start < mark.end), None)
            yield text[start:end], over, over is not None and over.end == end


@cache
def _template(name: str) -> Any:
    from jinja2 import Environment, PackageLoader

    return Environment(loader=PackageLoader("clinical.evidence"), autoescape=True).get_template(
        name
    )
