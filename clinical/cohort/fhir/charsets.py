"""Character sets: the text of bytes, with a remark where the set had to be guessed."""

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from domainbert.files import read_toml

LEFT_OUT = "words that are struck out, deleted or hidden are left out"

_SPELLINGS = read_toml(__file__, "attachments.toml")["spellings"]


@dataclass(frozen=True)
class Reading:
    """The text of a document, None where it cannot be read, and remarks on how it was read."""

    text: str | None = field(repr=False)
    remarks: tuple[str, ...] = ()


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
    named: str | None = "utf-8"
    if charset:
        named = find_codec(charset)
    guess = "utf-16-le"
    if raw[:1] == b"\0":
        guess = "utf-16-be"
    if named == "utf-16":
        named = guess
    candidates = []
    if named:
        candidates.append(named)
    if b"\0" in raw[:4] and not str(named).startswith(("utf-16", "utf-32")):
        candidates = [guess]  # every other byte of Latin letters in UTF-16
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if raw.startswith(mark):
            named = encoding
            candidates = [encoding]
            break
    for encoding in [*candidates, "utf-8", "cp1252"]:
        with suppress(UnicodeError):
            text = raw.decode(encoding).removeprefix("\ufeff")
            if encoding == named:
                return Reading(text)
            return Reading(text, (_guessed(charset, encoding),))
    return Reading(None)


@lru_cache  # documents may name any number of others
def find_codec(charset: str) -> str | None:
    """Python's name of a character set, as documents spell it; None where it is not known."""
    label = charset.strip().lower()
    if page := _CODE_PAGE.fullmatch(label):
        return f"cp{page[1]}"
    with suppress(LookupError):
        label = codecs.lookup(_SPELLINGS.get(label, label)).name
        label = _SPELLINGS.get(label, label)
        if _TEXT_CODEC.match(label):
            return label
    return None


def _guessed(charset: str | None, encoding: str) -> str:
    """The remark on a character set that is not the one that was named."""
    name = {"cp1252": "windows-1252"}.get(encoding, encoding.upper())
    if charset is None:
        return f"text that names no character set and is not UTF-8, read as {name}"
    return (
        f"text whose character set is unknown or wrongly named, read as {name}"
    )
