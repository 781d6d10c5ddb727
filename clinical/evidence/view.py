"""Notes with the passages of an explanation tinted: in notebooks, and as a page to keep or print.

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
    from collections.abc import Iterator

    from clinical.evidence.explain import Explanation


@dataclass(frozen=True)
class StayView:
    """The notes of an explained stay. Shown by a notebook; `save_html` writes a page."""

    explanation: Explanation = field(repr=False)

    def _repr_html_(self) -> str:
        """Escaped HTML without scripts or files."""
        found = self.explanation
        notes = [(number, list(self._parts(number))) for number in found.texts]
        largest = max((abs(passage.value) for passage in found.passages), default=1.0)
        return _template("stay_view.html.j2").render(found=found, notes=notes, largest=largest)

    def page(self) -> str:
        """A whole HTML page, self-contained and escaped, without scripts."""
        stay_id = self.explanation.risk.stay_id
        title = f"Stay {stay_id}" if stay_id else "A stay"
        return _template("stay_page.html.j2").render(title=title, body=self._repr_html_())

    def save_html(self, path: str | Path) -> Path:
        """Write `page`."""
        path = Path(path)
        with atomic_path(path) as temporary:
            temporary.write_text(self.page(), encoding="utf-8", errors="replace")
        return path

    def _parts(self, note: int) -> Iterator[tuple[str, int, bool]]:
        """The parts of a note: text, the number of its passage, and whether the passage ends there.

        Passages count from 1; 0 is none. Where they overlap, the first one is shown.
        """
        text = self.explanation.texts[note]
        here = [(n, p) for n, p in enumerate(self.explanation.passages, start=1) if p.note == note]
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
