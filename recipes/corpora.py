"""Write corpora as IOB2, and join corpora that annotate the same texts."""

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
    n_texts = 0
    with atomic_path(path) as temporary:
        with temporary.open(
            "w", encoding="utf-8", errors="replace", newline="\n"
        ) as file:
            for text in texts:
                if not all(map(_fits, text.words)):
                    msg = "a word that IOB2 cannot hold: empty, with a tab or line break, or a mark"
                    raise CorpusError(msg)
                rows = zip(text.words, text.tags, strict=True)
                file.writelines(f"{word}\t{tag}\n" for word, tag in rows)
                file.write("\n")
                n_texts += 1
        if not n_texts:
            raise CorpusError("there is no text to write")


def _fits(word: str) -> bool:
    if not word or word != word.strip():
        return False
    has_separator = any(mark in word for mark in "\t\r\n")
    is_mark = word.startswith((DOCUMENT_MARK, BYTE_ORDER_MARK))
    return not has_separator and not is_mark


def overlaid(corpora: Sequence[Corpus]) -> list[Corpus]:
    """Corpora that annotate different types in the same training texts, joined into one.

    The joined corpus is called after its parts ("a+b") and has the sides that all parts have with
    the same texts. Of entities that overlap, the longest stays. Other corpora are unchanged.
    """
    groups: dict[tuple[tuple[str, ...], ...], list[Corpus]] = {}
    for corpus in corpora:
        words = _words(corpus.train) if corpus.train else ()
        groups.setdefault(words, []).append(corpus)
    return list(map(_joined, groups.values()))


def _words(gold: Gold) -> tuple[tuple[str, ...], ...]:
    return tuple(text.words for text in gold.texts)


def _joined(group: Sequence[Corpus]) -> Corpus:
    if len(group) == 1:
        return group[0]
    sides: dict[str, Gold | None] = dict.fromkeys(SIDES)
    for side in SIDES:
        golds = [
            corpus.sides[side] for corpus in group if side in corpus.sides
        ]
        have_same_texts = len(set(map(_words, golds))) == 1
        if len(golds) == len(group) and have_same_texts:
            rows = zip(*(gold.texts for gold in golds), strict=True)
            sides[side] = Gold(golds[0].name, tuple(map(_with_all, rows)))
    return Corpus("+".join(corpus.name for corpus in group), **sides)


def _with_all(texts: Sequence[TaggedText]) -> TaggedText:
    """One text with the entities of all."""
    words = texts[0].words
    spans = [Span(*span) for text in texts for span in spans_of(text.tags)]
    different_spans = tuple(dict.fromkeys(spans))
    kept = flat_spans(Document("", "", different_spans))
    triples = [(span.start, span.end, span.label) for span in kept]
    return TaggedText(words, tuple(tags_of(triples, words=len(words))))
