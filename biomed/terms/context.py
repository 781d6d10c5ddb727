"""A term's vector from sentences that contain it: the mean of its own tokens there."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.errors import UserError
from domainbert.inference import chunked
from domainbert.pooling import hidden_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import torch

    from biomed.terms.embedder import TermEmbedder

SENTENCES = 20  # per term; more change its vector little
_WORD = re.compile(r"\w+|[^\w\s]")
_HALF_PAIR = re.compile("[\ud800-\udfff]")  # no tokenizer takes a text with one


@dataclass(frozen=True)
class Mention:
    """An occurrence of a term: its number, the sentence, and its characters there."""

    term: int
    sentence: str = field(repr=False)
    start: int
    end: int


@dataclass(frozen=True)
class ContextVectors:
    """Vectors, shape (terms, dimension), float32, and sentences used for each, shape (terms,)."""

    vectors: np.ndarray = field(repr=False)
    sentences: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class _Span:
    """A window around a mention, and which of its tokens are the term's."""

    term: int
    input_ids: np.ndarray
    first: int
    last: int


def find_mentions(terms: Sequence[str], sentences: Iterable[str]) -> Iterator[Mention]:
    """Occurrences of terms in sentences, as whole words in any case; spacing does not matter.

    A sentence counts once for a term. Time grows with the length of the sentences, not with the
    number of terms.
    """
    by_first: dict[str, list[tuple[int, list[str]]]] = defaultdict(list)
    for number, term in enumerate(terms):
        if words := [word.lower() for word in _WORD.findall(term)]:
            by_first[words[0]].append((number, words))
    for sentence in sentences:
        found = [(m.group().lower(), m.start(), m.end()) for m in _WORD.finditer(sentence)]
        seen: set[int] = set()
        for i, (word, start, _) in enumerate(found):
            for number, words in by_first.get(word, ()):
                here = found[i : i + len(words)]
                if number not in seen and [w for w, *_ in here] == words:
                    seen.add(number)
                    yield Mention(number, sentence, start, here[-1][2])


def embed_in_context(
    embedder: TermEmbedder,
    terms: Sequence[str],
    sentences: Iterable[str],
    *,
    limit: int = SENTENCES,
) -> ContextVectors:
    """Vectors of terms, each the mean over sentences that contain it.

    In each sentence the term's own tokens are pooled (with pooling "cls": the sentence's [CLS]).
    A long sentence is read in a window around the term.

    Args:
        embedder: whose encoder, layers and pooling to use.
        terms: the terms; a term that is in no sentence is embedded alone.
        sentences: any number of them, streamed.
        limit: sentences read per term, at least 1; the first ones are used.

    Raises:
        ValueError: a term that cannot be embedded at all, or limit < 1.
    """
    if limit < 1:
        msg = f"limit must be at least 1 sentence for each term, got {limit}"
        raise UserError(msg)
    counts = np.zeros(len(terms), dtype=np.int64)
    sums = np.zeros((len(terms), embedder.dimension), dtype=np.float32)
    spans = _spans(embedder, find_mentions(terms, sentences), len(terms), limit)
    chunks = chunked(
        spans, size=lambda span: len(span.input_ids), limit=2 * embedder.runner.batch_tokens
    )
    for chunk in chunks:
        for span, vector in zip(chunk, _pooled_spans(embedder, chunk), strict=True):
            sums[span.term] += vector
            counts[span.term] += 1
    alone = np.flatnonzero(counts == 0).tolist()
    if alone:
        sums[alone] = embedder.embed([terms[i] for i in alone])
    return ContextVectors(embedder.scaled(sums / np.maximum(counts, 1)[:, None]), counts)


def _spans(
    embedder: TermEmbedder, mentions: Iterable[Mention], terms: int, limit: int
) -> Iterator[_Span]:
    left = np.full(terms, limit)
    for mention in mentions:
        if left[mention.term] and (span := _window_around(embedder, mention)):
            left[mention.term] -= 1
            yield span


def _window_around(embedder: TermEmbedder, mention: Mention) -> _Span | None:
    """The mention with as much of its sentence on both sides as fits; None if it alone does not."""
    text = mention.sentence
    parts = (text[: mention.start], text[mention.start : mention.end], text[mention.end :])
    # Cut at the ends of words, the parts have the tokens that the whole has.
    before, own, after = embedder.tokenizer(
        [_HALF_PAIR.sub("\ufffd", part) for part in parts],
        add_special_tokens=False,
        split_special_tokens=True,
        verbose=False,
    )["input_ids"]
    room = embedder.windower.window - 2 - len(own)
    if room < 0 or not own:
        return None
    before = before[len(before) - min(len(before), max(room // 2, room - len(after))) :]
    after = after[: room - len(before)]
    cls, sep = embedder.tokenizer.cls_token_id, embedder.tokenizer.sep_token_id
    ids = np.array([cls, *before, *own, *after, sep], dtype=np.int64)
    first = 1 + len(before)
    return _Span(mention.term, ids, first, first + len(own))


def _pooled_spans(embedder: TermEmbedder, spans: Sequence[_Span]) -> list[np.ndarray]:
    """The term's tokens of each window pooled, each of shape (dimension,)."""
    settings = embedder.settings

    def read(output: Any, _: torch.Tensor | None) -> torch.Tensor:
        hidden = hidden_states(output, layers=settings.layers)
        return hidden[:, :1] if settings.pooling == "cls" else hidden

    rows = embedder.runner.run([span.input_ids for span in spans], read=read)
    if settings.pooling == "cls":
        return [row[0] for row in rows]
    own = [row[span.first : span.last] for row, span in zip(rows, spans, strict=True)]
    return [part.max(axis=0) if settings.pooling == "max" else part.mean(axis=0) for part in own]
