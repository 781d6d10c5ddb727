"""IOB2 (CoNLL) files: a word and its tag a line, a blank line after each sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from biomed.corpora.tags import OUTSIDE, CorpusError, TaggedText, fault_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

DOCUMENT_MARK = "-DOCSTART-"


def read_iob2(path: Path) -> list[TaggedText]:
    """The sentences of a file.

    The word is the first column and the tag the last; columns are parted by tabs, or where a
    line has none, by spaces. `-DOCSTART-` lines are skipped.

    Raises:
        CorpusError: a line without a tag, or a tag that breaks IOB2, with the line's number.
    """
    sentences = []
    words: list[str] = []
    tags: list[str] = []
    for number, line in _lines(path):
        if not line.strip() or line.startswith(DOCUMENT_MARK):
            if words:
                sentences.append(TaggedText(tuple(words), tuple(tags)))
                words, tags = [], []
            continue
        columns = line.split("\t") if "\t" in line else line.split()
        if len(columns) < 2 or not columns[0].strip():
            msg = f"{path.name}, line {number}: expected a word and a tag, parted by a tab or space"
            raise CorpusError(msg)
        tag = columns[-1].strip()
        if fault := fault_of(tag, before=tags[-1] if tags else OUTSIDE):
            msg = f"{path.name}, line {number}: {fault}"
            raise CorpusError(msg)
        words.append(columns[0].strip())
        tags.append(tag)
    if words:
        sentences.append(TaggedText(tuple(words), tuple(tags)))
    return sentences


def write_iob2(texts: Iterable[TaggedText], path: Path) -> None:
    """Write sentences as `read_iob2` reads them, parted by tabs; streamed, and whole or not at all.

    Raises:
        CorpusError: no sentence, or a word that such a file cannot hold.
    """
    from domainbert.tables import atomic_path

    written = False
    with atomic_path(path) as temporary:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="\n") as handle:
            for text in texts:
                if any(not _fits(word) for word in text.words):
                    msg = "a word that IOB2 cannot hold: empty, with a tab or line break, or a mark"
                    raise CorpusError(msg)
                handle.writelines(
                    f"{word}\t{tag}\n" for word, tag in zip(text.words, text.tags, strict=True)
                )
                handle.write("\n")
                written = True
        if not written:
            msg = "there is no text to write"
            raise CorpusError(msg)


def _fits(word: str) -> bool:
    whole = word == word.strip() != "" and not set(word) & set("\t\r\n")
    return whole and not word.startswith((DOCUMENT_MARK, "\ufeff"))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines; only line ends part them, not the odd characters that `splitlines` knows."""
    try:
        with path.open(encoding="utf-8-sig", newline=None) as handle:
            yield from enumerate((line.rstrip("\n") for line in handle), start=1)
    except UnicodeDecodeError as error:
        msg = f"{path.name} is not UTF-8 (byte {error.start} of a block); convert it first"
        raise CorpusError(msg) from None
