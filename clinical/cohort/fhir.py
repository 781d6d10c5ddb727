"""FHIR R4 Bulk Data: resources as JSON lines, and the text of their attachments."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from domainbert.tables import TableError
from domainbert.tables.csv_files import NO_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import duckdb
    import pyarrow as pa

_BATCH_BYTES = 8_000_000
_BLOCKS = re.compile("p|div|br|tr|li|h[1-6]|table|ul|ol|section")
_RTF = re.compile(
    r"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-f]{2})|\\([^a-z])|([{}])|[\r\n]+|(.)", re.IGNORECASE
)
_RTF_HIDDEN = re.compile(
    "fonttbl|colortbl|stylesheet|info|pict|generator|header|footer|object|themedata"
)
_RTF_SIGNS = {"par": "\n", "line": "\n", "row": "\n", "tab": "\t", "cell": "\t", "~": " ", "_": "-"}


def add_functions(con: duckdb.DuckDBPyConnection) -> None:
    """Define what the views of FHIR call: `fhir_id`, `attachment_text` and `section_text`."""
    con.execute(
        "CREATE MACRO fhir_id(reference) AS "
        r"regexp_extract(regexp_replace(reference, '/_history/.*$', ''), '([^/:]+)$', 1)"
    )
    for function in (attachment_text, section_text):
        con.create_function(
            function.__name__, function, ["VARCHAR"], "VARCHAR", null_handling="special"
        )


def resources(
    paths: Sequence[Path], kind: str, flaws: list[tuple[str, int, str]]
) -> Iterator[pa.RecordBatch]:
    """The resources of a kind as text; lines that are not whole are listed in `flaws`.

    Raises:
        TableError: the resources are of another release than R4.
    """
    import pyarrow as pa

    lines: list[str] = []
    size = 0
    for path in paths:
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                try:
                    resource = json.loads(line) if line.strip() else None
                except ValueError:
                    flaws.append((path.name, number, f"{NO_ROW}: JSON that is cut or malformed"))
                    continue
                if isinstance(resource, dict) and resource.get("resourceType") == kind:
                    _check_release(resource, path)
                    lines.append(line)
                    size += len(line)
                if size > _BATCH_BYTES:
                    yield pa.record_batch([pa.array(lines, pa.string())], ["json"])
                    lines, size = [], 0
    yield pa.record_batch([pa.array(lines, pa.string())], ["json"])


def _check_release(resource: dict[str, Any], path: Path) -> None:
    is_document = resource["resourceType"] == "DocumentReference"
    one = resource.get("context" if is_document else "class")  # a list since R5
    if isinstance(one, list) or "actualPeriod" in resource:
        found = "R5 (a list of classes or contexts, or actualPeriod)"
    elif is_document and ("indexed" in resource or "class" in resource):
        found = "STU3 (indexed or class)"
    else:
        return
    raise TableError(f"{path.name} is FHIR {found}; expected R4: export it as fhirVersion 4.0.1")


def attachment_text(content: str | None) -> str | None:
    """The text of the attachments of a document, which are one text in several formats.

    Plain text is preferred, then HTML, then RTF; None where none of them can be read.
    """
    given = json.loads(content) if content else []
    attachments = [item.get("attachment", item) for item in given if isinstance(item, dict)]
    for kinds, read in _READERS.items():
        for attachment in attachments:
            kind = str(attachment.get("contentType", "")).partition(";")[0].strip().lower()
            data = "".join(str(attachment.get("data", "")).split())
            try:
                if kind in kinds and data:
                    return read(base64.b64decode(data, validate=True).decode("utf-8", "replace"))
            except ValueError:  # not base64
                continue
    return None


def section_text(sections: str | None) -> str | None:
    """The narrative of the sections of a Composition, in order, with their titles."""

    def parts(section: dict[str, Any]) -> Iterator[str]:
        yield str(section.get("title", ""))
        yield _html(str(section.get("text", {}).get("div", "")))
        for inner in section.get("section", []):
            yield from parts(inner)

    texts = [part for one in json.loads(sections or "[]") for part in parts(one) if part.strip()]
    return "\n\n".join(texts) or None


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._hidden += tag in ("script", "style")
        self.parts.append("\n" if _BLOCKS.fullmatch(tag) else "\t" if tag in ("td", "th") else "")

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
        elif not hidden and skip and (code or letter):  # stands for a Unicode letter before it
            skip -= 1
        elif not hidden and word == "u":
            parts.append(chr(int(argument or 0) % 0x10000))
            skip = 1
        elif not hidden:
            text = bytes.fromhex(code).decode("cp1252", "replace") if code else letter
            parts.append(_RTF_SIGNS.get(word or sign, sign if sign in "\\{}" else "") or text)
    return "".join(parts).strip()


_READERS: dict[tuple[str, ...], Callable[[str], str]] = {
    ("text/plain",): str,
    ("text/html", "application/xhtml+xml"): _html,
    ("text/rtf", "application/rtf"): _rtf,
}
