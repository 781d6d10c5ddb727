"""CSV files row by row, or as Arrow streams, with every malformed line listed.

Fast readers let a quote that is never closed swallow the rows after it, or take a line in the
middle of a note for a row. Here a line where no row begins is listed, and reading continues with
the next line. One case cannot be told apart from a note of several lines: an open quote that a
later quote closes, with a comma or a line end right after it.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from domainbert.streams import read_ahead
from domainbert.tables.columns import are_names
from domainbert.tables.ids import is_id_column, unguard
from domainbert.tables.options import READ_ERRORS, TableError

if TYPE_CHECKING:
    import pyarrow as pa

    from domainbert.tables.options import Cells, Flaws, ReadOptions, Wanted

NO_ROW = "line that is not a row"
_LONG = "a line of more than 16 MB"
_NO_ROW = (
    f"{NO_ROW}: too few or too many fields, a quote or carriage return out of place, or more than "
    "16 MB"
)
_BLOCK = 4 << 20  # bytes read at a time
_TOGETHER = 1000  # rows that are checked at once
_IN_SIGHT = (
    1 << 20
)  # bytes from the start of a row; more where the row is longer or flawed
LONGEST_ROW = 16 << 20  # bytes
_MARK = b"\xef\xbb\xbf"  # that spreadsheets put in front
_ZIP = b"PK\x03\x04"
UNDECODABLE = "undecodable bytes read as U+FFFD"

_Read: TypeAlias = "Callable[[int], bytes]"


def csv_columns(path: Path, options: ReadOptions) -> list[str]:
    """The names in the first line.

    Raises:
        TableError: a file without names, with a name twice, or that cannot be read.
    """
    separator = _separator(path, options)
    try:
        with open_text(path, options.encoding, newline="") as text:
            header = next(
                csv.reader(_header_lines(path, text), delimiter=separator), []
            )
    except READ_ERRORS as error:
        raise TableError(
            f"{path.name} cannot be read as CSV ({type(error).__name__})"
        ) from None
    if fault := _wrong_header(header, separator):
        raise TableError(f"{path.name} {fault}")
    return header


def _header_lines(path: Path, text: io.TextIOBase) -> Iterator[str]:
    for _, line, fault in bounded_lines(text):
        if fault:
            raise TableError(
                f"{path.name}: expected a first line of names, got {fault}"
            )
        yield line


def _separator(path: Path, options: ReadOptions) -> str:
    is_tsv = path.name.lower().removesuffix(".gz").endswith(".tsv")
    return options.delimiter or ("\t" if is_tsv else ",")


def _wrong_encoding(start: bytes, encoding: str | None) -> str:
    if encoding is None and (start[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in start):
        return (
            "is in UTF-16: name the encoding (--encoding utf-16), or save it as UTF-8"
        )
    return (
        "is a spreadsheet or a zip file: save the sheet as CSV"
        if start[:4] == _ZIP
        else ""
    )


def _wrong_header(header: list[str], separator: str) -> str:
    if "\ufffd" in "".join(header):
        return "is not in UTF-8: name its encoding (--encoding cp1252, for example)"
    if not header:
        return "is empty; it needs a first line with one name for each column"
    others = "".join({";", "\t", "|", ","} - {separator})
    if len(header) == 1 and (other := re.search(f"[{others}]", header[0])):
        name = {"\t": "tab"}.get(other[0], other[0])
        return (
            f"separates its fields by {other[0]!r}, not {separator!r}: name the delimiter "
            f"(--delimiter {name!r}), or save it with commas"
        )
    counts = Counter(name.lower() for name in header)
    if repeated := sorted({name for name in header if counts[name.lower()] > 1}):
        shown = f" {', '.join(repeated)}" if are_names(header) else ""
        return f"repeats the columns{shown}; each needs a name of its own"
    return ""


def csv_cells(path: Path, options: ReadOptions, columns: Wanted) -> Iterator[Cells]:
    """The rows of a file."""
    names, separator = csv_columns(path, options), _separator(path, options)
    chosen = [
        (name, n) for n, name in enumerate(names) if columns is None or name in columns
    ]
    ids = [name for name, _ in chosen if is_id_column(name)]
    csv.field_size_limit(LONGEST_ROW)
    for line, problem, text in _data_rows(path, len(names), separator, options):
        place = f"{path.name} line {line}"
        if not text:
            yield place, {}, problem, ""
            continue
        if b'"' in text:
            fields = next(csv.reader([text.decode()], delimiter=separator))
        else:
            fields = text.decode().rstrip("\r\n").split(separator)
        values = {name: fields[number] or None for name, number in chosen}
        for name in ids:
            if cell := values[name]:
                values[name] = unguard(cell)
        yield place, values, "", problem


def csv_batches(
    path: Path, columns: Sequence[str], options: ReadOptions, flaws: Flaws
) -> Iterator[pa.RecordBatch]:
    """These columns as text, for one pass.

    `flaws` gets file, line (from 1) and problem of every flaw: where a line begins no row, reading
    continues with the next line, and bytes that cannot be decoded become U+FFFD.
    """
    import pyarrow as pa

    names, separator = csv_columns(path, options), _separator(path, options)
    pieces = _sound_pieces(path, len(names), separator, options, flaws)
    try:
        for batches in read_ahead(
            _parse(piece, columns, names, separator) for piece in pieces
        ):
            yield from batches
    except (pa.ArrowException, *READ_ERRORS) as error:
        # Arrow's own words may quote the line, and a line may be a note.
        msg = f"{path.name} cannot be read to its end ({type(error).__name__})"
        raise TableError(msg) from None


def _sound_pieces(
    path: Path, width: int, separator: str, options: ReadOptions, flaws: Flaws
) -> Iterator[bytes]:
    """The rows of a file in pieces of some megabytes; its flaws are listed."""
    piece = bytearray()
    # Rows that are replaced in part are told apart.
    together = 1 if options.encoding else _TOGETHER
    for line, problem, text in _data_rows(
        path, width, separator, options, together=together
    ):
        if problem:
            flaws.append((path.name, line, problem))
        piece += text
        if len(piece) >= _BLOCK:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _parse(
    piece: bytes, columns: Sequence[str], names: list[str], separator: str
) -> list[pa.RecordBatch]:
    """Whole rows as columns of text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    source = pa.BufferReader(pa.py_buffer(piece))
    read = arrow_csv.ReadOptions(
        use_threads=False, block_size=len(piece) + 1, column_names=names
    )
    parse = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()),
        include_columns=list(columns),
        strings_can_be_null=False,
    )
    return arrow_csv.read_csv(source, read, parse, convert).to_batches()


def _data_rows(
    path: Path, width: int, separator: str, options: ReadOptions, *, together: int = 1
) -> Iterator[tuple[int, str, bytes]]:
    """The rows and flaws of `_sound_rows` after the header, in UTF-8, without empty lines.

    Raises:
        TableError: the header is no row, as where all lines end in a lone carriage return.
    """
    with open_bytes(path) as raw:
        read: _Read = raw.read
        if options.encoding:
            decoded = io.TextIOWrapper(raw, options.encoding, "replace", newline="")
            read = lambda size: decoded.read(size).encode("utf-8", "replace")  # noqa: E731
        for line, problem, text in _sound_rows(
            read, width, separator, together=together
        ):
            is_replaced = options.encoding and "\ufffd".encode() in text
            if line > 1 and (problem or text):
                yield line, UNDECODABLE if is_replaced else problem, text
            elif problem and not text:
                raise TableError(
                    f"{path.name}: the first line has a quote out of place or a lone carriage "
                    "return; save the file with ordinary line ends"
                )


def _sound_rows(
    read: _Read, width: int, separator: str, *, together: int
) -> Iterator[tuple[int, str, bytes]]:
    """Every row as (its line, "", its bytes), and every flaw with a problem and what is left.

    Up to `together` rows without a flaw come as one, except the first.
    """
    # A field that does not begin with a quote may hold some; possessive, so that nothing is tried
    # twice.
    comma = re.escape(separator).encode()
    quoted, bare = (
        rb'"[^"]*+(?:""[^"]*+)*+"',
        rb'[^"%b\r\n][^%b\r\n]*+' % (comma, comma),
    )
    field = rb"(?:" + quoted + rb"|" + bare + rb"|)"
    row = field + rb"(?:%b" % comma + field + rb"){%d}\r?\n" % (width - 1)
    one, many = re.compile(row), re.compile(rb"(?:%b){1,%d}+" % (row, together))
    buffer, place, line, is_over = read(len(_MARK)).removeprefix(_MARK), 0, 1, False
    is_rest = False  # of a line that is longer than the longest row
    in_sight = least = min(_IN_SIGHT, LONGEST_ROW)
    alone = 1  # the last line of the rows that come one by one
    while True:
        if len(buffer) - place < in_sight and not is_over:
            chunk = read(2 * in_sight)
            buffer, place, is_over = buffer[place:] + chunk, 0, not chunk
            if is_over and not buffer.endswith(b"\n") and buffer:
                buffer += b"\n"
            continue
        if place >= len(buffer):
            return
        if is_rest:
            end = buffer.find(b"\n", place) + 1
            line, place, is_rest = line + bool(end), end or len(buffer), not end
            continue
        match = (one if line <= alone else many).match(buffer, place)
        if not match and in_sight < LONGEST_ROW and not is_over:
            # With all of the longest row in sight, what does not match will not match at all.
            in_sight = min(4 * in_sight, LONGEST_ROW)
            continue
        in_sight = least
        end = match.end() if match else buffer.find(b"\n", place) + 1 or len(buffer)
        text = buffer[place:end]
        sound = text.decode("utf-8", "replace").encode() if match else b""
        if match and sound != text and line > alone:
            alone = line + text.count(b"\n")
            continue
        if match and text.strip(b"\r\n"):
            yield line, "" if sound == text else UNDECODABLE, sound
        else:
            yield line, _NO_ROW if text.strip() else "", b""
        line, place = line + text.count(b"\n"), end
        is_rest = not text.endswith(b"\n")


@contextmanager
def open_bytes(path: Path) -> Iterator[gzip.GzipFile | io.BufferedReader]:
    """The bytes of a file, unpacked, which must not change meanwhile; see `unchanged`."""
    is_packed = path.suffix.lower() == ".gz"
    with (
        unchanged(path),
        gzip.GzipFile(path, "rb") if is_packed else path.open("rb") as raw,
    ):
        yield raw


@contextmanager
def open_text(
    path: Path, encoding: str | None, *, newline: str | None
) -> Iterator[io.TextIOBase]:
    """The text of a file; UTF-8 by default, undecodable bytes become U+FFFD.

    Raises:
        TableError: it is UTF-16 without `encoding`, not in `encoding`, a zip file, or changed
            meanwhile.
    """
    with open_bytes(path) as raw:
        start = raw.read(4)
        raw.seek(0)
        if fault := _wrong_encoding(start, encoding):
            raise TableError(f"{path.name} {fault}")
        with io.TextIOWrapper(
            raw, encoding or "utf-8-sig", "replace", newline=newline
        ) as text:
            try:
                yield text
            except (
                UnicodeError
            ):  # UTF-16 without the mark that tells the order of its bytes
                msg = f"{path.name} is not in {encoding}; name another encoding, such as utf-16-le"
                raise TableError(msg) from None


def bounded_lines(text: io.TextIOBase) -> Iterator[tuple[int, str, str]]:
    """Number, text and fault of each line; the text of a line past `LONGEST_ROW` is left out."""
    number = 0
    while line := text.readline(LONGEST_ROW):
        number += 1
        is_long = len(line) == LONGEST_ROW and not line.endswith("\n")
        yield number, "" if is_long else line, _LONG if is_long else ""
        while is_long and (rest := text.readline(LONGEST_ROW)):
            is_long = not rest.endswith("\n")


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Check that a file stays as it is for the length of the block, else raise TableError."""
    before = _stamp(path)
    yield
    if _stamp(path) != before:
        msg = f"{path.name} was changed while it was read; start again when it is complete"
        raise TableError(msg)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    found = path.stat() if path.exists() else None
    return found and (found.st_ino, found.st_size, found.st_mtime_ns)
