"""Reader for PubTator files: `id|t|title`, `id|a|abstract`, then tab-separated mentions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from biomed.corpora.documents import Document, Span
from biomed.corpora.tags import CorpusError

if TYPE_CHECKING:
    from pathlib import Path

_TEXT_LINE = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
_MENTION_COLUMNS = 5  # id, start, end, mention, type


def is_pubtator(path: Path) -> bool:
    """Whether the first non-blank line is a title."""
    with path.open(encoding="utf-8-sig", errors="replace") as handle:
        first = next((line for line in handle if line.strip()), "")
    return bool(re.match(r"[^|\t]+\|t\|", first))


def read_pubtator(path: Path) -> list[Document]:
    """Read the documents of a file. A text is its title, a line break, and its abstract.

    Relation lines (four columns) are skipped.

    Raises:
        CorpusError: a malformed line, a mention of another document, or a mention that differs
            from the text at its offsets. The message has the line number.
    """
    documents: list[Document] = []
    parts: dict[str, str] = {}
    spans: list[Span] = []
    current = ""

    def finish() -> None:
        if parts:
            documents.append(Document(current, _joined(parts), tuple(spans)))
            parts.clear()
            spans.clear()

    for number, line in enumerate(_read(path).split("\n"), start=1):
        where = f"{path.name}, line {number}"
        if not line.strip():
            finish()
        elif match := _TEXT_LINE.fullmatch(line):
            if parts and match[1] != current:
                finish()
            current = match[1]
            parts[match[2]] = match[3]
        elif span := _mention(line.split("\t"), parts, current, where):
            spans.append(span)
    finish()
    return documents


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{path.name} is not UTF-8 (byte {error.start}); convert it first"
        raise CorpusError(msg) from None


def _joined(parts: dict[str, str]) -> str:
    return f"{parts.get('t', '')}\n{parts.get('a', '')}"


def _mention(columns: list[str], parts: dict[str, str], current: str, where: str) -> Span | None:
    if len(columns) < 2 or not parts:
        msg = f"{where}: expected a title (id|t|…), an abstract (id|a|…) or a mention"
        raise CorpusError(msg)
    if columns[0] != current:
        msg = f"{where}: a mention of document {columns[0]!r} under document {current!r}"
        raise CorpusError(msg)
    if not columns[1].isdigit():
        return None  # a relation
    if len(columns) < _MENTION_COLUMNS or not columns[2].isdigit():
        msg = f"{where}: expected a mention as id, start, end, text, type, separated by tabs"
        raise CorpusError(msg)
    start, end = int(columns[1]), int(columns[2])
    if not start < end or _joined(parts)[start:end].split() != columns[3].split():
        msg = (
            f"{where}: characters {start} to {end} differ from the mention in the file; offsets "
            "count the title, one character, then the abstract"
        )
        raise CorpusError(msg)
    return Span(start, end, columns[4].strip())
