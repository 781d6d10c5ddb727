r"""How a CSV file is written: the lines before its names, its separator and its backslashes.

RFC 4180 doubles the quotes in a field. Spark writes `\"` instead, MySQL `\"`, `\\`, and a
backslash before each line end, and the clients of databases write `\n` and `\t` in files of tabs
that quote nothing. Which of these a file is, is decided once, from its first megabytes.
"""

import codecs
import csv
import re
from dataclasses import dataclass
from functools import cached_property

START_BYTES = 1 << 16
_MOST_LINES = 50  # before the names of the columns
_SEP = re.compile(r'"?sep=([^"\r\n])"?')
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_FEWEST_CELLS = (
    2  # of a title with empty cells; one name of a column may be missing
)
SAMPLE_BYTES = 4 << 20
ESCAPES = ("backslash", "none")
"""Values of the option `escape`; without one, escapes are recognised."""
_LETTERS = {
    b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f", b"v": b"\v", b"0": b"",
    b"Z": b"",
}  # fmt: skip
_QUOTED = rb'"[^"\\]*+(?:(?:\\[\s\S]|"")[^"\\]*+)*+"'


@dataclass(frozen=True)
class Header:
    """How a CSV file begins.

    Attributes:
        separator: between the fields, one ASCII character.
        encoding: of the file, if it is not UTF-8.
        lines: how many lines stand before the names of the columns.
        titles: how many of these have words.
    """

    separator: str
    encoding: str | None = None
    lines: int = 0
    titles: int = 0

    def remark(self, name: str) -> str:
        """What a reader of the file should know of its beginning, or ""."""
        if not self.titles:
            return ""
        return (
            f"{name}: {self.lines:,} lines before the names of its columns, a title, are left "
            "out."
        )


def encoding_of(start: bytes) -> str | None:
    """The encoding that a byte-order mark names; None for UTF-8, or without a mark."""
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    return None


def find_header(
    start: bytes,
    separator: str | None,
    encoding: str | None,
    *,
    usual_separator: str,
) -> Header:
    """How a file begins: with names, or with `sep=;`, empty lines or a title, as of spreadsheets.

    A title is one cell, with an empty line or empty cells after it. It is left out if the names
    below are different, and as many as the cells of the row below them.

    Args:
        start: the first bytes of the file.
        separator: between the fields, if it is named.
        encoding: of the file, if it is named.
        usual_separator: of files that do not say.
    """
    encoding = encoding or encoding_of(start)
    text = start.decode(encoding or "utf-8", "replace").lstrip("\ufeff")
    # The module csv refuses a carriage return within a line.
    lines = text.replace("\r\n", "\n").replace("\r", " ").split("\n")
    match = _SEP.fullmatch(lines[0])
    n_lines = 0
    if match and match[1].isascii():
        n_lines = 1
        separator = separator or match[1]
    separator = separator or usual_separator
    n_titles = 0
    rows = [_cells(line, separator) for line in lines[n_lines:][:_MOST_LINES]]
    words = [sum(map(bool, row)) for row in rows]
    n_empty = _first_row(words, 1)
    n_before = _first_row(words, 2)
    if n_before > n_empty:
        below = lines[n_lines + n_before :]
        if _are_titles(rows[:n_before]) and _is_header(below, separator):
            n_titles = sum(words[:n_before])
            n_empty = n_before
    return Header(separator, encoding, n_lines + n_empty, n_titles)


def _first_row(words: list[int], least: int) -> int:
    """The number of the first row with at least so many words; 0 if no row has."""
    for number, count in enumerate(words):
        if count >= least:
            return number
    return 0


def _cells(line: str, separator: str) -> list[str]:
    cells = next(csv.reader([line], delimiter=separator), [])
    return [cell.strip() for cell in cells]


def _are_titles(rows: list[list[str]]) -> bool:
    """Whether rows of at most one word are no names: an empty row, or empty cells, follow."""
    if not any(rows[-1]):
        return True
    for row in rows:
        is_padded = len(row) > _FEWEST_CELLS and row[0]
        if any(row) and not is_padded:
            return False
    return True


def _is_header(lines: list[str], separator: str) -> bool:
    """Whether lines begin with different names, as many as the next row has cells."""
    rows = csv.reader(lines, delimiter=separator)
    names = next(rows)
    row = next(filter(None, rows), names)
    return len(set(names)) == len(row) == len(names) and all(names)


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
