"""Text as an entity model can read it, with every character in its place.

Web pages, PDFs and dumps hide names: `Alzheimer&#39;s`, `hyper-` at the end of a line, a
zero-width space within a word. Each step replaces characters by as many others, so that
positions stay those of the user's text.
"""

import html
import re
import unicodedata
from collections.abc import Callable

from biomed.corpora.words import JOINER

_ENTITY = re.compile(r"&(?:#\d{1,6}|#[xX][0-9a-fA-F]{1,5}|[A-Za-z]{2,8});")
_TAG = re.compile(
    r"</?(?P<name>a|b|br|div|em|font|h[1-6]|hr|i|li|ol|p|span|strong|su[bp]|table|tbody"
    r"|t[dhr]|thead|u|ul)(?:\s[^<>]{0,200})?/?>(?P<end>[ \t]*\r?\n)?",
    re.IGNORECASE,
)
_INLINE = frozenset(
    {"a", "b", "em", "font", "i", "span", "strong", "sub", "sup", "u"}
)
_ESCAPED = re.compile(r"\\[rt]")
_INVISIBLE = re.compile(
    r"(?<![^\W_])(?P<left>[^\W_]++)(?P<gap>[\u200b\u2060\ufeff]+)(?=(?P<right>[^\W_]+))"
)
_BROKEN = re.compile(
    r"(?<![^\W\d_])(?P<left>[^\W\d_]{2,}+)(?P<gap>[-\u2010][ \t]*+\r*+\n[ \t]*|[-\u2010] )"
    r"(?=(?P<right>[^\W\d_]{2,}))"
)
_SOFTLY_BROKEN = re.compile(
    r"(?<=[^\W\d_])\u00ad[ \t]*\r*\n[ \t]*(?=[^\W\d_])"
)
# Letters in other forms: of full width, mathematical, and ligatures.
_FORM = re.compile("[\uff01-\uff5e\U0001d400-\U0001d7ff]")
_LIGATURE = re.compile("[\ufb00-\ufb06]")
_PADDED = re.compile("(?<=['\u2019]) +(?=s)")  # Alzheimer'    s
_SIGN = re.compile(r"\([-+]\)")
_SIGN_BEFORE_MARK = re.compile(r"\([-+]\)(?=[,;.])")
# Between letters, a hyphen as the names of the training texts have it: "Henoch–Schönlein".
_DASH = re.compile("(?<=[^\\W\\d_])[\u2010\u2011\u2013](?=[^\\W\\d_])")
_PICTURE = re.compile(
    "[\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
    "[\u200d\ufe0f\u2600-\u27bf\U0001f000-\U0001faff]*"
)
# Letters of scripts other than Latin and Greek.
_FOREIGN = re.compile(
    "[\u0400-\u1aaf\u2d00-\u2ddf\u2e80-\u2fdf\u3040-\ud7ff\uf900-\ufaff\ufb1d-\ufdff"
    "\ufe70-\ufefc\U00020000-\U0003ffff]+"
)
# Share of a vocabulary in other scripts from which it is multilingual; English ones have 0.04.
_MULTILINGUAL = 0.1

Joins = Callable[[str, str], int]
"""How many pieces fewer a tokenizer needs for two parts of a word than for each alone."""


def clean(text: str) -> str:
    """Markup, escapes and letters in other forms as plain characters; the length stays."""
    if "&" in text:
        text = _ENTITY.sub(_unescaped, text)
    if "<" in text:
        text = _TAG.sub(_without_tag, text)
    if "\\" in text and "\n" not in text:
        text = _ESCAPED.sub("  ", text.replace("\\n", " \n"))
    if not text.isascii():
        text = _FORM.sub(_usual_letters, text)
    return text


def joined(text: str, joins: Joins) -> str:
    """Words that a line break, a hyphen or an invisible character parts, joined.

    The parts are joined where the tokenizer knows the word better: `pneu-` and `monia`,
    but not `well-` and `known`. Within a line it has to know it better by a piece.
    """

    def join(match: re.Match[str]) -> str:
        left, gap, right = match.group("left", "gap", "right")
        min_saved = int(gap in ("- ", "\u2010 "))  # 1 within a line
        is_case_kept = right.islower() or (left.isupper() and right.isupper())
        if gap.strip("-\u2010 \t\r\n"):
            filler = JOINER
            if joins(left, right) < 0:
                filler = " "
            return left + filler * len(gap)
        if is_case_kept and joins(left, right) >= min_saved:
            return left + JOINER * len(gap)
        return match[0]

    if not text.isascii():
        text = _INVISIBLE.sub(join, text)
        text = _SOFTLY_BROKEN.sub(lambda match: JOINER * len(match[0]), text)
    if "-" in text or "\u2010" in text:
        text = _BROKEN.sub(join, text)
    return text


def masked(text: str, *, reads_foreign: bool) -> str:
    """Signs, pictures and, for an English model, words in other scripts, as commas.

    A network does not know them, and what it does not know blurs the names beside it.
    """
    if "(" in text:
        text = _SIGN_BEFORE_MARK.sub("   ", text)
        text = _SIGN.sub(",  ", text)
    if text.isascii():
        return text
    text = _DASH.sub("-", text)
    text = _PICTURE.sub(_as_comma, text)
    if not reads_foreign:
        text = _FOREIGN.sub(_as_comma, text)
    return text


def name_of(word: str) -> str:
    """A name of `joined` text for a tokenizer or a dictionary: without fillers and ligatures."""
    if " " in word:
        word = _PADDED.sub("", word)
    if word.isascii():
        return word
    return _LIGATURE.sub(_usual_letters, word.replace(JOINER, ""))


def is_multilingual(vocabulary: dict[str, int]) -> bool:
    """Whether a vocabulary has many tokens in scripts other than Latin and Greek."""
    foreign_count = sum(
        _FOREIGN.search(token) is not None for token in vocabulary
    )
    return foreign_count > _MULTILINGUAL * len(vocabulary)


def _usual_letters(match: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", match[0])


def _as_comma(match: re.Match[str]) -> str:
    return ",".ljust(len(match[0]))


def _unescaped(match: re.Match[str]) -> str:
    """A character and fillers; they belong to the word if it is a letter."""
    character = html.unescape(match[0])
    if len(character) != 1:
        return match[0]
    filler = " "
    if character.isalnum():
        filler = JOINER
    return character.ljust(len(match[0]), filler)


def _without_tag(match: re.Match[str]) -> str:
    """Spaces of the tag's length, which end in the text's line break or in one for a block."""
    end = match["end"] or ""
    if not end and match["name"].lower() not in _INLINE:
        end = "\n"
    return end.rjust(len(match[0]))
