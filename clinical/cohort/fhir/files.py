"""Files of FHIR: JSON lines, Bundles and lists of resources, as servers write them."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from clinical.cohort.fhir.resources import COLUMNS
from clinical.cohort.fhir.values import address_id, first, texts, values
from domainbert.tables import TableError
from domainbert.tables.csv_files import NO_ROW
from domainbert.tables.options import READ_ERRORS, FileFaults, read_errors

if TYPE_CHECKING:
    from domainbert.files import JsonObject

PATTERNS = ("*.ndjson", "*.ndjson.gz", "*.jsonl", "*.json", "*.json.gz")
_TYPE = re.compile(rb'"resourceType"\s*:\s*"(\w+)"')
_DELETES = re.compile(r'"method"\s*:\s*"DELETE"')
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Deletion(NamedTuple):
    """A resource that a server deleted, at a time if it is known; no id for those of a search."""

    resource_type: str
    id: str
    time: str | None


def find_files(folder: Path, resource_type: str) -> list[Path]:
    """The files of a folder, at any depth, that may have resources of a type."""
    paths = {
        path for pattern in PATTERNS for path in folder.glob(f"**/{pattern}")
    }
    return [
        path for path in sorted(paths) if has_resources(path, resource_type)
    ]


def has_resources(path: Path, resource_type: str) -> bool:
    """Whether to look for resources of a type in a file.

    JSON lines have one type, by their name or by how they begin; a document may have every type.
    """
    with suppress(*READ_ERRORS), _open(path) as file:
        head = file.read(4096).replace(b"\0", b"")  # UTF-16 too
        types = {name.decode() for name in _TYPE.findall(head)}
        if ".json" in path.suffixes:
            return bool(types)
        return resource_type in path.name or resource_type in types
    return resource_type in path.name  # damaged: reading it says so


def read_resources(
    paths: Sequence[Path],
    resource_type: str,
    file_faults: FileFaults,
) -> Iterator[JsonObject]:
    """The resources of a type; lines that are not whole go to `file_faults`.

    Another type in a file of JSON lines is listed once.

    Raises:
        TableError: a resource of another release than R4, or a damaged file.
    """
    for path in paths:
        unread = set()
        for number, line in _lines(path, file_faults):
            try:
                resources = entries(json.loads(line))
            except (ValueError, RecursionError):
                problem = f"{NO_ROW}: JSON that is cut or malformed"
                file_faults.append((path.name, number, problem))
                continue
            for resource in resources:
                other = str(resource.get("resourceType"))
                if other == resource_type:
                    _check_release(resource, path)
                    yield resource
                elif other in COLUMNS and other not in unread:
                    unread.add(other)
                    if not has_resources(path, other):
                        problem = (
                            f"{other} in a file of other resources, not read"
                        )
                        file_faults.append((path.name, number, problem))


def entries(value: object) -> list[JsonObject]:
    """The resources of a Bundle or a list, or the one resource, with the ids of their URLs."""
    if isinstance(value, list):
        return list(chain.from_iterable(map(entries, value)))
    if not isinstance(value, dict):
        return []
    if value.get("resourceType") != "Bundle":
        return [value]
    return [
        {"id": address_id("".join(texts(entry, "fullUrl"))), **resource}
        for entry in values(value, "entry")
        if not _is_deletion(entry)
        for resource in values(entry, "resource")
        if isinstance(resource, dict)
    ]


def read_deletions(
    paths: Sequence[Path], file_faults: FileFaults
) -> Iterator[Deletion]:
    """The deletions in Bundles: of a Bulk export with `deleted` files, or of a history.

    Each is listed in `file_faults`. A damaged line says so where resources are read.
    """
    for path in paths:
        for number, line in _lines(path, []):
            if not _DELETES.search(line):
                continue
            with suppress(ValueError, RecursionError):
                for deletion in _deletions(json.loads(line)):
                    problem = "resource that was deleted, not read"
                    if not deletion.id:
                        problem = "deletion by a search, not applied"
                    file_faults.append((path.name, number, problem))
                    yield deletion


def _deletions(value: object) -> Iterator[Deletion]:
    bundles = [value]
    if isinstance(value, list):
        bundles = value
    for bundle in bundles:
        for entry in values(bundle, "entry"):
            if not _is_deletion(entry):
                continue
            url = first(
                texts(entry, "request", "url"), texts(entry, "fullUrl")
            )
            address = (url or "").split("/_history")[0].rstrip("/")
            resource_type, _, name = address.rpartition("/")
            if "?" in address:
                name = ""
            time = first(
                texts(entry, "response", "lastModified"),
                texts(entry, "resource", "meta", "lastUpdated"),
                texts(bundle, "timestamp"),
                texts(bundle, "meta", "lastUpdated"),
            )
            yield Deletion(resource_type.rpartition("/")[2], name, time)


def _is_deletion(entry: object) -> bool:
    return texts(entry, "request", "method") == ["DELETE"]


def _check_release(resource: JsonObject, path: Path) -> None:
    is_document = resource["resourceType"] == "DocumentReference"
    name = "class"  # a list since R5, as is the context
    if is_document:
        name = "context"
    release = ""
    if isinstance(resource.get(name), list) or "actualPeriod" in resource:
        release = "R5 (a list of classes or contexts, or actualPeriod)"
    elif is_document and ("indexed" in resource or "class" in resource):
        release = "STU3 (indexed or class)"
    if release:
        raise TableError(
            f"{path.name} is FHIR {release}; expected R4, fhirVersion 4.0.1"
        )


def _lines(path: Path, file_faults: FileFaults) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file of JSON lines; a document of several lines is one."""
    with read_errors(path), _open(path) as raw:
        encoding = "utf-8"
        if raw.read(2) in _UTF16_MARKS:
            encoding = "utf-16"
        raw.seek(0)
        file = io.TextIOWrapper(raw, encoding, errors="surrogateescape")
        first = file.readline()
        lines = chain([first], file)
        if ".json" in path.suffixes and not _is_json(first):
            lines = chain([first + file.read()])
        is_faulty = False
        for number, line in enumerate(lines, start=1):
            text = _utf8(line)
            if text != line and not is_faulty:
                is_faulty = True
                problem = "bytes that are not UTF-8, read as windows-1252"
                file_faults.append((path.name, number, problem))
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
    if is_packed:
        return gzip.open(file)  # type: ignore[return-value]
    return file
