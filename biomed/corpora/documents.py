"""Words with IOB2 tags, documents with character spans, and the way from spans to tags.

`B-x` starts an entity of type x, `I-x` continues it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from biomed.corpora.words import split_words
from domainbert.errors import UserError

OUTSIDE = "O"
DISCONTINUOUS = "discontinuous: replaced by its extent"
OVERLAPS = "overlaps a longer span: left out"
INSIDE_WORD = "begins or ends inside a word: widened to whole words"
NO_WORD = "covers no word: left out"
Assertion = Literal[
    "other", "allergy", "negated", "possible", "historical", "present"
]
# In this order: of several that apply, the first counts.
ASSERTIONS: tuple[str, ...] = get_args(Assertion)

NO_CONCEPT = frozenset({"", "-", "-1"})
"""What files write for a mention without a concept."""

WordSpan = tuple[int, int, str]
"""First word, one past the last, and type of an entity."""

Extent = tuple[int, int]
"""First character of a mention, and one past its last."""


class CorpusError(UserError):
    """A corpus that cannot be read; the message names the file, the line and the fix."""


@dataclass(frozen=True)
class TaggedText:
    """The words of a sentence or document, with one IOB2 tag each."""

    # Not in the repr: the words may come from a patient's note.
    words: tuple[str, ...] = field(repr=False)
    tags: tuple[str, ...] = field(repr=False)

    @property
    def folded(self) -> tuple[str, ...]:
        """The words without differences of case."""
        return tuple(map(str.casefold, self.words))


def spans_of(tags: Sequence[str]) -> list[WordSpan]:
    """The entities of a tag sequence, in order.

    As in seqeval's strict mode, an `I-x` that follows `O` or another type belongs to no
    entity.
    """
    spans = []
    start = 0
    label = ""
    for number, tag in enumerate([*tags, OUTSIDE]):
        if label and tag != f"I-{label}":
            spans.append((start, number, label))
            label = ""
        if tag.startswith("B-"):
            start = number
            label = tag[2:]
    return spans


def tags_of(spans: Iterable[WordSpan], *, words: int) -> list[str]:
    """The tags of `words` words with these entities, which must not overlap."""
    tags = [OUTSIDE] * words
    for start, end, label in spans:
        tags[start] = f"B-{label}"
        tags[start + 1 : end] = [f"I-{label}"] * (end - start - 1)
    return tags


@dataclass(frozen=True)
class Span:
    """An entity of type `label` at characters `start` to `end` of a text.

    Attributes:
        start: its first character.
        end: one past its last character.
        label: its type.
        discontinuous: whether it is a mention in parts ("breast … cancer"), whose span is
            its extent, from first to last character.
        assertion: one of `ASSERTIONS`, or "" where the corpus has none.
        id: the id of a concept, or "" where the corpus has none.
    """

    start: int
    end: int
    label: str
    discontinuous: bool = False
    assertion: str = ""
    id: str = ""


@dataclass(frozen=True)
class Relation:
    """A relation of type `label` between two concepts, or two mentions, of a document.

    Attributes:
        label: its type, such as "CID" (a chemical that induces a disease).
        first: the id of the first concept; "" for a mention without one.
        second: the id of the second concept.
        mentions: start and end of the two mentions, where the corpus relates mentions; None
            where it relates concepts.
        novelty: whether the document is the first to report it, as BioRED writes it: "Novel" or
            "No"; "" in other corpora.
    """

    label: str
    first: str
    second: str
    mentions: tuple[Extent, Extent] | None = None
    novelty: str = ""


@dataclass(frozen=True)
class Document:
    """A document with its gold spans and relations, as read from its file.

    `faults` say which lines of the file were left out and why; they contain no text.
    """

    id: str
    text: str = field(repr=False)
    spans: tuple[Span, ...]
    faults: tuple[str, ...] = field(default=(), repr=False)
    relations: tuple[Relation, ...] = field(default=(), repr=False)


def concepts_of(span_id: str) -> set[str]:
    """The id of a mention, and its parts where it names several, as "D000544|D003072" does."""
    return {span_id, *re.split(r"[|,;]", span_id)} - NO_CONCEPT


def flat_spans(document: Document) -> list[Span]:
    """The longest of overlapping spans, in text order."""
    longest_first = sorted(
        document.spans,
        key=lambda s: (s.start - s.end, s.start),
    )
    kept: list[Span] = []
    for span in longest_first:
        overlaps = (span.start < k.end and k.start < span.end for k in kept)
        if not any(overlaps):
            kept.append(span)
    return sorted(kept, key=lambda s: s.start)


def tagged(document: Document) -> tuple[TaggedText, list[str]]:
    """The document's words (see `split_words`) with tags, and remarks on changed spans.

    Spans widen to whole words, and of overlapping spans the longest stays. The remarks
    name the document and the characters, and contain no text.

    Raises:
        CorpusError: a span outside the text.
    """
    _check_spans(document)
    remarks = [
        _remark(document, span, DISCONTINUOUS)
        for span in document.spans
        if span.discontinuous
    ]
    words = split_words(document.text)
    word_spans: list[WordSpan] = []
    flat = flat_spans(document)
    for span in flat:
        # The words that the span touches.
        first = int(np.searchsorted(words[:, 1], span.start, side="right"))
        last = int(np.searchsorted(words[:, 0], span.end, side="left"))
        if first >= last:
            remarks.append(_remark(document, span, NO_WORD))
            continue
        if word_spans and first < word_spans[-1][1]:
            remarks.append(_remark(document, span, OVERLAPS))
            continue
        if (words[first, 0], words[last - 1, 1]) != (span.start, span.end):
            remarks.append(_remark(document, span, INSIDE_WORD))
        word_spans.append((first, last, span.label))
    # By identity: a corpus may have the same span twice.
    kept_ids = {id(span) for span in flat}
    overlapping = [span for span in document.spans if id(span) not in kept_ids]
    remarks += [_remark(document, span, OVERLAPS) for span in overlapping]
    texts = tuple(document.text[start:end] for start, end in words)
    tags = tags_of(word_spans, words=len(words))
    return TaggedText(texts, tuple(tags)), remarks


def _check_spans(document: Document) -> None:
    size = len(document.text)
    for span in document.spans:
        if not 0 <= span.start < span.end <= size:
            raise CorpusError(
                f"document {document.id}: characters {span.start} to {span.end} are not "
                f"within its text of {size}"
            )


def _remark(document: Document, span: Span, change: str) -> str:
    return f"{document.id}, characters {span.start} to {span.end}: {change}"


# --- what the readers of files share


def decoded(path: Path, encoding: str = "utf-8-sig") -> str:
    """The text of a UTF-8 file; by default without the byte order mark."""
    try:
        return path.read_bytes().decode(encoding)
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{path.name} is not UTF-8 (byte {error.start}); convert it first"
        ) from None


def lines_of(path: Path) -> list[str]:
    """The lines, split at line ends only (`splitlines` splits at other characters too)."""
    return re.split("\r\n|\r|\n", decoded(path))


def refuse_if_most(faults: Sequence[str], *, read: int, what: str) -> None:
    """Raise a `CorpusError` if more items cannot be read than can.

    A few faults are slips, which are listed and left out; many mean another format.
    """
    if len(faults) <= read:
        return
    count = f"{len(faults)} of {len(faults) + read} {what} cannot be read"
    raise CorpusError(f"{faults[0]}; {count}")


def count_mentions(documents: Sequence[Document]) -> int:
    """The number of mentions; a `CorpusError` if most cannot be read."""
    span_count = sum(len(document.spans) for document in documents)
    faults = [fault for document in documents for fault in document.faults]
    refuse_if_most(faults, read=span_count, what="mentions")
    return span_count
