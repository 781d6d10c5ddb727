r"""Backslash escapes in CSV files: how they are recognised, and rows without them.

RFC 4180 doubles the quotes in a field. Spark writes `\"` instead, MySQL `\"`, `\\`, and a
backslash before each line end, and the clients of databases write `\n` and `\t` in files of tabs
that quote nothing. Which of these a file is, is decided once, from its first megabytes.
"""

import re
from dataclasses import dataclass
from functools import cached_property

SAMPLE_BYTES = 4 << 20
ESCAPES = ("backslash", "none")
"""Values of the option `escape`; without one, escapes are recognised."""
_LETTERS = {
    b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f", b"v": b"\v", b"0": b"",
    b"Z": b"",
}  # fmt: skip
_QUOTED = rb'"[^"\\]*+(?:(?:\\[\s\S]|"")[^"\\]*+)*+"'


@dataclass(frozen=True)
class Dialect:
    r"""How the fields of a file are written.

    Attributes:
        separator: between the fields, one ASCII character.
        escapes: "" for none; "quotes" where a backslash in quotes escapes quotes only, "all" where
            also itself and line ends, "letters" where it is followed by letters such as `\n`, and
            a quote has no meaning.
        pairs: how many pairs of backslashes there are, if it cannot be told whether a pair stands
            for one backslash.
    """

    separator: str
    escapes: str = ""
    pairs: int = 0

    @cached_property
    def _comma(self) -> bytes:
        return re.escape(self.separator).encode()

    @cached_property
    def _field(self) -> bytes:
        """A field as a regular expression.

        One that does not start with a quote may hold quotes. All repetitions are possessive, so
        that nothing is tried twice.
        """
        if self.escapes == "letters":
            return rb"[^%b\r\n]*+" % self._comma
        quoted = rb'"[^"]*+(?:""[^"]*+)*+"'
        if self.escapes:
            quoted = _QUOTED
        bare = rb'[^"%b\r\n][^%b\r\n]*+' % (self._comma, self._comma)
        return rb"(?:" + quoted + rb"|" + bare + rb"|)"

    @cached_property
    def _last_resort(self) -> bytes:
        r"""A field, if a quoted one ends with its first `\"` before a separator or a line end.

        Spark can write a text that ends with a backslash so.
        """
        end = rb"(?:%b|\r?\n)" % self._comma
        inside = rb'[^"\\]|\\(?!"%b)[\s\S]' % end
        ending = rb'"(?:%b)*+\\"(?=%b)' % (inside, end)
        return rb"(?:" + ending + rb"|" + self._field + rb")"

    def row_patterns(self, width: int) -> list[bytes]:
        """A row of so many fields, as regular expressions; a later one only if no earlier fits."""
        fields = [self._field]
        if self.escapes == "quotes":
            fields.append(self._last_resort)
        return [
            field + rb"(?:%b%b){%d}\r?\n" % (self._comma, field, width - 1)
            for field in fields
        ]

    def without_escapes(self, rows: bytes, width: int) -> bytes:
        """Whole rows as RFC 4180 has them."""
        if not self.escapes:
            return rows
        if b"\\" not in rows and self.escapes != "letters":
            return rows
        field = self._field
        first, *other_patterns = self.row_patterns(width)
        if other_patterns and not re.match(first, rows):
            field = self._last_resort
        written = rb"(%b)(%b|\r?\n)" % (field, self._comma)
        return re.sub(written, self._field_without_escapes, rows)

    def _field_without_escapes(self, match: re.Match[bytes]) -> bytes:
        field, end = match.groups()
        if field == rb"\N" and self.escapes != "quotes":
            return end
        if self.escapes == "letters":
            text = re.sub(rb"\\([\s\S])", _letter, field)
            if not re.search(rb'["\r\n%b]' % self._comma, text):
                return text + end
        elif b"\\" not in field or not field.startswith(b'"'):
            return match[0]
        elif self.escapes == "quotes":
            text = re.sub(rb'\\"|""', b'"', field[1:-1])
        else:
            text = re.sub(rb'\\(["\\\r\n])|\\0|""', _character, field[1:-1])
        return b'"' + text.replace(b'"', b'""') + b'"' + end

    def remark(self, name: str) -> str:
        """What a reader of the file should know of its backslashes, or ""."""
        if self.escapes:
            before = {
                "quotes": "quotes",
                "all": "quotes, backslashes and line ends",
                "letters": "letters for line ends and tabs",
            }[self.escapes]
            return (
                f"{name}: a backslash before {before} is read as an escape (--escape none reads "
                "it as text)."
            )
        if self.pairs:
            return (
                f"{name}: the backslashes in quotes come in pairs ({self.pairs:,}). If a pair "
                "stands for one, as MySQL and Spark write it, use --escape backslash; now both "
                "are kept."
            )
        return ""


def recognise(
    sample: bytes, separator: str, escape: str | None = None
) -> Dialect:
    r"""The dialect of a file that begins with `sample`.

    A backslash escapes if it stands before quotes in the middle of fields more often than quotes
    are doubled; or if all backslashes are escapes of MySQL, no quote is doubled, and every line
    end in quotes has one or an empty cell is `\N`; or, in a file of tabs without quoted fields,
    if all are escapes of a database client, and one stands for a line end, a tab or an empty cell.

    Args:
        sample: the first bytes of the file, in UTF-8.
        separator: between the fields.
        escape: one of `ESCAPES`, or None to recognise it.
    """
    if b"\\" not in sample or escape == "none":
        return Dialect(separator)
    if separator == "\t" and _are_letters(sample, sure=bool(escape)):
        return Dialect(separator, "letters")
    comma = re.escape(separator).encode()
    start = rb"(?:(?<=[\n%b])|\A)" % comma
    in_quotes = re.findall(start + _QUOTED, sample)
    sequences = set(re.findall(rb"\\[\s\S]", b"".join(in_quotes)))
    fits_mysql = sequences <= _OF_MYSQL
    in_middle = len(re.findall(rb'\\"(?![%b\r\n"]|\Z)' % comma, sample))
    doubled = len(re.findall(rb'[^\\"\r\n%b]""' % comma, sample))
    null = rb"(?m)(?:^|%b)\\N(?=%b|\r?$)" % (comma, comma)
    is_mysql = fits_mysql and (
        re.search(null, sample) or _escape_line_ends(in_quotes)
    )
    is_escape = in_middle > doubled or (is_mysql and not doubled)
    if not is_escape and escape is None:
        pairs = 0
        if sequences == {rb"\\"}:
            pairs = sum(field.count(b"\\") for field in in_quotes) // 2
        return Dialect(separator, pairs=pairs)
    if fits_mysql and sequences != {rb"\""}:
        return Dialect(separator, "all")
    return Dialect(separator, "quotes")


_OF_MYSQL = {rb"\"", rb"\\", b"\\\r", b"\\\n", rb"\0", rb"\N"}
_OF_CLIENTS = {
    rb"\n",
    rb"\t",
    rb"\r",
    rb"\b",
    rb"\f",
    rb"\v",
    rb"\0",
    rb"\Z",
    rb"\N",
    rb"\\",
}


_FEWEST_LINE_ENDS = 3  # fewer may have a backslash by chance


def _escape_line_ends(fields: list[bytes]) -> bool:
    """Whether there are line ends in quotes, not only one or two, and each has a backslash."""
    texts = [re.sub(rb"\\(\r\n|[^\r\n])", b"", field) for field in fields]
    line_ends = sum(text.count(b"\n") for text in texts)
    if line_ends < _FEWEST_LINE_ENDS:
        return False
    return line_ends == sum(text.count(b"\\\n") for text in texts)


def _are_letters(sample: bytes, *, sure: bool) -> bool:
    """Whether the backslashes of a file of tabs are escapes of a database client."""
    if not set(re.findall(rb"\\[\s\S]", sample)) <= _OF_CLIENTS:
        return False
    lines = sample.split(b"\n")
    widths = {line.count(b"\t") for line in lines[: len(lines) - 1]}
    is_quoted = re.search(rb'(?m)(?:^|\t)"[^\t"]*"(?=\t|\r?$)', sample)
    if len(widths) > 1 or is_quoted:
        return False
    pattern = rb"(?m)(?<![:\\])\\[ntr]|(?:^|\t)\\N(?=\t|\r?$)"
    return sure or re.search(pattern, sample) is not None


def _letter(match: re.Match[bytes]) -> bytes:
    return _LETTERS.get(match[1], match[1])


def _character(match: re.Match[bytes]) -> bytes:
    if match[0] == b'""':
        return b'"'
    return match[1] or b""
