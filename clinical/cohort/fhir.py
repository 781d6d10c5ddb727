"""FHIR R4: the fields of resources as rows of text, from Bulk Data or a request."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.files import whole_text
from domainbert.tables import TableError
from domainbert.tables.csv_files import NO_ROW

if TYPE_CHECKING:
    import pyarrow as pa

    from domainbert.tables.options import Flaws

    Fields = Mapping[str, str]  # name -> place

_BATCH_ROWS = 500  # notes among them
_MANY = (
    "codes",
    "encounters",
    "disposition_codes",
)  # all values, with spaces between them
_CHARSET = re.compile(r'charset="?([\w.:-]{1,40})', re.IGNORECASE)
_BLOCKS = re.compile("p|div|br|tr|li|h[1-6]|table|ul|ol|section")
_RTF = re.compile(
    r"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-f]{2})|\\([^a-z])|([{}])|[\r\n]+|(.)",
    re.IGNORECASE,
)
_RTF_HIDDEN = re.compile(
    "fonttbl|colortbl|stylesheet|info|pict|generator|header|footer|object|themedata"
)
_RTF_SIGNS = {
    "par": "\n",
    "line": "\n",
    "row": "\n",
    "tab": "\t",
    "cell": "\t",
    "~": " ",
    "_": "-",
}


def batches(
    paths: Sequence[Path], kind: str, fields: Fields, flaws: Flaws
) -> Iterator[pa.RecordBatch]:
    """The resources of a kind as rows, for one pass; lines that are not whole go to `flaws`.

    Raises `TableError` for resources of another release than R4.
    """
    import pyarrow as pa

    schema = pa.schema([(name, pa.string()) for name in columns_of(fields)])

    def rows() -> Iterator[dict[str, str | None]]:
        for path, resource in _resources(paths, flaws):
            if resource.get("resourceType") != kind:
                continue
            if release := _other_release(resource):
                raise TableError(
                    f"{path.name} is FHIR {release}; expected R4, fhirVersion 4.0.1"
                )
            yield read_resource(resource, fields)

    found = rows()
    while piece := list(islice(found, _BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(piece, schema)


def _resources(
    paths: Sequence[Path], flaws: Flaws
) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in paths:
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = [file.read()] if path.suffix == ".json" else file
            for number, line in enumerate(lines, start=1):
                try:
                    found = entries(json.loads(line)) if line.strip() else []
                    yield from ((path, resource) for resource in found)
                except (ValueError, RecursionError):
                    flaws.append(
                        (path.name, number, f"{NO_ROW}: JSON that is cut or malformed")
                    )


def has_resources(path: Path) -> bool:
    """Whether a file has FHIR: JSON lines by their name, a whole document by how it begins."""
    with path.open("rb") as file:
        return path.suffix != ".json" or b'"resourceType"' in file.read(4096)


def _other_release(resource: dict[str, Any]) -> str | None:
    is_document = resource["resourceType"] == "DocumentReference"
    one = resource.get("context" if is_document else "class")  # a list since R5
    if isinstance(one, list) or "actualPeriod" in resource:
        return "R5 (a list of classes or contexts, or actualPeriod)"
    if is_document and ("indexed" in resource or "class" in resource):
        return "STU3 (indexed or class)"
    return None


def columns_of(fields: Fields) -> list[str]:
    """The columns of rows with these fields; those with encounters are notes."""
    return [*fields, *(["error", "text", "fault"] if "encounters" in fields else [])]


def read_resource(resource: dict[str, Any], fields: Fields) -> dict[str, str | None]:
    """The row of a resource; None where it has no value, or one of another type.

    A field is at a place such as "type.coding.code", or at the first of several, divided by "|".
    """
    row: dict[str, str | None] = {}
    for name, places in fields.items():
        found = [
            text
            for place in places.split("|")
            for text in _texts(resource, place.strip())
        ]
        row[name] = " ".join(found) if name in _MANY else next(iter(found), None)
    if "encounters" in fields:
        form = [
            *values_at(resource, "content.attachment"),
            *values_at(resource, "presentedForm"),
        ]
        is_document = resource["resourceType"] == "DocumentReference"
        others = [section_text(resource), *_texts(resource, "conclusion")]
        # The narrative of a document is about the document; that of the others may be all there is.
        others += [] if is_document else map(_html, _texts(resource, "text.div"))
        own = attachment_text(form, values_at(resource, "contained"))
        text = next(filter(None, [own, *others]), None)
        is_error = "entered-in-error" in (
            resource.get("status"),
            resource.get("docStatus"),
        )
        is_lost = not text and (form or is_document)
        row |= {
            "error": str(int(is_error)),
            "text": text,
            "fault": "1" if is_lost else None,
        }
    return {name: value and whole_text(value) for name, value in row.items()}


def values_at(value: Any, place: str) -> list[Any]:
    """All that is at a place such as "type.coding.code"; lists are opened on the way."""
    found = [value]
    for name in place.split("."):
        inner = [each.get(name) for each in found if isinstance(each, dict)]
        found = [
            one
            for each in inner
            for one in (each if isinstance(each, list) else [each])
        ]
    return [each for each in found if each is not None]


def _texts(resource: dict[str, Any], place: str) -> list[str]:
    """The texts at a place; of references the ids, of those to contained resources none."""
    found = [
        str(v).lower() if isinstance(v, bool) else v for v in values_at(resource, place)
    ]
    texts = [each for each in found if isinstance(each, str)]
    if place.endswith(".reference"):
        texts = [
            re.split("[/:]", t.split("/_history")[0])[-1] for t in texts if t[:1] != "#"
        ]
    return [text for text in texts if text.strip()]


def entries(value: Any) -> list[dict[str, Any]]:
    """The resources of a Bundle, or the one resource; the last part of a URL is an id too."""
    if not isinstance(value, dict) or value.get("resourceType") != "Bundle":
        return [value] if isinstance(value, dict) else []
    return [
        {
            "id": "".join(_texts(entry, "fullUrl"))
            .replace(":", "/")
            .rpartition("/")[2],
            **resource,
        }
        for entry in values_at(value, "entry")
        for resource in values_at(entry, "resource")
        if isinstance(resource, dict)
    ]


def attachment_text(
    attachments: Sequence[Any], contained: Sequence[Any] = ()
) -> str | None:
    """The text of the attachments of a document, which are one text in several formats.

    Plain text is preferred, then HTML, then RTF; None where none of them can be read. `contained`
    has the Binary of an attachment with the address `#id`.
    """
    inner = {f"#{each.get('id')}": each for each in contained if isinstance(each, dict)}
    given = [
        inner.get(str(a.get("url")), a) for a in attachments if isinstance(a, dict)
    ]
    for kinds, read in _READERS.items():
        for attachment in given:
            kind = str(attachment.get("contentType", ""))
            data = "".join(str(attachment.get("data", "")).split())
            charset = _CHARSET.search(kind)
            try:
                if kind.partition(";")[0].strip().lower() in kinds and data:
                    raw = base64.b64decode(data, validate=True)
                    return read(
                        raw.decode(charset[1] if charset else "utf-8", "replace")
                    )
            except (ValueError, LookupError):  # not base64, or an unknown charset
                continue
    return None


def section_text(composition: Any) -> str | None:
    """The narrative of the sections of a Composition, in order, with their titles."""

    def parts(section: Any) -> Iterator[str]:
        yield from _texts(section, "title")
        yield from map(_html, _texts(section, "text.div"))
        for inner in values_at(section, "section"):
            yield from parts(inner)

    sections = values_at(composition, "section")
    return (
        "\n\n".join(part for each in sections for part in parts(each) if part.strip())
        or None
    )


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._hidden += tag in ("script", "style")
        self.parts.append(
            "\n" if _BLOCKS.fullmatch(tag) else "\t" if tag in ("td", "th") else ""
        )

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        self.parts.append("" if self._hidden else re.sub(r"\s+", " ", data))


def _html(markup: str) -> str:
    parser = _Text()
    parser.feed(markup)
    parser.close()
    return re.sub(r"[ \t]*\n\s*", "\n", "".join(parser.parts)).strip()


def _rtf(markup: str) -> str:
    """The text of RTF: control words give signs or nothing, hidden groups nothing."""
    parts: list[str] = []
    groups, hidden, skip = [False], False, 0
    for word, argument, code, sign, brace, letter in _RTF.findall(markup):
        if brace == "{":
            groups.append(hidden)
        elif brace:
            hidden = groups.pop() if groups else False
        elif _RTF_HIDDEN.fullmatch(word) or sign == "*":
            hidden = True
        elif (
            not hidden and skip and (code or letter)
        ):  # stands for a Unicode letter before it
            skip -= 1
        elif not hidden and word == "u":
            parts.append(chr(int(argument or 0) % 0x10000))
            skip = 1
        elif not hidden:
            text = bytes.fromhex(code).decode("cp1252", "replace") if code else letter
            parts.append(
                _RTF_SIGNS.get(word or sign, sign if sign in "\\{}" else "") or text
            )
    return "".join(parts).strip()


_READERS: dict[tuple[str, ...], Callable[[str], str]] = {
    ("text/plain",): str,
    ("text/html", "application/xhtml+xml"): _html,
    ("text/rtf", "application/rtf"): _rtf,
}
