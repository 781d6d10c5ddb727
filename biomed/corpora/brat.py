"""BRAT standoff: folders with `name.txt` and its annotations, `name.ann`."""

import re
from dataclasses import replace
from pathlib import Path

from biomed.corpora.documents import (
    ASSERTIONS,
    CorpusError,
    Document,
    Relation,
    Span,
    count_mentions,
    decoded,
    lines_of,
)

OWN_REFERENCE = "Dictionary:"
"""What we write before an id that names no source; it is left out when it is read."""
_REFERENCE = re.compile(r"^N\d+\tReference (T\S+) (\S+)", re.MULTILINE)
_ATTRIBUTE = re.compile(r"^[AM]\d+\t(\w+) (T\S+)(?: (\w+))?", re.MULTILINE)
# Attributes without a value, as in other corpora: "A1 Negated T1".
_BINARY = {
    "negated": "negated",
    "negation": "negated",
    "negative": "negated",
    "speculated": "possible",
    "speculation": "possible",
    "uncertain": "possible",
    "hypothetical": "possible",
    "possible": "possible",
    "historical": "historical",
    "family": "other",
    "other": "other",
    "allergy": "allergy",
}


def is_brat(path: Path) -> bool:
    """Whether this is a folder with annotation files."""
    return path.is_dir() and any(path.glob("*.ann"))


def read_brat(folder: Path) -> list[Document]:
    """Read documents, `name.txt` beside `name.ann`, sorted by name.

    Entities (T lines) are read with the concept of their first reference (N lines) and the
    attribute `Assertion`, or one without a value, such as `Negated`. Relations (R lines) join
    two entities; those with an event, and other annotations, are skipped. A mention that differs
    from the text at its offsets, or another invalid T or R line, is listed in
    `Document.faults`.

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
    spans = []  # with the names of their lines, which merged files repeat
    faults = []
    lines = lines_of(file)
    for number, line in enumerate(lines, start=1):
        if not line.startswith("T"):
            continue
        name, *columns = line.split("\t")
        entity = _entity(columns, text)
        if isinstance(entity, Span):
            spans.append((name, entity))
        else:
            faults.append(f"{file.name}, line {number}: {entity}")
    annotations = "\n".join(lines)
    # The first reference of an entity counts.
    ids = dict(reversed(_REFERENCE.findall(annotations)))
    assertions = _assertions(annotations)
    complete_spans = [
        replace(
            span,
            id=ids.get(name, "").removeprefix(OWN_REFERENCE),
            assertion=assertions.get(name, ""),
        )
        for name, span in spans
    ]
    names = (name for name, _ in spans)
    entities = dict(zip(names, complete_spans, strict=True))
    relations, invalid = _relations(lines, entities)
    faults += [f"{file.name}, {fault}" for fault in invalid]
    return Document(
        file.stem,
        text,
        tuple(complete_spans),
        tuple(faults),
        tuple(relations),
    )


def _relations(
    lines: list[str], entities: dict[str, Span]
) -> tuple[list[Relation], list[str]]:
    """The relations of R lines, and what is wrong with the others."""
    relations = []
    faults = []
    for number, line in enumerate(lines, start=1):
        relation = _relation(line, entities)
        if isinstance(relation, Relation):
            relations.append(relation)
        elif relation:
            faults.append(f"line {number}: {relation}")
    return relations, faults


def _relation(line: str, entities: dict[str, Span]) -> Relation | str:
    """The relation of an R line, or what is wrong with it; "" for another line."""
    if not line.startswith("R"):
        return ""
    label, *arguments = line.partition("\t")[2].split()
    ends = [argument.rpartition(":")[2] for argument in arguments]
    if len(ends) != 2:
        return "expected a relation as R-number, tab, type Arg1:T1 Arg2:T2"
    if any(end.startswith("E") for end in ends):
        return ""  # of an event
    if not set(ends) <= set(entities):
        return "a relation to an entity that was not read"
    first, second = [entities[end] for end in ends]
    return Relation(
        label,
        first.id,
        second.id,
        mentions=((first.start, first.end), (second.start, second.end)),
    )


def _assertions(annotations: str) -> dict[str, str]:
    """The assertion of each entity that has one."""
    assertions: dict[str, str] = {}
    for name, entity, value in _ATTRIBUTE.findall(annotations):
        if name == "Assertion" and value in ASSERTIONS:
            assertions[entity] = value
        elif not value and name.casefold() in _BINARY:
            assertions.setdefault(entity, _BINARY[name.casefold()])
    return assertions


def _entity(columns: list[str], text: str) -> Span | str:
    """The span of a T line, or what is wrong with it."""
    try:
        label, offsets = columns[0].split(" ", maxsplit=1)
        fragments = [
            tuple(map(int, part.split())) for part in offsets.split(";")
        ]
        pieces = [text[start:end] for start, end in fragments]
    except (IndexError, ValueError):
        return "expected an entity as T-number, tab, type start end, tab, text"
    quoted = " ".join(columns[1:]).split()  # a mention may contain tabs
    # BRAT writes line breaks as spaces, and joins fragments with a space.
    if not all(pieces) or " ".join(pieces).split() != quoted:
        return "the text at its offsets differs from the mention in the file"
    start = min(fragments)[0]
    end = max(end for _, end in fragments)
    # A mention across a line break also has two fragments, with only the break between.
    is_discontinuous = text[start:end].split() != quoted
    return Span(start, end, label, discontinuous=is_discontinuous)
