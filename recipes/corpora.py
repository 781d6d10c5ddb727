"""Corpora that are written, and corpora of the same texts that are joined into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from biomed.corpora import Corpus, Document, Gold, Span, TaggedText
from biomed.corpora.conll import DOCUMENT_MARK
from biomed.corpora.corpus import SIDES
from biomed.corpora.documents import CorpusError, flat_spans, spans_of, tags_of
from domainbert.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

BYTE_ORDER_MARK = "\ufeff"


def write_iob2(texts: Iterable[TaggedText], path: Path) -> None:
    """Stream sentences into a file for `read_conll`; nothing is left if it fails.

    Raises:
        CorpusError: no sentence, or a word that IOB2 cannot hold.
    """
    written = False
    with atomic_path(path) as temporary:
        with temporary.open(
            "w", encoding="utf-8", errors="replace", newline="\n"
        ) as handle:
            for text in texts:
                if any(not _fits(word) for word in text.words):
                    msg = "a word that IOB2 cannot hold: empty, with a tab or line break, or a mark"
                    raise CorpusError(msg)
                handle.writelines(
                    f"{word}\t{tag}\n"
                    for word, tag in zip(text.words, text.tags, strict=True)
                )
                handle.write("\n")
                written = True
        if not written:
            msg = "there is no text to write"
            raise CorpusError(msg)


def _fits(word: str) -> bool:
    is_plain = word == word.strip() != "" and not set(word) & set("\t\r\n")
    return is_plain and not word.startswith((DOCUMENT_MARK, BYTE_ORDER_MARK))


def overlaid(corpora: Sequence[Corpus]) -> list[Corpus]:
    """Corpora that annotate different types in the same training texts, joined into one.

    The joined corpus is called after its parts ("a+b") and has the sides that all parts have with
    the same texts. Of entities that overlap, the longest stays. Other corpora are unchanged.
    """
    groups: dict[tuple[tuple[str, ...], ...], list[Corpus]] = {}
    for corpus in corpora:
        groups.setdefault(_words(corpus.train), []).append(corpus)
    return [
        group[0] if len(group) == 1 else _joined(group)
        for group in groups.values()
    ]


def _words(gold: Gold) -> tuple[tuple[str, ...], ...]:
    return tuple(text.words for text in gold.texts)


def _joined(group: Sequence[Corpus]) -> Corpus:
    golds: dict[str, Gold | None] = dict.fromkeys(SIDES)
    for side in SIDES:
        parts = [
            corpus.sides[side] for corpus in group if side in corpus.sides
        ]
        if (
            len(parts) == len(group)
            and len({_words(gold) for gold in parts}) == 1
        ):
            rows = zip(*(gold.texts for gold in parts), strict=True)
            golds[side] = Gold(
                parts[0].name, tuple(_with_all(texts) for texts in rows)
            )
    return Corpus("+".join(corpus.name for corpus in group), **golds)


def _with_all(texts: Sequence[TaggedText]) -> TaggedText:
    words = texts[0].words
    spans = [Span(*span) for text in texts for span in spans_of(text.tags)]
    kept = flat_spans(Document("", "", tuple(dict.fromkeys(spans))))
    tags = tags_of(
        [(span.start, span.end, span.label) for span in kept], words=len(words)
    )
    return TaggedText(words, tuple(tags))
