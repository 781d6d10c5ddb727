"""FHIR R4: the fields of resources as rows of text, from Bulk Data or a request."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

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
from domainbert.tables.options import READ_ERRORS

if TYPE_CHECKING:
    import pyarrow as pa

    from domainbert.tables.options import Flaws

    Fields = Mapping[str, str]  # name -> place

KINDS = (
    "Encounter", "Patient", "DocumentReference", "Composition", "DiagnosticReport", "Binary",
)  # fmt: skip
LOST = "letters that cannot be read are U+FFFD in the text"
_BATCH_ROWS = 500  # notes among them
# Fields with all their values, with spaces between them.
_LISTS = ("codes", "encounters", "disposition_codes", "studies")
_TEXT_COLUMNS = ("text", "remark", "words")
_NOTE_COLUMNS = ("error", "fault", "names", "replaces", "link")
_TYPE = re.compile(rb'"resourceType"\s*:\s*"(\w+)"')
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def batches(
    paths: Sequence[Path], kind: str, fields: Fields, flaws: Flaws
) -> Iterator[pa.RecordBatch]:
    """The resources of a kind as rows, for one pass; lines that are not whole go to `flaws`.

    Raises `TableError` for resources of another release than R4, and for a damaged file.
    """
    import pyarrow as pa

    schema = pa.schema([(name, pa.string()) for name in columns_of(fields)])

    def rows() -> Iterator[dict[str, str | None]]:
        for path, resource in _resources(paths, kind, flaws):
            if release := _other_release(resource):
                raise TableError(
                    f"{path.name} is FHIR {release}; expected R4, fhirVersion 4.0.1"
                )
            yield read_resource(resource, fields)

    remaining = rows()
    while piece := list(islice(remaining, _BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(piece, schema)


def _resources(
    paths: Sequence[Path], kind: str, flaws: Flaws
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The resources of a kind, with their files; one of another kind is listed once a file."""
    for path in paths:
        unread: set[str] = set()
        for number, line in _lines(path, flaws):
            try:
                resources = entries(json.loads(line))
            except (ValueError, RecursionError):
                problem = f"{NO_ROW}: JSON that is cut or malformed"
                flaws.append((path.name, number, problem))
                continue
            for resource in resources:
                other = resource.get("resourceType")
                if other == kind:
                    yield path, resource
                elif other in KINDS and other not in unread:
                    unread.add(other)
                    if not has_resources(path, other):
                        problem = f"{other} in a file of other resources, not read"
                        flaws.append((path.name, number, problem))


def _lines(path: Path, flaws: Flaws) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file of JSON lines; a document of several lines is one."""
    try:
        with _open(path) as raw:
            is_utf16 = raw.read(2) in _UTF16_MARKS
            raw.seek(0)
            encoding = "utf-16" if is_utf16 else "utf-8"
            with io.TextIOWrapper(raw, encoding, errors="surrogateescape") as file:
                first = file.readline()
                is_document = ".json" in path.suffixes and not _is_json(first)
                lines = [first + file.read()] if is_document else chain([first], file)
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
    except READ_ERRORS as error:
        kind = type(error).__name__
        raise TableError(
            f"{path.name} cannot be read to its end ({kind}): copy or download it again"
        ) from None


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


def _other_release(resource: dict[str, Any]) -> str | None:
    is_document = resource["resourceType"] == "DocumentReference"
    one = resource.get("context" if is_document else "class")  # a list since R5
    if isinstance(one, list) or "actualPeriod" in resource:
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
    resource: dict[str, Any],
    fields: Fields,
    binaries: Mapping[str, object] | None = None,
) -> dict[str, str | None]:
    """The row of a resource; None where it has no value, or one of another type.

    A field is at a place such as "type.coding.code", or at the first of several, divided by "|".
    `binaries` has Binary resources, by id, that attachments may be links to.
    """
    row: dict[str, str | None] = {}
    for name, places in fields.items():
        texts: list[str] = []
        for place in places.split(" | "):
            texts += _texts(resource, place)
            if texts and name not in _LISTS:
                break
        row[name] = " ".join(texts) if name in _LISTS else next(iter(texts), None)
    if "encounters" in fields:
        row |= _note(resource, binaries or {})
    elif "content_type" in fields:
        row |= _text_columns(read_attachments([resource]))
    for name, value in row.items():
        if value and not value.isascii():
            row[name] = whole_text(value)
    return row


def _note(
    resource: dict[str, Any], binaries: Mapping[str, object]
) -> dict[str, str | None]:
    """The columns that only notes have: the text, and what decides whether it is read."""
    attachments = values_at(resource, "content.attachment")
    attachments += values_at(resource, "presentedForm")
    inner = values_at(resource, "contained")
    by_id = {f"#{one.get('id')}": one for one in inner if isinstance(one, dict)}
    reading = read_attachments(attachments, {**binaries, **by_id})
    is_document = resource["resourceType"] == "DocumentReference"
    if not reading.text:
        # The narrative of a document is about it; that of other resources may be all there is.
        reading = _narrative(resource, reading, has_own=not is_document)
    is_lost = not reading.text and (attachments or is_document)
    is_error = "entered-in-error" in (resource.get("status"), resource.get("docStatus"))
    return {
        **_text_columns(reading),
        "error": str(int(is_error)),
        "fault": "1" if is_lost else None,
        "names": _names(resource),
        "replaces": _replaced_names(resource),
        "link": None if reading.text else link_of(attachments),
    }


def _text_columns(reading: Reading) -> dict[str, str | None]:
    """A text, remarks on it, and a hash of its words that shows copies."""
    text = reading.text
    if text and not text.isascii():
        text = whole_text(text)
    if not text:
        return dict.fromkeys(_TEXT_COLUMNS) | {"text": text}
    remarks = [*reading.remarks, *([LOST] if "\ufffd" in text else [])]
    words = " ".join(text.split()).encode()
    digest = hashlib.blake2b(words, digest_size=16).hexdigest()
    return {"text": text, "remark": "; ".join(remarks) or None, "words": digest}


def _narrative(resource: dict[str, Any], unread: Reading, *, has_own: bool) -> Reading:
    """The sections, conclusion or narrative of a resource whose attachments are not read."""
    divs = _texts(resource, "text.div") if has_own else []
    candidates = [section_text(resource), *_texts(resource, "conclusion")]
    text = next(filter(None, candidates), None)
    return Reading(text) if text else next(map(html_text, divs), unread)


def _names(resource: dict[str, Any]) -> str:
    """What other resources may call this one: its id, and its business identifiers."""
    own = ("masterIdentifier", "identifier")
    identifiers = [one for name in own for one in values_at(resource, name)]
    patient = _patient(resource)
    names = [_identifier(one, patient) for one in identifiers]
    return " ".join([str(resource.get("id")), *names])


def _replaced_names(resource: dict[str, Any]) -> str | None:
    """The names of the documents that this one replaces."""
    names = []
    patient = _patient(resource)
    places = ("target.identifier", "targetReference.identifier", "targetIdentifier")
    for relation in values_at(resource, "relatesTo"):
        if values_at(relation, "code") == ["replaces"]:
            names += _texts(relation, "target.reference")
            names += _texts(relation, "targetReference.reference")
            identifiers = [one for name in places for one in values_at(relation, name)]
            names += [_identifier(one, patient) for one in identifiers]
    return " ".join(names) or None


def _patient(resource: dict[str, Any]) -> str:
    return next(iter(_texts(resource, "subject.reference")), "")


def _identifier(identifier: Any, patient: str) -> str:
    """A business identifier as one word; without a system it holds for one patient."""
    system = values_at(identifier, "system") or [patient]
    parts = [*system, "|", *values_at(identifier, "value")]
    return "".join("".join(map(str, parts)).split())


def values_at(value: Any, place: str) -> list[Any]:
    """All that is at a place such as "type.coding.code"; lists are opened on the way."""
    values = [value]
    for name in place.split("."):
        inner_values: list[Any] = []
        for parent in values:
            inner = parent.get(name) if isinstance(parent, dict) else None
            if isinstance(inner, list):
                inner_values += inner
            elif inner is not None:
                inner_values.append(inner)
        if not inner_values:
            return []
        values = inner_values
    return [inner for inner in values if inner is not None]


def _texts(resource: dict[str, Any], place: str) -> list[str]:
    """The texts at a place; of references the ids, of those to contained resources none."""
    values = values_at(resource, place)
    texts = [
        str(value).lower() if isinstance(value, bool) else value for value in values
    ]
    texts = [text for text in texts if isinstance(text, str) and text.strip()]
    if place.endswith(".reference"):
        return [address_id(text) for text in texts if text[:1] != "#"]
    return texts


def entries(value: Any) -> list[dict[str, Any]]:
    """The resources of a Bundle or a list, or the one resource; a URL ends with an id too."""
    if isinstance(value, list):
        return [resource for one in value for resource in entries(one)]
    if not isinstance(value, dict) or value.get("resourceType") != "Bundle":
        return [value] if isinstance(value, dict) else []
    return [
        {"id": address_id("".join(_texts(entry, "fullUrl"))), **resource}
        for entry in values_at(value, "entry")
        for resource in values_at(entry, "resource")
        if isinstance(resource, dict)
    ]


def section_text(composition: Any) -> str | None:
    """The narrative of the sections of a Composition, in order, with their titles."""

    def parts(section: Any) -> Iterator[str]:
        yield from _texts(section, "title")
        yield from (html_text(div).text or "" for div in _texts(section, "text.div"))
        for inner in values_at(section, "section"):
            yield from parts(inner)

    sections = values_at(composition, "section")
    return (
        "\n\n".join(part for each in sections for part in parts(each) if part.strip())
        or None
    )
