"""`Entity`, the result of tagging."""

from __future__ import annotations

from dataclasses import dataclass

SCORE_KIND = "span_probability"


@dataclass(frozen=True)
class Entity:
    """A mention in a text: `text[entity.start : entity.end] == entity.text`.

    Attributes:
        start: first character.
        end: one past the last character.
        text: the mention, unchanged.
        label: entity type, such as "Disease".
        score: the network's probability, in (0, 1], of an entity of this type at exactly these
            words: B for the first word, I for the others, and not I for the word after them,
            with words taken as independent. Tables name this kind of score "span_probability".
    """

    start: int
    end: int
    text: str
    label: str
    score: float
