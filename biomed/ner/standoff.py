"""Entities and relations in the formats of other tools: BRAT standoff, PubTator and BioC."""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from biomed.corpora.brat import OWN_REFERENCE
from biomed.corpora.documents import Extent, Relation, concepts_of
from biomed.ner.entities import Entity, Format
from domainbert.errors import UserError
from domainbert.files import atomic_path, folder_beside, replace_folder

if TYPE_CHECKING:
    from biomed.corpora.documents import Document
    from domainbert.files import JsonObject

_FORMS = Path(__file__).with_name("forms")
_NOT_IN_NAMES = re.compile(r"[^\w.-]")
_LONGEST_NAME = 60  # letters of a file name, of up to four bytes
_PART = re.compile(r"\S(?:[^\r\n]*\S)?")  # of an entity, on one line
# The attributes of a drug that are relations to a disease.
_RELATED = ("reason", "reaction")


@dataclass(frozen=True)
class TaggedDocument:
    """A document to write: its id, its text, its entities, and the relations between them."""

    id: str
    text: str = field(repr=False)
    entities: Sequence[Entity] = field(repr=False)
    relations: Sequence[Relation] = field(default=(), repr=False)

    @classmethod
    def of_tags(
        cls, name: str, text: str, entities: Sequence[Entity]
    ) -> TaggedDocument:
        """Entities with the relations that the text says of drugs; see `drug_relations`."""
        return cls(name, text, entities, tuple(drug_relations(entities)))

    @classmethod
    def of_gold(cls, document: Document) -> TaggedDocument:
        """The gold spans and relations of a document that was read from a corpus."""
        entities = [
            Entity(
                span.start,
                span.end,
                document.text[span.start : span.end],
                span.label,
                1.0,
                assertion=span.assertion or "present",
                id=span.id or None,
            )
            for span in document.spans
        ]
        return cls(document.id, document.text, entities, document.relations)


def drug_relations(entities: Sequence[Entity]) -> Iterator[Relation]:
    """The relations of drugs to the entities that are their reason or a reaction to them."""
    for drug in entities:
        if drug.medication is None:
            continue
        for attribute in drug.medication.attributes:
            if attribute.kind not in _RELATED:
                continue
            for entity in entities:
                is_inside = (
                    attribute.start <= entity.start
                    and entity.end <= attribute.end
                )
                if is_inside:
                    yield Relation(
                        attribute.kind,
                        drug.id or "",
                        entity.id or "",
                        mentions=(_extent(drug), _extent(entity)),
                    )


def _extent(entity: Entity) -> Extent:
    return entity.start, entity.end


def _linked(
    entities: Sequence[Entity], relations: Iterable[Relation]
) -> Iterator[tuple[Relation, int, int]]:
    """Each relation with the positions of its two entities.

    A relation between concepts joins the mentions of them that are nearest to each other; one
    whose entities are not among these is left out.
    """
    by_extent: dict[Extent, list[int]] = defaultdict(list)
    by_id: dict[str, list[int]] = defaultdict(list)
    for number, entity in enumerate(entities):
        by_extent[_extent(entity)].append(number)
        for concept in concepts_of(entity.id or ""):
            by_id[concept].append(number)
    for relation in relations:
        first_numbers = by_id[relation.first]
        second_numbers = by_id[relation.second]
        if relation.mentions:
            first_numbers = by_extent[relation.mentions[0]]
            second_numbers = by_extent[relation.mentions[1]]
        pairs = [
            (first, second)
            for first in first_numbers
            for second in second_numbers
            if first != second
        ]
        if pairs:
            nearest = min(
                pairs,
                key=lambda pair: abs(
                    entities[pair[0]].start - entities[pair[1]].start
                ),
            )
            yield relation, *nearest


def to_brat(document: TaggedDocument) -> str:
    """BRAT standoff (an .ann file): scores and assertions are attributes, ids references.

    An entity over a line break has a fragment for each line, as BRAT wants it. An id is written as
    it is if it has the form "source:id", and as "Dictionary:id" otherwise. A relation joins two
    mentions: of concepts, those nearest to each other.
    """
    lines = []
    for number, entity in enumerate(document.entities, start=1):
        parts = list(_PART.finditer(document.text, entity.start, entity.end))
        offsets = ";".join(f"{part.start()} {part.end()}" for part in parts)
        shown = " ".join(part[0] for part in parts)
        lines += [
            f"T{number}\t{_plain(entity.label)} {offsets}\t{shown}",
            f"A{2 * number - 1}\tAssertion T{number} {entity.assertion}",
            f"A{2 * number}\tScore T{number} {entity.score:.2f}",
        ]
        if entity.id is not None:
            reference = entity.id
            if ":" not in reference:
                reference = f"{OWN_REFERENCE}{reference}"
            name = entity.name or ""
            lines.append(f"N{number}\tReference T{number} {reference}\t{name}")
    linked = _linked(document.entities, document.relations)
    for number, (relation, first, second) in enumerate(linked, start=1):
        label = _plain(relation.label)
        lines.append(
            f"R{number}\t{label} Arg1:T{first + 1} Arg2:T{second + 1}"
        )
    return "".join(f"{line}\n" for line in lines)


def _plain(name: str) -> str:
    """A name with letters, digits, points and hyphens only."""
    return _NOT_IN_NAMES.sub("_", name)


def to_pubtator(document: TaggedDocument) -> str:
    """PubTator: the first line as title, the rest as abstract, then entities and relations.

    Line breaks within the abstract become spaces, and tabs too, so offsets stay. The column after
    the type is the concept's id, or "-"; other tools read no more columns. Relations are between
    concepts; those of entities without an id are left out.
    """
    name = _pubtator_name(document.id)
    flat = re.sub(r"[\t\r\n]", " ", document.text)
    title_end = len(document.text.partition("\n")[0])
    lines = [
        f"{name}|t|{flat[:title_end]}",
        f"{name}|a|{flat[title_end + 1 :]}",
    ]
    for entity in document.entities:
        cells = (
            name,
            entity.start,
            entity.end,
            flat[entity.start : entity.end],
            entity.label,
            entity.id or "-",
        )
        lines.append("\t".join(map(str, cells)))
    relations = [
        (relation.label, relation.first, relation.second, relation.novelty)
        for relation in document.relations
        if relation.first and relation.second
    ]
    # A relation of several mentions of two concepts is written once.
    lines += [
        "\t".join([name, *row]).rstrip("\t")
        for row in dict.fromkeys(relations)
    ]
    return "\n".join(lines) + "\n\n"


def _pubtator_name(name: str) -> str:
    return re.sub(r"[|\t\r\n]", "_", name)


def _assertion_lines(name: str, entities: Iterable[Entity]) -> str:
    """Tab-separated: the document, start, end, score and assertion of each entity."""
    lines = [
        f"{_pubtator_name(name)}\t{entity.start}\t{entity.end}"
        f"\t{entity.score:.4f}\t{entity.assertion}\n"
        for entity in entities
    ]
    return "".join(lines)


_BIOC_START = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n'
    "<collection><source>biomed</source><date></date><key></key>\n"
)
# Characters that no XML file may contain.
_NOT_IN_XML = re.compile(
    "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


def to_bioc(document: TaggedDocument) -> JsonObject:
    """A BioC document in its JSON form: one passage with the text, and an annotation an entity.

    The infons of an annotation are `type`, `assertion`, `score`, and `identifier` with an id.
    Those of a relation are `type`, the ids `entity1` and `entity2` and perhaps `novel`, as in
    BioRED; a relation between mentions has them as nodes. Offsets count characters.
    """
    text = _NOT_IN_XML.sub("\ufffd", document.text)
    annotations = [
        {
            "id": str(number),
            "infons": _infons(entity),
            "text": text[entity.start : entity.end],
            "locations": [
                {
                    "offset": entity.start,
                    "length": entity.end - entity.start,
                }
            ],
        }
        for number, entity in enumerate(document.entities, start=1)
    ]
    passage = {
        "offset": 0,
        "infons": {},
        "text": text,
        "sentences": [],
        "annotations": annotations,
        "relations": [],
    }
    return {
        "id": _NOT_IN_XML.sub("\ufffd", document.id),
        "infons": {},
        "passages": [passage],
        "annotations": [],
        "relations": list(_bioc_relations(document)),
    }


def _bioc_relations(document: TaggedDocument) -> Iterator[JsonObject]:
    """The relations of a document, each with its concepts, its mentions or both."""
    for number, relation in enumerate(document.relations, start=1):
        infons = {
            "type": relation.label,
            "entity1": relation.first,
            "entity2": relation.second,
            "novel": relation.novelty,
        }
        nodes = []
        if relation.mentions:
            for _, first, second in _linked(document.entities, [relation]):
                nodes = [
                    {"refid": str(first + 1), "role": "Arg1"},
                    {"refid": str(second + 1), "role": "Arg2"},
                ]
        yield {
            "id": f"R{number}",
            "infons": {key: value for key, value in infons.items() if value},
            "nodes": nodes,
        }


def _infons(entity: Entity) -> dict[str, str]:
    infons = {
        "type": entity.label,
        "assertion": entity.assertion,
        "score": f"{entity.score:.4f}",
    }
    if entity.id is not None:
        infons["identifier"] = entity.id
    return infons


def _bioc_xml(document: JsonObject) -> str:
    """A BioC document of one passage as XML."""
    (passage,) = document["passages"]
    node = ElementTree.Element("document")
    ElementTree.SubElement(node, "id").text = document["id"]
    inner = ElementTree.SubElement(node, "passage")
    ElementTree.SubElement(inner, "offset").text = "0"
    ElementTree.SubElement(inner, "text").text = passage["text"]
    for annotation in passage["annotations"]:
        mention = ElementTree.SubElement(
            inner, "annotation", id=annotation["id"]
        )
        _add_infons(mention, annotation["infons"])
        (location,) = annotation["locations"]
        numbers = {key: str(value) for key, value in location.items()}
        ElementTree.SubElement(mention, "location", numbers)
        ElementTree.SubElement(mention, "text").text = annotation["text"]
    for relation in document["relations"]:
        joined = ElementTree.SubElement(node, "relation", id=relation["id"])
        _add_infons(joined, relation["infons"])
        for end in relation["nodes"]:
            ElementTree.SubElement(joined, "node", end)
    # A reader of XML makes "\r\n" one character unless it is escaped.
    return ElementTree.tostring(node, "unicode").replace("\r", "&#13;")


def _add_infons(node: ElementTree.Element, infons: Mapping[str, str]) -> None:
    for key, value in infons.items():
        ElementTree.SubElement(node, "infon", key=key).text = value


def _write_bioc(
    documents: Iterable[TaggedDocument], out: Path, *, is_json: bool
) -> int:
    """Write a BioC collection, document by document."""
    names: set[str] = set()
    start = _BIOC_START
    end = "</collection>\n"
    between = "\n"
    if is_json:
        start = '{"source": "biomed", "date": "", "key": "", "infons": {}, "documents": ['
        end = "]}\n"
        between = ",\n"
    with (
        atomic_path(out) as path,
        path.open("w", encoding="utf-8", errors="replace", newline="") as file,
    ):
        file.write(start)
        for document in documents:
            if names:
                file.write(between)
            name = _unused(document.id, names)
            content = to_bioc(replace(document, id=name))
            if is_json:
                file.write(json.dumps(content, ensure_ascii=False))
            else:
                file.write(_bioc_xml(content))
        file.write(end)
    return len(names)


def write_tagged(
    documents: Iterable[TaggedDocument], out: Path, *, form: Format
) -> int:
    """Write documents to a file, or for BRAT to a new folder; returns their number.

    Beside a PubTator file, FILE.assertions.tsv has the scores and assertions.

    Raises:
        UserError: the BRAT folder exists.
    """
    if form == "brat":
        return _write_brat(documents, out)
    if form in ("bioc", "bioc-json"):
        return _write_bioc(documents, out, is_json=form == "bioc-json")
    names: set[str] = set()
    beside = out.with_name(f"{out.name}.assertions.tsv")
    with (
        atomic_path(out) as path,
        atomic_path(beside) as beside_path,
        path.open("w", encoding="utf-8", errors="replace") as file,
        beside_path.open("w", encoding="utf-8", errors="replace") as details,
    ):
        details.write("document\tstart\tend\tscore\tassertion\n")
        for document in documents:
            name = _unused(document.id, names)
            file.write(to_pubtator(replace(document, id=name)))
            details.write(_assertion_lines(name, document.entities))
    return len(names)


def _unused(name: str, names: set[str]) -> str:
    """The name, or NAME_2 and so on if `names` has it; the result is added to `names`."""
    free = name
    numbers = itertools.count(2)
    while free in names:
        free = f"{name}_{next(numbers)}"
    names.add(free)
    return free


def _write_brat(documents: Iterable[TaggedDocument], out: Path) -> int:
    """A pair of files for each document, named after its id; a second one of a name is NAME_2."""
    if out.exists():
        raise UserError(
            f"{out} exists already; name a new folder for the BRAT files"
        )
    names: set[str] = set()
    labels: set[str] = set()
    relations: set[str] = set()
    with folder_beside(out) as folder:
        for document in documents:
            # No file system takes a name of more than 255 bytes.
            stem = _plain(document.id)[:_LONGEST_NAME].strip(".") or "text"
            free = _unused(stem, names)
            labels.update(_plain(e.label) for e in document.entities)
            relations.update(_plain(r.label) for r in document.relations)
            contents = {"txt": document.text, "ann": to_brat(document)}
            for ending, content in contents.items():
                path = folder / f"{free}.{ending}"
                path.write_text(content, "utf-8", "replace", newline="")
        types = (_FORMS / "annotation.conf").read_text("utf-8")
        types = types.replace("{labels}", "\n".join(sorted(labels)))
        relation_lines = [
            f"{label}\tArg1:<ENTITY>, Arg2:<ENTITY>"
            for label in sorted(relations)
        ]
        types = types.replace("{relations}", "\n".join(relation_lines))
        (folder / "annotation.conf").write_text(types, "utf-8")
        replace_folder(folder, out)
    return len(names)
