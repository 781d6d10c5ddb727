"""Documents with entities as spans of characters, and how those become words with tags."""

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
    """Characters `start` to `end` of a text are an entity of type `label`.

    A discontinuous mention ("breast … cancer") is given by its extent, first to last character.
    """

    start: int
    end: int
    label: str
    discontinuous: bool = False


@dataclass(frozen=True)
class Document:
    """One document and its gold spans, as its file has them."""

    id: str
    text: str = field(repr=False)
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Remark:
    """What was done about a gold span that IOB2 cannot hold as it is; it quotes no text."""

    document: str
    start: int
    end: int
    what: str


DISCONTINUOUS = "discontinuous: its extent is taken"
OVERLAPS = "overlaps a longer span: left out"
INSIDE_WORD = "begins or ends inside a word: widened to whole words"
NO_WORD = "covers no word: left out"


def flat_spans(document: Document) -> tuple[list[Span], list[Remark]]:
    """The spans that stay when none may overlap another, in text order.

    Of spans that overlap the longest stays, of equals the first; a discontinuous one counts as
    its extent.

    Returns:
        The spans, and a remark for each that was not taken as it stood.
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
        Words and tags, and a remark for each span that was not taken as it stood.

    Raises:
        CorpusError: a span that is not within its text.
    """
    for span in document.spans:
        if not 0 <= span.start < span.end <= len(document.text):
            msg = (
                f"document {document.id}: characters {span.start} to {span.end} are no span of a "
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
    """The words that a span touches: first, and one past the last."""
    first = int(np.searchsorted(words[:, 1], span.start, side="right"))
    return first, int(np.searchsorted(words[:, 0], span.end, side="left"))


def relabelled(spans: Sequence[Span], labels: dict[str, str]) -> tuple[Span, ...]:
    """Spans under other type names; those whose type maps to "" are dropped.

    Types that the map does not name keep their name.
    """
    named = [(span, labels.get(span.label, span.label)) for span in spans]
    return tuple(
        Span(span.start, span.end, label, span.discontinuous) for span, label in named if label
    )
