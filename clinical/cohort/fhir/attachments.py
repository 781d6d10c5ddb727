"""The text of FHIR attachments: character sets, HTML and RTF, in time that grows linearly.

Nothing is lost silently: what had to be guessed or was left out is a remark of the reading.
"""

import base64
import codecs
import html
import re
from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, groupby
from typing import Any, NamedTuple

from clinical.cohort.fhir.values import address_id
from domainbert.files import read_toml, whole_text

LONGEST = 16 << 20  # bytes of an attachment; a longer one is not read
LEFT_OUT = "words that are struck out, deleted or hidden are left out"
JOINED = "several texts of one format are joined"
UNREAD = "a part of the document is not read: a link, not text or not base64"

_DATA = read_toml(__file__, "attachments.toml")
_UNNAMED = 3  # another type, read only where its bytes are HTML or RTF
_IS_RTF = re.compile(rb"\s*\{\\rtf")
_IS_HTML = re.compile(
    rb"\s*(<\?xml[^>]{0,200}>\s*)?<(!doctype html|html)\b", re.I
)
_IS_BINARY = re.compile(rb"%PDF|PK\x03\x04|\xd0\xcf\x11\xe0")
_CHARSET = re.compile(r'charset\s*=\s*["\']?([\w.:-]{1,40})', re.IGNORECASE)
_INNER_CHARSET = re.compile(
    r'(?:charset|encoding)\s*=\s*["\']?([\w.:-]{1,40})', re.I
)


@dataclass(frozen=True)
class Reading:
    """The text of a document, None where it cannot be read, and remarks on how it was read."""

    text: str | None = field(repr=False)
    remarks: tuple[str, ...] = ()


def read_attachments(
    attachments: Iterable[Any],
    *binaries: Mapping[str, Any],
) -> Reading:
    """The text of the attachments of a document, which are one text in several formats.

    Plain text is preferred, then HTML, then RTF. Several attachments of the preferred format have
    different words (pages, say) and are joined. Each of `binaries` has Binary resources by id,
    contained ones by `#id`.
    """
    linked = ChainMap(*binaries)
    sources = [
        linked.get(_linked_id(attachment), attachment)
        for attachment in attachments
        if isinstance(attachment, dict)
    ]
    # A Binary is read once, however many links it has.
    unique = {id(source): source for source in sources}.values()
    for _, group in groupby(sorted(unique, key=_rank), key=_rank):
        readings = list(map(_read, group))
        all_texts = [reading.text for reading in readings]
        texts = dict.fromkeys(text for text in all_texts if text is not None)
        if not texts:
            continue
        remarks = list(chain(*(reading.remarks for reading in readings)))
        if len(texts) > 1:
            remarks.append(JOINED)
        if None in all_texts:
            remarks.append(UNREAD)
        return Reading("\n\n".join(texts), tuple(dict.fromkeys(remarks)))
    return Reading(None)


def link_of(attachments: Iterable[Any]) -> str | None:
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


def _linked_id(attachment: Mapping[str, object]) -> str:
    return address_id(str(attachment.get("url") or ""))


def _rank(attachment: Mapping[str, Any]) -> int:
    content_type = str(attachment.get("contentType", ""))
    return _DATA["ranks"].get(
        content_type.partition(";")[0].strip().lower(), _UNNAMED
    )


def _read(attachment: Mapping[str, Any]) -> Reading:
    """The text of one attachment with data."""
    data = "".join(str(attachment.get("data") or "").split())
    padding = "=" * (-len(data) % 4)
    try:
        raw = base64.b64decode(data + padding, validate=True)
    except ValueError:
        return Reading(None)
    if not raw or len(raw) > LONGEST or _IS_BINARY.match(raw):
        return Reading(None)
    if _IS_RTF.match(raw):
        return rtf_text(raw)
    rank = _rank(attachment)
    is_html = rank == 1 or bool(_IS_HTML.match(raw))
    if rank == _UNNAMED and not is_html:
        return Reading(None)
    named = _CHARSET.search(str(attachment.get("contentType", "")))
    if is_html:
        named = named or _INNER_CHARSET.search(raw[:1024].decode("latin-1"))
    reading = decode(raw, named[1] if named else None)
    if reading.text is None or not is_html:
        return reading
    words = html_text(reading.text)
    return Reading(words.text, reading.remarks + words.remarks)


# -- character sets -----------------------------------------------------------------------------

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_CODE_PAGE = re.compile(
    r"(?:x-)?(?:windows|win|cp|ms|ibm)?[-_ ]?(125[0-8]|874|93[26]|949|950|437|85[0258]|866)"
)
_TEXT_CODEC = re.compile(
    "utf|cp|iso8859|iso2022|koi8|mac|gb|hz|big5|euc|shift|tis|johab"
)


def decode(raw: bytes, charset: str | None) -> Reading:
    """The text of bytes in a named character set, without a byte-order mark.

    Without a name, or in another set than they name, bytes are UTF-8, UTF-16 or windows-1252,
    the first that fits, and a remark says so unless nothing was named and they are UTF-8.
    """
    named = find_codec(charset) if charset else "utf-8"
    guess = "utf-16-be" if raw[:1] == b"\0" else "utf-16-le"
    if named == "utf-16":
        named = guess
    candidates = [named] if named else []
    if b"\0" in raw[:4] and not str(named).startswith(("utf-16", "utf-32")):
        candidates = [guess]  # every other byte of Latin letters in UTF-16
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if raw.startswith(mark):
            named = encoding
            candidates = [encoding]
            break
    for encoding in [*candidates, "utf-8", "cp1252"]:
        with suppress(UnicodeError):
            text = raw.decode(encoding).replace("\ufeff", "")
            return Reading(
                text,
                () if encoding == named else (_guessed(charset, encoding),),
            )
    return Reading(None)


@lru_cache  # documents may name any number of others
def find_codec(charset: str) -> str | None:
    """Python's name of a character set, as documents spell it; None where it is not known."""
    label = charset.strip().lower()
    if page := _CODE_PAGE.fullmatch(label):
        return f"cp{page[1]}"
    with suppress(LookupError):
        label = codecs.lookup(_DATA["spellings"].get(label, label)).name
        label = _DATA["spellings"].get(label, label)
        return label if _TEXT_CODEC.match(label) else None
    return None


def _guessed(charset: str | None, encoding: str) -> str:
    """The remark on a character set that is not the one that was named."""
    name = {"cp1252": "windows-1252"}.get(encoding, encoding.upper())
    if charset is None:
        return f"text that names no character set and is not UTF-8, read as {name}"
    return (
        f"text whose character set is unknown or wrongly named, read as {name}"
    )


# -- HTML ---------------------------------------------------------------------------------------

_INLINE = frozenset(_DATA["html"]["inline"].split())
_NO_TEXT = frozenset(_DATA["html"]["no_text"].split())
_STRUCK = frozenset(_DATA["html"]["struck"].split())
_HIDDEN_STYLE = re.compile(r"display:none|visibility:hidden|line-through")
_TAG = re.compile(r"<[a-zA-Z/!?]")
_END_TAG = re.compile(r"</([a-zA-Z][^\s/<>]{0,40}+)[^<>]{0,200}+>")


def html_text(markup: str) -> Reading:
    """The words of HTML: a line for each block, a tab between table cells, `<pre>` as it is."""
    from lxml import etree

    markup = whole_text(markup.replace("\0", ""))
    # Without tags it is plain text, whose line breaks count.
    if not _TAG.search(markup):
        return Reading(html.unescape(markup).strip())
    for mark in _DATA["html"]["unclosed"]:
        markup = _without_unclosed(markup, **mark)
    # After the last tag, "<" is a sign of the text: "BP < 120".
    tags, _, tail = markup.rpartition(">")
    markup = f"{tags}>{tail.replace('<', '&lt;')}" if tags else markup
    target = _HtmlTarget()
    parser = etree.HTMLParser(target=target, huge_tree=True)
    position = 0
    for tag in _END_TAG.finditer(markup):
        parser.feed(markup[position : tag.start()])
        position = tag.end()
        # The parser looks for what an end tag closes among all that is open: quadratic time.
        name = tag[1].lower()
        if target.n_open[name] or name in ("body", "html"):
            parser.feed(tag[0])
        elif name == "p":
            parser.feed("<br>")
    parser.feed(markup[position:])
    text = parser.close()
    return Reading(text, (LEFT_OUT,) if target.left_out else ())


def _without_unclosed(
    markup: str, *, start: str, end: str, instead: str
) -> str:
    """HTML without start marks that nothing closes: they would hide the rest of the note."""
    closed = markup.lower().rfind(end)
    head = markup[: closed + 1]
    tail = markup[closed + 1 :]
    return head + re.sub(re.escape(start), instead, tail, flags=re.I)


class _HtmlTarget:
    """Collects the words of HTML from the events of a parser."""

    def __init__(self) -> None:
        self.left_out = False
        self.n_open: Counter[str] = Counter()
        self._parts: list[str] = []
        # For each open element, whether it is hidden and whether it is verbatim.
        self._open = [(False, False)]
        # Whether the next word is the first of its line or cell.
        self._at_break = True
        self._space = False  # there is space before the next word

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element; what is in it may be hidden or verbatim."""
        style = "".join(attributes.get("style", "").lower().split())
        hidden, verbatim = self._open[-1]
        is_left_out = (
            tag in _STRUCK
            or "hidden" in attributes
            or bool(_HIDDEN_STYLE.search(style))
        )
        self.left_out |= is_left_out
        hidden = hidden or is_left_out or tag in _NO_TEXT
        verbatim = (
            verbatim
            or tag in ("pre", "textarea")
            or "white-space:pre" in style
        )
        self._open.append((hidden, verbatim))
        self.n_open[tag] += 1
        self._break(tag)

    def end(self, tag: str) -> None:
        self.n_open[tag] -= 1
        if len(self._open) > 1:
            self._open.pop()
        if tag not in ("td", "th"):
            self._break(tag)

    def data(self, text: str) -> None:
        """Add text, with white space as a browser shows it."""
        hidden, verbatim = self._open[-1]
        if hidden or not text:
            return
        if verbatim:
            self._parts.append(text.replace("\r\n", "\n"))
            self._at_break = text.endswith("\n")
            return
        words = " ".join(text.split())
        self._space |= text[0].isspace()
        if words:
            between = " " if self._space and not self._at_break else ""
            self._parts.append(between + words)
            self._at_break = False
            self._space = text[-1].isspace()

    def close(self) -> str:
        return "".join(self._parts).strip()

    def _break(self, tag: str) -> None:
        """End the line before and after a block, and the cell before another."""
        is_inline = tag in _INLINE or ":" in tag
        if not is_inline and not self._at_break:
            self._parts.append("\t" if tag in ("td", "th") else "\n")
            self._at_break = True
        self._space = self._space and is_inline


# -- RTF ----------------------------------------------------------------------------------------

_RTF_TOKEN = re.compile(
    r"((?:\\'[0-9a-fA-F]{2}|[^\\{}])++)"  # letters, and bytes in the code page
    r"|\\([a-zA-Z]{1,32})(-?\d{1,10})? ?"  # a control word
    r"|\\(.?)"  # a control symbol
    r"|([{}])",
    re.DOTALL,
)
_RTF_BYTE = re.compile(r"\\'(..)|[\r\n]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_RTF = _DATA["rtf"]
_RTF_NO_TEXT = frozenset(_RTF["no_text"].split())
_RTF_LEFT_OUT = frozenset(_RTF["left_out"].split())
_RTF_LOST = "letters that the code page of the RTF does not have are lost"


def rtf_text(raw: bytes) -> Reading:
    """The words of RTF: control words give signs or nothing; hidden and deleted words are left out.

    Bytes that are not ASCII are UTF-8 where they can be, and else in the text's code page.
    """
    with suppress(UnicodeDecodeError):
        text = raw.decode("utf-8-sig")
        raw = _NOT_ASCII.sub(_unicode_words, text).encode("ascii")
    return _RtfReader().read(raw.decode("latin-1"))


def _unicode_words(letter: re.Match[str]) -> str:
    """A letter as RTF writes it: a control word for each of its UTF-16 units."""
    units = memoryview(letter[0].encode("utf-16-le")).cast("H")
    return "".join(rf"{{\uc0\u{unit} }}" for unit in units)


class _RtfGroup(NamedTuple):
    """What holds up to the end of a group of RTF; `replacements` follow a Unicode letter."""

    is_text: bool = True
    left_out: frozenset[str] = frozenset()
    page: str | None = None  # None for that of the document
    replacements: int = 1


class _RtfReader:
    """Reads RTF token by token."""

    def __init__(self) -> None:
        self._group = _RtfGroup()
        self._outer: list[_RtfGroup] = []
        # Code pages of fonts, and of the document.
        self._pages: dict[int | None, str] = {None: "cp1252"}
        # The font that the table of fonts describes, inside of it.
        self._font: int | None = None
        self._skip = 0  # letters that stand for the Unicode letter before them
        self._parts: list[str] = []
        self._remarks: dict[str, None] = {}

    def read(self, markup: str) -> Reading:
        """The text of RTF markup, of which each character is a byte."""
        position = 0
        while token := _RTF_TOKEN.match(markup, position):
            position = token.end()
            letters, word, number, symbol, brace = token.groups()
            # A switch is on without a number.
            value = int(number or word in _RTF_LEFT_OUT)
            if letters:
                self._add_letters(letters)
            elif word == "bin" and position + value <= len(markup):
                position += max(value, 0)
            elif word:
                self._control(word, value)
            elif symbol:
                self._add_symbol(symbol)
            elif brace:
                self._brace(brace)
        # Letters beyond the first 65,536 are written as two halves.
        units = "".join(self._parts).encode("utf-16-le", "surrogatepass")
        words = units.decode("utf-16-le", "replace").strip()
        return Reading(words, tuple(self._remarks))

    def _brace(self, brace: str) -> None:
        """Open or close a group."""
        self._skip = 0
        if brace == "{":
            self._outer.append(self._group)
        elif self._outer:
            self._group = self._outer.pop()
            if self._group.is_text:
                self._font = None

    def _control(self, word: str, value: int) -> None:
        """A control word."""
        self._skip = 0
        if word == "u":
            self._add(chr(value % 0x10000))
            self._skip = self._group.replacements
        elif word in _RTF["signs"]:
            self._add(_RTF["signs"][word])
        elif word == "uc":
            self._change(replacements=max(value, 0))
        elif word in _RTF_LEFT_OUT:
            words = self._group.left_out - {word}
            self._change(left_out=words | {word} if value else words)
        elif word == "plain":
            self._change(left_out=frozenset())
        elif word in _RTF_NO_TEXT:
            self._change(is_text=False)
            self._font = 0 if word == "fonttbl" else None
        elif word == "shptxt":
            # The text of a drawing is inside a group that is not text.
            self._change(is_text=True)
        elif word == "f" and self._font is None:
            self._change(page=self._pages.get(value))
        elif word == "f":
            self._font = value
        else:
            self._set_page(word, value)

    def _set_page(self, word: str, value: int) -> None:
        """A control word for the code page of a font or of the document."""
        page = _RTF["pages"].get(f"{word}{value}")
        if word in ("ansicpg", "cpg"):
            page = find_codec(f"cp{value}")
        if page:
            self._pages[self._font] = page

    def _add_symbol(self, symbol: str) -> None:
        if symbol == "*":
            self._change(is_text=False)
        elif self._skip:
            self._skip -= 1
        else:
            self._add(_RTF["symbols"].get(symbol, ""))

    def _add_letters(self, letters: str) -> None:
        """Decode a run of letters in their code page, where two bytes may be one letter."""
        codes = _RTF_BYTE.sub(
            lambda code: chr(int(code[1], 16)) if code[1] else "", letters
        ).encode("latin-1")
        page = self._group.page or self._pages[None]
        text = codes[self._skip :].decode(page, "replace")
        self._skip = max(self._skip - len(codes), 0)
        if "\ufffd" in text:
            self._remarks[_RTF_LOST] = None
        self._add(text)

    def _add(self, text: str) -> None:
        if self._group.is_text and self._group.left_out and text.strip():
            self._remarks[LEFT_OUT] = None
        elif self._group.is_text and not self._group.left_out:
            self._parts.append(text)

    def _change(self, **values: Any) -> None:
        self._group = self._group._replace(**values)
