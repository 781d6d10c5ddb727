"""IOB2 (CoNLL) files, read and written; PubTator and BRAT standoff, read."""

from __future__ import annotations

import re
from pathlib import Path

from biomed.corpora.documents import OUTSIDE, CorpusError, Document, Span, TaggedText

DOCUMENT_MARK = "-DOCSTART-"
_STARTS = re.compile("O|B-.+")
_TEXT_LINE = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
_WORDS = re.compile(r"\w+")  # of a mention; some files lost its quotation marks


def read_iob2(path: Path) -> list[TaggedText]:
    """Read sentences: a word and its tag on each line, a blank line between sentences.

    The word is the first column and the tag the last. Columns are separated by tabs, or by spaces
    on a line without tabs. `-DOCSTART-` lines are skipped.
    An invalid line is a `CorpusError` with its number.
    """
    sentences = []
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate([*_lines(path), ""], start=1):
        if not line.strip() or line.startswith(DOCUMENT_MARK):
            if words:
                sentences.append(TaggedText(tuple(words), tuple(tags)))
                words, tags = [], []
            continue
        word, *others = (
            cell.strip()
            for cell in (line.split("\t") if "\t" in line else line.split())
        )
        if not word or not others:
            raise CorpusError(
                f"{path.name}, line {number}: expected a word and a tag, separated by a tab"
            )
        tag, before = others[-1], tags[-1] if tags else OUTSIDE
        continues = tag.startswith("I-") and before in (tag, f"B-{tag[2:]}")
        if not continues and not _STARTS.fullmatch(tag):
            raise CorpusError(
                f"{path.name}, line {number}: expected a tag O, B-type, or I-type that continues "
                "an entity (IOB2); convert the file first"
            )
        words.append(word)
        tags.append(tag)
    return sentences


def is_pubtator(path: Path) -> bool:
    """Whether the first non-blank line is a title."""
    with path.open(encoding="utf-8-sig", errors="replace") as handle:
        first = next((line for line in handle if line.strip()), "")
    return bool(re.match(r"[^|\t]+\|t\|", first))


def read_pubtator(path: Path) -> list[Document]:
    """Read documents: `id|t|title`, `id|a|abstract`, then tab-separated mentions.

    A text is its title, a line break, and its abstract. Relations (four columns) are skipped.
    A mention that differs from the text at its offsets, or another invalid line, is a
    `CorpusError` with its number.
    """
    documents = []
    parts: dict[str, str] = {}
    spans: list[Span] = []
    current = ""
    for number, line in enumerate([*_lines(path), ""], start=1):
        match = _TEXT_LINE.fullmatch(line)
        if parts and (not line.strip() or (match and match[1] != current)):
            documents.append(Document(current, _joined(parts), tuple(spans)))
            parts, spans = {}, []
        if match:
            current = match[1]
            parts[match[2]] = match[3]
        elif line.strip() and (
            span := _mention(
                line.split("\t"), parts, current, f"{path.name}, line {number}"
            )
        ):
            spans.append(span)
    return documents


def _joined(parts: dict[str, str]) -> str:
    return f"{parts.get('t', '')}\n{parts.get('a', '')}"


def _mention(
    columns: list[str], parts: dict[str, str], current: str, where: str
) -> Span | None:
    if len(columns) < 2 or not parts:
        raise CorpusError(
            f"{where}: expected a title (id|t|…), an abstract (id|a|…) or a mention"
        )
    if columns[0] != current:
        msg = (
            f"{where}: a mention of document {columns[0]!r} under document {current!r}"
        )
        raise CorpusError(msg)
    if not columns[1].isdigit():
        return None  # a relation
    if len(columns) < 5 or not columns[2].isdigit():
        msg = f"{where}: expected a mention as id, start, end, text, type, separated by tabs"
        raise CorpusError(msg)
    start, end = int(columns[1]), int(columns[2])
    if not start < end or _WORDS.findall(_joined(parts)[start:end]) != _WORDS.findall(
        columns[3]
    ):
        raise CorpusError(
            f"{where}: characters {start} to {end} differ from the mention in the file; offsets "
            "count the title, one character, then the abstract"
        )
    return Span(
        start, end, columns[4].strip(), id=columns[5].strip() if columns[5:] else ""
    )


def is_brat(path: Path) -> bool:
    """Whether this is a folder with annotation files."""
    return path.is_dir() and any(path.glob("*.ann"))


def read_brat(folder: Path) -> list[Document]:
    """Read documents, `name.txt` beside `name.ann`, sorted by name.

    Only entities (T lines) are read; relations, events, attributes and notes are skipped.
    A mention that differs from the text at its offsets, or another invalid T line, is a
    `CorpusError` with its number.
    """
    documents = []
    for file in sorted(folder.glob("*.ann")):
        source = file.with_suffix(".txt")
        if not source.is_file():
            raise CorpusError(
                f"{file.name} has no text: expected {source.name} beside it"
            )
        text = _decoded(source, "utf-8")  # offsets count "\r\n" as two characters
        spans = [
            _brat_span(line, text, f"{file.name}, line {number}")
            for number, line in enumerate(_lines(file), start=1)
            if line.startswith("T")
        ]
        documents.append(Document(file.stem, text, tuple(spans)))
    return documents


def _brat_span(line: str, text: str, where: str) -> Span:
    columns = line.split("\t")
    try:
        label, offsets = columns[1].split(" ", maxsplit=1)
        fragments = [tuple(map(int, part.split())) for part in offsets.split(";")]
        pieces = [text[start:end] for start, end in fragments]
    except (IndexError, ValueError):
        msg = f"{where}: expected an entity as T-number, tab, type start end, tab, text"
        raise CorpusError(msg) from None
    quoted = " ".join(columns[2:3]).split()
    # BRAT writes line breaks as spaces, and joins fragments with a space.
    if not all(pieces) or " ".join(pieces).split() != quoted:
        raise CorpusError(
            f"{where}: the text at its offsets differs from the mention in the file"
        )
    start, end = min(fragments)[0], max(end for _, end in fragments)
    # A mention across a line break also has two fragments, with only the break between them.
    return Span(start, end, label, discontinuous=text[start:end].split() != quoted)


def _decoded(path: Path, encoding: str = "utf-8-sig") -> str:
    try:
        return path.read_bytes().decode(encoding)
    except UnicodeDecodeError as error:
        msg = f"{path.name} is not UTF-8 (byte {error.start}); convert it first"
        raise CorpusError(msg) from None


def _lines(path: Path) -> list[str]:
    """The lines, split at line ends only (`splitlines` splits at other characters too)."""
    return re.split("\r\n|\r|\n", _decoded(path))
