"""The words of HTML and of other markup with blocks, in time that grows linearly."""

import html
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache

from clinical.cohort.fhir.charsets import LEFT_OUT, Reading
from domainbert.files import read_toml, whole_text

_HTML = read_toml(__file__, "attachments.toml")["html"]
_INLINE = frozenset(_HTML["inline"].split())
_NO_TEXT = frozenset(_HTML["no_text"].split())
_STRUCK = frozenset(_HTML["struck"].split())
_HIDDEN_STYLE = re.compile(r"display:none|visibility:hidden|line-through")
_TAG = re.compile(r"<[a-zA-Z/!?]")
# Signs that begin no mark are words: no ">" ends "<half a tablet</p>", nor has "</ 3" a name.
_NO_MARK = re.compile(
    r"<(?=(?:[/?]?+|!(?!(?i:doctype)))[a-zA-Z](?:[^<>\"']|(?<!=)(?<!=\s)[\"'])*+<"
    r"|[/?](?![a-zA-Z>])|!(?![a-zA-Z>\[]|--))"
)
_NUMBERED = re.compile(r"&#(?:0*+([0-9]++)|[xX]0*+([0-9a-fA-F]++));?")
_MOST_DIGITS = 7  # of the number of a character; Python refuses to read 4,301
_END_TAG = re.compile(r"</([a-zA-Z][^\s/<>]{0,40}+)[^<>]{0,200}+>")


def html_text(markup: str) -> Reading:
    """The words of HTML: a line for each block, a tab between table cells, `<pre>` as it is."""
    from lxml import etree

    markup = whole_text(markup.replace("\0", ""))
    # Without tags it is plain text, whose line breaks count.
    if not _TAG.search(markup, 0, markup.rfind(">") + 1):
        markup = _NUMBERED.sub(_known_character, markup)
        return Reading(html.unescape(markup).strip())
    for mark in _HTML["unclosed"]:
        markup = _without_unclosed(markup, **mark)
    # After the last tag, "<" is a sign of the text: "BP < 120".
    tags, end, tail = markup.rpartition(">")
    markup = _NO_MARK.sub("&lt;", tags) + end + tail.replace("<", "&lt;")
    target = WordTarget()
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
    return Reading(text, target.remarks)


def _known_character(number: re.Match[str]) -> str:
    """A character by its number as it is, or U+FFFD where `html.unescape` would drop it."""
    digits = number[1] or number[2]
    if len(digits) > _MOST_DIGITS or not html.unescape(number[0]):
        return "\ufffd"
    return number[0]


def _without_unclosed(
    markup: str, *, start: str, end: str, instead: str
) -> str:
    """HTML without start marks that nothing closes: they would hide the rest of the note."""
    # Letters that have more than one in lower case would move positions: no `lower` here.
    ends = [match.start() for match in _mark(end).finditer(markup)]
    closed = 0
    if ends:
        closed = ends[-1] + 1
    return markup[:closed] + _mark(start).sub(instead, markup[closed:])


@cache
def _mark(word: str) -> re.Pattern[str]:
    """A mark of HTML in any case of its ASCII letters."""
    return re.compile(re.escape(word), re.IGNORECASE | re.ASCII)


class WordTarget:
    """Collects words from the events of a parser of HTML."""

    def __init__(self) -> None:
        self.left_out = False
        self.n_open: Counter[str] = Counter()
        self._parts: list[str] = []
        # For each open element, whether it is hidden and whether it is verbatim.
        self._open = [(False, False)]
        # Whether the next word is the first of its line or cell.
        self._at_break = True
        self._space = False  # there is space before the next word

    @property
    def remarks(self) -> tuple[str, ...]:
        """The remark that words were left out, if any were."""
        if self.left_out:
            return (LEFT_OUT,)
        return ()

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
        """Close an element."""
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
            if self._space and not self._at_break:
                self._parts.append(" ")
            self._parts.append(words)
            self._at_break = False
            self._space = text[-1].isspace()

    def close(self) -> str:
        """The words, at the end of the markup."""
        return "".join(self._parts).strip()

    def take(self) -> str:
        """The words until now; the next ones begin a text of their own."""
        text = self.close()
        self._parts.clear()
        self._at_break = True
        self._space = False
        return text

    def _break(self, tag: str) -> None:
        """End the line before and after a block, and the cell before another."""
        is_inline = tag in _INLINE or ":" in tag
        if not is_inline and not self._at_break:
            separator = "\n"
            if tag in ("td", "th"):
                separator = "\t"
            self._parts.append(separator)
            self._at_break = True
        self._space = self._space and is_inline
