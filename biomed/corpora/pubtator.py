"""PubTator files: a title, an abstract, mentions with character offsets, and relations."""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from biomed.corpora.documents import (
    ASSERTIONS,
    NO_CONCEPT,
    CorpusError,
    Document,
    Relation,
    Span,
    count_mentions,
    lines_of,
)

_TEXT_LINE = re.compile(r"([^|\t]+)\|([a-z])\|(.*)")
_MENTION_ID = re.compile(r"[A-Za-z]{0,2}\d+")  # T1
# The words of a mention: some files lost its quotation marks.
_WORDS = re.compile(r"\w+")


@dataclass
class _Draft:
    """The lines of a document: its parts of text, and numbered lines of cells."""

    id: str
    parts: list[str] = field(default_factory=list)
    rows: list[tuple[int, list[str]]] = field(default_factory=list)


def is_pubtator(path: Path) -> bool:
    """Whether a file is in PubTator's format: its first non-blank line is `ID|t|TITLE`."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8-sig", errors="replace") as handle:
        first = next((line for line in handle if line.strip()), "")
    return bool(re.match(r"[^|\t]+\|t\|", first))


def read_pubtator(path: Path) -> list[Document]:
    """Read documents: `id|t|title`, `id|a|abstract`, then tab-separated mentions.

    A text is its title and its further parts, joined by line breaks. A mention is `id,
    start, end, text, type` and perhaps the id of a concept, or has a column with its own id
    before the offsets (`id, T1, start, end, text, type` or `id, T1, type, start, end,
    text`). A relation is `id, type, concept, concept`, in BioRED with a column `Novel` or
    `No`. A mention that differs from the text at its offsets, or another invalid line, is
    left out and listed in `Document.faults`.

    Raises:
        CorpusError: no title comes first, most mentions are invalid, or none can be read.
    """
    documents = []
    other_rows = []  # line numbers of relations, or of mentions in another form
    for draft in _drafts(path):
        text = "\n".join(draft.parts)
        spans = []
        faults = []
        relations = []
        for number, cells in draft.rows:
            content = _content(cells, draft.id, text)
            if isinstance(content, Span):
                spans.append(content)
                continue
            if isinstance(content, Relation):
                relations.append(content)
                other_rows.append(number)
                continue
            faults.append(f"{path.name}, line {number}: {content}")
        documents.append(
            Document(
                draft.id,
                text,
                tuple(spans),
                tuple(faults),
                tuple(relations),
            )
        )
    if not count_mentions(documents) and other_rows:
        raise CorpusError(
            f"{path.name} has no mentions, but {len(other_rows)} lines in another form, "
            f"the first of them line {other_rows[0]}; expected id, start, end, text, type, "
            "separated by tabs"
        )
    return documents


def _drafts(path: Path) -> list[_Draft]:
    """The lines of each document; a title or another id starts one."""
    drafts: list[_Draft] = []
    for number, line in enumerate(lines_of(path), start=1):
        match = _TEXT_LINE.fullmatch(line)
        if match:
            if not drafts or match[1] != drafts[-1].id or match[2] == "t":
                drafts.append(_Draft(match[1]))
            drafts[-1].parts.append(match[3])
        elif line.strip():
            if not drafts:
                raise CorpusError(
                    f"{path.name}, line {number}: expected a title (id|t|…)"
                )
            drafts[-1].rows.append((number, line.split("\t")))
    return drafts


def _content(
    cells: list[str], document_id: str, text: str
) -> Span | Relation | str:
    """The mention or relation of a line, or what is wrong with it."""
    if len(cells) < 2:
        return "expected an abstract (id|a|…) or a mention, separated by tabs"
    if cells[0] != document_id:
        return f"a mention of document {cells[0]!r} under document {document_id!r}"
    # Where two whole numbers follow each other: the offsets, if their text fits.
    positions = [
        number
        for number, (start, end) in enumerate(pairwise(cells))
        if number and start.isdecimal() and end.isdecimal()
    ]
    for position in positions:
        if span := _span(cells, position, text):
            return span
    # A relation has a word in place of the offsets or of the id of a mention.
    has_id = positions and _MENTION_ID.fullmatch(cells[1])
    if cells[1][:1].isalpha() and not has_id:
        return _relation(cells)
    if not positions or len(cells) < 5:
        return "expected a mention as id, start, end, text, type, separated by tabs"
    start, end = cells[positions[0] :][:2]
    return (
        f"characters {start} to {end} differ from the mention in the file; offsets count "
        "the title, one character, then the abstract"
    )


def _relation(cells: list[str]) -> Relation | str:
    """The relation of a line without offsets, or what is wrong with it."""
    label, first, second, novelty, *_ = [
        cell.strip() for cell in [*cells[1:], "", "", ""]
    ]
    if not first or not second:
        return "expected a relation as id, type, concept, concept, separated by tabs"
    return Relation(label, first, second, novelty=novelty)


def _span(cells: list[str], position: int, text: str) -> Span | None:
    """The mention with offsets at a position, if its words are in the text there."""
    start = int(cells[position])
    end = int(cells[position + 1])
    mention, *after = [cell.strip() for cell in [*cells[position + 2 :], ""]]
    before = cells[1:position]
    if before and not _MENTION_ID.fullmatch(before[-1]):
        after.insert(0, before[-1].strip())
    label, concept, *_ = [*after, "", ""]
    is_there = start < end <= len(text) and _words(mention) == _words(
        text[start:end]
    )
    if not is_there or not label:
        return None
    if concept in NO_CONCEPT:
        concept = ""
    assertion = next((cell for cell in after[1:] if cell in ASSERTIONS), "")
    return Span(start, end, label, id=concept, assertion=assertion)


def _words(mention: str) -> list[str]:
    return _WORDS.findall(mention.casefold())
