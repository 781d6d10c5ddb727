"""Errors of entity models by kind: wrong bounds, wrong type, missed, invented."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from biomed.corpora.documents import spans_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from biomed.corpora.documents import TaggedText

KINDS = ("right", "boundary", "type", "missed", "invented")
_LONGEST_SHORT = 6


def errors_by_kind(
    texts: Sequence[TaggedText], predicted: Sequence[Sequence[str]]
) -> dict[str, dict[str, int]]:
    """How many entities are right and wrong, of short forms and of others.

    A gold entity is right, has another type at its exact words (type), only overlaps a found one
    (boundary), or overlaps none (missed). A found one that overlaps no gold entity is invented.

    Args:
        texts: the gold standard.
        predicted: the tags of each text.

    Returns:
        {kind: {"short forms": count, "other": count}} for each of `KINDS`. A short form is one
        word of at most six letters, two of them or more capitals.
    """
    counts: Counter[tuple[str, bool]] = Counter()
    for text, tags in zip(texts, predicted, strict=True):
        gold, found = spans_of(text.tags), spans_of(tags)
        rows = [(_kind(span, found), span) for span in gold]
        rows += [("invented", span) for span in found if _kind(span, gold) == "missed"]
        counts.update((kind, _is_short(text.words[a:b])) for kind, (a, b, _) in rows)
    return {
        kind: {"short forms": counts[kind, True], "other": counts[kind, False]} for kind in KINDS
    }


def _kind(span: tuple[int, int, str], others: Sequence[tuple[int, int, str]]) -> str:
    near = [other for other in others if other[0] < span[1] and span[0] < other[1]]
    if not near:
        return "missed"
    if span in near:
        return "right"
    return "type" if any(other[:2] == span[:2] for other in near) else "boundary"


def _is_short(words: Sequence[str]) -> bool:
    letters = [c for c in words[0] if c.isalpha()]
    return len(words) == 1 and len(letters) <= _LONGEST_SHORT and sum(map(str.isupper, letters)) > 1
