"""`Patterns`: compiles the rules of the TOML files, which are written as lines with macros."""

import re
from collections.abc import Mapping

_MACRO = re.compile(r"\{([a-z_]+)\}")
_PIECE = re.compile(
    r"(?P<escape>\\.)|\[(?P<set>(?:\\.|[^\]\\])*)\]|(?P<optional> \?)|(?P<space> )",
    re.DOTALL,
)
_SPACE = r"\s{1,8}"
_OPTIONAL_SPACE = r"\s{0,2}"


class Patterns:
    r"""Regular expressions from lines of a rule file.

    Each line is one alternative, a regular expression with three additions: `{name}` is any line of
    the macro of that name, a space is white space (at most eight characters, so that a search takes
    linear time), and a space with a question mark is white space or nothing.

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
    if piece["set"] is not None:
        return "[" + piece["set"].replace(" ", r"\s") + "]"
    if piece["optional"]:
        return _OPTIONAL_SPACE
    return _SPACE
