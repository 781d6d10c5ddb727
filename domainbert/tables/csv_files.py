"""CSV files row by row, or as Arrow streams, with every line that is no row listed.

Fast readers let a quote that is never closed swallow the rows after it, or take a line in the
middle of a note for a row. Here a line where no row begins is listed, and reading continues with
the next line. One case cannot be told apart from a note of several lines: an open quote that a
later quote closes, with a comma or a line end right after it.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeAlias

from domainbert.errors import UserError
from domainbert.tables.names import TableError, are_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

NO_ROW = "line that is no row"
_NO_ROW = (
    f"{NO_ROW}: too few or too many fields, a quote or carriage return out of place, or more than "
    "16 MB"
)
_NOT_UTF8 = "text that is not UTF-8, its bad bytes read as U+FFFD"
_BLOCK = 4 << 20  # bytes read at a time
LONGEST_ROW = 16 << 20  # bytes
_MARK = b"\xef\xbb\xbf"  # that spreadsheets put in front
_ZIP = b"PK\x03\x04"
UNDECODABLE = "undecodable bytes read as U+FFFD"


_Bytes: TypeAlias = gzip.GzipFile | io.BufferedReader


class _Reader(Protocol):
    def read(self, size: int, /) -> bytes: ...


class FlawedCSVError(UserError):
    """A file that is not CSV from the first byte to the last."""


def csv_columns(
    path: Path, *, delimiter: str | None = None, encoding: str | None = None
) -> list[str]:
    """The names in the first line.

    Args:
        path: a .csv or .tsv file, or one of these compressed (.gz).
        delimiter: a tab for .tsv, else a comma by default.
        encoding: UTF-8 by default.

    Raises:
        TableError: a file without names, with a name twice, or that cannot be read.
    """
    separator = delimiter or default_delimiter(path)
    try:
        with open_text(path, encoding, newline="") as text:
            header = next(csv.reader(text, delimiter=separator), [])
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        msg = f"{path.name} cannot be read as CSV ({type(error).__name__})"
        raise TableError(msg) from None
    if fault := _wrong_header(header, separator):
        msg = f"{path.name} {fault}"
        raise TableError(msg)
    return header


def default_delimiter(path: Path) -> str:
    """A tab for .tsv files, a comma for others."""
    return "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","


def _wrong_encoding(start: bytes, encoding: str | None) -> str:
    if encoding is None and (start[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in start):
        return "is in UTF-16: name the encoding (--encoding utf-16), or save it as UTF-8"
    return "is a spreadsheet or a zip file: save the sheet as CSV" if start[:4] == _ZIP else ""


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


def csv_rows(
    path: Path, *, width: int, delimiter: str | None = None, encoding: str | None = None
) -> Iterator[tuple[int, list[str], str, str]]:
    """Every row after the header: its line, fields, fault and remark; one or the other is "".

    Args:
        path: see `csv_columns`.
        width: number of columns.
        delimiter: see `csv_columns`.
        encoding: see `csv_columns`.

    Raises:
        TableError: the file changed while it was read.
    """
    separator = delimiter or default_delimiter(path)
    with open_bytes(path) as raw:
        source = _Recoded(raw, encoding) if encoding else raw
        for line, problem, text in _data_rows(source, path, width=width, separator=separator):
            if not text:
                yield line, [], problem, ""
                continue
            if b'"' in text:
                fields = next(csv.reader([text.decode()], delimiter=separator))
            else:
                fields = text.decode().rstrip("\r\n").split(separator)
            is_replaced = encoding and "\ufffd".encode() in text
            yield line, fields, "", UNDECODABLE if is_replaced else problem


class _Recoded:
    """The bytes of a file in another encoding, as UTF-8."""

    def __init__(self, raw: _Reader, encoding: str) -> None:
        self._raw, self._decoder = raw, codecs.getincrementaldecoder(encoding)("replace")

    def read(self, size: int) -> bytes:
        """Some bytes, none only at the end of the file."""
        while True:
            chunk = self._raw.read(size)
            text = self._decoder.decode(chunk, final=not chunk)
            if text or not chunk:
                return text.encode("utf-8", "replace")


def stream_csv(
    path: Path, columns: Sequence[str], *, on_error: Callable[[Exception], None]
) -> pa.RecordBatchReader:
    """A stream of these columns as text, which ends with an error at the first flaw.

    Args:
        path: a `.csv` or `.csv.gz` file.
        columns: names as the file spells them.
        on_error: called before that error, with a `FlawedCSVError` or an error of the disk.
    """
    return _stream(path, columns, rows=_whole_rows, has_header=True, on_error=on_error)


def careful_stream_csv(
    path: Path,
    columns: Sequence[str],
    *,
    flaws: list[tuple[str, int, str]],
    on_error: Callable[[Exception], None],
) -> pa.RecordBatchReader:
    """A stream of the rows of a flawed file.

    Where a line begins no row, reading goes on with the next line. Bytes that are not UTF-8 become
    U+FFFD.

    Args:
        path: a `.csv` or `.csv.gz` file.
        columns: names as the file spells them.
        flaws: gets the file's name, the line (from 1) and the problem of every flaw.
        on_error: called before an error of the disk.
    """

    def rows(raw: _Bytes) -> Iterator[bytes]:
        piece = bytearray()
        for line, problem, text in _data_rows(raw, path, width=len(csv_columns(path))):
            if problem:
                flaws.append((path.name, line, problem))
            piece += text
            if len(piece) >= _BLOCK:
                yield bytes(piece)
                piece.clear()
        if piece:
            yield bytes(piece)

    return _stream(path, columns, rows=rows, has_header=False, on_error=on_error)


def _stream(
    path: Path,
    columns: Sequence[str],
    *,
    rows: Callable[[_Bytes], Iterable[bytes | memoryview]],
    has_header: bool,
    on_error: Callable[[Exception], None],
) -> pa.RecordBatchReader:
    import pyarrow as pa

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            with open_bytes(path) as raw:
                names = csv_columns(path)
                for number, piece in enumerate(rows(raw)):
                    given = None if has_header and number == 0 else names
                    yield from _parse(piece, columns, names=given)
        except (pa.ArrowException, FlawedCSVError) as error:
            # Arrow's own words may quote the line, and a line may be a note.
            flaw = FlawedCSVError(type(error).__name__)
            on_error(flaw)
            raise flaw from None
        except (TableError, OSError, EOFError, zlib.error) as error:
            on_error(error)
            raise

    schema = pa.schema([(name, pa.string()) for name in columns])
    return pa.RecordBatchReader.from_batches(schema, _ahead(batches()))


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches; the next one is made while the last one is worked on."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def _parse(
    piece: bytes | memoryview, columns: Sequence[str], *, names: list[str] | None
) -> Iterator[pa.RecordBatch]:
    """Whole rows as columns of text; without `names` the first row has them."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    table = arrow_csv.read_csv(
        pa.BufferReader(pa.py_buffer(piece)),
        read_options=arrow_csv.ReadOptions(
            use_threads=False, block_size=len(piece) + 1, column_names=names
        ),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()),
            include_columns=list(columns),
            strings_can_be_null=False,
        ),
    )
    yield from table.to_batches()


def _whole_rows(raw: _Bytes) -> Iterator[memoryview]:
    """The file in pieces that end where a row ends, each good until the next is asked for.

    Raises:
        FlawedCSVError: a quote that neither opens nor closes a field nor is doubled, or a row
            without an end.
    """
    # One buffer for all pieces: fresh memory for each would cost as much as the reading.
    buffer = bytearray(_BLOCK)
    if raw.read(len(_MARK)) != _MARK:
        raw.seek(0)
    held = _fill(raw, buffer, 0)
    while held:
        end = _last_row_end(buffer, held)
        if held < len(buffer) and end < held:  # the file is over, and its last row has no line end
            buffer[held] = ord("\n")
            held += 1
            if _last_row_end(buffer, held) < held:
                raise FlawedCSVError
            end = held
        if end:
            yield memoryview(buffer)[:end]
        elif len(buffer) > LONGEST_ROW:
            raise FlawedCSVError
        else:
            buffer = buffer + bytes(len(buffer))
        rest = held - end
        buffer[:rest] = buffer[end:held]
        held = _fill(raw, buffer, rest)


def _fill(raw: _Bytes, buffer: bytearray, held: int) -> int:
    """Read until the buffer is full or the file is over; how much is in it then."""
    view = memoryview(buffer)
    while held < len(buffer) and (got := raw.readinto(view[held:])):
        held += got
    return held


def _last_row_end(buffer: bytearray, held: int) -> int:
    """Where the last whole row ends, if the buffer begins with a row; 0 if none does."""
    import numpy as np

    data = np.frombuffer(buffer, dtype=np.uint8, count=held)
    quotes = np.flatnonzero(data == ord('"'))
    edges = np.zeros(256, dtype=bool)
    edges[list(b',\n\r"')] = True
    opening, closing = quotes[::2], quotes[1::2]
    before, after = opening[opening > 0] - 1, closing[closing < held - 1] + 1
    if not (edges[data[before]].all() and edges[data[after]].all()):
        raise FlawedCSVError
    # Back from the end, through the stretches outside of quotes.
    end = held
    for number in range(len(quotes), -1, -1):
        start = int(quotes[number - 1]) + 1 if number else 0
        found = buffer.rfind(b"\n", start, end) if number % 2 == 0 else -1
        if found >= 0:
            return found + 1
        end = start
    return 0


def _data_rows(
    raw: _Reader, path: Path, *, width: int, separator: str = ","
) -> Iterator[tuple[int, str, bytes]]:
    """The rows and flaws of `_sound_rows` after the header, without empty lines.

    Raises:
        TableError: the header is no row, as where all lines end in a lone carriage return.
    """
    for line, problem, text in _sound_rows(raw, width=width, separator=separator):
        if line > 1 and (problem or text):
            yield line, problem, text
        elif problem and not text:
            msg = (
                f"{path.name}: the first line has a quote out of place or a lone carriage return; "
                "save the file with ordinary line ends"
            )
            raise TableError(msg)


def _sound_rows(
    raw: _Reader, *, width: int, separator: str = ","
) -> Iterator[tuple[int, str, bytes]]:
    """Every row as (its line, "", its bytes), and every flaw with a problem and what is left."""
    # A field that does not begin with a quote may hold some; possessive, so that nothing is tried
    # twice.
    comma = re.escape(separator).encode()
    quoted, bare = rb'"[^"]*+(?:""[^"]*+)*+"', rb'[^"%b\r\n][^%b\r\n]*+' % (comma, comma)
    field = rb"(?:" + quoted + rb"|" + bare + rb"|)"
    row = re.compile(field + rb"(?:%b" % comma + field + rb"){%d}(?:\r?\n|\Z)" % (width - 1))
    buffer, place, line, is_over = raw.read(len(_MARK)).removeprefix(_MARK), 0, 1, False
    is_rest = False  # of a line that is longer than the longest row
    while True:
        # All of the longest row in sight: what does not match then will not match at all.
        if len(buffer) - place < LONGEST_ROW and not is_over:
            chunk = raw.read(2 * LONGEST_ROW)
            buffer, place, is_over = buffer[place:] + chunk, 0, not chunk
            continue
        if place >= len(buffer):
            return
        if is_rest:
            end = buffer.find(b"\n", place) + 1
            line, place, is_rest = line + bool(end), end or len(buffer), not end
            continue
        match = row.match(buffer, place)
        end = match.end() if match else buffer.find(b"\n", place) + 1 or len(buffer)
        text = buffer[place:end]
        is_cut = end == len(buffer) and not is_over  # a row longer than the longest
        is_row = match is not None and not is_cut and text.strip(b"\r\n")
        if not is_row:
            yield line, _NO_ROW if text.strip() else "", b""
        else:
            sound = text.decode("utf-8", "replace").encode()
            yield line, "" if sound == text else _NOT_UTF8, sound
        line += text.count(b"\n")
        place = end
        is_rest = is_cut and not text.endswith(b"\n")


@contextmanager
def open_bytes(path: Path) -> Iterator[_Bytes]:
    """The bytes of a file, unpacked, which must not change meanwhile; see `unchanged`."""
    is_packed = path.suffix.lower() == ".gz"
    with unchanged(path), gzip.GzipFile(path, "rb") if is_packed else path.open("rb") as raw:
        yield raw


@contextmanager
def open_text(path: Path, encoding: str | None, *, newline: str | None) -> Iterator[io.TextIOBase]:
    """The text of a file; UTF-8 by default, undecodable bytes become U+FFFD.

    Raises:
        TableError: it is in UTF-16, and `encoding` does not say so; or see `unchanged`.
    """
    with open_bytes(path) as raw:
        start = raw.read(4)
        raw.seek(0)
        if fault := _wrong_encoding(start, encoding):
            msg = f"{path.name} {fault}"
            raise TableError(msg)
        with io.TextIOWrapper(raw, encoding or "utf-8-sig", "replace", newline=newline) as text:
            yield text


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Check that a file stays as it is for the length of the block.

    Raises:
        TableError: it was changed, so that rows may be missing.
    """
    before = path.stat()
    yield
    after = path.stat()
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        msg = f"{path.name} was changed while it was read; start again when it is complete"
        raise TableError(msg)
