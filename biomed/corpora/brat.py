"""BRAT standoff: folders with `name.txt` and its annotations, `name.ann`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from biomed.corpora.documents import (
    ASSERTION_VALUES,
    CorpusError,
    Document,
    Span,
    count_mentions,
    decoded,
    lines_of,
)

_REFERENCE = re.compile(r"N\d+\tReference (T\S+) (\S+)")
_ASSERTION = re.compile(r"A\d+\tAssertion (T\S+) (\w+)")


def is_brat(path: Path) -> bool:
    """Whether this is a folder with annotation files."""
    return path.is_dir() and any(path.glob("*.ann"))


def read_brat(folder: Path) -> list[Document]:
    """Read documents, `name.txt` beside `name.ann`, sorted by name.

    Entities (T lines) are read with the concept of their first reference (N lines) and the
    attribute `Assertion`; other annotations are skipped. A mention that differs from the
    text at its offsets, or another invalid T line, is listed in `Document.faults`.

    Raises:
        CorpusError: an annotation file has no text, or most T lines are invalid.
    """
    documents = [_read_document(file) for file in sorted(folder.glob("*.ann"))]
    count_mentions(documents)
    return documents


def _read_document(file: Path) -> Document:
    """The text and the entities of one .ann file."""
    source = file.with_suffix(".txt")
    if not source.is_file():
        raise CorpusError(
            f"{file.name} has no text: expected {source.name} beside it"
        )
    text = decoded(source, "utf-8")  # offsets count "\r\n" as two characters
    spans = {}
    faults = []
    lines = lines_of(file)
    for number, line in enumerate(lines, start=1):
        if not line.startswith("T"):
            continue
        span_or_fault = _entity(line.split("\t"), text)
        if isinstance(span_or_fault, Span):
            spans[line.split("\t")[0]] = span_or_fault
        else:
            faults.append(f"{file.name}, line {number}: {span_or_fault}")
    for line in lines:
        reference = _REFERENCE.match(line)
        if reference and (span := spans.get(reference[1])) and not span.id:
            spans[reference[1]] = replace(span, id=reference[2])
        attribute = _ASSERTION.match(line)
        if (
            attribute
            and attribute[1] in spans
            and attribute[2] in ASSERTION_VALUES
        ):
            span = spans[attribute[1]]
            spans[attribute[1]] = replace(span, assertion=attribute[2])
    return Document(file.stem, text, tuple(spans.values()), tuple(faults))


def _entity(columns: list[str], text: str) -> Span | str:
    """The span of a T line, or what is wrong with it."""
    try:
        label, offsets = columns[1].split(" ", maxsplit=1)
        fragments = [
            tuple(map(int, part.split())) for part in offsets.split(";")
        ]
        pieces = [text[start:end] for start, end in fragments]
    except (IndexError, ValueError):
        return "expected an entity as T-number, tab, type start end, tab, text"
    quoted = " ".join(columns[2:3]).split()
    # BRAT writes line breaks as spaces, and joins fragments with a space.
    if not all(pieces) or " ".join(pieces).split() != quoted:
        return "the text at its offsets differs from the mention in the file"
    start = min(fragments)[0]
    end = max(end for _, end in fragments)
    # A mention across a line break also has two fragments, with only the break between.
    is_discontinuous = text[start:end].split() != quoted
    return Span(start, end, label, discontinuous=is_discontinuous)
