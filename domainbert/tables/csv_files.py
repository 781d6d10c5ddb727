"""CSV files, row by row or as Arrow streams, with every malformed line listed.

In fast readers, a quote that is never closed swallows the rows after it, or a line in the middle
of a note is read as a row. Here a line that does not start a row is listed, and reading continues
with the next line. One case cannot be told apart from a note of several lines: an open quote that
a later quote closes, followed directly by a comma or a line end.
"""

import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyarrow import csv as arrow_csv

from domainbert.streams import chunked, read_ahead
from domainbert.tables.columns import are_names
from domainbert.tables.csv_dialects import (
    SAMPLE_BYTES,
    START_BYTES,
    Dialect,
    Header,
    encoding_of,
    find_header,
    recognise,
)
from domainbert.tables.ids import is_id_column, unguard, unguarded_id
from domainbert.tables.options import (
    Cells,
    FileFaults,
    ReadOptions,
    TableError,
    Wanted,
    read_errors,
)

NO_ROW = "line that is not a row"
_LONG = "a line of more than 16 MB"
_NO_ROW = (
    f"{NO_ROW}: too few or too many fields, a quote or carriage return out of place, or more than "
    "16 MB"
)
# Bytes that are read ahead of a row; more if the row is longer or malformed.
_LOOKAHEAD = 1 << 20
LONGEST_ROW = 16 << 20  # bytes
_MARK = b"\xef\xbb\xbf"  # the byte-order mark, which spreadsheets write
_ZIP = b"PK\x03\x04"
UNDECODABLE = "undecodable bytes read as U+FFFD"
# What database clients write below the names: -----;-----
_RULE = re.compile(rb'[-\s",;|]++')
_RULE_LINE = f"{NO_ROW}: a rule of dashes below the names"

_BytesOf: TypeAlias = "Callable[[int], bytes]"


def csv_columns(path: Path, options: ReadOptions) -> list[str]:
    """The column names, from the first line.

    Raises:
        TableError: no names, a name twice, or a file that cannot be read.
    """
    header = csv_header(path, options)
    with (
        read_errors(path, "as CSV"),
        open_text(path, options.encoding, newline="") as text,
    ):
        lines = islice(_header_lines(path, text), header.lines, None)
        rows = csv.reader(lines, delimiter=header.separator)
        names = [unguard(name.strip()) for name in next(rows, [])]
    fault = _wrong_header(names, header.separator)
    if fault:
        raise TableError(f"{path.name} {fault}")
    return names


def csv_header(path: Path, options: ReadOptions) -> Header:
    """How a file begins."""
    csv.field_size_limit(
        LONGEST_ROW
    )  # also of the rows that are read afterwards
    with read_errors(path), open_bytes(path) as raw:
        start = raw.read(START_BYTES)
    usual_separator = ","
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        usual_separator = "\t"
    return find_header(
        start,
        options.delimiter,
        options.encoding,
        usual_separator=usual_separator,
    )


def _header_lines(path: Path, text: io.TextIOBase) -> Iterator[str]:
    for _, line, fault in bounded_lines(text):
        if fault:
            raise TableError(
                f"{path.name}: expected a first line of names, got {fault}"
            )
        yield line


def _wrong_encoding(start: bytes, encoding: str | None) -> str:
    """What is wrong with a file that starts with these bytes, or ""."""
    if b"\0" in start and encoding is None:
        name = "utf-16-le"
        if start[:1] == b"\0":
            name = "utf-16-be"
        return f"is in UTF-16: name the encoding (`encoding={name!r}`), or save it as UTF-8"
    if start[:4] == _ZIP:
        return "is a spreadsheet or a zip file: save the sheet as CSV"
    return ""


def _wrong_header(header: list[str], separator: str) -> str:
    """What is wrong with a header, or ""."""
    if "\ufffd" in "".join(header):
        return "is not in UTF-8: name its encoding (`encoding='cp1252'`, for example)"
    if not header:
        return "is empty; it needs a first line with one name for each column"
    if len(header) == 1:
        match = re.search(r"[;\t|,]", header[0].replace(separator, ""))
        if match:
            name = match[0].replace("\t", "tab")
            return (
                f"separates its fields by {match[0]!r}, not {separator!r}: name the delimiter "
                f"(`delimiter={name!r}`), or save it with commas"
            )
    counts = Counter(name.lower() for name in header)
    repeated = sorted({name for name in header if counts[name.lower()] > 1})
    if not repeated:
        return ""
    # The first row of a file without a header is data, and is not shown.
    names = ""
    if are_names(header):
        names = f" {', '.join(repeated)}"
    return f"repeats the columns{names}; each needs a name of its own"


def csv_cells(
    path: Path, options: ReadOptions, columns: Wanted
) -> Iterator[Cells]:
    """The rows of a file."""
    names = csv_columns(path, options)
    header = csv_header(path, options)
    separator = header.separator
    numbers = {
        name: number
        for number, name in enumerate(names)
        if columns is None or name in columns
    }
    ids = list(filter(is_id_column, numbers))
    for line, problem, text in _data_rows(path, len(names), header, options):
        position = f"{path.name} line {line}"
        if not text:
            yield {}, position, problem, ""
            continue
        row = text.decode().rstrip("\r\n")
        fields = row.split(separator)
        if '"' in row:
            fields = next(csv.reader([text.decode()], delimiter=separator))
        values = {
            name: fields[number] or None for name, number in numbers.items()
        }
        for name in ids:
            values[name] = unguarded_id(values[name] or "") or None
        yield values, position, "", problem


def csv_batches(
    path: Path,
    columns: Sequence[str],
    options: ReadOptions,
    file_faults: FileFaults,
    *,
    block: int = 4 << 20,
    at_once: int = 1000,
) -> Iterator[pa.RecordBatch]:
    """Columns as text, for one pass, in batches of about `block` bytes.

    File, line (from 1) and fault of every malformed line are added to `file_faults`. After a line
    that does not start a row, reading continues with the next line; bytes that cannot be decoded
    become U+FFFD.
    Up to `at_once` rows are matched together.
    """
    names = csv_columns(path, options)
    header = csv_header(path, options)
    if header.encoding:  # undecodable bytes are found row by row
        at_once = 1
    rows = _data_rows(path, len(names), header, options, at_once=at_once)
    pieces = _sound_pieces(path, rows, file_faults, block=block)
    parsed = (
        _parse(piece, columns, names, header.separator) for piece in pieces
    )
    with read_errors(path, exceptions=pa.ArrowException):
        for batches in read_ahead(parsed):
            yield from batches


def _sound_pieces(
    path: Path,
    rows: Iterable[tuple[int, str, bytes]],
    file_faults: FileFaults,
    *,
    block: int,
) -> Iterator[bytes]:
    """The rows of a file in pieces of some megabytes; its faults are listed."""
    for chunk in chunked(rows, size=lambda row: len(row[2]), limit=block):
        file_faults += [
            (path.name, line, problem) for line, problem, _ in chunk if problem
        ]
        if piece := b"".join(text for _, _, text in chunk):
            yield piece


def _parse(
    piece: bytes,
    columns: Sequence[str],
    names: list[str],
    separator: str,
) -> list[pa.RecordBatch]:
    """Whole rows as columns of text."""
    table = arrow_csv.read_csv(
        pa.BufferReader(pa.py_buffer(piece)),
        arrow_csv.ReadOptions(
            use_threads=False,
            block_size=len(piece) + 1,
            column_names=names,
        ),
        arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()),
            include_columns=list(columns),
            strings_can_be_null=False,
        ),
    )
    return table.to_batches()


def csv_dialect(path: Path, options: ReadOptions) -> Dialect:
    """How the fields of a file are written, from its first megabytes."""
    header = csv_header(path, options)
    with read_errors(path), open_bytes(path) as raw:
        sample = raw.read(SAMPLE_BYTES)
    if header.encoding:
        sample = sample.decode(header.encoding, "replace").encode()
    return recognise(sample, header.separator, options.escape)


def _without_cut_rows(
    rows: Iterable[tuple[int, str, bytes]], width: int, dialect: Dialect
) -> Iterator[tuple[int, str, bytes]]:
    r"""Rows without escapes; one with `\"` that a broken line follows is listed as broken too.

    It may have been cut at a quote that was no end.
    """
    # Each piece waits for the next: looking for `\"` in every one is slow.
    previous: tuple[int, str, bytes] | None = None
    for row in rows:
        _, problem, text = row
        if previous:
            is_broken = bool(problem and not text)
            yield from _sound_part(
                *previous, width, dialect, before_fault=is_broken
            )
        previous = row
    if previous:
        yield from _sound_part(*previous, width, dialect, before_fault=False)


def _sound_part(
    line: int,
    problem: str,
    text: bytes,
    width: int,
    dialect: Dialect,
    *,
    before_fault: bool,
) -> Iterator[tuple[int, str, bytes]]:
    """Rows that were read together; before a fault the last of them may have been cut."""
    start = len(text)
    if before_fault and b'\\"' in text:
        patterns = b"|".join(dialect.row_patterns(width))
        *_, last_row = re.finditer(patterns, text)
        if b'\\"' in last_row[0]:
            start = last_row.start()
    if start == len(text):
        yield line, problem, dialect.without_escapes(text, width)
        return
    if start:
        sound = dialect.without_escapes(text[:start], width)
        yield line, problem, sound
    yield line + text.count(b"\n", 0, start), _NO_ROW, b""


def _data_rows(
    path: Path,
    width: int,
    header: Header,
    options: ReadOptions,
    *,
    at_once: int = 1,
) -> Iterator[tuple[int, str, bytes]]:
    """The rows and faults of `_sound_rows` after the header, in UTF-8, without empty lines.

    Raises:
        TableError: the header is not a row, for example if all lines end in a lone carriage
            return.
    """
    with open_bytes(path) as raw:
        file: io.TextIOWrapper | io.BufferedIOBase = raw
        read: _BytesOf = raw.read
        if header.encoding:
            decoded = io.TextIOWrapper(
                raw, header.encoding, "replace", newline=""
            )
            file = decoded
            read = lambda size: decoded.read(size).encode("utf-8", "replace")  # noqa: E731
        for _ in range(header.lines):
            file.readline()
        dialect = csv_dialect(path, options)
        rows = _sound_rows(
            read, width, dialect, at_once=at_once, first_line=header.lines + 1
        )
        for line, problem, text in _without_cut_rows(rows, width, dialect):
            n_above = line - header.lines - 1  # from the names on
            if header.encoding and "\ufffd".encode() in text:
                problem = UNDECODABLE
            if n_above == 1 and b"--" in text and _RULE.fullmatch(text):
                yield line, _RULE_LINE, b""
            elif n_above and (problem or text):
                yield line, problem, text
            elif problem and not text:
                raise TableError(
                    f"{path.name}: the first line has a quote out of place or a lone carriage "
                    "return; save the file with ordinary line ends"
                )


def _sound_rows(
    read: _BytesOf,
    width: int,
    dialect: Dialect,
    *,
    at_once: int,
    first_line: int,
) -> Iterator[tuple[int, str, bytes]]:
    """Every row as (its line, "", its bytes), and every fault as (its line, problem, what is left).

    Up to `at_once` rows without a fault are yielded as one, except for the first row.
    """
    patterns = dialect.row_patterns(width)
    one_row = re.compile(patterns[0])
    last_resort = re.compile(patterns[-1])
    many_rows = re.compile(rb"(?:%b){1,%d}+" % (patterns[0], at_once))
    buffer = read(len(_MARK)).removeprefix(_MARK)
    position = 0
    line = first_line
    at_end = False
    # A line that is longer than the longest row is skipped to its end.
    in_long_line = False
    least_lookahead = min(_LOOKAHEAD, LONGEST_ROW)
    lookahead = least_lookahead
    last_single = line + 1  # up to this line, rows are matched one by one
    while True:
        if len(buffer) - position < lookahead and not at_end:
            chunk = read(2 * lookahead)
            buffer = buffer[position:] + chunk
            position = 0
            at_end = not chunk
            if at_end and buffer and not buffer.endswith(b"\n"):
                buffer += b"\n"
            continue
        if position >= len(buffer):
            return
        line_end = buffer.find(b"\n", position) + 1
        if in_long_line:
            in_long_line = not line_end
            line += bool(line_end)
            position = line_end or len(buffer)
            continue
        rows = one_row if line <= last_single else many_rows
        match = rows.match(buffer, position)
        if not match and lookahead < LONGEST_ROW and not at_end:
            # A row may continue beyond the buffer: it is matched again with more of the file.
            lookahead = min(4 * lookahead, LONGEST_ROW)
            continue
        lookahead = least_lookahead
        match = match or last_resort.match(buffer, position)
        if not match:
            end = line_end or len(buffer)
            text = buffer[position:end]
            yield line, _NO_ROW * bool(text.strip()), b""
        else:
            end = match.end()
            text = buffer[position:end]
            decoded = _decodable(text)
            if decoded != text and line > last_single:
                # The rows are matched once more, one by one, to find the undecodable one.
                last_single = line + text.count(b"\n")
                continue
            if text.strip(b"\r\n"):
                remark = UNDECODABLE * (decoded != text)
                yield line, remark, decoded
        line += text.count(b"\n")
        position = end
        in_long_line = not text.endswith(b"\n")


def _decodable(text: bytes) -> bytes:
    """Bytes in UTF-8, with U+FFFD for those that cannot be decoded."""
    if text.isascii():  # fast, and true of most pieces
        return text
    return text.decode("utf-8", "replace").encode()


@contextmanager
def open_bytes(path: Path) -> Iterator[gzip.GzipFile | io.BufferedReader]:
    """The bytes of a file, unpacked; the file must not change meanwhile, see `unchanged`."""
    open_file = gzip.GzipFile if path.suffix.lower() == ".gz" else open
    with unchanged(path), open_file(path, "rb") as raw:
        yield raw


@contextmanager
def open_text(
    path: Path,
    encoding: str | None,
    *,
    newline: str | None,
) -> Iterator[io.TextIOBase]:
    """The text of a file, by default in UTF-8; undecodable bytes become U+FFFD.

    Raises:
        TableError: UTF-16 without `encoding`, another encoding than `encoding`, a zip file, or a
            file that was changed meanwhile.
    """
    with open_bytes(path) as raw:
        start = raw.read(4)
        raw.seek(0)
        encoding = encoding or encoding_of(start)
        fault = _wrong_encoding(start, encoding)
        if fault:
            raise TableError(f"{path.name} {fault}")
        codec = encoding or "utf-8-sig"
        with io.TextIOWrapper(raw, codec, "replace", newline=newline) as text:
            try:
                yield text
            except UnicodeError:  # UTF-16 without a byte-order mark
                raise TableError(
                    f"{path.name} is not in {encoding}; name another encoding, such as utf-16-le"
                ) from None


def bounded_lines(text: io.TextIOBase) -> Iterator[tuple[int, str, str]]:
    """Number, text and fault of each line; a line longer than `LONGEST_ROW` has no text."""
    number = 0
    while line := text.readline(LONGEST_ROW):
        number += 1
        if len(line) < LONGEST_ROW or line.endswith("\n"):
            yield number, line, ""
            continue
        yield number, "", _LONG
        while line and not line.endswith("\n"):
            line = text.readline(LONGEST_ROW)


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Raise a `TableError` if a file is changed during the block."""
    before = _stamp(path)
    yield
    if _stamp(path) != before:
        raise TableError(
            f"{path.name} was changed while it was read; start again when it is complete"
        )


def _stamp(path: Path) -> tuple[int, int, int] | None:
    if not path.exists():
        return None
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns
