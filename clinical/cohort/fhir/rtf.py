"""The words of RTF, in time that grows linearly."""

import re
from contextlib import suppress
from typing import Any, NamedTuple

from clinical.cohort.fhir.charsets import LEFT_OUT, Reading, find_codec
from domainbert.files import read_toml

_RTF = read_toml(__file__, "attachments.toml")["rtf"]
_RTF_TOKEN = re.compile(
    r"((?:\\'[0-9a-fA-F]{2}|[^\\{}])++)"  # letters, and bytes in the code page
    r"|\\([a-zA-Z]{1,32})(-?\d{1,10})? ?"  # a control word
    r"|\\(.?)"  # a control symbol
    r"|([{}])",
    re.DOTALL,
)
_RTF_BYTE = re.compile(r"\\'(..)|[\r\n]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
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


def _byte_letter(code: re.Match[str]) -> str:
    """The Latin-1 letter of a byte in hexadecimal digits; "" for a line break."""
    if not code[1]:
        return ""
    return chr(int(code[1], 16))


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
            self._set_left_out(word, value)
        elif word == "plain":
            self._change(left_out=frozenset())
        elif word in _RTF_NO_TEXT:
            self._begin_no_text(word)
        elif word == "shptxt":
            # The text of a drawing is inside a group that is not text.
            self._change(is_text=True)
        elif word == "f" and self._font is None:
            self._change(page=self._pages.get(value))
        elif word == "f":
            self._font = value
        else:
            self._set_page(word, value)

    def _set_left_out(self, word: str, value: int) -> None:
        """A control word for text that is left out, such as hidden text; 0 ends it."""
        left_out = self._group.left_out - {word}
        if value:
            left_out |= {word}
        self._change(left_out=left_out)

    def _begin_no_text(self, word: str) -> None:
        """A control word for a group without text, such as the table of fonts."""
        self._change(is_text=False)
        self._font = None
        if word == "fonttbl":
            self._font = 0

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
        codes = _RTF_BYTE.sub(_byte_letter, letters).encode("latin-1")
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
