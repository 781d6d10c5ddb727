"""BioC collections, as XML or JSON: passages with mentions, and relations."""

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from biomed.corpora.documents import (
    ASSERTIONS,
    NO_CONCEPT,
    CorpusError,
    Document,
    Extent,
    Relation,
    Span,
    count_mentions,
    decoded,
)
from domainbert.files import JsonObject

_START = 2_000  # bytes in which a collection shows what it is
# Infons that have the id of a concept: of BioRED and PubTator, and of BC5CDR.
_IDS = ("identifier", "MESH", "OMIM")
_LABELS = ("type", "relation")  # of a relation, in BioRED and in BC5CDR


def is_bioc(path: Path) -> bool:
    """Whether a file is a BioC collection."""
    if not path.is_file():
        return False
    start = _start_of(path)
    if start.startswith(b"<"):
        return b"<collection" in start
    return start.startswith(b"{") and b'"documents"' in start


def _start_of(path: Path) -> bytes:
    """The first bytes of a file, without a byte-order mark and blanks before them."""
    with path.open("rb") as handle:
        return handle.read(_START).removeprefix(b"\xef\xbb\xbf").lstrip()


def read_bioc(path: Path) -> list[Document]:
    """Read documents: their passages with annotations, and relations.

    A text is its passages at their offsets, with a line break in a gap of one character and
    spaces in a longer one; offsets count characters. A mention has the infon `type`, its
    concept in `identifier` (or `MESH`), and perhaps `assertion`. A relation has two
    annotations as nodes, or two concepts in infons (`entity1` and `entity2`, or one named
    after each type, as in BC5CDR). A mention that differs from the text at its offsets, or
    another invalid one, is left out and listed in `Document.faults`.

    Raises:
        CorpusError: not XML or JSON, or most mentions are invalid.
    """
    documents = [_document(content) for content in _contents(path)]
    count_mentions(documents)
    return documents


def _contents(path: Path) -> Iterator[JsonObject]:
    """The documents of a collection, in the form of BioC's JSON."""
    text = ""
    if _start_of(path).startswith(b"{"):
        text = decoded(path)
    try:
        if text:
            documents = json.loads(text)["documents"]
        else:
            root = ElementTree.parse(path).getroot()  # noqa: S314  (expat limits entities)
            documents = list(map(_of_xml, root.iter("document")))
    # An encoding that is not known, or that readers of XML lack, is one of the last two.
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise CorpusError(
            f"{path.name} is no whole BioC collection: {type(error).__name__}; expected "
            "<collection> with <document> in it, or JSON with documents"
        ) from None
    if not isinstance(documents, list):
        raise CorpusError(f"{path.name}: expected a list of documents")
    for number, content in enumerate(documents, start=1):
        if not _has_form(content):
            raise CorpusError(
                f"{path.name}, document {number}: expected passages with a whole number as "
                "offset, annotations and relations"
            )
        yield content


def _has_form(content: object) -> bool:
    """Whether a document has what is read of it where BioC has it."""
    if not isinstance(content, dict):
        return False
    passages = content.get("passages") or []
    if not _are_objects(passages):
        return False
    parts = [content, *passages]
    for passage in passages:
        sentences = passage.get("sentences") or []
        if not _are_objects(sentences):
            return False
        parts += sentences
    return all(map(_is_part, parts))


def _is_part(part: JsonObject) -> bool:
    """Whether a document, passage or sentence has its own parts where BioC has them."""
    if not str(part.get("offset") or 0).isdecimal():
        return False
    if not isinstance(part.get("text") or "", str):
        return False
    annotations = part.get("annotations") or []
    relations = part.get("relations") or []
    if not _are_objects(annotations) or not _are_objects(relations):
        return False
    for row in annotations + relations:
        if not isinstance(row.get("infons") or {}, dict):
            return False
        if not _are_objects(row.get("nodes") or []):
            return False
    return True


def _are_objects(values: object) -> bool:
    if not isinstance(values, list):
        return False
    return all(isinstance(value, dict) for value in values)


def _of_xml(node: ElementTree.Element) -> JsonObject:
    """A document in XML, in the form of BioC's JSON."""
    content = _inner(node)
    content["passages"] = []
    for part in node.iter("passage"):
        passage = _inner(part)
        passage["sentences"] = list(map(_inner, part.iter("sentence")))
        content["passages"].append(passage)
    return content


def _inner(node: ElementTree.Element) -> JsonObject:
    """What a document, passage or sentence in XML has of its own, as in JSON."""
    return {
        "id": node.findtext("id", ""),
        "offset": node.findtext("offset", "0"),
        "text": node.findtext("text", ""),
        "annotations": list(map(_annotation, node.findall("annotation"))),
        "relations": list(map(_nodes, node.findall("relation"))),
    }


def _annotation(node: ElementTree.Element) -> JsonObject:
    """An annotation as in JSON."""
    return {
        "id": node.get("id", ""),
        "infons": _infons(node),
        "text": node.findtext("text", ""),
        "locations": _attributes(node, "location"),
    }


def _nodes(node: ElementTree.Element) -> JsonObject:
    """A relation as in JSON."""
    return {
        "infons": _infons(node),
        "nodes": _attributes(node, "node"),
    }


def _attributes(node: ElementTree.Element, tag: str) -> list[dict[str, str]]:
    return [dict(inner.items()) for inner in node.iter(tag)]


def _infons(node: ElementTree.Element) -> dict[str, str]:
    return {x.get("key", ""): x.text or "" for x in node.findall("infon")}


def _document(content: JsonObject) -> Document:
    """The text, spans and relations of a document."""
    name = str(content.get("id", ""))
    parts = [content]
    for passage in content.get("passages", ()):
        parts += [passage, *passage.get("sentences", ())]
    text = _text(parts)
    spans: dict[str, Span] = {}
    faults = []
    mentions: list[JsonObject] = []
    rows: list[JsonObject] = []
    for part in parts:
        mentions += part.get("annotations") or []
        rows += part.get("relations") or []
    for number, mention in enumerate(mentions, start=1):
        span = _span(mention, text)
        if isinstance(span, Span):
            # Some files number the annotations of each passage anew, some not at all.
            key = str(mention.get("id") or number)
            spans[_unused(key, spans)] = span
        else:
            faults.append(f"document {name}, annotation {number}: {span}")
    relations = []
    for number, row in enumerate(rows, start=1):
        relation = _relation(row, spans)
        if isinstance(relation, Relation):
            relations.append(relation)
        else:
            faults.append(f"document {name}, relation {number}: {relation}")
    return Document(
        name,
        text,
        tuple(spans.values()),
        tuple(faults),
        tuple(relations),
    )


def _unused(key: str, spans: dict[str, Span]) -> str:
    """A key for a span; the first annotation of an id is the one that relations mean."""
    while key in spans:
        key = f"{key}'"
    return key


def _text(parts: list[JsonObject]) -> str:
    """The texts of passages, or of their sentences, at their offsets."""
    text = ""
    for part in parts:
        content = part.get("text") or ""
        gap = int(part.get("offset") or 0) - len(text)
        if not content or gap < 0:  # a sentence whose passage has the text
            continue
        space = " " * gap
        if gap == 1:
            space = "\n"
        text += space
        text += content
    return text


def _texts(row: JsonObject) -> dict[str, str]:
    """The infons of an annotation or relation, as text."""
    infons = row.get("infons") or {}
    texts = {}
    for key, value in infons.items():
        if value is not None:
            texts[key] = str(value)
    return texts


def _span(mention: JsonObject, text: str) -> Span | str:
    """The span of an annotation, or what is wrong with it."""
    infons = _texts(mention)
    label = infons.get("type", "")
    extents: list[Extent] = []
    try:
        for location in mention["locations"]:
            first = int(location["offset"])
            extents.append((first, first + int(location["length"])))
        start = min(extents)[0]
        end = max(last for _, last in extents)
    except (KeyError, ValueError, TypeError):
        return "expected locations with offset and length"
    if not label:
        return "expected the infon type"
    pieces = [text[first:last] for first, last in extents]
    words = str(mention.get("text") or "").split()
    is_same = " ".join(pieces).split() == words
    if not (all(pieces) and start >= 0 and is_same):
        return (
            f"characters {start} to {end} differ from the mention in the file; offsets "
            "count characters, not bytes"
        )
    concept = ""
    for key in _IDS:
        concept = concept or infons.get(key, "")
    if concept in NO_CONCEPT:
        concept = ""
    assertion = infons.get("assertion", "")
    if assertion not in ASSERTIONS:
        assertion = ""
    is_discontinuous = text[start:end].split() != words
    return Span(
        start,
        end,
        label,
        discontinuous=is_discontinuous,
        assertion=assertion,
        id=concept,
    )


def _relation(row: JsonObject, spans: dict[str, Span]) -> Relation | str:
    """The relation of two annotations or two concepts, or what is wrong with it."""
    infons = _texts(row)
    label = ""
    for key in _LABELS:
        label = label or infons.pop(key, "")
    novelty = infons.pop("novel", "")
    nodes = [str(node.get("refid")) for node in row.get("nodes") or ()]
    mentions: tuple[Extent, Extent] | None = None
    first_id = infons.get("entity1", "")
    second_id = infons.get("entity2", "")
    if len(nodes) == 2:
        if not set(nodes) <= set(spans):
            return "a node that is no annotation which was read"
        first = spans[nodes[0]]
        second = spans[nodes[1]]
        mentions = ((first.start, first.end), (second.start, second.end))
        first_id = first_id or first.id
        second_id = second_id or second.id
    elif not (first_id or second_id) and len(infons) == 2:
        first_id, second_id = infons.values()
    if not label or not (mentions or (first_id and second_id)):
        return "expected the infon type, and two nodes, or entity1 and entity2"
    return Relation(label, first_id, second_id, mentions, novelty)
