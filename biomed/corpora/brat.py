"""Reader for BRAT standoff folders: `name.txt` beside `name.ann`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from biomed.corpora.documents import Document, Span
from biomed.corpora.tags import CorpusError

if TYPE_CHECKING:
    from pathlib import Path

_COLUMNS = 3  # id, type with offsets, mention


def is_brat(path: Path) -> bool:
    """Whether this is a folder with annotation files."""
    return path.is_dir() and any(path.glob("*.ann"))


def read_brat(folder: Path) -> list[Document]:
    """Read the documents of a folder, sorted by name.

    Only entities (T lines) are read; relations, events, attributes and notes are skipped.

    Raises:
        CorpusError: an annotation file without its text, a malformed T line, or a mention that
            differs from the text at its offsets. The message names the file and the line.
    """
    return [_document(file) for file in sorted(folder.glob("*.ann"))]


def _document(file: Path) -> Document:
    source = file.with_suffix(".txt")
    if not source.is_file():
        msg = f"{file.name} has no text: expected {source.name} beside it"
        raise CorpusError(msg)
    try:
        # Read as bytes, so that "\r\n" stays two characters: offsets count both.
        text = source.read_bytes().decode("utf-8")
        lines = file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        msg = f"{file.stem}: not UTF-8 (byte {error.start}); convert it first"
        raise CorpusError(msg) from None
    spans = [
        _span(line, text, f"{file.name}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.startswith("T")
    ]
    return Document(file.stem, text, tuple(spans))


def _span(line: str, text: str, where: str) -> Span:
    columns = line.rstrip("\r").split("\t")
    try:
        label, offsets = columns[1].split(" ", maxsplit=1)
        fragments = [tuple(map(int, part.split())) for part in offsets.split(";")]
        pieces = [text[start:end] for start, end in fragments]
    except (IndexError, ValueError):
        msg = f"{where}: expected an entity as T-number, tab, type start end, tab, text"
        raise CorpusError(msg) from None
    quoted = columns[2] if len(columns) >= _COLUMNS else ""
    # BRAT writes line breaks as spaces, and joins fragments with a space.
    if not all(pieces) or " ".join(pieces).split() != quoted.split():
        msg = f"{where}: the text at its offsets differs from the mention in the file"
        raise CorpusError(msg)
    start = min(fragment[0] for fragment in fragments)
    end = max(fragment[1] for fragment in fragments)
    # A mention across a line break also has two fragments, with only the break between them.
    return Span(start, end, label, discontinuous=text[start:end].split() != quoted.split())
