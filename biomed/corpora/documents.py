"""Documents with character spans, and their conversion to words with IOB2 tags."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from biomed.corpora.tags import CorpusError, TaggedText, tags_of
from biomed.corpora.words import split_words

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Span:
    """An entity of type `label` at characters `start` to `end` of a text.

    A discontinuous mention ("breast … cancer") has its extent, from first to last character.
    """

    start: int
    end: int
    label: str
    discontinuous: bool = False


@dataclass(frozen=True)
class Document:
    """A document with its gold spans, as read from its file."""

    id: str
    text: str = field(repr=False)
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Remark:
    """How a gold span was changed to fit IOB2; contains no text."""

    document: str
    start: int
    end: int
    what: str


DISCONTINUOUS = "discontinuous: replaced by its extent"
OVERLAPS = "overlaps a longer span: left out"
INSIDE_WORD = "begins or ends inside a word: widened to whole words"
NO_WORD = "covers no word: left out"


def flat_spans(document: Document) -> tuple[list[Span], list[Remark]]:
    """Remove overlaps: of overlapping spans keep the longest, of equal ones the first.

    Returns:
        The remaining spans in text order, and a remark for each span removed or discontinuous.
    """
    remarks = [
        Remark(document.id, span.start, span.end, DISCONTINUOUS)
        for span in document.spans
        if span.discontinuous
    ]
    kept: list[Span] = []
    for span in sorted(document.spans, key=lambda s: (s.start - s.end, s.start)):
        if any(span.start < other.end and other.start < span.end for other in kept):
            remarks.append(Remark(document.id, span.start, span.end, OVERLAPS))
        else:
            kept.append(span)
    return sorted(kept, key=lambda s: s.start), remarks


def tagged(document: Document) -> tuple[TaggedText, list[Remark]]:
    """The document's words (see `split_words`) with IOB2 tags.

    A span that begins or ends inside a word is widened to whole words.

    Returns:
        Words and tags, and a remark for each span that was changed or left out.

    Raises:
        CorpusError: a span outside its text.
    """
    for span in document.spans:
        if not 0 <= span.start < span.end <= len(document.text):
            msg = (
                f"document {document.id}: characters {span.start} to {span.end} are not within its "
                f"text of {len(document.text)}"
            )
            raise CorpusError(msg)
    spans, remarks = flat_spans(document)
    words = split_words(document.text)
    found: list[tuple[int, int, str]] = []
    for span in spans:
        first, last = _covered(words, span)
        if first >= last or (found and first < found[-1][1]):
            reason = NO_WORD if first >= last else OVERLAPS
            remarks.append(Remark(document.id, span.start, span.end, reason))
            continue
        if (words[first, 0], words[last - 1, 1]) != (span.start, span.end):
            remarks.append(Remark(document.id, span.start, span.end, INSIDE_WORD))
        found.append((first, last, span.label))
    texts = tuple(document.text[start:end] for start, end in words)
    return TaggedText(texts, tuple(tags_of(found, words=len(words)))), remarks


def _covered(words: np.ndarray, span: Span) -> tuple[int, int]:
    """The words that a span touches: the first, and one past the last."""
    first = int(np.searchsorted(words[:, 1], span.start, side="right"))
    return first, int(np.searchsorted(words[:, 0], span.end, side="left"))


def relabelled(spans: Sequence[Span], labels: dict[str, str]) -> tuple[Span, ...]:
    """Rename entity types; spans whose type maps to "" are dropped, unmapped types are kept."""
    named = [(span, labels.get(span.label, span.label)) for span in spans]
    return tuple(
        Span(span.start, span.end, label, span.discontinuous) for span, label in named if label
    )
