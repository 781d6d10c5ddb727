"""Words with IOB2 tags, documents with character spans, and the way from spans to tags.

`B-x` starts an entity of type x, `I-x` continues it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from biomed.corpora.words import split_words
from domainbert.errors import UserError

OUTSIDE = "O"
DISCONTINUOUS = "discontinuous: replaced by its extent"
OVERLAPS = "overlaps a longer span: left out"
INSIDE_WORD = "begins or ends inside a word: widened to whole words"
NO_WORD = "covers no word: left out"


class CorpusError(UserError):
    """A corpus that cannot be read; the message names the file, the line and the fix."""


@dataclass(frozen=True)
class TaggedText:
    """The words of a sentence or document, with one IOB2 tag each."""

    words: tuple[str, ...] = field(repr=False)  # they may come from a patient's note
    tags: tuple[str, ...] = field(repr=False)


def spans_of(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """The entities of a tag sequence: (first word, one past the last, type) of each, in order.

    As in seqeval's strict mode, an `I-x` that follows `O` or another type belongs to no entity.
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
    """The tags of `words` words with these entities (see `spans_of`), which must not overlap."""
    tags = [OUTSIDE] * words
    for start, end, kind in spans:
        tags[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
    return tags


@dataclass(frozen=True)
class Span:
    """An entity of type `label` at characters `start` to `end` of a text.

    A discontinuous mention ("breast … cancer") has its extent, from first to last character.
    `assertion` is one of `biomed.ner.assertion.ASSERTIONS`, and `id` is that of a concept; both are
    "" where the corpus has none.
    """

    start: int
    end: int
    label: str
    discontinuous: bool = False
    assertion: str = ""
    id: str = ""


@dataclass(frozen=True)
class Document:
    """A document with its gold spans, as read from its file."""

    id: str
    text: str = field(repr=False)
    spans: tuple[Span, ...]


def flat_spans(document: Document) -> list[Span]:
    """The longest of overlapping spans, in text order."""
    kept: list[Span] = []
    for span in sorted(document.spans, key=lambda s: (s.start - s.end, s.start)):
        if not any(span.start < other.end and other.start < span.end for other in kept):
            kept.append(span)
    return sorted(kept, key=lambda s: s.start)


def tagged(document: Document) -> tuple[TaggedText, list[str]]:
    """The document's words (see `split_words`) with tags, and how spans were changed to fit.

    Spans widen to whole words, and of overlapping spans the longest stays. The remarks name the
    document and the characters, and contain no text. A span outside the text is a `CorpusError`.
    """
    remarks = []

    def remark(span: Span, what: str) -> None:
        remarks.append(f"{document.id}, characters {span.start} to {span.end}: {what}")

    for span in document.spans:
        if not 0 <= span.start < span.end <= len(document.text):
            place = f"document {document.id}: characters {span.start} to {span.end}"
            raise CorpusError(
                f"{place} are not within its text of {len(document.text)}"
            )
        if span.discontinuous:
            remark(span, DISCONTINUOUS)
    words = split_words(document.text)
    found: list[tuple[int, int, str]] = []
    flat = flat_spans(document)
    for span in flat:
        # The words that the span touches.
        first = int(np.searchsorted(words[:, 1], span.start, side="right"))
        last = int(np.searchsorted(words[:, 0], span.end, side="left"))
        if first >= last or (found and first < found[-1][1]):
            remark(span, NO_WORD if first >= last else OVERLAPS)
            continue
        if (words[first, 0], words[last - 1, 1]) != (span.start, span.end):
            remark(span, INSIDE_WORD)
        found.append((first, last, span.label))
    for span in (s for s in document.spans if all(s is not other for other in flat)):
        remark(span, OVERLAPS)
    texts = tuple(document.text[start:end] for start, end in words)
    return TaggedText(texts, tuple(tags_of(found, words=len(words)))), remarks
