"""`Patterns`: rules written as lines with macros; `Mended`: notes in the words of rules."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from string import ascii_lowercase
from typing import Protocol

import regex

from domainbert.errors import UserError
from domainbert.files import read_toml

# Of the processor, for a user's pattern on one text: a thousand times what a linear one takes.
SEARCH_SECONDS = 5.0

_MACRO = re.compile(r"\{([a-z_]+)\}")
_PIECE = re.compile(
    r"(?P<escape>\\.)"
    r"|(?P<behind>\(\?<[=!](?:\[(?:\\.|[^\]\\])*\]|[^()\[\\]|\\.)*\))"
    r"|\[(?P<set>(?:\\.|[^\]\\]){0,200})\]|(?P<optional> \?)|(?P<space> )",
    re.DOTALL,
)
_SPACE = r"\s{1,8}"
_OPTIONAL_SPACE = r"\s{0,2}"


class Patterns:
    r"""Regular expressions from lines of a rule file.

    Each line is one alternative, a regular expression with three additions: `{name}` is any line of
    the macro of that name, a space is white space (at most eight characters, so that a search takes
    linear time; one in a lookbehind), and a space with a question mark is white space or nothing.

    Args:
        macros: the lines of each macro; they may use other macros.
    """

    def __init__(self, macros: Mapping[str, str]) -> None:
        self._macros = macros

    def source(self, lines: str) -> str:
        """The alternatives of some lines as the source of one regular expression."""
        alternatives = filter(None, map(str.strip, lines.splitlines()))
        return _PIECE.sub(_with_spaces, self._filled("|".join(alternatives)))

    def regex(self, pattern: str) -> re.Pattern[str]:
        """One regular expression, in which a space is a space; only macros are filled in."""
        return re.compile(_MACRO.sub(self._macro, pattern))

    def words(self, lines: str) -> re.Pattern[str]:
        """A pattern that matches whole words; it matches nothing if there are no lines."""
        if not lines.strip():
            return re.compile(r"(?!)")
        return re.compile(rf"(?<![\w/-])(?:{self.source(lines)})(?!\w)")

    def _filled(self, source: str) -> str:
        """A source in which each macro is replaced by its lines, spaces as they are written."""
        return _MACRO.sub(self._alternatives, source)

    def _alternatives(self, name: re.Match[str]) -> str:
        """The lines of a macro; a name that is none stands for itself."""
        if name[1] not in self._macros:
            return name[0]
        lines = map(str.strip, self._macros[name[1]].splitlines())
        return f"(?:{self._filled('|'.join(filter(None, lines)))})"

    def _macro(self, name: re.Match[str]) -> str:
        return _PIECE.sub(_with_spaces, self._alternatives(name))


def _with_spaces(piece: re.Match[str]) -> str:
    """A space, a set of characters or an escape, as regular expressions know it."""
    if piece["escape"]:
        return piece["escape"]
    if piece["behind"]:  # which has a fixed length
        return piece["behind"].replace(" ", r"\s")
    if piece["set"] is not None:
        return "[" + piece["set"].replace(" ", r"\s") + "]"
    if piece["optional"]:
        return _OPTIONAL_SPACE
    return _SPACE


Spans = Sequence[tuple[int, int, str]]
"""Start, end and label of entities."""

_DATA = read_toml(__file__, "wording.toml")
_OPEN = frozenset(_DATA["open"].split())
_SHORT = frozenset(_DATA["short"].split())
_SHORTEST_CUT = 3  # letters
_LONG = _DATA["cut"].split()
_CUT = frozenset(
    word[:length]
    for word in _LONG
    for length in range(_SHORTEST_CUT, len(word))
).difference(_LONG, _DATA["whole"].split())
# An entity may be an abbreviation too: "fev., chills".
_STOP_AFTER = re.compile(
    r"(?<![\w.\u00a4])(?:(?P<dotted>(?:[a-z]\.){2,6})(?!\w)"
    r"|(?P<word>[a-z\u00a4][a-z/\u00a4]{0,13})\.)"
)
_LEADS_ON = re.compile(r"[ \t]{1,3}(?:and|or|nor|of|vs)\b")
# What follows an abbreviation within a sentence; a capitalised word may start the next one.
_WITHIN = re.compile(r"[,;:)]|[ \t]{1,3}(?:[^A-Z\s]|[A-Z][A-Z0-9/+]|[A-Z]\b)")
# After "dis.," a small letter or an abbreviation; dictated sentences are joined by ".,Next".
_WITHIN_LIST = re.compile(r",\s?(?:[^A-Z\s]|[A-Z][A-Z0-9/+]{1,4}\b(?!:))")
_CUE_WORD = re.compile(r"[A-Za-z]{5,14}")
_COMMON = frozenset(_DATA["common"].split())


def without_stops(text: str, masked: str) -> str:
    """The masked text with a space for each stop of an abbreviation: "neg. for", "c.p., fever".

    The length stays. A stop that ends a sentence stays too.
    """
    if "." not in masked:
        return masked

    def plain(match: re.Match[str]) -> str:
        written = match[0]
        end = match.end()
        word = text[match.start() : end - 1].lower()
        if match["dotted"]:
            word = ""
        is_within = word and (
            _WITHIN_LIST.match(text, end) or _LEADS_ON.match(text, end)
        )
        if word in _OPEN or is_within:
            return match["word"] + " "
        # One letter is that of a genus: "H. pylori".
        if len(word) > 1 and word not in _SHORT and word not in _CUT:
            return written
        if _WITHIN.match(text, end):
            return written.replace(".", "").ljust(len(written))
        if word:
            return written
        return written.replace(".", "").ljust(len(written) - 1) + "."

    return _STOP_AFTER.sub(plain, masked)


class Mended:
    """A text whose misspelt cue words are mended, with spans of the text as it was."""

    def __init__(self, text: str, spans: Spans) -> None:
        self._edits = list(_edits(text, spans))
        self._ends: list[int] = []
        self._growths: list[int] = []
        self.text = text
        self.spans = spans
        if self._edits:
            self._apply()

    def _apply(self) -> None:
        pieces = []
        position = 0
        growth = 0
        for start, end, word in self._edits:
            pieces += [self.text[position:start], word]
            position = end
            growth += len(word) - (end - start)
            self._ends.append(end)
            self._growths.append(growth)
        self.text = "".join([*pieces, self.text[position:]])
        self.spans = [
            (self.shifted(start), self.shifted(end), label)
            for start, end, label in self.spans
        ]

    def shifted(self, position: int) -> int:
        """Where a position of the text as it was is in the mended text."""
        edit_count = bisect_right(self._ends, position)
        if edit_count == 0:
            return position
        return position + self._growths[edit_count - 1]

    def original(self, position: int) -> int:
        """Where a position of the mended text is in the text as it was."""
        growth = 0
        for end, total in zip(self._ends, self._growths, strict=True):
            if position < end + total:
                break
            growth = total
        return position - growth


def _edits(text: str, spans: Spans) -> Iterator[tuple[int, int, str]]:
    """Start, end and right spelling of each misspelt word that is in no entity."""
    spellings = misspellings()
    entities = sorted((start, end) for start, end, _ in spans)
    starts = [start for start, _ in entities]
    for match in _CUE_WORD.finditer(text):
        word = spellings.get(match[0].lower())
        if word is None:
            continue
        number = bisect_right(starts, match.start())
        if number and entities[number - 1][1] > match.start():
            continue
        yield match.start(), match.end(), word


@cache
def misspellings() -> dict[str, str]:
    """The right spelling of each word that is one edit from a long word of the cues."""
    words = _DATA["long"].split()
    spellings = {
        misspelt: word for word in words for misspelt in _one_edit(word)
    }
    right = {*words, *_COMMON}
    return {
        misspelt: word
        for misspelt, word in spellings.items()
        if misspelt not in right
    }


def _one_edit(word: str) -> Iterator[str]:
    """A word with a letter left out, added or changed, or two letters changed round."""
    for split in range(1, len(word) + 1):
        head = word[:split]
        tail = word[split:]
        yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        for letter in ascii_lowercase:
            yield head + letter + tail
            if tail:
                yield head + letter + tail[1:]


def mended_word(word: str) -> str:
    """A word, or the word of cues or headings that it misspells, in small letters."""
    return misspellings().get(word.lower(), word)


class Match(Protocol):
    """Where a pattern matches, by `re` or `regex`."""

    def start(self) -> int:
        """Its first character."""

    def end(self) -> int:
        """The position after its last character."""


class TimedPattern:
    """A pattern of a user, each search of which may take `SEARCH_SECONDS` of processor time.

    Args:
        pattern: the pattern; it may take exponential time.
        name: that of the user's rule, for the message.

    Raises:
        UserError: a search that takes longer, or a pattern that `regex` does not know.
    """

    def __init__(self, pattern: re.Pattern[str], name: str) -> None:
        self._name = name
        try:
            self._pattern = regex.compile(pattern.pattern)
        except regex.error as error:
            raise UserError(f"{name}: regex: {error}") from None

    def search(self, text: str, start: int, end: int) -> Match | None:
        """The first match between two positions."""
        with self._limited():
            return self._pattern.search(
                text, start, end, timeout=SEARCH_SECONDS
            )

    def match(self, text: str, start: int) -> Match | None:
        """The match that begins at a position."""
        with self._limited():
            return self._pattern.match(text, start, timeout=SEARCH_SECONDS)

    def finditer(self, text: str) -> Iterator[Match]:
        """All matches of a text, which share the time."""
        with self._limited():
            yield from self._pattern.finditer(text, timeout=SEARCH_SECONDS)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise UserError(
                f"{self._name}: took over {SEARCH_SECONDS:g} s on one text; bound its repeats, as "
                r"in \s{0,8} for \s*, and write no repeat within another"
            ) from None
