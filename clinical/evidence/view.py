"""Notes with what raises and lowers the risk tinted: in notebooks, and as a page to keep or print.

Raising passages are orange with a solid underline, lowering ones blue with a dashed one (Okabe and
Ito's colours, distinct with any colour vision); both have a mark in text, which survives a printer
without colours.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clinical.evidence.explain import Explanation, Passage
    from clinical.risk.stays import StayRisk

WEAK = 0.005
"""A contribution to the probability below this is not tinted in `risk.show`."""


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
    """The notes of a stay with marks. Shown by a notebook; `save_html` writes a page."""

    risk: StayRisk
    texts: Mapping[int, str] = field(repr=False)
    marks: tuple[Mark, ...]
    summary: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Escaped HTML without scripts or files."""
        return _template("stay_view.html.j2").render(view=self, notes=self._notes())

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

    def _notes(self) -> list[tuple[int, str]]:
        return [(number, "".join(self._marked(number))) for number in self.texts]

    def _marked(self, number: int) -> Iterator[str]:
        """The pieces of a note as HTML; where marks overlap, the first one is shown."""
        text = self.texts[number]
        marks = [mark for mark in self.marks if mark.note == number]
        edges = {0, len(text)} | {at for mark in marks for at in (mark.start, mark.end)}
        for start, end in itertools.pairwise(sorted(edges)):
            piece = escape(text[start:end])
            over = [mark for mark in marks if mark.start <= start < mark.end]
            if over:
                piece = _tinted(piece, over[0], last=over[0].end == end)
            yield piece


def _tinted(piece: str, mark: Mark, *, last: bool) -> str:
    rgb, line = ("213,94,0", "solid") if mark.raises else ("0,114,178", "dashed")
    alpha = 0.1 + 0.35 * min(max(mark.strength, 0.0), 1.0)
    style = (
        f"background:rgba({rgb},{alpha:.2f});color:inherit;border-bottom:2px {line} rgb({rgb});"
        "-webkit-print-color-adjust:exact;print-color-adjust:exact"
    )
    label = f'<sub style="font-weight:bold">{escape(mark.label)}</sub>' if last else ""
    return f'<mark title="{escape(mark.title)}" style="{style}">{piece}</mark>{label}'


def passage_marks(passages: Sequence[Passage]) -> tuple[Mark, ...]:
    """The marks of passages, numbered in their order, the strongest first."""
    largest = max((abs(passage.value) for passage in passages), default=1.0)
    return tuple(
        Mark(
            *(passage.note, passage.start, passage.end, passage.value > 0),
            strength=abs(passage.value) / largest,
            label=f"{number}{'▲' if passage.value > 0 else '▼'}",
            title=f"without it the probability changes by {-passage.probability_contribution:+.3f}",
        )
        for number, passage in enumerate(passages, start=1)
    )


def window_marks(risk: StayRisk) -> tuple[Mark, ...]:
    """The marks of windows that contribute, tinted by their contribution to the probability."""
    shares = [window.probability_contribution or 0.0 for window in risk.windows]
    largest = max((abs(share) for share in shares), default=0.0)
    return tuple(
        Mark(
            *(window.note, window.start, window.end, share > 0),
            strength=abs(share) / largest,
            label=f"{'▲' if share > 0 else '▼'}{share:+.3f}",
            title=f"window probability {window.probability:.3f}",
        )
        for window, share in zip(risk.windows, shares, strict=True)
        if abs(share) >= WEAK
    )


def risk_summary(risk: StayRisk) -> tuple[str, ...]:
    """What is said above the notes."""
    if risk.status != "ok":
        return (f"This stay has no risk: {risk.reason}.",)
    kind = "calibrated" if risk.calibrated else "not calibrated"
    read = f"{risk.coverage.tokens:,} tokens in {risk.coverage.windows} windows"
    alert = {True: "An alert.", False: "No alert.", None: ""}[risk.alert]
    return (f"30-day readmission: {risk.probability:.0%} ({kind}), from {read}. {alert}".strip(),)


def passage_summary(explanation: Explanation) -> tuple[str, ...]:
    """The risk, what is left without the raising passages, and how the passages were found."""
    lines = [*risk_summary(explanation.risk)]
    if raising := explanation.raising:
        one = len(raising) == 1
        lines.append(
            f"Without {'this' if one else f'these {len(raising)}'} raising "
            f"passage{'' if one else 's'} the probability is {explanation.without_raising:.0%}; "
            f"with nothing else it is {explanation.raising_alone:.0%}."
        )
    if explanation.examined:
        lines.append(
            f"Found by {explanation.method} in the {len(explanation.examined)} riskiest of "
            f"{len(explanation.risk.windows)} windows. A passage shows what the model used, not "
            "why a patient returns."
        )
    return tuple(lines)


@cache
def _template(name: str) -> Any:
    from jinja2 import Environment, PackageLoader

    return Environment(loader=PackageLoader("clinical"), autoescape=True).get_template(name)
