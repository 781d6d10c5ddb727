"""IOB2 tags and spans of words: `B-x` starts an entity of type x, `I-x` continues it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OUTSIDE = "O"


class CorpusError(UserError):
    """A corpus that cannot be read; the message names the file, the line and the fix."""


@dataclass(frozen=True)
class TaggedText:
    """The words of a sentence or document, with one IOB2 tag each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]

    def __repr__(self) -> str:
        """Counts only: the words may come from a patient's note."""
        return f"TaggedText({len(self.words)} words, {len(spans_of(self.tags))} entities)"


def spans_of(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """The entities of a tag sequence, by seqeval's strict mode.

    An `I-x` that follows `O` or another type is invalid and belongs to no entity.

    Returns:
        (first word, one past the last, type) of each, in order.
    """
    spans: list[tuple[int, int, str]] = []
    start, kind = 0, ""
    for number, tag in enumerate([*tags, OUTSIDE]):
        if kind and tag != f"I-{kind}":
            spans.append((start, number, kind))
            kind = ""
        if tag.startswith("B-"):
            start, kind = number, tag[2:]
    return spans


def tags_of(spans: Iterable[tuple[int, int, str]], *, words: int) -> list[str]:
    """The tags of `words` words with these entities, which must not overlap.

    Args:
        spans: (first word, one past the last, type) of each.
        words: length of the sequence.
    """
    tags = [OUTSIDE] * words
    for start, end, kind in spans:
        tags[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
    return tags


def fault_of(tag: str, *, before: str) -> str:
    """What is wrong with a tag after the tag `before`; "" if nothing is."""
    if tag == OUTSIDE or (tag.startswith("B-") and len(tag) > len("B-")):
        return ""
    if not tag.startswith("I-") or len(tag) == len("I-"):
        return "expected a tag O, B-type or I-type"
    if before[2:] == tag[2:] and before[:2] in ("B-", "I-"):
        return ""
    return f"{tag} continues no entity: IOB2 starts every entity with B-; convert the file first"
