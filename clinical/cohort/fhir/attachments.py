"""The text of FHIR attachments, which are read as what they are, whatever type they claim.

Nothing is lost silently: what had to be guessed or was left out is a remark of the reading.
"""

import base64
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, groupby
from urllib.parse import unquote_to_bytes

from clinical.cohort.fhir.cda import cda_text, is_xml
from clinical.cohort.fhir.charsets import Reading, decode
from clinical.cohort.fhir.html import html_text
from clinical.cohort.fhir.rtf import rtf_text
from clinical.cohort.fhir.values import Resource, address_id
from domainbert.files import read_toml

LONGEST = 16 << 20  # bytes of an attachment; a longer one is not read
JOINED = "several texts of one format are joined"
UNREAD = "a part of the document is not read: a link, not text or not base64"

_RANKS = read_toml(__file__, "attachments.toml")["ranks"]
_PLAIN = 0
_MARKUP = 1
_XML = 3
_UNNAMED = (
    4  # another type, read only where its bytes are a form that is known
)
_DEEPEST = 3  # contents inside of contents: a data: URL, packed, base64
_HEAD = 4096
_BYTE_FORMS = (
    ("PDF", re.compile(rb"\s*%PDF-")),
    ("an Office or ZIP format", re.compile(rb"PK\x03\x04|\xd0\xcf\x11\xe0")),
    (
        "an image format",
        re.compile(
            rb"\x89PNG|\xff\xd8\xff|GIF8|II\*\0|MM\0\*|BM.{4}\0\0\0\0", re.S
        ),
    ),
    ("gzip", re.compile(rb"\x1f\x8b")),
)
# What XML has before its first element.
_PROLOG = r"\s*(?:<\?[^>]{0,300}+>\s*|<!--(?:[^-]|-(?!->)){0,1000}+-->\s*)*+"
_TEXT_FORMS = (
    ("RTF", re.compile(r"\s*\{\\rtf")),
    ("HTML", re.compile(_PROLOG + r"<(?:!doctype\s+html|html)\b", re.I)),
    ("C-CDA", re.compile(_PROLOG + r"<(?:[\w.-]{1,40}:)?ClinicalDocument\b")),
    ("XML", re.compile(r"\s*<\?xml\b")),
    ("HL7 v2", re.compile(r"\s*(?:MSH|FHS|BHS)\|")),
    (
        "a data: URL",
        re.compile(r"\s*data:[\w.+-]{1,60}/[\w.+-]{1,60}[;,]|\s*data:;?,"),
    ),
)
# A piece of HTML under the name of plain text.
_FRAGMENT = re.compile(
    r"\s*<(?:article|b|body|center|div|font|h[1-6]|i|ol|p|pre|section|span|strong|table|ul)"
    r"(?:\s[^<>]{0,300})?>.*</\w{1,10}\s*>",
    re.I | re.S,
)
_BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]{24,}+={0,2}")
_CHARSET = re.compile(r'charset\s*=\s*["\']?([\w.:-]{1,40})', re.IGNORECASE)
_INNER_CHARSET = re.compile(
    r'(?:charset|encoding)\s*=\s*["\']?([\w.:-]{1,40})', re.I
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_CONTROL_BYTES = bytes([*range(0x09), *range(0x0E, 0x20)])


def read_attachments(
    attachments: Iterable[object],
    *binaries: Resource,
) -> Reading:
    """The text of the attachments of a document, which are one text in several formats.

    Plain text is preferred, then HTML, RTF and C-CDA. Several attachments of the preferred format
    have different words (pages, say) and are joined. Each of `binaries` has Binary resources by
    id, contained ones by `#id`. A document without a text has remarks on what it holds.
    """
    sources = [
        _content_of(attachment, binaries)
        for attachment in attachments
        if isinstance(attachment, dict)
    ]
    # A Binary is read once, however many links it has.
    unique = {id(source): source for source in sources}.values()
    unread: list[str] = []
    for _, group in groupby(sorted(unique, key=_rank), key=_rank):
        readings = list(map(_read, group))
        all_texts = [reading.text for reading in readings]
        texts = dict.fromkeys(text for text in all_texts if text is not None)
        remarks = list(chain(*(reading.remarks for reading in readings)))
        if not texts:
            unread += remarks
            continue
        if len(texts) > 1:
            remarks.append(JOINED)
        if None in all_texts:
            remarks.append(UNREAD)
        return Reading("\n\n".join(texts), tuple(dict.fromkeys(remarks)))
    return Reading(None, tuple(dict.fromkeys(unread)))


def _content_of(
    attachment: Resource, binaries: Sequence[Resource]
) -> Resource:
    """The Binary that an attachment is a link to, or the attachment."""
    if not attachment.get("url"):
        return attachment
    name = _linked_id(attachment)
    for shelf in binaries:
        if name in shelf:
            content: Resource = shelf[name]
            return content
    return attachment


def link_of(attachments: Iterable[object]) -> str | None:
    """The id of the Binary that the preferred attachment is a link to, if it is one."""
    links = [
        attachment
        for attachment in attachments
        if isinstance(attachment, dict) and not attachment.get("data")
    ]
    for link in sorted(links, key=_rank):
        if "Binary/" in str(link.get("url")):
            return _linked_id(link)
    return None


def _linked_id(attachment: Resource) -> str:
    return address_id(str(attachment.get("url") or ""))


def _rank(attachment: Resource) -> int:
    return _rank_of(str(attachment.get("contentType") or ""))


@lru_cache  # documents may name any number of types
def _rank_of(content_type: str) -> int:
    """The place of a type among those that are preferred."""
    name = content_type.partition(";")[0].strip().lower()
    default = _UNNAMED
    # "ASCII Text" and such; text/markdown.
    if name.startswith("text/") or name.endswith("text"):
        default = _PLAIN
    rank: int = _RANKS.get(name, default)
    return rank


def _read(attachment: Resource) -> Reading:
    """The text of one attachment with data, in base64 or as a data: URL."""
    content_type = str(attachment.get("contentType") or "")
    data = str(attachment.get("data") or "")
    if not data:
        data = str(attachment.get("url") or "")
        if not data.startswith("data:"):
            return Reading(None)
    if data.startswith("data:"):
        return _read_bytes(data.encode(errors="replace"), content_type)
    raw = _from_base64(data)
    if raw is None:
        return Reading(None)
    return _read_bytes(raw, content_type)


def _from_base64(data: str) -> bytes | None:
    data = "".join(data.split())
    padding = "=" * (-len(data) % 4)
    try:
        return base64.b64decode(data + padding, validate=True)
    except ValueError:
        return None


def _read_bytes(raw: bytes, content_type: str, depth: int = 0) -> Reading:
    """The text of bytes; a remark names a form that is not read."""
    if not raw or len(raw) > LONGEST or depth > _DEEPEST:
        return Reading(None)
    for name, pattern in _BYTE_FORMS:
        if pattern.match(raw):
            return _read_binary(raw, name, content_type, depth)
    head = raw[:_HEAD].replace(b"\0", b"").decode("latin-1")  # UTF-16 too
    form = _form_of(head.lstrip("\xef\xbb\xbf\xff\xfe"))
    if form == "RTF":
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            raw = raw.decode("utf-16", "replace").encode()
        return rtf_text(raw)
    named = _CHARSET.search(content_type)
    if form or _rank_of(content_type) != _PLAIN:
        named = named or _INNER_CHARSET.search(head[:1024])
    charset = None
    if named:
        charset = named[1]
    reading = decode(raw, charset)
    if reading.text is None:
        return reading
    words = _words(reading.text, form, content_type, depth)
    return Reading(words.text, reading.remarks + words.remarks)


def _read_binary(
    raw: bytes, form: str, content_type: str, depth: int
) -> Reading:
    """The text of bytes in a binary form: only gzip is read."""
    inner = None
    if form == "gzip":
        inner = _unpacked(raw)
    if inner is None:
        return _not_read(form)
    return _read_bytes(inner, content_type, depth + 1)


def _words(text: str, form: str, content_type: str, depth: int) -> Reading:
    """The words of a text that begins as a form, or of one without a form."""
    rank = _rank_of(content_type)
    form = form or _whole_form(text)
    if not form and rank == _MARKUP:
        form = "HTML"
    elif not form and rank == _XML:
        form = "XML"
    elif not form and rank == _UNNAMED:
        form = "a type without text"
    if form in ("a data: URL", "base64"):
        inner, inner_type = _inner_content(text, content_type)
        return _read_bytes(inner, inner_type, depth + 1)
    if form == "C-CDA":
        words = cda_text(
            text, lambda body, name: _read_bytes(body, name, depth + 1)
        )
        if words.text is None and not words.remarks:
            return _not_read("C-CDA without a narrative")
        return words
    if form == "HTML":
        return html_text(text)
    if form:
        return _not_read(form)
    return Reading(text)


def _not_read(form: str) -> Reading:
    return Reading(None, (f"content in {form}, not read",))


def _form_of(head: str) -> str:
    """The form that a text begins as, or ""."""
    for name, pattern in _TEXT_FORMS:
        if pattern.match(head):
            return name
    return ""


def _whole_form(text: str) -> str:
    """The form that a whole text has, or "" where it is words."""
    stripped = text.strip()
    # Bytes are counted in a tenth of the time that a pattern takes.
    encoded = text.encode(errors="replace")
    n_control = len(encoded) - len(encoded.translate(None, _CONTROL_BYTES))
    if n_control * 20 > len(text):
        return "a binary format"
    if stripped[:1] in ("{", "[", '"') and stripped[-1:] in ("}", "]", '"'):
        is_escaped = stripped[0] != '"' or "\\" in stripped
        if is_escaped and _is_json(stripped):
            return "JSON"
    if _FRAGMENT.match(stripped):
        return "HTML"
    if stripped[:1] == "<" and stripped[-1:] == ">" and is_xml(stripped):
        return "XML"
    if _BASE64.fullmatch(stripped):
        inner = _from_base64(stripped)
        if inner and _is_content(inner):
            return "base64"
    return ""


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _is_content(raw: bytes) -> bool:
    """Whether bytes are a text of several words, or a form that is known."""
    if any(pattern.match(raw) for _, pattern in _BYTE_FORMS):
        return True
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return bool(
        _form_of(text) or (len(text.split()) > 1 and not _CONTROL.search(text))
    )


def _inner_content(text: str, content_type: str) -> tuple[bytes, str]:
    """The content of a data: URL, with its type, or of base64."""
    text = text.strip()
    if not text.startswith("data:"):
        return _from_base64(text) or b"", content_type
    header, _, data = text.removeprefix("data:").partition(",")
    inner_type = header.removesuffix(";base64") or content_type
    if header.endswith(";base64"):
        return _from_base64(data) or b"", inner_type
    return unquote_to_bytes(data), inner_type


def _unpacked(raw: bytes) -> bytes | None:
    """The bytes in gzip; None where they are damaged or too many."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            inner = file.read(LONGEST + 1)
    except (OSError, EOFError, zlib.error):
        return None
    if len(inner) > LONGEST:
        return None
    return inner
