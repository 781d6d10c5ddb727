"""What tagging returns."""

from __future__ import annotations

from dataclasses import dataclass

SCORE_KIND = "span_probability"


@dataclass(frozen=True)
class Entity:
    """A mention in a text: `text_given[start:end] == entity.text`.

    Attributes:
        start: its first character.
        end: one past its last.
        text: its characters, as they stand.
        label: its type, such as "Disease".
        score: the network's probability, in (0, 1], that an entity of this type stands exactly
            here: that its first word has the tag B, its other words I, and the word after it not
            I; the words are taken as independent, as the network's softmax has them. Tables call
            this kind of score "span_probability".
    """

    start: int
    end: int
    text: str
    label: str
    score: float
