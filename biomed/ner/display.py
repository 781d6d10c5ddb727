"""A text with its entities marked: HTML in a notebook, colours in a terminal."""

from __future__ import annotations

import html
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from biomed.ner.entities import Entity

# Pale, so that black text is readable; the label is printed too, for colour-blind readers.
_COLOURS = ("#ffd8a8", "#a5d8ff", "#b2f2bb", "#eebefa", "#ffec99", "#ffc9c9")


@dataclass(frozen=True)
class TaggedView:
    """A text with its entities highlighted, in notebooks (as HTML) and on terminals (by `print`).

    Attributes:
        text: the whole text.
        entities: in order; they may overlap.
        labels: all entity types; their order decides the colours.
    """

    text: str
    entities: tuple[Entity, ...]
    labels: tuple[str, ...]

    def _repr_html_(self) -> str:
        """Escaped HTML without scripts, style sheets or files."""
        parts = []
        for start, end, over in self._segments():
            piece = html.escape(self.text[start:end])
            if over:
                title = html.escape(", ".join(f"{e.label} {e.score:.2f}" for e in over))
                colour = self._colour(over[0])
                piece = (
                    f'<mark title="{title}" style="background:{colour};color:#000">{piece}</mark>'
                )
            parts.append(piece + "".join(_small(e.label) for e in over if e.end == end))
        body = "".join(parts)
        return f'<div style="white-space:pre-wrap;line-height:1.7">{body}</div>'

    def __rich__(self) -> Text:
        """Coloured text for a rich console."""
        from rich.text import Text

        shown = Text()
        for start, end, over in self._segments():
            style = f"black on {self._colour(over[0])}" if over else ""
            shown.append(_visible(self.text[start:end]), style=style)
            for entity in over:
                if entity.end == end:
                    shown.append(f" [{entity.label}]", style="dim")
        return shown

    def __str__(self) -> str:
        """Text with terminal colours."""
        from rich.console import Console

        console = Console(force_terminal=True, color_system="truecolor", highlight=False)
        with console.capture() as capture:
            console.print(self, soft_wrap=True, end="")
        return capture.get()

    def _segments(self) -> Iterator[tuple[int, int, list[Entity]]]:
        """Ranges of characters with the same entities over them."""
        edges = {0, len(self.text)} | {at for e in self.entities for at in (e.start, e.end)}
        for start, end in itertools.pairwise(sorted(edges)):
            yield start, end, [e for e in self.entities if e.start <= start < e.end]

    def _colour(self, entity: Entity) -> str:
        return _COLOURS[self.labels.index(entity.label) % len(_COLOURS)]


def _small(label: str) -> str:
    return f'<sub style="opacity:.65;margin:0 .2em">{html.escape(label)}</sub>'


def _visible(text: str) -> str:
    """Replace control characters, which could control a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
