"""Reader for IOB2 (CoNLL) files: a word and its tag a line, a blank line between sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from biomed.corpora.tags import OUTSIDE, CorpusError, TaggedText, fault_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCUMENT_MARK = "-DOCSTART-"


def read_iob2(path: Path) -> list[TaggedText]:
    """Read the sentences of a file.

    The word is the first column and the tag the last. Columns are separated by tabs, or by spaces
    on a line without tabs. `-DOCSTART-` lines are skipped.

    Raises:
        CorpusError: a line without a tag, or an invalid tag; the message has the line number.
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
            msg = f"{path.name}, line {number}: expected a word and a tag, separated by a tab"
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


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines, split at line ends only (`splitlines` splits at other characters too)."""
    try:
        with path.open(encoding="utf-8-sig", newline=None) as handle:
            yield from enumerate((line.rstrip("\n") for line in handle), start=1)
    except UnicodeDecodeError as error:
        msg = f"{path.name} is not UTF-8 (byte {error.start} of a block); convert it first"
        raise CorpusError(msg) from None
