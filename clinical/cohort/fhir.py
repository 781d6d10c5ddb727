"""FHIR R4: the fields of resources as rows of text, from Bulk Data or a request."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from clinical.cohort.attachments import (
    Reading,
    address_id,
    html_text,
    link_of,
    read_attachments,
)
from domainbert.files import whole_text
from domainbert.tables import TableError
from domainbert.tables.csv_files import NO_ROW
from domainbert.tables.options import READ_ERRORS, Flaws, read_errors

if TYPE_CHECKING:
    Fields = Mapping[str, str]  # name -> path
    Resource = Mapping[str, object]
    Row = dict[str, str | None]

KINDS = (
    "Encounter", "Patient", "DocumentReference", "Composition", "DiagnosticReport", "Binary",
)  # fmt: skip
LOST = "letters that cannot be read are U+FFFD in the text"
_BATCH_ROWS = 500  # notes among them
# Fields with all their values, with spaces between them.
_LISTS = (
    "codes", "encounters", "studies", "disposition_codes", "disposition_systems",
    "disposition_grounds", "version",
    "condition_codes", "condition_systems", "replaced_by", "replaces",
)  # fmt: skip
_SPACES = b" \t\n\r\v\f"
_TEXT_COLUMNS = ("text", "remark", "words")
_NOTE_COLUMNS = ("fault", "names", "replaces", "link")
_REPLACED_REFERENCES = (
    "relatesTo.where(code='replaces').target.reference",
    "relatesTo.where(code='replaces').targetReference.reference",
)
_REPLACED_IDENTIFIERS = (
    "relatesTo.where(code='replaces').target.identifier",
    "relatesTo.where(code='replaces').targetReference.identifier",
    "relatesTo.where(code='replaces').targetIdentifier",
)
_TYPE = re.compile(rb'"resourceType"\s*:\s*"(\w+)"')
# Contained resources, and other subjects of encounters and reports: their ids are no patient's.
_NO_PATIENT = re.compile(
    r"^#|\b(?:RelatedPerson|Group|Device|Location)/[^/]*(?:/_history|$)"
)
_CONDITION = re.compile(r"where\((\w+)='([\w-]+)'\)")  # in a path
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def batches(
    paths: Sequence[Path],
    kind: str,
    fields: Fields,
    flaws: Flaws,
) -> Iterator[pa.RecordBatch]:
    """The resources of a kind as rows, for one pass; lines that are not whole go to `flaws`.

    Raises `TableError` for resources of another release than R4, and for a damaged file.
    """
    schema = pa.schema(dict.fromkeys(columns_of(fields), "string"))

    def read_rows() -> Iterator[Row]:
        for path, resource in _resources(paths, kind, flaws):
            if release := _other_release(resource):
                raise TableError(
                    f"{path.name} is FHIR {release}; expected R4, fhirVersion 4.0.1"
                )
            yield read_resource(resource, fields)

    rows = read_rows()
    while batch := list(islice(rows, _BATCH_ROWS)):
        # Column by column takes a fifth of the time of `from_pylist`.
        columns = [
            pa.array([row[name] for row in batch], pa.string())
            for name in schema.names
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _resources(
    paths: Sequence[Path],
    kind: str,
    flaws: Flaws,
) -> Iterator[tuple[Path, Resource]]:
    """The resources of a kind with their files; another kind is listed once for each file."""
    for path in paths:
        unread = set()
        for number, line in _lines(path, flaws):
            try:
                resources = entries(json.loads(line))
            except (ValueError, RecursionError):
                problem = f"{NO_ROW}: JSON that is cut or malformed"
                flaws.append((path.name, number, problem))
                continue
            for resource in resources:
                other = str(resource.get("resourceType"))
                if other == kind:
                    yield path, resource
                elif other in KINDS and other not in unread:
                    unread.add(other)
                    if not has_resources(path, other):
                        problem = (
                            f"{other} in a file of other resources, not read"
                        )
                        flaws.append((path.name, number, problem))


def _lines(path: Path, flaws: Flaws) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file of JSON lines; a document of several lines is one."""
    with read_errors(path), _open(path) as raw:
        is_utf16 = raw.read(2) in _UTF16_MARKS
        raw.seek(0)
        encoding = "utf-16" if is_utf16 else "utf-8"
        file = io.TextIOWrapper(raw, encoding, errors="surrogateescape")
        first = file.readline()
        lines = chain([first], file)
        if ".json" in path.suffixes and not _is_json(first):
            lines = chain([first + file.read()])
        is_flawed = False
        for number, line in enumerate(lines, start=1):
            text = _utf8(line)
            if text != line and not is_flawed:
                is_flawed = True
                problem = "bytes that are not UTF-8, read as windows-1252"
                flaws.append((path.name, number, problem))
            # A mark stands before each of several files that were put together.
            if text := text.lstrip("\ufeff \t\r\n"):
                yield number, text


def _utf8(line: str) -> str:
    """A line, read as windows-1252 where it has bytes that are not UTF-8."""
    if not line.isascii():
        with suppress(UnicodeEncodeError):
            line.encode("utf-8")
            return line
        raw = line.encode("utf-8", "surrogateescape")
        return raw.decode("cp1252", "replace")
    return line


def _is_json(line: str) -> bool:
    try:
        json.loads(line.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return False
    return True


def _open(path: Path) -> IO[bytes]:
    """A file as bytes, unpacked if it is gzip by its first bytes, whatever its name."""
    file = path.open("rb")
    is_packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return gzip.open(file) if is_packed else file  # type: ignore[return-value]


def has_resources(path: Path, kind: str) -> bool:
    """Whether to look for resources of a kind in a file.

    JSON lines have one kind, by their name or by how they begin; a document may have every kind.
    """
    with suppress(*READ_ERRORS), _open(path) as file:
        head = file.read(4096).replace(b"\0", b"")  # UTF-16 too
        kinds = {name.decode() for name in _TYPE.findall(head)}
        if ".json" in path.suffixes:
            return bool(kinds)
        return kind in path.name or kind in kinds
    return kind in path.name  # damaged: reading it says so


def _other_release(resource: Resource) -> str | None:
    is_document = resource["resourceType"] == "DocumentReference"
    name = "context" if is_document else "class"  # lists since R5
    if isinstance(resource.get(name), list) or "actualPeriod" in resource:
        return "R5 (a list of classes or contexts, or actualPeriod)"
    if is_document and ("indexed" in resource or "class" in resource):
        return "STU3 (indexed or class)"
    return None


def columns_of(fields: Fields) -> list[str]:
    """The columns of rows with these fields: those with encounters are notes."""
    if "encounters" in fields:
        return [*fields, *_TEXT_COLUMNS, *_NOTE_COLUMNS]
    return [*fields, *_TEXT_COLUMNS] if "content_type" in fields else [*fields]


def read_resource(
    resource: Resource,
    fields: Fields,
    binaries: Mapping[str, object] | None = None,
) -> Row:
    """The row of a resource, with a cell for each field and those of `columns_of`.

    A cell is None if the resource has no value there, or one of another type. A field has a path
    such as "type.coding.code", or several, divided by " | ", of which the first with a value
    counts. Fields with "encounters" are those of a note, and fields with "content_type" those of
    another text. `binaries` has the Binary resources, by id, that attachments may link to.
    """
    row = {
        name: _field(resource, name, paths) for name, paths in fields.items()
    }
    if "encounters" in fields:
        row |= _note(resource, binaries or {})
    elif "content_type" in fields:
        row |= _text_columns(read_attachments([resource]))
    # JSON may hold halves of a character, which no table can store.
    for name, value in row.items():
        if value and not value.isascii():
            row[name] = whole_text(value)
    return row


def _field(resource: Resource, name: str, paths: str) -> str | None:
    """The first value at the first path that has one; for `_LISTS`, all values at all paths."""
    if name in _LISTS:
        values = chain.from_iterable(
            _texts(resource, p) for p in _alternatives(paths)
        )
        return " ".join(values)
    for path in _alternatives(paths):
        for text in _texts(resource, path):
            return text
    return None


def _note(resource: Resource, binaries: Mapping[str, object]) -> Row:
    """The columns that only notes have: the text, and what decides whether it is read."""
    attachments = values_at(resource, "content.attachment")
    attachments += values_at(resource, "presentedForm")
    contained = {
        f"#{inner.get('id')}": inner
        for inner in values_at(resource, "contained")
        if isinstance(inner, dict)
    }
    reading = read_attachments(attachments, {**binaries, **contained})
    is_document = resource["resourceType"] == "DocumentReference"
    if not reading.text:
        # The narrative of a document is about it; that of other resources may be all there is.
        reading = _narrative(resource, reading, reads_text=not is_document)
    row = _text_columns(reading)
    # Without a system, an identifier holds for one patient.
    patient = _texts(resource, "subject.reference")[:1]
    row |= {
        "fault": None,
        "names": _names(resource, patient),
        "replaces": _replaced_names(resource, patient),
        "link": None,
    }
    if not reading.text:
        row["link"] = link_of(attachments)
        if attachments or is_document:
            row["fault"] = "1"
    return row


def _text_columns(reading: Reading) -> Row:
    """A text, remarks on it, and a hash of its words that shows copies."""
    text = reading.text
    if not text:
        return {"text": text, "remark": None, "words": None}
    remarks = [*reading.remarks]
    if not text.isascii():
        text = whole_text(text)
        if "\ufffd" in text:
            remarks.append(LOST)
    digest = hashlib.blake2b(_without_spaces(text), digest_size=16).hexdigest()
    return {
        "text": text,
        "remark": "; ".join(remarks) or None,
        "words": digest,
    }


def _without_spaces(text: str) -> bytes:
    """The characters of a text but for white space, in which copies may differ."""
    if text.isascii():
        # Much faster than splitting the text.
        return text.encode().translate(None, _SPACES)
    return "".join(text.split()).encode()


def _narrative(
    resource: Resource, unread: Reading, *, reads_text: bool
) -> Reading:
    """The sections, conclusion or narrative of a resource whose attachments are not read."""
    for text in (section_text(resource), *_texts(resource, "conclusion")):
        if text:
            return Reading(text)
    if reads_text:
        for div in _texts(resource, "text.div"):
            return html_text(div)
    return unread


def _names(resource: Resource, patient: Sequence[str]) -> str:
    """What other resources may call this one: its id, and its business identifiers."""
    paths = ("masterIdentifier", "identifier")
    identifiers = _identifiers(resource, paths, patient)
    return " ".join([str(resource.get("id")), *identifiers])


def _replaced_names(resource: Resource, patient: Sequence[str]) -> str | None:
    """The names of the documents that this one replaces."""
    names = _identifiers(resource, _REPLACED_IDENTIFIERS, patient)
    for path in _REPLACED_REFERENCES:
        names += _texts(resource, path)
    return " ".join(names) or None


def _identifiers(
    parent: Resource,
    paths: Sequence[str],
    patient: Sequence[str],
) -> list[str]:
    """Business identifiers, each as one word that begins with its system or else the patient."""
    words = []
    for path in paths:
        for identifier in values_at(parent, path):
            systems = values_at(identifier, "system") or patient
            parts = [*systems, "|", *values_at(identifier, "value")]
            words.append("".join("".join(map(str, parts)).split()))
    return words


def values_at(value: object, path: str) -> list[Any]:
    """All values at a path such as "type.coding.code"; lists are opened on the way.

    `where(NAME='VALUE')` in a path keeps the objects with this value, as in FHIRPath.
    """
    values = [value]
    for name in _names_in(path):
        children = []
        for parent in values:
            if not isinstance(parent, dict):
                continue
            child = parent.get(name)
            if isinstance(child, list):
                children += [inner for inner in child if inner is not None]
            elif child is not None:
                children.append(child)
            elif test := _CONDITION.fullmatch(name):
                key, expected = test.groups()
                if values_at(parent, key) == [expected]:
                    children.append(parent)
        if not children:
            return children
        values = children
    return values


@cache
def _names_in(path: str) -> tuple[str, ...]:
    """The names of a path; split once, because every resource is asked for it."""
    return tuple(path.split("."))


@cache
def _alternatives(paths: str) -> tuple[str, ...]:
    return tuple(paths.split(" | "))


def _texts(resource: object, path: str) -> list[str]:
    """The texts at a path: of a reference its id, unless it is to a resource that is not read."""
    texts = []
    is_reference = path.endswith(".reference")
    for value in values_at(resource, path):
        if isinstance(value, bool):
            texts.append(str(value).lower())
        elif not isinstance(value, str) or not value.strip():
            continue
        elif not is_reference:
            texts.append(value)
        elif not _NO_PATIENT.search(value):
            texts.append(address_id(value))
    return texts


def entries(value: object) -> list[dict[str, Any]]:
    """The resources of a Bundle or a list, or the one resource, with the ids of their URLs."""
    if isinstance(value, list):
        return list(chain.from_iterable(map(entries, value)))
    if not isinstance(value, dict):
        return []
    if value.get("resourceType") != "Bundle":
        return [value]
    return [
        {"id": address_id("".join(_texts(entry, "fullUrl"))), **resource}
        for entry in values_at(value, "entry")
        for resource in values_at(entry, "resource")
        if isinstance(resource, dict)
    ]


def section_text(composition: object) -> str | None:
    """The narrative of the sections of a Composition, in order, with their titles."""
    return "\n\n".join(filter(str.strip, _section_parts(composition))) or None


def _section_parts(composition: object) -> Iterator[str]:
    sections = values_at(composition, "section")[::-1]
    while sections:  # no recursion: a file may nest a thousand of them
        section = sections.pop()
        yield from _texts(section, "title")
        yield from (
            html_text(div).text or "" for div in _texts(section, "text.div")
        )
        sections += values_at(section, "section")[::-1]
