"""`Entity`, the result of tagging, and `TaggedView`, a text that shows its entities."""

from __future__ import annotations

import html
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.text import Text

    from biomed.corpora.documents import Span
    from biomed.ner.dictionaries import Link
    from biomed.notes.attributes import Medication

Format = Literal["pubtator", "brat", "bioc", "bioc-json", "omop", "fhir"]
# The id that each row of these formats needs.
NEEDED = {"omop": "note_id", "fhir": "patient_id"}
MIN_SCORE = 0.4
"""Entities with a lower score are left out; chosen on the notes corpus' dev side."""
# Pale, so that black text is readable; the label is printed too, for colour-blind readers.
_COLOURS = ("#ffd8a8", "#a5d8ff", "#b2f2bb", "#eebefa", "#ffec99", "#ffc9c9")
# The style of each assertion in a notebook (CSS) and on a terminal (rich).
_STYLES = {
    "present": ("", ""),
    "negated": (";text-decoration:line-through", " strike"),
    "allergy": (
        ";outline:2px solid #000;outline-offset:-2px;padding:0 3px",
        " bold",
    ),
    "possible": (";border-bottom:2px dotted #000", " underline"),
    "historical": (";font-style:italic", " italic"),
    "other": (";opacity:.6", " dim"),
}


@dataclass(frozen=True)
class Entity:
    """A mention in a text: `text[entity.start : entity.end] == entity.text`.

    Attributes:
        label: entity type, such as "Disease".
        score: the network's probability, in (0, 1], of an entity of this type at exactly these
            words: B for the first word, I for the others, and not I for the word after them,
            with words taken as independent. Tables call it "span_probability", or "calibrated" for
            a calibrated model: the share of such entities that are right on devel data.
        assertion: "present", "negated", "possible", "historical", "allergy" (of drugs) or
            "other" (of someone else); see `biomed.notes.assertion`.
        section: the name of its section, such as "allergies", or None before the first heading;
            see `biomed.sections`.
        id: id of the concept in the tagger's dictionary; None without a dictionary or a link.
        name: the concept's preferred name.
        link_score: how sure the link is, in (0, 1]; see `biomed.ner.linking.Link`.
        codes: the concept's codes in other systems, such as "MESH:D006333".
        cue: the words that decided the assertion: `text[cue_start:cue_end]`; None if none did.
        cue_rule: "before" or "after" for a cue on that side of the entity, "section" for the
            heading of its section.
        medication: dose, route and so on of a drug; see `biomed.notes.medications`.
    """

    start: int
    end: int
    text: str
    label: str
    score: float
    assertion: str = "present"
    id: str | None = None
    name: str | None = None
    link_score: float | None = None
    codes: tuple[str, ...] = ()
    section: str | None = None
    medication: Medication | None = None
    cue: str | None = None
    cue_start: int | None = None
    cue_end: int | None = None
    cue_rule: str | None = None

    @property
    def title(self) -> str:
        """The label, with the assertion unless it is "present", and the concept's id."""
        assertion = self.assertion.replace("present", "")
        return ", ".join(filter(None, [self.label, assertion, self.id]))

    def linked_to(self, link: Link | None) -> Entity:
        """The entity with the concept of a link; without a link, as it is."""
        if link is None:
            return self
        return replace(
            self,
            id=link.id,
            name=link.name,
            link_score=link.score,
            codes=link.codes,
        )


@dataclass(frozen=True)
class TaggedView:
    """A text with its entities highlighted, in notebooks (as HTML) and on terminals (by `print`).

    Entities may overlap. The order of `labels`, all entity types, decides the colours. The words
    that decided an assertion are underlined.
    """

    text: str
    entities: tuple[Entity, ...]
    labels: tuple[str, ...]

    def __repr__(self) -> str:
        """How many entities of each type there are; the text is private."""
        counts = Counter(entity.label for entity in self.entities)
        types = ", ".join(
            f"{count} {label}" for label, count in counts.items()
        )
        return (
            f"TaggedView: {len(self.entities)} entities in {len(self.text)} characters"
            f" ({types or 'none'})"
        )

    def _repr_html_(self) -> str:
        """Escaped HTML without scripts, style sheets or files."""
        parts = []
        for start, end, entities in self._segments():
            piece = html.escape(self.text[start:end])
            if decided := self._decided_by(start, end):
                title = html.escape(", ".join(decided))
                piece = f'<u title="cue: {title}">{piece}</u>'
            if entities:
                tip = "; ".join(f"{e.title} {e.score:.2f}" for e in entities)
                css, _ = _STYLES[entities[0].assertion]
                style = (
                    f"background:{self._colour(entities[0])};color:#000{css}"
                )
                piece = f'<mark title="{html.escape(tip)}" style="{style}">{piece}</mark>'
            parts.append(piece)
            for entity in entities:
                if entity.end == end:
                    label = html.escape(entity.title)
                    parts.append(
                        f'<sub style="opacity:.65;margin:0 .2em">{label}</sub>'
                    )
        return f'<div style="white-space:pre-wrap;line-height:1.7">{"".join(parts)}</div>'

    def __rich__(self) -> Text:
        """Coloured text for a rich console."""
        from rich.text import Text

        shown = Text()
        for start, end, entities in self._segments():
            style = ""
            if entities:
                _, ink = _STYLES[entities[0].assertion]
                style = f"black on {self._colour(entities[0])}{ink}"
            if self._decided_by(start, end):
                style += " underline"
            # Both ends are marked, because a pipe has no colours.
            opening_count = sum(entity.start == start for entity in entities)
            shown.append("[" * opening_count, style="dim")
            shown.append(_printable(self.text[start:end]), style=style)
            for entity in entities:
                if entity.end == end:
                    shown.append(f"]({entity.title})", style="dim")
        return shown

    def __str__(self) -> str:
        """Text with terminal colours."""
        from rich.console import Console

        console = Console(
            force_terminal=True,
            color_system="truecolor",
            highlight=False,
        )
        with console.capture() as capture:
            console.print(self, soft_wrap=True, end="")
        return capture.get()

    def _segments(self) -> Iterator[tuple[int, int, list[Entity]]]:
        """Ranges of characters with the same entities over them."""
        edges = {0, len(self.text)}
        for entity in self.entities:
            edges |= {entity.start, entity.end}
            if entity.cue_start is not None and entity.cue_end is not None:
                edges |= {entity.cue_start, entity.cue_end}
        for start, end in itertools.pairwise(sorted(edges)):
            yield (
                start,
                end,
                [e for e in self.entities if e.start <= start < e.end],
            )

    def _decided_by(self, start: int, end: int) -> list[str]:
        """The assertions that a piece of the text decided, as part of a cue."""
        assertions = [
            entity.assertion
            for entity in self.entities
            if entity.cue_start is not None
            and entity.cue_end is not None
            and entity.cue_start <= start
            and end <= entity.cue_end
        ]
        return list(dict.fromkeys(assertions))

    def _colour(self, entity: Entity) -> str:
        return _COLOURS[self.labels.index(entity.label) % len(_COLOURS)]


def extents(entities: Iterable[Entity | Span]) -> list[tuple[int, int, str]]:
    """Start, end and label of each entity."""
    return [(entity.start, entity.end, entity.label) for entity in entities]


def _printable(text: str) -> str:
    """The text without control characters, which could control the terminal."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\ufffd"
        for char in text
    )
